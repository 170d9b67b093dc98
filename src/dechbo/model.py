"""The model behind each ask, and the schedule on which it is fitted.

A warm start makes a fit depend on the past of its process; a resumed run has no such past. So every tenth ask builds
its model cold, from (seed, index, evaluations) alone, and the asks between advance it by the same arithmetic: a resume
replays at most nine of them and arrives at the very same model.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dechbo.gp import AdditiveGP, fit
from dechbo.graph import FactorGraph
from dechbo.observations import Observations, Standardisation
from dechbo.records import Evaluation
from dechbo.space import Space
from dechbo.structure import random_forest

Array = NDArray[np.float64]

REBUILD_EVERY = 10
FAR = 100.0  # a value so many standard deviations away asks for a new fit at once


@dataclass(frozen=True, eq=False)
class Model:
    """A fitted GP on standardised values (larger is better), and the way back to the user's units."""

    gp: AdditiveGP
    data: Observations
    scaling: Standardisation
    fitted_on: int  # observations at the last fit
    refitted: bool

    def stands_after(self, index: int) -> bool:
        """Whether the ask after ``index``, with one more observation, will keep these hyperparameters."""
        cold = (index + 1) % REBUILD_EVERY == 0
        return not cold and len(self.data) + 1 - self.fitted_on < refit_after(len(self.data) + 1)


def refit_after(observations: int) -> int:
    """How many new observations make a warm fit due: a twentieth of all."""
    return max(1, observations // 20)


@dataclass(frozen=True, eq=False)
class Recipe:
    """Everything but the evaluations that determines a model."""

    space: Space
    graph: FactorGraph | None  # None: a random spanning tree for each epoch of ten asks
    seed: int
    sign: float
    kernel: str
    noise: float | None

    def advance(self, previous: Model | None, index: int, told: Sequence[Evaluation], points: Sequence[Array]) -> Model:
        """The model of ask ``index``: cold without ``previous``, otherwise refitted only once enough is new.

        A warm fit is due when the observations have grown by a twentieth; until then the hyperparameters and the
        scaling of the values stand, and so does everything computed from them.
        """
        usable = [k for k, evaluation in enumerate(told) if evaluation.value is not None]
        values = np.array([self.sign * float(told[k].value or 0.0) for k in usable])
        noise = np.array([told[k].noise or 0.0 for k in usable])
        raw = Observations(np.array([points[k] for k in usable]), values, noise)
        if previous is not None and len(raw) - previous.fitted_on < refit_after(len(raw)):
            with np.errstate(over="ignore"):
                farthest = np.abs(previous.scaling.standard(values)).max()
            if farthest < FAR:
                data = raw.standardised_by(previous.scaling)
                return Model(previous.gp, data, previous.scaling, previous.fitted_on, refitted=False)
        scaling = Standardisation.of(values)
        data = raw.standardised_by(scaling)
        graph = self.graph_at(index) if previous is None else previous.gp.graph
        start = None if previous is None else previous.gp.hyperparameters
        level = None if self.noise is None else min(self.noise / scaling.scale / scaling.scale, 1e6)
        gp = fit(graph, data, kernel=self.kernels, noise=level, start=start, iterations=40 if start is None else 15)
        return Model(gp, data, scaling, len(data), refitted=True)

    @property
    def kernels(self) -> list[str]:
        """The kernel of each variable."""
        return ["categorical" if flag else self.kernel for flag in self.space.is_categorical]

    def graph_at(self, index: int) -> FactorGraph:
        """The factor graph of ask ``index``."""
        if self.graph is not None:
            return self.graph
        rng = np.random.default_rng([self.seed, 2, index // REBUILD_EVERY])
        return random_forest(rng, self.space.dim)
