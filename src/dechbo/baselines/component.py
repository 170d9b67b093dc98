"""One component f_I of an additive GP, and acquisitions of its mean and deviation (tests: test_ucb.py).

A component's acquisition is a(mu_I(x), sigma_I(x)); its gradient follows from da/dmu and da/dsigma by the chain rule.
A GP over all variables is an additive GP with one component.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import solve_triangular

from dechbo.gp import AdditivePosterior
from dechbo.gp.kernels import correlation_rows

Array = NDArray[np.float64]

MIN_DEVIATION = 1e-9  # a smaller deviation gets the gradient 0: the bound has a kink where a value is known


class ComponentScore(Protocol):
    """a(mu, sigma)."""

    def values(self, mean: Array, deviation: Array) -> Array:
        """The values at many points."""
        ...

    def slopes(self, mean: float, deviation: float) -> tuple[float, float, float]:
        """The value, da/dmu and da/dsigma at one point."""
        ...


@dataclass(frozen=True)
class UpperBound:
    """mu + sqrt(beta) sigma."""

    beta: float

    def values(self, mean: Array, deviation: Array) -> Array:
        """The values at many points."""
        bound: Array = mean + np.sqrt(self.beta) * deviation
        return bound

    def slopes(self, mean: float, deviation: float) -> tuple[float, float, float]:
        """The value, 1 and sqrt(beta)."""
        root = float(np.sqrt(self.beta))
        return mean + root * deviation, 1.0, root


@dataclass(frozen=True, eq=False)
class Component:
    """mu_I and sigma_I of factor ``index``, at points of its own scope."""

    posterior: AdditivePosterior
    index: int

    @property
    def scope(self) -> tuple[int, ...]:
        """The variables of the factor."""
        return self.posterior.gp.graph.scopes[self.index]

    def moments(self, points: Array) -> tuple[Array, Array]:
        """Mean and deviation at ``points`` (n, |I|)."""
        return self.posterior.factor(self.index, points)

    def slopes(self, point: Array) -> tuple[float, float, Array, Array]:
        """Mean, deviation, and the gradient of each, at one point (|I|,); 0 for categories.

        dk_I/dx_i = k_I k_i' / k_i,  dmu/dx_i = alpha^T dk_I,  dsigma/dx_i = -(K^-1 k_I)^T dk_I / sigma.
        """
        gp, at = self.posterior.gp, list(self.scope)
        variance = gp.hyperparameters.variances[self.index]
        lengths, X = gp.hyperparameters.lengthscales[at], self.posterior.X[:, at]
        values, slopes = correlation_rows(gp.codes[at], point, X, lengths)
        k = variance * values.prod(axis=0)
        changes = k * np.divide(slopes, values, out=np.zeros_like(slopes), where=values > 0)
        V = solve_triangular(self.posterior.L, k, lower=True, check_finite=False)
        deviation = float(np.sqrt(max(variance - V @ V, 0.0)))
        deviation_gradient = np.zeros(len(point))
        if deviation > MIN_DEVIATION:
            solved = solve_triangular(self.posterior.L, V, lower=True, trans=1, check_finite=False)
            deviation_gradient = -(changes @ solved) / deviation
        return float(k @ self.posterior.alpha), deviation, changes @ self.posterior.alpha, deviation_gradient


@dataclass(frozen=True, eq=False)
class ComponentAcquisition:
    """x -> a(mu_I(x), sigma_I(x)), with its gradient."""

    component: Component
    score: ComponentScore

    def values(self, points: Array) -> Array:
        """The values at ``points`` (n, |I|)."""
        return self.score.values(*self.component.moments(points))

    def value_and_gradient(self, point: Array) -> tuple[float, Array]:
        """The value at one point, and da = (da/dmu) dmu + (da/dsigma) dsigma."""
        mean, deviation, mean_gradient, deviation_gradient = self.component.slopes(point)
        value, by_mean, by_deviation = self.score.slopes(mean, deviation)
        return value, by_mean * mean_gradient + by_deviation * deviation_gradient
