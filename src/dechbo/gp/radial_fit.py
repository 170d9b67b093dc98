"""Maximum a posteriori relevances, variance and noise of a ``RadialGP``, by L-BFGS-B on logarithms.

Three priors of the relevances rho_i = 1 / l_i^2, for values of standard deviation 1 over the unit cube:

============  =====================================================================================================
``weak``      log density -0.1 / rho - 0.1 rho: almost anything between 1/10 and 10, as in Optuna's GPSampler
``scaled``    l log-normal with location sqrt(2) + log(d) / 2 and scale sqrt(3): lengthscales grow with the distances
              in the cube (Hvarfner et al. 2024, the default of BoTorch)
``sparse``    half-Cauchy of scale 0.05: most variables idle, few free (after Eriksson and Jankowiak 2021)
============  =====================================================================================================

The variance has a gamma(2, 1) prior, or is fixed at 1, that of the data: then a deep well forces short lengthscales,
and the model stays unsure elsewhere. The noise has a gamma(1.1, 30) prior (``weak``, ``sparse``) or is
log-normal(-4, 1). All are densities of the quantities themselves, not of their logarithms.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize

from dechbo.data.observations import Observations
from dechbo.errors import DataError
from dechbo.gp.radial import ColumnEmbedding, RadialGP

Array = NDArray[np.float64]

PRIORS = ("weak", "scaled", "sparse")
SPARSE_SCALE = 0.05
LOG_RELEVANCES, LOG_VARIANCE, LOG_NOISE = (-14.0, 10.0), (-5.0, 5.0), (np.log(1e-8), 0.0)
COLD_ITERATIONS, WARM_ITERATIONS = 50, 15
MAX_SUBSET = 200  # observations for the starts of a cold fit


@dataclass(frozen=True)
class RadialPrior:
    """The prior of (log relevances, log variance, log noise) of d variables, and the kernel that goes with it."""

    kernel: str  # "se" or "matern52"
    relevances: str  # one of PRIORS
    fixed_variance: bool = False

    def log_density(self, theta: Array) -> tuple[float, Array]:
        """The log density, up to a constant, and its gradient."""
        d = len(theta) - 2
        relevances, slopes = self._relevances(theta[:d])
        variance, variance_slope = self._variance(float(theta[d]))
        noise, noise_slope = self._noise(float(theta[d + 1]))
        return relevances + variance + noise, np.append(slopes, [variance_slope, noise_slope])

    def starts(self, d: int) -> list[Array]:
        """Where a cold fit begins: long and short lengthscales."""
        levels = {"weak": (1.0, 4.0 / d), "scaled": (1.0 / d, 11.0 / d), "sparse": (0.03,)}[self.relevances]
        return [np.append(np.full(d, np.log(level)), [0.0, np.log(1e-3)]) for level in dict.fromkeys(levels)]

    def _relevances(self, logs: Array) -> tuple[float, Array]:
        if self.relevances == "weak":
            rho = np.exp(logs)
            return float((-0.1 / rho - 0.1 * rho).sum()), 0.1 / rho - 0.1 * rho
        if self.relevances == "sparse":
            square = np.exp(2 * (logs - np.log(SPARSE_SCALE)))
            return float(-np.log1p(square).sum()), -2 * square / (1 + square)
        length = -0.5 * logs
        z = length - (np.sqrt(2) + 0.5 * np.log(len(logs)))
        return float((-z * z / 6 - length).sum()), 0.5 * (z / 3 + 1)

    def _variance(self, log: float) -> tuple[float, float]:
        return (0.0, 0.0) if self.fixed_variance else (log - float(np.exp(log)), 1 - float(np.exp(log)))

    def _noise(self, log: float) -> tuple[float, float]:
        if self.relevances == "scaled":
            return -0.5 * (log + 4) ** 2 - log, -(log + 4) - 1
        return 0.1 * log - 30 * float(np.exp(log)), 0.1 - 30 * float(np.exp(log))


def fit_radial(
    prior: RadialPrior,
    embedding: ColumnEmbedding,
    data: Observations,
    *,
    noise: float | None = None,
    start: RadialGP | None = None,
) -> RadialGP:
    """The MAP model for standardised ``data``: a warm fit from ``start`` if given, otherwise a cold one.

    ``noise`` fixes the noise variance (0: noise-free).
    """
    d = embedding.dim
    bounds = np.array([LOG_RELEVANCES] * d + [LOG_VARIANCE, LOG_NOISE])

    def model(theta: Array) -> RadialGP:
        level = float(np.exp(theta[-1])) if noise is None else noise
        return RadialGP(embedding, np.exp(theta[:d]), float(np.exp(theta[d])), level, prior.kernel)

    def loss(theta: Array, data: Observations) -> tuple[float, Array]:
        density, slope = prior.log_density(theta)
        try:
            evidence, gradient = model(theta).log_evidence_gradient(data)
        except DataError:  # not positive definite even with jitter: the line search steps back
            return 1e10, np.zeros_like(theta)
        gradient = gradient + slope
        if prior.fixed_variance:
            gradient[d] = 0.0
        if noise is not None:
            gradient[-1] = 0.0
        return -(evidence + density), -gradient

    def descend(theta: Array, data: Observations, steps: int) -> tuple[float, Array]:
        options = {"maxiter": steps, "ftol": 1e-7, "maxls": 20}
        begin = np.clip(theta, bounds[:, 0], bounds[:, 1])
        found = minimize(loss, begin, (data,), jac=True, method="L-BFGS-B", bounds=bounds, options=options)
        return float(found.fun), np.asarray(found.x)

    if start is not None:
        level = np.log(max(start.noise, np.exp(LOG_NOISE[0])))
        theta = np.append(np.log(start.relevances), [np.log(start.variance), level])
        return model(descend(theta, data, WARM_ITERATIONS)[1])
    part = data.evenly_spaced(MAX_SUBSET)
    best = min((descend(theta, part, COLD_ITERATIONS) for theta in prior.starts(d)), key=lambda trial: trial[0])[1]
    return model(best if part is data else descend(best, data, WARM_ITERATIONS)[1])
