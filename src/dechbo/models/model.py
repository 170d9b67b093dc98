"""Model: what one ask believes about the objective and its constraints."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from dechbo.data.observations import Observations, Standardisation
from dechbo.gp import Surrogate
from dechbo.structure import StructurePosterior
from dechbo.structure.whole import WholeFactor

Array = NDArray[np.float64]

REBUILD_EVERY = 10  # every tenth ask fits its model from nothing but the seed and the evaluations
OUTLIER_DEVIATIONS = 100.0  # a value this many standard deviations away makes a new fit due at once


@dataclass(frozen=True, eq=False)
class Model:
    """A fitted GP on standardised values (larger is better), and the way back to the user's units."""

    gp: Surrogate
    data: Observations
    scaling: Standardisation
    fitted_on: int  # observations at the last fit
    refitted: bool
    learned: StructurePosterior | None = None  # the result of structure learning, where the graph is learned
    whole: WholeFactor | None = None  # whether the function is no sum of small factors; only ``structure_model`` asks
    constraints: Mapping[str, Model] = field(default_factory=dict)  # one model of -c for each constraint told

    @property
    def full_weight(self) -> float:
        """How surely the function is no sum of small factors."""
        return 0.0 if self.whole is None else self.whole.weight

    @property
    def pair_probabilities(self) -> Array:
        """How surely each pair of variables interacts, (d, d), where the graph is learned."""
        assert self.learned is not None
        found = self.learned.pair_probabilities
        return found if self.whole is None else self.whole.mixed(found)

    def moments(self, points: Array) -> tuple[Array, Array]:
        """Mean and standard deviation at ``points`` (n, d), in standard units."""
        return self.gp.condition(self.data).joint(points)

    def predict(self, point: Array) -> tuple[float, float]:
        """Mean and standard deviation at one point, in the units of the values."""
        mean, deviation = self.moments(point[None])
        return self.scaling.original(float(mean[0])), self.scaling.scale * float(deviation[0])

    def is_reused_after(self, index: int) -> bool:
        """Whether the ask after ``index``, with one more observation, keeps these hyperparameters."""
        cold = (index + 1) % REBUILD_EVERY == 0
        return not cold and len(self.data) + 1 - self.fitted_on < refit_interval(len(self.data) + 1)


def refit_interval(observations: int) -> int:
    """How many new observations make a warm refit due: a twentieth of all."""
    return max(1, observations // 20)
