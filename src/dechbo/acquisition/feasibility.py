"""Feasibility: the probability that learned constraints hold.

Every constraint has a committee of its own on g = -c, so that larger is more feasible; it holds where g >= threshold.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import log_ndtr

from dechbo.gp.posterior import WeightedPosterior
from dechbo.models.committee import Committee

Array = NDArray[np.float64]

MIN_DEVIATION = 1e-6  # standard deviations below this count as this


@dataclass(frozen=True, eq=False)
class LearnedConstraint:
    """One learned constraint: a mixture of models of g, and the threshold in their units."""

    members: Sequence[WeightedPosterior]
    threshold: float

    @classmethod
    def of(cls, committee: Committee, pending: Array | None = None) -> LearnedConstraint:
        """From the committee on -c, whose zero is the threshold; ``pending`` points shrink the deviations."""
        return cls(committee.deciding(pending), float(committee.scale.standard(np.zeros(1))[0]))


@dataclass(frozen=True, eq=False)
class LogFeasibility:
    """The log probability that all constraints hold: sum_c log sum_m w_m Phi((mu_m - threshold_c) / sigma_m).

    The constraints count as independent.
    """

    constraints: Sequence[LearnedConstraint]

    def values(self, points: Array) -> Array:
        """At ``points`` (n, d)."""
        total = np.zeros(len(points))
        for constraint in self.constraints:
            logs = []
            for weight, member in constraint.members:
                mean, deviation = member.joint(points)
                z = (mean - constraint.threshold) / np.maximum(deviation, MIN_DEVIATION)
                logs.append(np.log(weight) + log_ndtr(z))
            total += np.logaddexp.reduce(logs, axis=0)
        return total

    def gradients(self, points: Array) -> tuple[Array, Array]:
        """The values and their gradients."""
        total, slope = np.zeros(len(points)), np.zeros(points.shape)
        for constraint in self.constraints:
            logs, slopes = [], []
            for weight, member in constraint.members:
                mean, deviation, mean_change, deviation_change = member.joint_gradient(points)
                sigma = np.maximum(deviation, MIN_DEVIATION)
                z = (mean - constraint.threshold) / sigma
                share = log_ndtr(z)
                # phi / Phi in logarithms: both vanish where a constraint is far from holding
                rate = np.exp(np.clip(-0.5 * z * z - 0.5 * np.log(2 * np.pi) - share, -700, 700)) / sigma
                logs.append(np.log(weight) + share)
                slopes.append(rate[:, None] * (mean_change - z[:, None] * deviation_change))
            mixed: Array = np.logaddexp.reduce(logs, axis=0)
            total += mixed
            slope += np.einsum("mn,mnd->nd", np.exp(np.array(logs) - mixed), np.array(slopes))
        return total, slope
