"""A restart: search the function without its known optima, once no progress has come for a while.

Around an exhausted optimum the model has learned one narrow hill. Its lengthscales are as short as that hill, so the
rest of the space looks uniform, and the bound stays on this hill. Here the known optimum is cut off at the height of
the best point outside it, a model is fitted to the rest, and the joint bound searches there; if nothing there looks
promising, the next optimum is cut off, and so on.

Once even negligible progress has ended, asks that would only repeat an evaluation restart as well: a model that allows
for noise expects a little more next to every good evaluation, for ever.

Two points belong to one optimum if the posterior mean does not dip on the straight line between them. A place belongs
to the optimum of the evaluation next to it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from dechbo.data.observations import Observations, Standardisation
from dechbo.gp import AdditiveGP
from dechbo.gp.ensemble import Posterior
from dechbo.search.excluded import AlsoExcluded
from dechbo.search.joint_search import N_INCUMBENTS, JointSearch, posterior_means

Array = NDArray[np.float64]
Refit = Callable[[Observations, Standardisation], AdditiveGP]  # from values standardised again, and how

MIN_PROGRESS = 1e-3  # of the interquartile range of the values: a gain that counts as progress
NEGLIGIBLE_PROGRESS = 1e-4  # of the same range: less than this over the patience, and the known optimum is exhausted
REPEAT_DISTANCE = 1e-3  # a point this near to an evaluation in every coordinate only repeats it
MIN_PATIENCE = 10  # evaluations without progress, or one for each variable if that is more
MIN_DIP = 0.05  # standard deviations of the values
MAX_CUTS = 4  # optima that are cut off one after another
MIN_RESTART_GAIN = 0.05  # optimistic gain that a restart needs, in standard deviations of the values that are left
PATHS_AT_ONCE = 32  # straight paths to an optimum that are checked together
PATH = np.linspace(0.0, 1.0, 8)[1:-1]  # interior positions on a path


def stagnation(values: Array, gain: float = MIN_PROGRESS) -> int:
    """How many of the latest ``values`` (n,), larger being better, did not raise the best by enough to count."""
    if len(values) == 0:
        return 0
    low, high = np.percentile(values, [25, 75])
    best = np.maximum.accumulate(values)
    since = int(np.argmax(best >= best[-1] - gain * (high - low)))
    return len(values) - 1 - since


def restart_probability(stagnation: int, dim: int) -> float:
    """The probability of a restart: 0 until the patience is over, then one half and rising."""
    limit = patience(dim)
    return 0.0 if stagnation < limit else stagnation / (stagnation + limit)


def patience(dim: int) -> int:
    """Evaluations without progress after which restarts begin."""
    return max(MIN_PATIENCE, dim)


@dataclass(frozen=True, eq=False)
class Restart:
    """The search outside the known optima."""

    joint_search: JointSearch  # of the current model
    known: Posterior  # given the data alone
    unresolved: Array  # (n, d), pending and failed points, on which the deviations are conditioned
    refit: Refit
    n_modelled: int  # evaluations that a model asked for: not those of the initial design or of the user

    @property
    def is_due(self) -> bool:
        """Whether this ask restarts; the draw depends on the numbers of observations and pending points alone."""
        share = restart_probability(self._stagnation(MIN_PROGRESS), self.joint_search.space.dim)
        return bool(np.random.default_rng([len(self._means), len(self.unresolved), 5]).random() < share)

    def would_stay(self, point: Array) -> bool:
        """Whether ``point`` is next to an evaluation as good as the best: its ask stays at the known optimum."""
        return bool(self._means[self._next_to(point)] >= self._means[self._allowed].max(initial=-np.inf) - MIN_DIP)

    def repeats(self, point: Array) -> bool:
        """Whether ``point`` only repeats an evaluation; False until the known optimum is exhausted."""
        return self._exhausted and bool((self._apart(point).max(axis=1) < REPEAT_DISTANCE).any())

    @property
    def without_repeats(self) -> JointSearch:
        """The search of the current model, without points that repeat an evaluation."""
        joint_search = self.joint_search
        if not self._exhausted:
            return joint_search
        return replace(joint_search, excluded=AlsoExcluded(joint_search.excluded, self.repeats))

    def point(self) -> Array | None:
        """The best point by the joint bound outside the known optima; None if nothing there looks promising."""
        means = self._means
        ranking = np.flatnonzero(self._allowed)[np.argsort(-means[self._allowed], kind="stable")]  # the best first
        peaks = [int(k) for k in ranking[:1]]
        for _ in range(MAX_CUTS):
            beyond = self._beyond(peaks, ranking)
            search = self._cut_at(float(means[beyond[0]] if beyond else means.min()), beyond)
            best = search.best()
            if best is None:
                return None
            if not beyond or search.optimistic_gain(best[1][None])[0] >= MIN_RESTART_GAIN:
                return best[1]
            peaks.append(beyond[0])
        return None

    def _cut_at(self, height: float, beyond: list[int]) -> JointSearch:
        """The search on values clipped at ``height``, away from where they were clipped."""
        joint_search, data, means = self.joint_search, self.joint_search.data, self._means
        cut, scaling = Observations(data.X, np.minimum(data.y, height), data.noise).standardised()
        low, high = np.flatnonzero(means <= height), np.flatnonzero(means > height)
        # what was cut off is constant: part of it is enough for a fit
        chosen = np.sort(np.concatenate([low, high[:: max(1, -(-len(high) // max(1, len(low))))]]))
        gp = self.refit(Observations(cut.X[chosen], cut.y[chosen], cut.noise[chosen]), scaling)

        def was_cut_off(point: Array) -> bool:
            return bool(means[self._next_to(point)] > height)

        incumbents = data.X[beyond] if beyond else joint_search.incumbent[None]
        return replace(
            joint_search,
            posterior=gp.condition(cut).with_pending(self.unresolved),
            data=cut,
            incumbent=incumbents[0],
            excluded=AlsoExcluded(joint_search.excluded, was_cut_off),
            incumbents=incumbents,
            pending=None,
        )

    def _beyond(self, peaks: list[int], ranking: NDArray[np.int64]) -> list[int]:
        """The best few observations that belong to none of the ``peaks``, the best first."""
        found: list[int] = []
        for first in range(0, len(ranking), PATHS_AT_ONCE):
            others = ranking[first : first + PATHS_AT_ONCE]
            outside = ~np.logical_or.reduce([self._belong_to(peak, others) for peak in peaks])
            found += others[outside].tolist()
            if len(found) >= N_INCUMBENTS:
                break
        return found[:N_INCUMBENTS]

    def _belong_to(self, peak: int, others: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Which of ``others`` reach ``peak`` on a straight path on which the posterior mean does not dip."""
        start, end = self.joint_search.data.X[others][:, None], self.joint_search.data.X[peak]
        nearer = np.where(PATH[:, None] < 0.5, start, end)  # categories have no value in between
        way = np.where(self.joint_search.space.is_categorical, nearer, start + PATH[:, None] * (end - start))
        heights, _ = self.known.joint(way.reshape(-1, len(end)))
        no_dip: NDArray[np.bool_] = heights.reshape(way.shape[:2]).min(axis=1) >= self._means[others] - MIN_DIP
        return no_dip

    def _next_to(self, point: Array) -> int:
        """The index of the evaluation next to ``point``."""
        return int((self._apart(point) ** 2).sum(axis=1).argmin())

    def _apart(self, point: Array) -> Array:
        """Distances of the evaluations from ``point`` in each coordinate, (n, d); two categories are 1 apart."""
        gap = np.abs(self.joint_search.data.X - point)
        apart: Array = np.where(self.joint_search.space.is_categorical, gap > 1e-9, gap)
        return apart

    def _stagnation(self, gain: float) -> int:
        return min(stagnation(self._means[self._allowed], gain), self.n_modelled)

    @cached_property
    def _exhausted(self) -> bool:
        """Whether the known optimum is exhausted; purely discrete spaces exclude repeats anyway."""
        return len(self.joint_search.moving) > 0 and self._stagnation(NEGLIGIBLE_PROGRESS) >= patience(
            self.joint_search.space.dim
        )

    @cached_property
    def _means(self) -> Array:
        return posterior_means(self.known, self.joint_search.data)

    @cached_property
    def _allowed(self) -> NDArray[np.bool_]:
        """Which observations satisfy the known constraints."""
        space, X = self.joint_search.space, self.joint_search.data.X
        return space.region.allows(X) if space.constraints else np.ones(len(X), dtype=bool)
