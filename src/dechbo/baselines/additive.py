"""What the GP rivals share: f = sum_I f_I over disjoint groups I, each group's acquisition maximised on its own."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dechbo import checks
from dechbo.acquisition import Beta, BetaContext, beta_schedule
from dechbo.baselines.component import Component, ComponentAcquisition, Score
from dechbo.baselines.fits import Fit, Fits
from dechbo.baselines.maximise import Ranked, best_points, candidates, maximise
from dechbo.baselines.partition import best_partition, given_partition
from dechbo.baselines.rival import CANDIDATES, PARTITION, AskTell
from dechbo.data.observations import Observations
from dechbo.errors import NoObservations, OptionError
from dechbo.gp import AdditivePosterior
from dechbo.graph import FactorGraph
from dechbo.models.builder import kernels_of
from dechbo.space import Space

Array = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Part:
    """One component with its domain, and its mean and deviation at the candidates."""

    component: Component
    domain: Space
    points: Array  # (n, |I|)
    mean: Array
    deviation: Array

    def ranked(self, score: Score) -> Ranked:
        """The maximisers of a(mu_I, sigma_I), the best first."""
        acquisition = ComponentAcquisition(self.component, score)
        return maximise(acquisition, self.domain, self.points, score.values(self.mean, self.deviation))


class AdditiveRival(AskTell):
    """A GP over disjoint groups; what the groups are and how a component is scored is said by the rival.

    Hyperparameters are refitted as ``fits`` says. Pending and failed points narrow the deviations and leave the means.
    A point that is already evaluated or pending gives way to the least loss in one group.
    """

    def __init__(
        self,
        space: Space,
        *,
        direction: str = "minimize",
        seed: int | None = None,
        n_initial: int = 10,
        kernel: str = "matern52",
        groups: Iterable[Iterable[str]] | None = None,
        group_size: int = 1,
        partitions: int = 5,
        relearn_every: int = 25,
    ) -> None:
        super().__init__(space, direction=direction, seed=seed, n_initial=n_initial)
        self.kernel = checks.one_of("kernel", kernel, ("matern52", "se"))
        self.group_size = checks.whole("group_size", group_size, 1)
        self.partitions = checks.whole("partitions", partitions, 1)
        self.relearn_every = checks.whole("relearn_every", relearn_every, 1)
        if groups is not None and group_size != 1:
            raise OptionError("give groups or a group_size, not both: groups say their sizes themselves")
        self._given = self._fixed_partition(groups)
        self._fits = Fits(kernels_of(space, kernel), self.n_initial)
        self._learned: tuple[int, FactorGraph] | None = None

    @property
    def partition(self) -> tuple[tuple[str, ...], ...]:
        """The groups of the next ask, by name."""
        graph = self._partition_at(len(self._history.evaluations))
        return tuple(tuple(self.space.names[i] for i in scope) for scope in graph.scopes)

    def posterior(self) -> AdditivePosterior:
        """The posterior behind the next ask, on values of standard deviation 1 of which the larger are better."""
        fit, history = self._fit(), self._history
        awaited = np.array(history.pending + history.failures).reshape(-1, self.space.dim)
        return fit.gp.condition(fit.data).with_pending(awaited)

    # ------------------------------------------------------------- inside

    def _scores(self, parts: list[Part]) -> list[Score]:
        """How each component is scored."""
        raise NotImplementedError

    def _suggest(self) -> Array:
        posterior = self.posterior()
        parts = self._parts(posterior)
        ranked = [part.ranked(score) for part, score in zip(parts, self._scores(parts), strict=True)]
        scopes = [part.component.scope for part in parts]
        return self._first_free(_combined(scopes, ranked, self.space.dim))

    def _parts(self, posterior: AdditivePosterior) -> list[Part]:
        rng = np.random.default_rng([self.seed, CANDIDATES, self._known])
        anchors = best_points(np.array(self._history.points), self._values)
        parts = []
        for index, scope in enumerate(posterior.gp.graph.scopes):
            component = Component(posterior, index)
            domain = Space({self.space.names[i]: self.space.parameters[i] for i in scope})
            points = candidates(domain, rng, anchors[:, list(scope)])
            parts.append(Part(component, domain, points, *component.moments(points)))
        return parts

    def _fit(self) -> Fit:
        since = self._learned_at(len(self._history.evaluations))
        fit = self._fits.at(self._history.points, self._values, self._partition_at, since=since)
        if fit is None:
            raise NoObservations("the model needs at least one successful evaluation: tell one first")
        return fit

    def _fixed_partition(self, groups: Iterable[Iterable[str]] | None) -> FactorGraph | None:
        """The partition that is given; None where it is learned."""
        if groups is not None:
            return given_partition(self.space, groups)
        if self.group_size == 1:
            return FactorGraph.singletons(self.space.dim)
        if self.group_size >= self.space.dim:
            return FactorGraph(self.space.dim, (tuple(range(self.space.dim)),))
        return None

    def _learned_at(self, told: int) -> int:
        """After how many evaluations the partition of today was learned."""
        if self._given is not None:
            return 0
        return max(told - told % self.relearn_every, min(told, self.n_initial))

    def _partition_at(self, told: int) -> FactorGraph:
        if self._given is not None:
            return self._given
        at = self._learned_at(told)
        if self._learned is None or self._learned[0] != at:
            self._learned = (at, self._learn(at))
        return self._learned[1]

    def _learn(self, told: int) -> FactorGraph:
        """The best of several partitions drawn at random, by the evidence of the first ``told`` evaluations."""
        values = np.array(self._values[:told])
        usable = np.isfinite(values)
        if not usable.any():
            return FactorGraph.singletons(self.space.dim)
        data, _ = Observations(np.array(self._history.points[:told])[usable], values[usable]).standardised()
        rng = np.random.default_rng([self.seed, PARTITION, told])
        return best_partition(rng, data, self._fits.kernels, self.group_size, self.partitions)


def practical_beta(beta: Beta) -> Callable[[int, int], float]:
    """beta as a function of t and the size of a group: 0.2 |I| log(2 t), a number, or a callable of t."""
    if isinstance(beta, str) and beta != "practical":
        raise OptionError(f"beta is 'practical', a number at least 0 or a callable of t, got {beta!r}")
    if isinstance(beta, str):
        return lambda t, size: 0.2 * size * float(np.log(2 * t))
    schedule = beta_schedule(beta)

    def at(t: int, size: int) -> float:
        whole = FactorGraph(size, (tuple(range(size)),))
        return schedule(t, BetaContext(whole, np.full(size, np.inf), delta=0.1))

    return at


def _combined(scopes: list[tuple[int, ...]], ranked: list[Ranked], dim: int) -> Iterator[Array]:
    """The point of all maximisers; then points that differ from it in one group, the smallest loss first."""
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
