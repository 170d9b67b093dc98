"""Which parameters act together: how likely, and how much of the variance it explains."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dechbo.errors import OptionError
from dechbo.gp import AdditiveGP, Ensemble
from dechbo.gp.centring import NODES, WEIGHTS
from dechbo.graph import Scope
from dechbo.model import Model
from dechbo.observations import Observations

Array = NDArray[np.float64]


@dataclass(frozen=True)
class Interaction:
    """Parameters that act together.

    ``probability`` is the posterior probability of this very factor; ``share`` the part of the variance of the
    posterior mean that it explains beyond all its parts (a Sobol index).
    """

    scope: tuple[str, ...]
    probability: float
    share: float


def interactions_of(model: Model, names: Sequence[str]) -> list[Interaction]:
    """The interactions of a model with a learned graph, the largest share first.

    Where one factor over all parameters has weight, it is listed too, and holds that part of the variance.
    """
    if model.learned is None or not isinstance(model.gp, Ensemble):
        raise OptionError('interactions need a learned graph: Optimizer(space, graph="learned")')
    shares: dict[Scope, float] = {}
    for weight, member in zip(model.gp.weights, model.gp.members, strict=True):
        if member.domains is None and len(member.graph.scopes) > 1:
            raise OptionError("shares of variance need centred kernels: Optimizer(space, centred=True)")
        parts = {member.graph.scopes[0]: 1.0} if member.domains is None else sobol_shares(member, model.data)
        for scope, share in parts.items():
            shares[scope] = shares.get(scope, 0.0) + weight * share
    probabilities = {scope: (1 - model.coupled) * p for scope, p in model.learned.scope_probabilities.items()}
    if model.coupled > 0:
        probabilities[tuple(range(len(names)))] = model.coupled
    found = [
        Interaction(tuple(names[i] for i in scope), probability, shares.get(scope, 0.0))
        for scope, probability in probabilities.items()
        if probability > 0
    ]
    return sorted(found, key=lambda interaction: (-interaction.share, -interaction.probability, interaction.scope))


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
        rows = gp.correlation.between(i, at, data.X[:, i])
        squares.append(rows.T @ (weights[:, None] * rows))
    parts = {}
    for scope, variance in zip(gp.graph.scopes, gp.hyperparameters.variances, strict=True):
        product = np.prod([squares[i] for i in scope], axis=0)
        parts[scope] = float(max(variance**2 * (alpha @ product @ alpha), 0.0))
    total = sum(parts.values())
    return {scope: part / total if total > 0 else 0.0 for scope, part in parts.items()}
