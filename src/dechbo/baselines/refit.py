"""When a baseline refits its hyperparameters: cold at every tenth evaluation, warm in between.

A warm fit is due when the number of evaluations has grown by a twentieth. The model after n evaluations depends on
those evaluations only: a new instance starts at the last cold fit and repeats at most nine steps. Tests: test_base.py.
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

WARM_ITERATIONS = 15


def map_fit(
    graph: FactorGraph, data: Observations, kernels: Sequence[str], start: AdditiveGP | None = None, steps: int = 40
) -> AdditiveGP:
    """The GP with MAP hyperparameters."""
    hyperparameters = None if start is None else start.hyperparameters
    return fit_gp(graph, data, kernel=kernels, start=hyperparameters, iterations=steps)


@dataclass(frozen=True, eq=False)
class Fit:
    """A fitted GP and the standardised data to condition it on."""

    gp: AdditiveGP
    data: Observations
    scaling: Standardisation
    fitted_on: int  # observations at the last fit of the hyperparameters


class Refitter:
    """The fit after each evaluation; the earliest one is after ``first`` evaluations."""

    def __init__(self, kernels: Sequence[str], first: int) -> None:
        self.kernels = kernels
        self.first = first
        self._latest: tuple[int, Fit | None] = (-1, None)

    def fit(
        self,
        points: Sequence[Array],
        values: Sequence[float],
        graph_at: Callable[[int], FactorGraph],
        *,
        since: int = 0,
    ) -> Fit | None:
        """The fit after all evaluations, or None if none gave a number.

        ``graph_at(n)`` is the factor graph after n evaluations; it has not changed after evaluation ``since``.
        """
        n = len(values)
        cold = max(n - n % REBUILD_EVERY, since, min(n, self.first))
        at, fit = self._latest
        if not cold <= at <= n:
            at, fit = cold - 1, None
        for k in range(at + 1, n + 1):
            fit = self._next_fit(fit, np.array(points[:k]), np.array(values[:k]), graph_at(k))
        self._latest = (n, fit)
        return fit

    def _next_fit(self, previous: Fit | None, X: Array, values: Array, graph: FactorGraph) -> Fit | None:
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
            gp = map_fit(graph, data, self.kernels)
        else:
            gp = map_fit(graph, data, self.kernels, previous.gp, WARM_ITERATIONS)
        return Fit(gp, data, scaling, len(data))
