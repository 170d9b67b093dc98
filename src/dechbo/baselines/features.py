"""Random Fourier features of a component's kernel, and posterior samples of functions (tests: test_mes.py).

    phi_j(x) = sqrt(2 s / F) cos(omega_j^T x + b_j) prod_c g_jc(x_c),   E[phi(x)^T phi(x')] = k_I(x, x')

b_j is uniform in [0, 2 pi). The kernel is a product over variables, so the frequencies of different variables are
independent draws from each kernel's spectral density: Student's t with 5 degrees of freedom over the lengthscale for
Matérn-5/2, a normal over the lengthscale for the squared exponential. The kernel of categories, rho + (1 - rho)
[c = c'], belongs to a factor g that is 1 with probability rho and otherwise an independent random sign per category.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import cho_solve

from dechbo.data.observations import Observations
from dechbo.gp import AdditiveGP
from dechbo.gp.additive import cholesky
from dechbo.gp.kernels import CATEGORICAL, MATERN52

Array = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Features:
    """phi_1 … phi_F of one component."""

    frequencies: Array  # (F, |I|), 0 for categories
    phases: Array  # (F,)
    scale: float  # sqrt(2 s / F)
    signs: tuple[tuple[int, Array], ...]  # axis and (F, categories), for each categorical variable

    @classmethod
    def draw(cls, rng: np.random.Generator, gp: AdditiveGP, index: int, sizes: Sequence[float], count: int) -> Features:
        """``count`` features of factor ``index``; ``sizes`` are the cardinalities of all variables."""
        scope = gp.graph.scopes[index]
        frequencies = np.zeros((count, len(scope)))
        signs = []
        for axis, i in enumerate(scope):
            length = gp.hyperparameters.lengthscales[i]
            if gp.codes[i] == CATEGORICAL:
                shared = rng.random(count) < np.exp(-1.0 / length)
                drawn = rng.choice([-1.0, 1.0], size=(count, int(sizes[i])))
                signs.append((axis, np.where(shared[:, None], 1.0, drawn)))
            elif gp.codes[i] == MATERN52:
                frequencies[:, axis] = rng.standard_t(5, size=count) / length
            else:
                frequencies[:, axis] = rng.standard_normal(count) / length
        scale = float(np.sqrt(2 * gp.hyperparameters.variances[index] / count))
        return cls(frequencies, 2 * np.pi * rng.random(count), scale, tuple(signs))

    def __call__(self, points: Array) -> Array:
        """phi at ``points`` (n, |I|): (n, F)."""
        waves: Array = np.cos(points @ self.frequencies.T + self.phases)
        waves *= self.scale
        if self.signs:
            waves *= self._factors(points)
        return waves

    def slopes(self, point: Array) -> Array:
        """dphi_j/dx_i at one point: (F, |I|)."""
        sines = -np.sin(self.frequencies @ point + self.phases) * self._factors(point[None])[0]
        slopes: Array = self.scale * sines[:, None] * self.frequencies
        return slopes

    def _factors(self, points: Array) -> Array:
        product = np.ones((len(points), len(self.phases)))
        for axis, signs in self.signs:
            product *= signs[:, points[:, axis].astype(np.int64)].T
        return product


@dataclass(frozen=True, eq=False)
class SampledFunction:
    """f_I(x) = phi(x) theta, one sample of a component."""

    features: Features
    weights: Array  # (F,)

    def values(self, points: Array) -> Array:
        """The values at ``points`` (n, |I|)."""
        answer: Array = self.features(points) @ self.weights
        return answer

    def value_and_gradient(self, point: Array) -> tuple[float, Array]:
        """The value and the gradient at one point."""
        return float(self.values(point[None])[0]), self.weights @ self.features.slopes(point)


def posterior_weights(
    rng: np.random.Generator, gp: AdditiveGP, data: Observations, features: Sequence[Features], count: int
) -> list[Array]:
    """``count`` posterior samples of every component's weights: one (F, count) array for each component.

    With theta ~ N(0, 1) over all components and e ~ N(0, N), theta + Z^T (Z Z^T + N)^-1 (y - Z theta - e) has the
    distribution of the posterior (Matheron's rule).
    """
    Z = np.hstack([part(data.X[:, list(scope)]) for part, scope in zip(features, gp.graph.scopes, strict=True)])
    noise = gp.hyperparameters.noise + data.noise
    L, jitter = cholesky(Z @ Z.T, noise)
    theta = rng.standard_normal((Z.shape[1], count))
    spread = np.sqrt(noise + jitter)[:, None] * rng.standard_normal((len(data), count))
    theta += Z.T @ cho_solve((L, True), data.y[:, None] - Z @ theta - spread, check_finite=False)
    ends = np.cumsum([len(part.phases) for part in features])
    return np.split(theta, ends[:-1])
