"""A fresh look: at the function without its known optima, once nothing better has come for a while.

Around an exhausted optimum the model has learned one narrow hill. Its lengthscales are as short as that hill, so to
the model the rest of the space is all alike, and the bound never leaves for another hill that it only suspects. Here
the known optimum is cut off at the height of the best point beyond it, the model is fitted to what is left, and the
joint bound searches there; if that turns out to be exhausted as well, the next optimum is cut off, and so on.

Two points belong to one optimum if the posterior mean does not dip on the straight line between them. A place belongs
to the optimum of the evaluation next to it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from dechbo.gp import AdditiveGP
from dechbo.gp.ensemble import Posterior
from dechbo.observations import Observations, Standardisation
from dechbo.scout import BEST, Scout, smoothed

Array = NDArray[np.float64]
Refit = Callable[[Observations, Standardisation], AdditiveGP]  # values anew standardised, and how

GAIN = 1e-3  # of the interquartile range of the values: a gain that counts as one
PATIENCE = 10  # evaluations without a gain, or one for each variable if that is more
DESIGN = 10  # the first evaluations, from which nothing better is expected
DIP = 0.05  # standard deviations of the values
CUTS = 4  # optima that are cut off, one after another
PROMISE = 0.05  # what a point has to promise beyond the cut, in standard deviations of the values that are left
STATIONS = np.linspace(0.0, 1.0, 8)[1:-1]  # on the way from one point to another


def evaluations_in_vain(values: Array) -> int:
    """How many of the latest ``values`` (n,), larger being better, did not raise the best by what counts as a gain."""
    low, high = np.percentile(values, [25, 75])
    best = np.maximum.accumulate(values)
    since = int(np.argmax(best >= best[-1] - GAIN * (high - low)))
    return max(0, min(len(values) - 1 - since, len(values) - DESIGN))


def share_of_looks(in_vain: int, dim: int) -> float:
    """How often to take a fresh look: never before the patience is over, then every second time and ever more often."""
    patience = max(PATIENCE, dim)
    return 0.0 if in_vain < patience else in_vain / (in_vain + patience)


@dataclass(frozen=True, eq=False)
class FreshLook:
    """The search beyond the optima that are known."""

    scout: Scout  # of the model as it is
    known: Posterior  # given the data alone
    narrowing: Array  # (n, d), points at which the deviations are narrowed
    refit: Refit

    @property
    def is_due(self) -> bool:
        """Whether this ask is one for a fresh look; it depends on the data and the pending points alone."""
        share = share_of_looks(evaluations_in_vain(self._means), self.scout.space.dim)
        return bool(np.random.default_rng([len(self._means), len(self.narrowing), 5]).random() < share)

    def point(self) -> Array | None:
        """The best free point by the joint bound beyond the known optima; None if all there are taken."""
        X, means, median = self.scout.data.X, self._means, float(np.median(self._means))
        high = np.flatnonzero((means > median) & self._allowed)  # the better half, the best first
        high = high[np.argsort(-means[high], kind="stable")]
        beyond = high[~self._belong_to(int(means.argmax()), high)]
        found: Array | None = None
        for _ in range(CUTS):
            task = self._cut_at(float(means[beyond].max(initial=median)), X[beyond[:BEST]])
            best = task.best()
            if best is None:
                return found
            found = best[1]
            if len(beyond) == 0 or task.promise(found[None])[0] >= PROMISE:
                return found
            beyond = beyond[~self._belong_to(int(beyond[0]), beyond)]
        return found

    def _cut_at(self, height: float, champions: Array) -> Scout:
        """The search on values that reach no higher than ``height``, and away from where they do."""
        scout, data, means = self.scout, self.scout.data, self._means
        cut, scaling = Observations(data.X, np.minimum(data.y, height), data.noise).standardised()
        posterior = self.refit(cut, scaling).condition(cut).with_pending(self.narrowing)
        held = scout.space.is_categorical

        def is_out(point: Array) -> bool:
            apart = np.where(held, np.abs(data.X - point) > 1e-9, data.X - point)
            return bool(means[int((apart**2).sum(axis=1).argmin())] > height) or scout.is_taken(point)

        best = champions if len(champions) else scout.incumbent[None]
        return replace(
            scout, posterior=posterior, data=cut, incumbent=best[0], is_taken=is_out, champions=best, pending=None
        )

    def _belong_to(self, peak: int, others: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Which of ``others`` one can leave for ``peak`` without going down on the way, as far as the model knows."""
        start, end = self.scout.data.X[others][:, None], self.scout.data.X[peak]
        nearer = np.where(STATIONS[:, None] < 0.5, start, end)  # there is nothing between two categories
        way = np.where(self.scout.space.is_categorical, nearer, start + STATIONS[:, None] * (end - start))
        heights, _ = self.known.joint(way.reshape(-1, len(end)))
        no_dip: NDArray[np.bool_] = heights.reshape(way.shape[:2]).min(axis=1) >= self._means[others] - DIP
        return no_dip

    @cached_property
    def _means(self) -> Array:
        return smoothed(self.known, self.scout.data)

    @cached_property
    def _allowed(self) -> NDArray[np.bool_]:
        """Which observations could be suggested but for being known."""
        space, X = self.scout.space, self.scout.data.X
        return space.region.allows(X) if space.constraints else np.ones(len(X), dtype=bool)
