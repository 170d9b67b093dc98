"""Partitions of the variables into disjoint groups: given, drawn, and the best of several drawn ones by evidence."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np
from numpy.typing import NDArray

from dechbo.baselines.fits import fitted
from dechbo.data.observations import Observations
from dechbo.errors import ScopeError
from dechbo.gp import AdditiveGP, Hyperparameters
from dechbo.graph import FactorGraph
from dechbo.space import Space

Array = NDArray[np.float64]

TRIAL_STEPS = 8  # of the short fit that each drawn partition gets before its evidence is compared


def given_partition(space: Space, groups: Iterable[Iterable[str]]) -> FactorGraph:
    """Groups of parameter names in which every parameter stands exactly once."""
    graph = FactorGraph.from_names(space, groups)
    for i, factors in enumerate(graph.factors_of):
        if len(factors) > 1:
            raise ScopeError(
                f"groups are disjoint, but {space.names[i]!r} stands in {len(factors)} of them: keep it in one"
            )
    return graph


def random_partition(rng: np.random.Generator, dim: int, size: int) -> FactorGraph:
    """A uniformly drawn partition into groups of ``size``, the last one with what is left."""
    order = rng.permutation(dim)
    groups = [tuple(sorted(order[k : k + size].tolist())) for k in range(0, dim, size)]
    return FactorGraph(dim, tuple(sorted(groups)))


def best_partition(
    rng: np.random.Generator, data: Observations, kernels: Sequence[str], size: int, trials: int
) -> FactorGraph:
    """Of ``trials`` drawn partitions the one with the largest evidence, each after a short fit from a common start.

    The common start has the lengthscales and the noise of the singletons' model, and equal variances.
    """
    base = fitted(FactorGraph.singletons(data.dim), data, kernels)
    theta = base.hyperparameters
    found: list[tuple[float, FactorGraph]] = []
    for _ in range(trials):
        graph = random_partition(rng, data.dim, size)
        groups = len(graph.scopes)
        start = Hyperparameters(theta.lengthscales, np.full(groups, theta.variances.sum() / groups), theta.noise)
        gp = fitted(graph, data, kernels, AdditiveGP(graph, start, kernel=kernels), TRIAL_STEPS)
        found.append((gp.log_evidence(data), graph))
    return max(found, key=lambda pair: pair[0])[1]
