"""The model in parts: each adds up the Gram matrix of its own factors, all share the sum, each builds its own tables.

Equation (1) needs K = sum_I K_I over all factors and nothing else of the others, so no part needs the coordinates of
variables that its factors do not see. K is added up in 64-bit fixed point: it is the same, bit for bit, for any
partition, and so are the tables.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dechbo.acquisition import ucb_tables
from dechbo.distributed.exchange import Place, Program, all_reduce, fixed_point_exponent, largest_and_count
from dechbo.distributed.plan import PartPlan
from dechbo.distributed.synchronous import part_tables
from dechbo.gp import AdditiveGP, AdditivePosterior, Surrogate
from dechbo.gp.additive import cholesky, extended_cholesky, solve_lower
from dechbo.gp.gram import fixed_point_gram
from dechbo.tables import FactorTables

Array = NDArray[np.float64]
Ints = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Share:
    """A part's share of one model: the model's factors that this part holds, over the variables that they see."""

    gp: AdditiveGP | None  # None if the part holds none of its factors
    columns: Ints  # the local variable of each variable of ``gp``
    tables: Ints  # to which of the part's tables each factor of ``gp`` belongs
    weight: float | None  # of a member of an ensemble
    noise: float
    constant: float  # the variance of the constant that goes with centred kernels


@dataclass(frozen=True, eq=False)
class PartModel:
    """What a part is told of the model and the data: columns of the variables that its factors see."""

    shares: tuple[Share, ...]
    X: Array  # (n + pending, local variables)
    y: Array  # (n,)
    noise: Array  # (n,) the known noise of each value
    beta: float
    candidates: tuple[Array, ...]  # of each local variable
    extra: tuple[tuple[int, Array], ...] = ()  # (table, cells) that are added


def gram_in_parts(place: Place, gp: AdditiveGP | None, X: Array, constant: float) -> Program[Array]:
    """K = sum_I K_I of the factors of all parts, at the points whose coordinates each part has in ``X``."""
    largest, count = 0.0, 0
    if gp is not None:
        diagonals = gp.correlation.diagonals(X)
        for factors, scopes in gp.graph.by_size:
            peaks = np.abs(diagonals[:, scopes]).prod(axis=2).max(axis=0)
            largest = max(largest, float((peaks * gp.hyperparameters.variances[factors]).max()))
        count = len(gp.graph.scopes)
    bounds = yield from all_reduce(place, np.array([largest, count]), largest_and_count, "gram")
    exponent = fixed_point_exponent(float(bounds[0]), float(bounds[1]))
    whole = np.zeros((len(X), len(X)), dtype=np.int64)
    if gp is not None:
        whole = fixed_point_gram(gp.graph, gp.correlation.pairs(X), gp.hyperparameters.variances, exponent)
    # symmetric: only one triangle travels
    rows, columns = np.tril_indices(len(X))
    total = yield from all_reduce(place, whole[rows, columns], kind="gram")
    K = np.empty((len(X), len(X)))
    K[rows, columns] = K[columns, rows] = np.ldexp(total.astype(np.float64), -exponent) + constant
    return K


def condition_in_parts(place: Place, model: PartModel, share: Share) -> Program[tuple[Array, Array, float]]:
    """(L, alpha, jitter) of the whole model, pending points included; the same in every part."""
    n = len(model.y)
    X = np.ascontiguousarray(model.X[:, share.columns])
    K = yield from gram_in_parts(place, share.gp, X, share.constant)
    L, jitter = cholesky(K[:n, :n], share.noise + model.noise)
    alpha = solve_lower(L, solve_lower(L, model.y), transposed=True)
    if len(X) > n:
        corner = K[n:, n:]
        scale = float(np.diagonal(corner).max())
        L, more = extended_cholesky(L, K[:n, n:], corner, share.noise + jitter, scale)
        alpha, jitter = np.append(alpha, np.zeros(len(X) - n)), max(jitter, more)
    return L, alpha, jitter


def build_tables(plan: PartPlan, model: PartModel) -> Program[FactorTables]:
    """The tables of the part's factors: phi_I = mu_I + sqrt(beta) sigma_I, averaged over the members of an ensemble."""
    values = [np.zeros([len(model.candidates[i]) for i in scope]) for scope in plan.scopes]
    for share in model.shares:
        L, alpha, jitter = yield from condition_in_parts(plan.graph.place, model, share)
        if share.gp is None:
            continue
        X = np.ascontiguousarray(model.X[:, share.columns])
        posterior = AdditivePosterior(share.gp, X, L, alpha, jitter, len(X) - len(model.y))
        tables = ucb_tables(posterior, [model.candidates[i] for i in share.columns], model.beta)
        for k, table in zip(share.tables, tables.values, strict=True):
            values[k] = table if share.weight is None else values[k] + share.weight * table
    for k, cells in model.extra:
        values[k] = values[k] + cells
    return part_tables(plan, values)


def shares_of(gp: Surrogate, plan: PartPlan, numbers: dict[frozenset[int], int]) -> tuple[Share, ...]:
    """The part's share of the model, or of every member of an ensemble; ``numbers`` are those of the factors."""
    if isinstance(gp, AdditiveGP):
        return (_share(gp, None, plan, numbers),)
    return tuple(_share(gp, w, plan, numbers) for gp, w in zip(gp.members, gp.weights, strict=True))


def _share(gp: AdditiveGP, weight: float | None, plan: PartPlan, numbers: dict[frozenset[int], int]) -> Share:
    at = {int(k): n for n, k in enumerate(plan.factors)}
    found = [(k, at.get(numbers[frozenset(scope)])) for k, scope in enumerate(gp.graph.scopes)]
    held = [(k, table) for k, table in found if table is not None]
    theta = gp.hyperparameters
    if not held:
        nothing = np.zeros(0, dtype=np.int64)
        return Share(None, nothing, nothing, weight, theta.noise, gp.constant_variance)
    local = {int(i): n for n, i in enumerate(plan.graph.variables)}
    seen = sorted({i for k, _ in held for i in gp.graph.scopes[k]}, key=local.__getitem__)
    small = gp.restricted([k for k, _ in held], seen)
    columns, tables = np.array([local[i] for i in seen]), np.array([table for _, table in held])
    return Share(small, columns, tables, weight, theta.noise, gp.constant_variance)
