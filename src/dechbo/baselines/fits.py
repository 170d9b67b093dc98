"""When a rival's hyperparameters are fitted: cold at every tenth evaluation, warm in between.

A warm fit is due when the evaluations have grown by a twentieth. The model after n evaluations depends on them alone:
a fresh rival starts at the last cold fit and repeats at most nine steps.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from dechbo.data.observations import Observations, Standardisation
from dechbo.gp import AdditiveGP
from dechbo.gp import fit as fit_gp
from dechbo.graph import FactorGraph
from dechbo.models.model import OUTLIER_DEVIATIONS, REBUILD_EVERY, refit_interval

Array = NDArray[np.float64]

WARM_STEPS = 15


def fitted(
    graph: FactorGraph, data: Observations, kernels: Sequence[str], start: AdditiveGP | None = None, steps: int = 40
) -> AdditiveGP:
    """The MAP model."""
    hyperparameters = None if start is None else start.hyperparameters
    return fit_gp(graph, data, kernel=kernels, start=hyperparameters, iterations=steps)


@dataclass(frozen=True, eq=False)
class Fit:
    """A fitted GP, the standardised data that it is conditioned on, and how many there were at the last fit."""

    gp: AdditiveGP
    data: Observations
    scaling: Standardisation
    fitted_on: int


class Fits:
    """The fit after each evaluation; ``first`` is the number of evaluations of the earliest one."""

    def __init__(self, kernels: Sequence[str], first: int) -> None:
        self.kernels = kernels
        self.first = first
        self._latest: tuple[int, Fit | None] = (-1, None)

    def at(
        self,
        points: Sequence[Array],
        values: Sequence[float],
        graph_at: Callable[[int], FactorGraph],
        *,
        since: int = 0,
    ) -> Fit | None:
        """The fit after all evaluations, or None if none gave a number.

        ``graph_at(n)`` is the factor graph after n evaluations; it has been the same one ``since`` some time.
        """
        n = len(values)
        cold = max(n - n % REBUILD_EVERY, since, min(n, self.first))
        at, fit = self._latest
        if not cold <= at <= n:
            at, fit = cold - 1, None
        for k in range(at + 1, n + 1):
            fit = self._advanced(fit, np.array(points[:k]), np.array(values[:k]), graph_at(k))
        self._latest = (n, fit)
        return fit

    def _advanced(self, previous: Fit | None, X: Array, values: Array, graph: FactorGraph) -> Fit | None:
        usable = np.isfinite(values)
        if not usable.any():
            return None
        raw = Observations(X[usable], values[usable])
        if previous is not None and len(raw) - previous.fitted_on < refit_interval(len(raw)):
            with np.errstate(over="ignore"):
                farthest = np.abs(previous.scaling.standard(raw.y)).max()
            if farthest < OUTLIER_DEVIATIONS:
                return replace(previous, data=raw.standardised_by(previous.scaling))
        scaling = Standardisation.of(raw.y)
        data = raw.standardised_by(scaling)
        if previous is None:
            gp = fitted(graph, data, self.kernels)
        else:
            gp = fitted(graph, data, self.kernels, previous.gp, WARM_STEPS)
        return Fit(gp, data, scaling, len(data))
