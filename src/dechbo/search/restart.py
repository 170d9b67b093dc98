"""A fresh look: at the function without its known optima, once nothing better has come for a while.

Around an exhausted optimum the model has learned one narrow hill. Its lengthscales are as short as that hill, so to
the model the rest of the space is all alike, and the bound never leaves for another hill that it only suspects. Here
the known optimum is cut off at the height of the best point beyond it, the model is fitted to what is left, and the
joint bound searches there; if that has nothing to promise, the next optimum is cut off, and so on.

Once even trifles have ceased to come, asks that would only repeat an evaluation take a look as well: a model that
grants noise promises a little next to every good evaluation, for ever.

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
from dechbo.search.joint_search import BEST, Scout, smoothed

Array = NDArray[np.float64]
Refit = Callable[[Observations, Standardisation], AdditiveGP]  # values anew standardised, and how

GAIN = 1e-3  # of the interquartile range of the values: a gain that counts as one
TRIFLE = 1e-4  # the same: less than this in all over the patience, and the known optimum is exhausted
REPEAT = 1e-3  # a point this near to an evaluation in every coordinate of the cube only repeats it
PATIENCE = 10  # evaluations without a gain, or one for each variable if that is more
DIP = 0.05  # standard deviations of the values
CUTS = 4  # optima that are cut off, one after another
PROMISE = 0.05  # what a point has to promise beyond the cut, in standard deviations of the values that are left
AT_ONCE = 32  # points of which the ways to an optimum are looked at together
STATIONS = np.linspace(0.0, 1.0, 8)[1:-1]  # on the way from one point to another


def evaluations_in_vain(values: Array, gain: float = GAIN) -> int:
    """How many of the latest ``values`` (n,), larger being better, did not raise the best by what counts as a gain."""
    if len(values) == 0:
        return 0
    low, high = np.percentile(values, [25, 75])
    best = np.maximum.accumulate(values)
    since = int(np.argmax(best >= best[-1] - gain * (high - low)))
    return len(values) - 1 - since


def share_of_looks(in_vain: int, dim: int) -> float:
    """How often to take a fresh look: never before the patience is over, then every second time and ever more often."""
    patience = patience_in(dim)
    return 0.0 if in_vain < patience else in_vain / (in_vain + patience)


def patience_in(dim: int) -> int:
    """Evaluations without a gain after which the known optimum is doubted."""
    return max(PATIENCE, dim)


@dataclass(frozen=True, eq=False)
class FreshLook:
    """The search beyond the optima that are known."""

    scout: Scout  # of the model as it is
    known: Posterior  # given the data alone
    narrowing: Array  # (n, d), points at which the deviations are narrowed
    refit: Refit
    searched: int  # evaluations that a model had asked for: those of a design, or told without asking, are no search

    @property
    def is_due(self) -> bool:
        """Whether this ask takes a fresh look, drawn by its share: the same for the same model and pending points."""
        share = share_of_looks(self._in_vain(GAIN), self.scout.space.dim)
        return bool(np.random.default_rng([len(self._means), len(self.narrowing), 5]).random() < share)

    def would_stay(self, point: Array) -> bool:
        """Whether ``point`` is next to an evaluation as good as the best: its ask would not leave the known optimum."""
        return bool(self._means[self._next_to(point)] >= self._means[self._allowed].max(initial=-np.inf) - DIP)

    def repeats(self, point: Array) -> bool:
        """Whether ``point`` would only repeat an evaluation; never so before the known optimum is exhausted."""
        return self._exhausted and bool((self._apart(point).max(axis=1) < REPEAT).any())

    @property
    def unrepeating(self) -> Scout:
        """The search of the model as it is, but for points that repeat an evaluation."""
        scout = self.scout
        if not self._exhausted:
            return scout
        return replace(scout, is_taken=lambda point: scout.is_taken(point) or self.repeats(point))

    def point(self) -> Array | None:
        """The best free point by the joint bound beyond the known optima; None if nothing there has any promise."""
        means = self._means
        ranking = np.flatnonzero(self._allowed)[np.argsort(-means[self._allowed], kind="stable")]  # the best first
        peaks = [int(k) for k in ranking[:1]]
        for _ in range(CUTS):
            beyond = self._beyond(peaks, ranking)
            task = self._cut_at(float(means[beyond[0]] if beyond else means.min()), beyond)
            best = task.best()
            if best is None:
                return None
            if not beyond or task.promise(best[1][None])[0] >= PROMISE:
                return best[1]
            peaks.append(beyond[0])
        return None

    def _cut_at(self, height: float, beyond: list[int]) -> Scout:
        """The search on values that reach no higher than ``height``, and away from where they do."""
        scout, data, means = self.scout, self.scout.data, self._means
        cut, scaling = Observations(data.X, np.minimum(data.y, height), data.noise).standardised()
        low, high = np.flatnonzero(means <= height), np.flatnonzero(means > height)
        # what was cut off is all alike: some of it is enough for a fit
        kept = np.sort(np.concatenate([low, high[:: max(1, -(-len(high) // max(1, len(low))))]]))
        gp = self.refit(Observations(cut.X[kept], cut.y[kept], cut.noise[kept]), scaling)

        def is_out(point: Array) -> bool:
            return bool(means[self._next_to(point)] > height) or scout.is_taken(point)

        champions = data.X[beyond] if beyond else scout.incumbent[None]
        return replace(
            scout,
            posterior=gp.condition(cut).with_pending(self.narrowing),
            data=cut,
            incumbent=champions[0],
            is_taken=is_out,
            champions=champions,
            pending=None,
        )

    def _beyond(self, peaks: list[int], ranking: NDArray[np.int64]) -> list[int]:
        """The best few observations that belong to none of the ``peaks``, the best first."""
        found: list[int] = []
        for first in range(0, len(ranking), AT_ONCE):
            others = ranking[first : first + AT_ONCE]
            outside = ~np.logical_or.reduce([self._belong_to(peak, others) for peak in peaks])
            found += others[outside].tolist()
            if len(found) >= BEST:
                break
        return found[:BEST]

    def _belong_to(self, peak: int, others: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Which of ``others`` one can leave for ``peak`` without going down on the way, as far as the model knows."""
        start, end = self.scout.data.X[others][:, None], self.scout.data.X[peak]
        nearer = np.where(STATIONS[:, None] < 0.5, start, end)  # there is nothing between two categories
        way = np.where(self.scout.space.is_categorical, nearer, start + STATIONS[:, None] * (end - start))
        heights, _ = self.known.joint(way.reshape(-1, len(end)))
        no_dip: NDArray[np.bool_] = heights.reshape(way.shape[:2]).min(axis=1) >= self._means[others] - DIP
        return no_dip

    def _next_to(self, point: Array) -> int:
        """The evaluation next to ``point``."""
        return int((self._apart(point) ** 2).sum(axis=1).argmin())

    def _apart(self, point: Array) -> Array:
        """How far the evaluations are from ``point`` in each coordinate, (n, d); two categories are 1 apart."""
        gap = np.abs(self.scout.data.X - point)
        apart: Array = np.where(self.scout.space.is_categorical, gap > 1e-9, gap)
        return apart

    def _in_vain(self, gain: float) -> int:
        return min(evaluations_in_vain(self._means[self._allowed], gain), self.searched)

    @cached_property
    def _exhausted(self) -> bool:
        """Whether evaluations next to each other are in vain; between discrete values there is nothing to avoid."""
        return len(self.scout.moving) > 0 and self._in_vain(TRIFLE) >= patience_in(self.scout.space.dim)

    @cached_property
    def _means(self) -> Array:
        return smoothed(self.known, self.scout.data)

    @cached_property
    def _allowed(self) -> NDArray[np.bool_]:
        """Which observations could be suggested but for being known."""
        space, X = self.scout.space, self.scout.data.X
        return space.region.allows(X) if space.constraints else np.ones(len(X), dtype=bool)
