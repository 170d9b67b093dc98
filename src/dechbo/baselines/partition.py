"""Partitions of the variables into disjoint groups: given, random, or the best of several random ones by evidence.

Tests: test_ucb.py.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np
from numpy.typing import NDArray

from dechbo.baselines.refit import map_fit
from dechbo.data.observations import Observations
from dechbo.errors import ScopeError
from dechbo.gp import AdditiveGP, Hyperparameters
from dechbo.graph import FactorGraph
from dechbo.space import Space

Array = NDArray[np.float64]

SHORT_FIT_ITERATIONS = 8  # of each random partition, before their evidences are compared


def given_partition(space: Space, groups: Iterable[Iterable[str]]) -> FactorGraph:
    """The partition of given groups of names, each parameter in exactly one of them."""
    graph = FactorGraph.from_names(space, groups)
    for i, factors in enumerate(graph.factors_of):
        if len(factors) > 1:
            raise ScopeError(
                f"groups must be disjoint, but {space.names[i]!r} is in {len(factors)} of them: keep it in one"
            )
    return graph


def random_partition(rng: np.random.Generator, dim: int, size: int) -> FactorGraph:
    """A uniformly random partition into groups of ``size``; the last group takes the rest."""
    order = rng.permutation(dim)
    groups = [tuple(sorted(order[k : k + size].tolist())) for k in range(0, dim, size)]
    return FactorGraph(dim, tuple(sorted(groups)))


def best_partition(
    rng: np.random.Generator, data: Observations, kernels: Sequence[str], size: int, count: int
) -> FactorGraph:
    """The one of ``count`` random partitions with the largest evidence, each after a short fit from a common start.

    The common start has the lengthscales and the noise of the model with singletons, and equal variances.
    """
    base = map_fit(FactorGraph.singletons(data.dim), data, kernels)
    theta = base.hyperparameters
    found: list[tuple[float, FactorGraph]] = []
    for _ in range(count):
        graph = random_partition(rng, data.dim, size)
        groups = len(graph.scopes)
        start = Hyperparameters(theta.lengthscales, np.full(groups, theta.variances.sum() / groups), theta.noise)
        gp = map_fit(graph, data, kernels, AdditiveGP(graph, start, kernel=kernels), SHORT_FIT_ITERATIONS)
        found.append((gp.log_evidence(data), graph))
    return max(found, key=lambda pair: pair[0])[1]
