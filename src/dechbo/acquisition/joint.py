"""The joint confidence bound mu(x) ± sqrt(beta) sigma(x) of f = sum_I f_I.

Unlike the sum of the factors' bounds it does not split over factors, but it is tight at observed points, where sigma
vanishes and sum_I sigma_I stays large.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import solve_triangular

from dechbo.acquisition.solves import leave_one_out_products
from dechbo.gp import AdditivePosterior
from dechbo.gp.ensemble import Posterior, weighted_members

Array = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class JointConfidenceBound:
    """mu + sqrt(beta) sigma of the whole function, averaged over the members of an ensemble."""

    posterior: Posterior
    beta: float
    lower: bool = False  # the lower bound mu - sqrt(beta) sigma instead

    @property
    def _root(self) -> float:
        return float(-np.sqrt(self.beta) if self.lower else np.sqrt(self.beta))

    def values(self, points: Array) -> Array:
        """The bound at ``points`` (n, d)."""
        total = np.zeros(len(points))
        for weight, member in weighted_members(self.posterior):
            mean, deviation = member.joint(points)
            total += weight * (mean + self._root * deviation)
        return total

    def value_and_gradient(self, point: Array) -> tuple[float, Array]:
        """The bound at one point and its gradient, which is 0 for categorical variables."""
        parts = [(weight, *self._member(member, point)) for weight, member in weighted_members(self.posterior)]
        return float(sum(w * value for w, value, _ in parts)), np.sum([w * slope for w, _, slope in parts], axis=0)

    def _member(self, posterior: AdditivePosterior, point: Array) -> tuple[float, Array]:
        gp = posterior.gp
        rows, values, slopes = posterior.covariances(point)
        diagonal, diagonal_slopes = gp.correlation.diagonal_slopes(point)
        changes = np.zeros_like(slopes)  # dk/dx_i, (d, n)
        prior_changes = np.zeros(len(point))
        for factors, scopes in gp.graph.by_size:
            variances = gp.hyperparameters.variances[factors]
            if scopes.shape[1] > 3:
                rest, own = leave_one_out_products(values[scopes]), leave_one_out_products(diagonal[scopes])
                change = variances[:, None, None] * slopes[scopes] * rest
                np.add.at(changes, scopes.ravel(), change.reshape(-1, slopes.shape[1]))
                np.add.at(prior_changes, scopes.ravel(), (variances[:, None] * diagonal_slopes[scopes] * own).ravel())
                continue
            for axis in range(scopes.shape[1]):
                others = [scopes[:, j] for j in range(scopes.shape[1]) if j != axis]
                here = scopes[:, axis]
                change, prior = variances[:, None] * slopes[here], variances * diagonal_slopes[here]
                for other in others:
                    change, prior = change * values[other], prior * diagonal[other]
                np.add.at(changes, here, change)
                np.add.at(prior_changes, here, prior)
        k = rows.sum(axis=0) + gp.constant_variance
        V = solve_triangular(posterior.L, k, lower=True, check_finite=False)
        deviation = float(np.sqrt(max(gp.joint_prior_variances(point[None])[0] - V @ V, 0.0)))
        gradient = changes @ posterior.alpha
        root = self._root
        if deviation > 1e-9:
            solved = solve_triangular(posterior.L, V, lower=True, trans=1, check_finite=False)
            gradient = gradient + root / deviation * (0.5 * prior_changes - changes @ solved)
        return float(k @ posterior.alpha) + root * deviation, gradient
