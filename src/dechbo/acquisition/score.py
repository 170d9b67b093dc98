"""Scores: how much a point is worth to a committee, jointly over all its members and not factor by factor.

Notation: member m has weight w_m, mean mu_m and deviation sigma_m; y* is the threshold, one for all members.

===========================  ==========================================================================
``LogExpectedImprovement``   log sum_m w_m E[max(f_m - y*, 0)]: worth a look where any member that predicts
                             well sees an improvement
``ConfidenceBound``          sum_m w_m (mu_m + sqrt(beta) sigma_m)
``Sum``                      of scores, e.g. expected improvement and the log probability of feasibility
===========================  ==========================================================================

E[max(f - y*, 0)] = sigma h(z), z = (mu - y*) / sigma, h(z) = phi(z) + z Phi(z). log h is computed without cancellation:
for z < -1 by log h = log phi(z) + log(1 + z sqrt(pi / 2) erfcx(-z / sqrt 2)), and by log phi(z) - 2 log(-z) far below,
where that bracket tends to 1 / z^2 (Ament et al. 2023).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray
from scipy.special import erfcx, log_ndtr

from dechbo.gp.posterior import WeightedPosterior

Array = NDArray[np.float64]

MIN_DEVIATION = 1e-9  # deviations below this count as this
_FAR = -1e4  # z below which 1 + z sqrt(pi / 2) erfcx(-z / sqrt 2) has lost its digits
_LOG_ROOT_2PI = 0.5 * float(np.log(2 * np.pi))


class Score(Protocol):
    """What a search maximises."""

    def values(self, points: Array) -> Array:
        """At ``points`` (n, d)."""
        ...

    def gradients(self, points: Array) -> tuple[Array, Array]:
        """The values at ``points`` (n, d), and their gradients (n, d), 0 for categories."""
        ...


@dataclass(frozen=True, eq=False)
class LogExpectedImprovement:
    """log sum_m w_m E[max(f_m - y*, 0)]."""

    members: Sequence[WeightedPosterior]
    threshold: float

    def values(self, points: Array) -> Array:
        """At ``points`` (n, d)."""
        logs = [np.log(w) + log_improvement(*m.joint(points), self.threshold)[0] for w, m in self.members]
        total: Array = np.logaddexp.reduce(logs, axis=0)
        return total

    def gradients(self, points: Array) -> tuple[Array, Array]:
        """The values, and their gradients: those of the members, weighted by their shares of the improvement."""
        logs, slopes = [], []
        for weight, member in self.members:
            mean, deviation, mean_change, deviation_change = member.joint_gradient(points)
            value, by_mean, by_deviation = log_improvement(mean, deviation, self.threshold)
            logs.append(np.log(weight) + value)
            slopes.append(by_mean[:, None] * mean_change + by_deviation[:, None] * deviation_change)
        total: Array = np.logaddexp.reduce(logs, axis=0)
        return total, np.einsum("mn,mnd->nd", np.exp(np.array(logs) - total), np.array(slopes))


@dataclass(frozen=True, eq=False)
class ConfidenceBound:
    """sum_m w_m (mu_m + sqrt(beta) sigma_m)."""

    members: Sequence[WeightedPosterior]
    beta: float

    def values(self, points: Array) -> Array:
        """At ``points`` (n, d)."""
        total, root = np.zeros(len(points)), np.sqrt(self.beta)
        for weight, member in self.members:
            mean, deviation = member.joint(points)
            total += weight * (mean + root * deviation)
        return total

    def gradients(self, points: Array) -> tuple[Array, Array]:
        """The values and their gradients."""
        total, slope, root = np.zeros(len(points)), np.zeros(points.shape), np.sqrt(self.beta)
        for weight, member in self.members:
            mean, deviation, mean_change, deviation_change = member.joint_gradient(points)
            total += weight * (mean + root * deviation)
            slope += weight * (mean_change + root * deviation_change)
        return total, slope


@dataclass(frozen=True, eq=False)
class Sum:
    """The sum of several scores."""

    parts: Sequence[Score]

    def values(self, points: Array) -> Array:
        """At ``points`` (n, d)."""
        total: Array = np.sum([part.values(points) for part in self.parts], axis=0)
        return total

    def gradients(self, points: Array) -> tuple[Array, Array]:
        """The values and their gradients."""
        parts = [part.gradients(points) for part in self.parts]
        values: Array = np.sum([value for value, _ in parts], axis=0)
        slopes: Array = np.sum([slope for _, slope in parts], axis=0)
        return values, slopes


def log_improvement(mean: Array, deviation: Array, threshold: float) -> tuple[Array, Array, Array]:
    """log E[max(f - threshold, 0)] of normals, and its derivatives in their means and deviations.

    The derivatives are Phi(z) / EI and phi(z) / EI.
    """
    sigma = np.maximum(deviation, MIN_DEVIATION)
    z = (mean - threshold) / sigma
    above = np.maximum(z, -1.0)
    phi, Phi = np.exp(-0.5 * above**2 - _LOG_ROOT_2PI), np.exp(log_ndtr(above))
    near = phi + above * Phi
    below, far = np.clip(z, _FAR, -1.0), np.minimum(z, -1.0)
    mills = np.sqrt(np.pi / 2) * erfcx(-below / np.sqrt(2))  # Phi / phi
    bracket = 1.0 + below * mills  # h / phi
    is_near, is_far = z > -1, z <= _FAR
    log_h = -0.5 * z * z - _LOG_ROOT_2PI + np.where(is_far, -2.0 * np.log(-far), np.log(bracket))
    value = np.log(sigma) + np.where(is_near, np.log(near), log_h)
    by_mean = np.where(is_near, Phi / near, np.where(is_far, -far, mills / bracket)) / sigma
    by_deviation = np.where(is_near, phi / near, np.where(is_far, far * far, 1.0 / bracket)) / sigma
    return value, by_mean, by_deviation
