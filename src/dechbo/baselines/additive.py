"""AdditiveBaseline: f = sum_I f_I over disjoint groups I, the acquisition of each group maximised on its own.

Tests: test_ucb.py, test_mes.py.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Unpack

import numpy as np
from numpy.typing import NDArray

from dechbo import checks
from dechbo.baselines.base import CANDIDATES, PARTITION, Baseline, BaselineOptions
from dechbo.baselines.component import Component, ComponentAcquisition, ComponentScore
from dechbo.baselines.maximize import Ranked, best_points, candidates, maximize
from dechbo.baselines.partition import best_partition, given_partition
from dechbo.baselines.refit import Fit, Refitter
from dechbo.data.observations import Observations
from dechbo.errors import NoObservations, OptionError
from dechbo.gp import AdditivePosterior
from dechbo.gp.kernels import NUMERIC_KERNELS
from dechbo.graph import FactorGraph
from dechbo.models.builder import kernels_of
from dechbo.space import Space

Array = NDArray[np.float64]


class AdditiveOptions(BaselineOptions, total=False):
    """Options of every additive baseline: see ``AdditiveBaseline``."""

    kernel: str
    groups: Iterable[Iterable[str]] | None
    group_size: int
    partitions: int
    relearn_every: int


@dataclass(frozen=True, eq=False)
class ScoredComponent:
    """One component, its domain, and its mean and deviation at the candidates."""

    component: Component
    domain: Space
    points: Array  # (n, |I|)
    mean: Array
    deviation: Array

    def ranked(self, score: ComponentScore) -> Ranked:
        """The maximisers of a(mu_I, sigma_I), the best first."""
        acquisition = ComponentAcquisition(self.component, score)
        return maximize(acquisition, self.domain, self.points, score.values(self.mean, self.deviation))


class AdditiveBaseline(Baseline):
    """A GP over disjoint groups; a subclass says how a component is scored.

    Pending and failed points reduce the deviations and leave the means unchanged. If the point of all maximisers is
    already evaluated or pending, the change of one group that costs least takes its place.

    Parameters
    ----------
    space, direction, seed, n_initial
        As for ``Baseline``.
    kernel
        "matern52" or "se" for each variable of a group; the kernel of a group is their product.
    groups
        Disjoint groups of parameter names. Without ``groups`` and ``group_size`` every parameter is a group.
    group_size, partitions, relearn_every
        Learn groups of ``group_size`` parameters: every ``relearn_every`` evaluations, choose the best of
        ``partitions`` random partitions by evidence.
    """

    def __init__(
        self,
        space: Space,
        *,
        kernel: str = "matern52",
        groups: Iterable[Iterable[str]] | None = None,
        group_size: int = 1,
        partitions: int = 5,
        relearn_every: int = 25,
        **options: Unpack[BaselineOptions],
    ) -> None:
        super().__init__(space, **options)
        self.kernel = checks.one_of("kernel", kernel, NUMERIC_KERNELS)
        self.group_size = checks.whole("group_size", group_size, 1)
        self.partitions = checks.whole("partitions", partitions, 1)
        self.relearn_every = checks.whole("relearn_every", relearn_every, 1)
        if groups is not None and group_size != 1:
            raise OptionError("give either groups or group_size, not both: groups have sizes of their own")
        self._fixed = self._fixed_partition(groups)
        self._refitter = Refitter(kernels_of(space, kernel), self.n_initial)
        self._learned: tuple[int, FactorGraph] | None = None

    @property
    def partition(self) -> tuple[tuple[str, ...], ...]:
        """The groups of the next ask, by name."""
        graph = self._partition_at(len(self._history.evaluations))
        return tuple(tuple(self.space.names[i] for i in scope) for scope in graph.scopes)

    def posterior(self) -> AdditivePosterior:
        """The posterior of the next ask; values have standard deviation 1 and larger is better."""
        fit, history = self._fit(), self._history
        awaited = np.array(history.pending + history.failures).reshape(-1, self.space.dim)
        return fit.gp.condition(fit.data).with_pending(awaited)

    # ------------------------------------------------------------- inside

    def _scores(self, components: list[ScoredComponent]) -> list[ComponentScore]:
        """The acquisition of each component."""
        raise NotImplementedError

    def _suggest(self) -> Array:
        components = self._components(self.posterior())
        ranked = [part.ranked(score) for part, score in zip(components, self._scores(components), strict=True)]
        scopes = [part.component.scope for part in components]
        return self._first_allowed(_combinations(scopes, ranked, self.space.dim))

    def _components(self, posterior: AdditivePosterior) -> list[ScoredComponent]:
        rng = np.random.default_rng([self.seed, CANDIDATES, self._n_known])
        incumbents = best_points(np.array(self._history.points), self._values)
        components = []
        for index, scope in enumerate(posterior.gp.graph.scopes):
            component = Component(posterior, index)
            domain = Space({name: self.space[name] for name in (self.space.names[i] for i in scope)})
            points = candidates(domain, rng, incumbents[:, list(scope)])
            components.append(ScoredComponent(component, domain, points, *component.moments(points)))
        return components

    def _fit(self) -> Fit:
        since = self._learned_at(len(self._history.evaluations))
        fit = self._refitter.fit(self._history.points, self._values, self._partition_at, since=since)
        if fit is None:
            raise NoObservations("the model needs at least one successful evaluation: tell one first")
        return fit

    def _fixed_partition(self, groups: Iterable[Iterable[str]] | None) -> FactorGraph | None:
        """The partition if it is given; None if it is learned."""
        if groups is not None:
            return given_partition(self.space, groups)
        if self.group_size == 1:
            return FactorGraph.singletons(self.space.dim)
        if self.group_size >= self.space.dim:
            return FactorGraph(self.space.dim, (tuple(range(self.space.dim)),))
        return None

    def _learned_at(self, n_evaluations: int) -> int:
        """The number of evaluations from which the partition after ``n_evaluations`` evaluations is learned."""
        if self._fixed is not None:
            return 0
        return max(n_evaluations - n_evaluations % self.relearn_every, min(n_evaluations, self.n_initial))

    def _partition_at(self, n_evaluations: int) -> FactorGraph:
        if self._fixed is not None:
            return self._fixed
        at = self._learned_at(n_evaluations)
        if self._learned is None or self._learned[0] != at:
            self._learned = (at, self._learn(at))
        return self._learned[1]

    def _learn(self, n_evaluations: int) -> FactorGraph:
        """The best of several random partitions, by the evidence of the first ``n_evaluations`` evaluations."""
        values = np.array(self._values[:n_evaluations])
        usable = np.isfinite(values)
        if not usable.any():
            return FactorGraph.singletons(self.space.dim)
        data, _ = Observations(np.array(self._history.points[:n_evaluations])[usable], values[usable]).standardised()
        rng = np.random.default_rng([self.seed, PARTITION, n_evaluations])
        return best_partition(rng, data, self._refitter.kernels, self.group_size, self.partitions)


def _combinations(scopes: list[tuple[int, ...]], ranked: list[Ranked], dim: int) -> Iterator[Array]:
    """The point of all maximisers, then points that differ from it in one group, the smallest loss first."""
    best = np.empty(dim)
    for scope, found in zip(scopes, ranked, strict=True):
        best[list(scope)] = found[0][1]
    yield best
    swaps: list[tuple[float, int, Any]] = [
        (found[0][0] - value, k, point) for k, found in enumerate(ranked) for value, point in found[1:]
    ]
    for _, k, point in sorted(swaps, key=lambda swap: swap[0]):
        changed = best.copy()
        changed[list(scopes[k])] = point
        yield changed
