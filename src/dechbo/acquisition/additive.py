"""The acquisition off the grid: phi(x) = sum_I mu_I(x_I) + sqrt(beta) sigma_I(x_I), and its gradient."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import solve_triangular

from dechbo.acquisition.solves import leave_one_out_products
from dechbo.gp import AdditivePosterior

Array = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class AdditiveUCB:
    """phi at arbitrary points, with its gradient."""

    posterior: AdditivePosterior
    beta: float

    def values(self, points: Array) -> Array:
        """phi at ``points`` (n, d)."""
        total = np.zeros(len(points))
        for k, scope in enumerate(self.posterior.gp.graph.scopes):
            mean, deviation = self.posterior.factor(k, points[:, scope])
            total += mean + np.sqrt(self.beta) * deviation
        return total

    def lines(self, point: Array, candidates: Sequence[Array]) -> list[Array]:
        """phi on the axis-parallel lines through ``point``: for each variable, at each of its candidates.

        Only the factors that see the variable are recomputed.
        """
        mean, deviation = self.factor_moments(point)
        root = np.sqrt(self.beta)
        here = mean + root * deviation
        answer = [np.full(len(values), here.sum()) for values in candidates]
        for k, scope in enumerate(self.posterior.gp.graph.scopes):
            for axis, i in enumerate(scope):
                variants = np.tile(point[list(scope)], (len(candidates[i]), 1))
                variants[:, axis] = candidates[i]
                mean, deviation = self.posterior.factor(k, variants)
                answer[i] += mean + root * deviation - here[k]
        return answer

    def factor_moments(self, point: Array) -> tuple[Array, Array]:
        """mu_I and sigma_I of every factor at one point, two (|U|,) arrays."""
        rows, _, _ = self.posterior.covariances(point)
        mean, deviation, _ = self._moments(rows, self._priors(point)[0])
        return mean, deviation

    def value_and_gradient(self, point: Array) -> tuple[float, Array]:
        """phi and dphi/dx_i = sum_{I with i} (alpha - sqrt(beta) / sigma_I K^-1 k_I)^T dk_I/dx_i, 0 for categories."""
        posterior = self.posterior
        graph, variances = posterior.gp.graph, posterior.gp.hyperparameters.variances
        rows, values, slopes = posterior.covariances(point)
        prior, diagonal, diagonal_slopes = self._priors(point)
        mean, deviation, V = self._moments(rows, prior)
        root = np.sqrt(self.beta)
        solved = solve_triangular(posterior.L, V, lower=True, trans=1, check_finite=False).T
        # phi has a kink where a deviation vanishes: take its slope as 0
        rates = np.divide(root, deviation, out=np.zeros_like(deviation), where=deviation > 1e-9)
        weights = posterior.alpha - rates[:, None] * solved
        gradient = np.zeros(graph.dim)
        for factors, scopes in graph.by_size:
            scaled = weights[factors] * variances[factors][:, None]
            if scopes.shape[1] > 3:
                change = np.einsum("fn,fin->fi", scaled, slopes[scopes] * leave_one_out_products(values[scopes]))
                if posterior.gp.domains is not None:
                    own = (
                        leave_one_out_products(diagonal[scopes]) * diagonal_slopes[scopes] * variances[factors][:, None]
                    )
                    change += 0.5 * rates[factors][:, None] * own
                np.add.at(gradient, scopes.ravel(), change.ravel())
                continue
            for axis in range(scopes.shape[1]):
                product = scaled * slopes[scopes[:, axis]]
                for other in range(scopes.shape[1]):
                    if other != axis:
                        product *= values[scopes[:, other]]
                change = product.sum(axis=1)
                if posterior.gp.domains is not None:  # the prior variance of a centred kernel depends on x
                    own = variances[factors] * diagonal_slopes[scopes[:, axis]]
                    for other in range(scopes.shape[1]):
                        if other != axis:
                            own *= diagonal[scopes[:, other]]
                    change += 0.5 * rates[factors] * own
                np.add.at(gradient, scopes[:, axis], change)
        return float(mean.sum() + root * deviation.sum()), gradient

    def _priors(self, point: Array) -> tuple[Array, Array, Array]:
        """Var f_I of every factor, and k_i(x_i, x_i) of every variable with its slope."""
        gp = self.posterior.gp
        variances = gp.hyperparameters.variances
        diagonal, slopes = gp.correlation.diagonal_slopes(point)
        if gp.domains is None:
            return variances, diagonal, slopes
        prior = np.empty(len(variances))
        for factors, scopes in gp.graph.by_size:
            prior[factors] = variances[factors] * diagonal[scopes].prod(axis=1)
        return prior, diagonal, slopes

    def _moments(self, rows: Array, prior: Array) -> tuple[Array, Array, Array]:
        V = solve_triangular(self.posterior.L, rows.T, lower=True, check_finite=False)
        variance = prior - np.einsum("pk,pk->k", V, V)
        return rows @ self.posterior.alpha, np.sqrt(np.maximum(variance, 0.0)), V
