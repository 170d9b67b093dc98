"""Interactions: which parameters interact, how likely it is, and how much of the variance it explains.

``dechbo.interactions.from_table(X, y, space)`` and ``from_csv(path)`` read a table of experiments that somebody already
has; ``Optimizer.interactions()`` reads a run.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from os import PathLike
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dechbo.data.csv import parse_value, read_csv
from dechbo.data.evaluation import Evaluation
from dechbo.data.observations import Observations
from dechbo.errors import DataError, NoObservations, OptionError, ParameterError, format_list
from dechbo.gp import AdditiveGP, Ensemble
from dechbo.gp.centring import NODES, WEIGHTS
from dechbo.graph import Scope
from dechbo.models.builder import ModelBuilder
from dechbo.models.model import Model
from dechbo.models.options import ModelOptions
from dechbo.space import Categorical, Float, Int, Parameter, Space
from dechbo.structure import StructureOptions
from dechbo.threads import one_blas_thread

Array = NDArray[np.float64]

MIN_PROBABILITY = 0.1  # an interaction below it is not reported by ``strongest``
MIN_SHARE = 0.01  # nor is one that explains less of the variance
THOROUGH = StructureOptions(sweeps=20, max_batches=60, max_work=4e11, rounds=12)


@dataclass(frozen=True)
class Interaction:
    """Parameters that interact.

    ``probability`` is the posterior probability of this factor; ``share`` the part of the variance of the
    posterior mean that it explains beyond all its subsets (a Sobol index).
    """

    scope: tuple[str, ...]
    probability: float
    share: float


class Interactions(list[Interaction]):
    """Interactions, the most important first: sorted by probability times share.

    ``converged`` says whether the chains behind the probabilities agree with each other (R-hat of the log posterior and
    of every pair at most 1.1) and are not worse than their start. If not, the probabilities are rough.
    """

    def __init__(self, found: Iterable[Interaction] = (), *, converged: bool = True) -> None:
        super().__init__(sorted(found, key=lambda i: (-i.probability * i.share, -i.probability, i.scope)))
        self.converged = converged


def interactions_of(model: Model, names: Sequence[str]) -> Interactions:
    """The interactions of a model with a learned graph.

    Where one factor over all parameters has weight, it is listed too, and holds that part of the variance.
    """
    if model.learned is None or not isinstance(model.gp, Ensemble):
        raise OptionError('interactions need a learned graph: Optimizer(space, graph="learned")')
    shares: dict[Scope, float] = {}
    for weight, member in zip(model.gp.weights, model.gp.members, strict=True):
        if member.domains is None:
            raise OptionError("shares of variance need centred kernels: ModelOptions(centred=True)")
        for scope, share in sobol_shares(member, model.data).items():
            shares[scope] = shares.get(scope, 0.0) + (1 - model.full_weight) * weight * share
    probabilities = {scope: (1 - model.full_weight) * p for scope, p in model.learned.scope_probabilities.items()}
    if model.full_weight > 0:
        everything = tuple(range(len(names)))
        probabilities[everything] = shares[everything] = model.full_weight
    found = [
        Interaction(tuple(names[i] for i in scope), probability, shares.get(scope, 0.0))
        for scope, probability in probabilities.items()
        if probability > 0
    ]
    return Interactions(found, converged=model.learned.converged)


def strongest(
    found: Sequence[Interaction], most: int | None = None, *, min_share: float = MIN_SHARE
) -> list[Interaction]:
    """The likely interactions of two or more parameters with at least ``min_share`` of the variance, in their order."""
    ordered = Interactions(found)
    return [i for i in ordered if len(i.scope) > 1 and i.probability >= MIN_PROBABILITY and i.share >= min_share][:most]


def sobol_shares(gp: AdditiveGP, data: Observations) -> dict[Scope, float]:
    """The share of each factor in the variance of the posterior mean over the domain.

    Centred factors are orthogonal, so Var mu = sum_I V_I with V_I = s_I^2 alpha^T (prod_i G_i) alpha and
    G_i = integral of k_i(u, x) k_i(u, x'). All zero where the mean is constant.
    """
    if gp.domains is None:
        raise OptionError("shares of variance need centred kernels")
    alpha = gp.condition(data).alpha
    squares: list[Array] = []
    for i, domain in enumerate(gp.domains):
        at, weights = (NODES, WEIGHTS) if domain is None else (domain, np.full(len(domain), 1 / len(domain)))
        rows = gp.correlation.matrix(i, at, data.X[:, i])
        squares.append(rows.T @ (weights[:, None] * rows))
    parts = {}
    for scope, variance in zip(gp.graph.scopes, gp.hyperparameters.variances, strict=True):
        product = np.prod([squares[i] for i in scope], axis=0)
        parts[scope] = float(max(variance**2 * (alpha @ product @ alpha), 0.0))
    total = sum(parts.values())
    return {scope: part / total if total > 0 else 0.0 for scope, part in parts.items()}


@one_blas_thread
def from_table(
    X: ArrayLike | Sequence[Mapping[str, Any]],
    y: ArrayLike | Sequence[float | None],
    space: Space,
    *,
    max_factor_size: int = 3,
    seed: int = 0,
    structure: StructureOptions = THOROUGH,
) -> Interactions:
    """The interactions in a table, the most important first.

    ``X`` has rows of values in the order of the space, or dicts; ``y`` one result for each. Results that are None, NaN
    or infinite are left out.
    """
    rows = [dict(row) if isinstance(row, Mapping) else _named(row, space) for row in X]  # type: ignore[union-attr]
    results = list(np.asarray(y, dtype=object).ravel())
    if len(rows) != len(results):
        raise DataError(f"expected one result for each of {len(rows)} rows, got {len(results)}")
    evaluations = []
    for k, (row, result) in enumerate(zip(rows, results, strict=True)):
        try:
            evaluations.append(Evaluation.of(space.native(row), result))
        except ParameterError as error:
            raise DataError(f"row {k + 1}: {error}") from None
    if all(evaluation.failed for evaluation in evaluations):
        raise NoObservations("no row has a result that is a number: at least one is needed")
    points = [space.encode(evaluation.params) for evaluation in evaluations]
    options = ModelOptions(structure=structure)
    builder = ModelBuilder(space, "learned", seed, -1.0, max_factor_size=max_factor_size, options=options)
    return interactions_of(builder.structure_model(evaluations, points), space.names)


def from_csv(
    path: str | PathLike[str], *, target: str | None = None, space: Space | None = None, **options: Any
) -> Interactions:
    """The interactions in a CSV file with a header: ``target`` (by default the last column) against all others.

    Without a ``space``, the columns define it: whole numbers, numbers or texts, between the smallest and the largest
    value found; columns with a single value are left out. Rows whose target is empty count as failed.
    """
    table = read_csv(path, () if space is None else space.names)
    if not table.rows:
        raise DataError(f"{path} has no rows under its header")
    target = table.header[-1] if target is None else target
    if target not in table.header:
        raise DataError(f"{path} has no column {target!r}; it has {format_list(table.header)}")
    missing = [] if space is None else [name for name in space if name not in table.header or name == target]
    if missing:
        raise DataError(
            f"{path} has no columns {format_list(missing)} of the space; it has {format_list(table.header)}"
        )
    records: list[dict[str, str]] = []
    rows: list[dict[str, Any]] = []
    results = []
    for line, cells in table.rows:
        try:
            records.append(table.record(cells))
            results.append(_result(records[-1].pop(target), target))
            if space is not None:
                rows.append({name: parse_value(name, space[name], records[-1][name]) for name in space})
        except (DataError, ParameterError) as error:
            raise DataError(f"{path}:{line}: {error}") from None
    if space is None:
        lines = [line for line, _ in table.rows]
        columns = {name: _column(path, name, [record[name] for record in records], lines) for name in records[0]}
        found = {name: _parameter(values) for name, values in columns.items()}
        space = Space({name: parameter for name, parameter in found.items() if parameter is not None})
        rows = [{name: columns[name][k] for name in space} for k in range(len(records))]
    return from_table(rows, results, space, **options)


def _named(row: Any, space: Space) -> dict[str, Any]:
    values = list(row)
    if len(values) != space.dim:
        raise DataError(f"a row needs {space.dim} values ({format_list(list(space.names))}), got {len(values)}")
    return dict(zip(space.names, values, strict=True))


def _column(path: object, name: str, texts: list[str], lines: list[int]) -> list[Any]:
    """Whole numbers if all are, numbers if all are, otherwise the texts; numbers with gaps are an error."""
    for kind in (int, float):
        try:
            return [kind(text) for text in texts]
        except ValueError:
            continue
    if empty := [line for line, text in zip(lines, texts, strict=True) if not text.strip()]:
        try:
            given = [float(text) for text in texts if text.strip()]
        except ValueError:
            return list(texts)
        if given:
            raise DataError(
                f"{path}: column {name!r} has numbers, but nothing in lines {format_list(empty)}: fill or drop them"
            )
    return list(texts)


def _parameter(values: list[Any]) -> Parameter | None:
    distinct = sorted(set(values))
    if len(distinct) == 1:
        return None
    if isinstance(distinct[0], str):
        return Categorical(distinct)
    return Int(distinct[0], distinct[-1]) if isinstance(distinct[0], int) else Float(distinct[0], distinct[-1])


def _result(text: str, target: str) -> float | None:
    try:
        return float(text) if text.strip() else None
    except ValueError:
        raise DataError(f"the target {target!r} needs a number or nothing, got {text!r}") from None
