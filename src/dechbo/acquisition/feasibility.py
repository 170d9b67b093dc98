"""Feasibility: the probability that learned constraints hold, and margins by their confidence bounds.

Every constraint has a model of its own, g = -c, so that larger is more feasible.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray
from scipy.special import log_ndtr

from dechbo.acquisition.joint import JointConfidenceBound
from dechbo.data.observations import Observations
from dechbo.gp import Surrogate
from dechbo.gp.ensemble import Posterior, weighted_members
from dechbo.models.model import Model

Array = NDArray[np.float64]

MIN_DEVIATION = 1e-6  # standard deviations below this count as this


@dataclass(frozen=True, eq=False)
class LearnedConstraint:
    """One learned constraint c <= 0, modelled as g = -c: it holds where g >= ``threshold``, both standardised."""

    gp: Surrogate
    data: Observations
    pending: Array  # (m, d) points whose values are on the way: they shrink the deviations
    threshold: float

    @classmethod
    def of(cls, model: Model, pending: Array) -> LearnedConstraint:
        """From the model of -c, whose zero is the threshold."""
        return cls(model.gp, model.data, pending, float(model.scaling.standard(np.zeros(1))[0]))

    @cached_property
    def posterior(self) -> Posterior:
        """The model given its data and the pending points."""
        return self.gp.condition(self.data).with_pending(self.pending)


@dataclass(frozen=True, eq=False)
class ConstraintMargin:
    """How far a confidence bound of g lies above its threshold, with its gradient."""

    bound: JointConfidenceBound
    threshold: float

    def values(self, points: Array) -> Array:
        """At ``points`` (n, d)."""
        return self.bound.values(points) - self.threshold

    def value_and_gradient(self, point: Array) -> tuple[float, Array]:
        """At one point."""
        value, gradient = self.bound.value_and_gradient(point)
        return value - self.threshold, gradient


@dataclass(frozen=True, eq=False)
class LogFeasibility:
    """The log probability that all constraints hold, sum_c log Phi((mu_c - threshold) / sigma_c).

    The constraints count as independent. For an ensemble sigma_c is the mixture's: it grows where members disagree.
    """

    constraints: Sequence[LearnedConstraint]

    def values(self, points: Array) -> Array:
        """At ``points`` (n, d)."""
        total = np.zeros(len(points))
        for constraint in self.constraints:
            mean, deviation = constraint.posterior.joint(points)
            total += log_ndtr((mean - constraint.threshold) / np.maximum(deviation, MIN_DEVIATION))
        return total

    def value_and_gradient(self, point: Array) -> tuple[float, Array]:
        """At one point."""
        total, slope = 0.0, np.zeros(len(point))
        for constraint in self.constraints:
            mean, change, deviation, deviation_change = _moments(constraint.posterior, point)
            z = (mean - constraint.threshold) / deviation
            share = float(log_ndtr(z))
            # phi / Phi in logarithms: both vanish where a constraint is far from holding
            rate = float(np.exp(np.clip(-0.5 * z * z - 0.5 * np.log(2 * np.pi) - share, -700, 700)))
            total += share
            slope += rate * (change - z * deviation_change) / deviation
        return total, slope


def _moments(posterior: Posterior, point: Array) -> tuple[float, Array, float, Array]:
    """mu and sigma at one point, each with its gradient; sigma^2 = sum_k w_k (sigma_k^2 + mu_k^2) - mu^2."""
    mean, square = 0.0, 0.0
    change, square_change = np.zeros(len(point)), np.zeros(len(point))
    for weight, member in weighted_members(posterior):
        mu, mu_change = JointConfidenceBound(member, 0.0).value_and_gradient(point)
        upper, upper_change = JointConfidenceBound(member, 1.0).value_and_gradient(point)
        sigma, sigma_change = upper - mu, upper_change - mu_change
        mean, change = mean + weight * mu, change + weight * mu_change
        square += weight * (sigma**2 + mu**2)
        square_change += 2 * weight * (sigma * sigma_change + mu * mu_change)
    deviation = max(math.sqrt(max(square - mean**2, 0.0)), MIN_DEVIATION)
    return mean, change, deviation, (square_change - 2 * mean * change) / (2 * deviation)
