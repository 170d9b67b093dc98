"""Maximum a posteriori hyperparameters: evidence plus log prior, by L-BFGS-B on logarithms.

The priors are log-normal, on values of standard deviation 1 over the unit cube:

===================  ==============================  ==================================================
lengthscale          median 0.3 r, spread e^1        within [0.01, 10 r], r = sqrt(max(1, m / 3)), m its largest factor
categorical          median 1, spread e^1            within [0.05, 20]; correlation exp(-1/l)
variance             median 1/|U|, spread e^2        within [1e-8, 100]; most of many factors may vanish
noise                median 1e-4, spread e^2         within [1e-6, 1]; fixed if the user gives it
===================  ==============================  ==================================================

The evidence usually has several modes in the lengthscales, so a cold fit starts from short and from long lengthscales
and continues with the better one. One evaluation costs t^2 per factor, so with many observations both starts and most
iterations use an evenly spaced subset, and only the last iterations use all. A warm fit starts from given
hyperparameters.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize

from dechbo.data.observations import Observations
from dechbo.errors import DataError
from dechbo.gp.additive import AdditiveGP, Hyperparameters
from dechbo.gp.centring import Domain
from dechbo.gp.kernels import CATEGORICAL, kernel_codes
from dechbo.graph import FactorGraph

Array = NDArray[np.float64]

START_LENGTHSCALES = (0.1, 0.6)
MAX_SUBSET = 150  # observations for the starts and most iterations; a third of all, but at least 60
FINAL_ITERATIONS = 10  # on all observations, after a cold fit to a subset


@dataclass(frozen=True, eq=False)
class HyperparameterPrior:
    """Independent normals on (log lengthscales, log variances, log noise), truncated to [``low``, ``high``]."""

    centre: Array
    spread: Array
    low: Array
    high: Array

    @classmethod
    def of(cls, graph: FactorGraph, codes: NDArray[np.int64], *, rough: bool = True) -> HyperparameterPrior:
        """The table above; with ``rough=False``, lengthscales are at least 0.15 and the noise is larger.

        Structure learning uses ``rough=False`` (noise of median 1e-2 and spread e^3): a singleton with a very short
        lengthscale acts like noise and would hide an interaction.
        """
        categorical = codes == CATEGORICAL
        factors = len(graph.scopes)
        numeric = (0.3, np.e, 0.01, 10.0) if rough else (0.6, np.e, 0.15, 10.0)
        lengths = np.where(categorical[:, None], (1.0, np.e, 0.05, 20.0), numeric)
        # distances in the cube grow with the square root of the dimension; so do the lengthscales of large factors
        lengths[~categorical] *= np.stack(
            [r := lengthscale_factors(graph)[~categorical], np.ones_like(r), np.ones_like(r), r], axis=1
        )
        variances = np.tile((1.0 / factors, np.e**2, 1e-8, 100.0), (factors, 1))
        noise = np.array([(1e-4, np.e**2, 1e-6, 1.0) if rough else (1e-2, np.e**3, 1e-6, 1.0)])
        return cls(*np.log(np.concatenate([lengths, variances, noise])).T)

    def log_density(self, theta: Array) -> tuple[float, Array]:
        """The log density up to a constant, and its gradient."""
        z = (theta - self.centre) / self.spread
        return float(-0.5 * z @ z), -z / self.spread


def lengthscale_factors(graph: FactorGraph) -> Array:
    """r_i = sqrt(max(1, m / 3)) with m the size of the largest factor that sees variable i, (d,)."""
    largest = np.zeros(graph.dim)
    for scope in graph.scopes:
        largest[list(scope)] = np.maximum(largest[list(scope)], len(scope))
    answer: Array = np.sqrt(np.maximum(1.0, largest / 3))
    return answer


def fit(
    graph: FactorGraph,
    data: Observations,
    *,
    kernel: str | Sequence[str] = "matern52",
    domains: Sequence[Domain] | None = None,
    rough: bool = True,
    noise: float | None = None,
    start: Hyperparameters | None = None,
    iterations: int = 40,
    single_start: bool = False,
) -> AdditiveGP:
    """The MAP model for standardised ``data``: a warm fit from ``start`` if given, otherwise a cold one.

    With ``single_start``, a cold fit starts from long lengthscales only and uses at most 150 observations.
    ``noise`` fixes the noise variance (0: noise-free). A start outside the bounds is clipped to them.
    """
    codes = kernel_codes(kernel, graph.dim)
    prior = HyperparameterPrior.of(graph, codes, rough=rough)

    def model(theta: Array) -> AdditiveGP:
        lengths, variances = np.exp(theta[: graph.dim]), np.exp(theta[graph.dim : -1])
        level = float(np.exp(theta[-1])) if noise is None else noise
        return AdditiveGP(graph, Hyperparameters(lengths, variances, level), kernel=kernel, domains=domains)

    model(prior.centre).check(data)  # here, because the loss treats every DataError as a failed factorisation

    def loss(theta: Array, data: Observations) -> tuple[float, Array]:
        density, slope = prior.log_density(theta)
        try:
            evidence, gradient = model(theta).log_evidence_gradient(data)
        except DataError:  # not positive definite even with jitter: the line search steps back
            return 1e10, np.zeros_like(theta)
        gradient = gradient + slope
        if noise is not None:
            gradient[-1] = 0.0
        return -(evidence + density), -gradient

    def descend(theta: Array, data: Observations, steps: int) -> tuple[float, Array]:
        bounds = np.stack([prior.low, prior.high], axis=1)
        options = {"maxiter": steps, "ftol": 1e-6, "gtol": 1e-3, "maxls": 20}
        found = minimize(loss, theta, (data,), jac=True, method="L-BFGS-B", bounds=bounds, options=options)
        return float(found.fun), np.asarray(found.x)

    if start is not None:
        theta = np.clip(_logarithms(start, prior), prior.low, prior.high)
        return model(descend(theta, data, iterations)[1])

    def start_at(length: float) -> Array:
        theta = prior.centre.copy()
        theta[: graph.dim][codes != CATEGORICAL] = np.log(length * lengthscale_factors(graph)[codes != CATEGORICAL])
        return theta

    if single_start:
        return model(descend(start_at(max(START_LENGTHSCALES)), data.evenly_spaced(MAX_SUBSET), iterations)[1])
    part = data.evenly_spaced(min(max(60, len(data) // 3), MAX_SUBSET))
    trials = [descend(start_at(length), part, max(1, iterations // 4)) for length in START_LENGTHSCALES]
    best = descend(min(trials, key=lambda trial: trial[0])[1], part, iterations)[1]
    return model(best if part is data else descend(best, data, min(FINAL_ITERATIONS, iterations))[1])


def _logarithms(theta: Hyperparameters, prior: HyperparameterPrior) -> Array:
    values = np.concatenate([theta.lengthscales, theta.variances, [theta.noise]])
    if len(values) != len(prior.centre):
        raise DataError(f"the start has {len(values)} hyperparameters, the graph needs {len(prior.centre)}")
    logs: Array = np.log(np.maximum(values, np.finfo(float).tiny))
    return logs
