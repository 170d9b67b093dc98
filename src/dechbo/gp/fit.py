"""Maximum a posteriori hyperparameters: evidence plus log prior, by L-BFGS-B on logarithms.

The priors are log-normal, on values of standard deviation 1 over the unit cube:

===================  ==============================  ==================================================
lengthscale          median 0.3 r, spread e^1        within [0.01, 10 r], r = sqrt(max(1, m / 3)), m its largest factor
category strength    median 1, spread e^1            within [0.05, 20]; correlation exp(-1/l)
variance             median 1/|U|, spread e^2        within [1e-8, 100]: most of many factors may vanish
noise                median 1e-4, spread e^2         within [1e-6, 1]; fixed where the user gives it
===================  ==============================  ==================================================

The evidence of a lengthscale has several modes as a rule, so a cold fit starts from short and from long
lengthscales and goes on with the better one. One evaluation costs t^2 per factor, so with many observations both starts
and most of the descent use an evenly spaced part of them, and only the last steps use all. A warm fit starts from the
hyperparameters at hand.
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

COLD_STARTS = (0.1, 0.6)
MOST = 150  # observations for the starts and most of the descent; a third of all, but at least 60
LAST_STEPS = 10  # iterations on all observations after a cold fit to a part of them


@dataclass(frozen=True, eq=False)
class Prior:
    """Independent normals on (log lengthscales, log variances, log noise), each cut off at ``low`` and ``high``."""

    centre: Array
    spread: Array
    low: Array
    high: Array

    @classmethod
    def of(cls, graph: FactorGraph, codes: NDArray[np.int64], *, rough: bool = True) -> Prior:
        """The table above; without ``rough``, functions vary slowly and noise explains what they cannot.

        A singleton with a very short lengthscale is as good as noise, and would hide an interaction: where graphs are
        learned, lengthscales are at least 0.15 and the noise has median 1e-2 and spread e^3.
        """
        categorical = codes == CATEGORICAL
        factors = len(graph.scopes)
        numeric = (0.3, np.e, 0.01, 10.0) if rough else (0.6, np.e, 0.15, 10.0)
        lengths = np.where(categorical[:, None], (1.0, np.e, 0.05, 20.0), numeric)
        # distances in the cube grow with the root of the dimension: so do the lengthscales of large factors
        lengths[~categorical] *= np.stack(
            [r := reach(graph)[~categorical], np.ones_like(r), np.ones_like(r), r], axis=1
        )
        variances = np.tile((1.0 / factors, np.e**2, 1e-8, 100.0), (factors, 1))
        noise = np.array([(1e-4, np.e**2, 1e-6, 1.0) if rough else (1e-2, np.e**3, 1e-6, 1.0)])
        return cls(*np.log(np.concatenate([lengths, variances, noise])).T)

    def log_density(self, theta: Array) -> tuple[float, Array]:
        """The log density up to a constant, and its gradient."""
        z = (theta - self.centre) / self.spread
        return float(-0.5 * z @ z), -z / self.spread


def reach(graph: FactorGraph) -> Array:
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
    rapid: bool = False,
) -> AdditiveGP:
    """The MAP model for standardised ``data``: cold without ``start``, warm from it otherwise.

    A ``rapid`` cold fit starts from long lengthscales alone, and goes by all observations or 150 of them.
    ``noise`` fixes the noise variance (0: noise-free); a start outside the bounds is moved inside them, one with
    the wrong shape is an error.
    """
    codes = kernel_codes(kernel, graph.dim)
    prior = Prior.of(graph, codes, rough=rough)

    def model(theta: Array) -> AdditiveGP:
        lengths, variances = np.exp(theta[: graph.dim]), np.exp(theta[graph.dim : -1])
        level = float(np.exp(theta[-1])) if noise is None else noise
        return AdditiveGP(graph, Hyperparameters(lengths, variances, level), kernel=kernel, domains=domains)

    model(prior.centre).check(data)  # here, because the loss takes every DataError for a matrix out of range

    def loss(theta: Array, data: Observations) -> tuple[float, Array]:
        density, slope = prior.log_density(theta)
        try:
            evidence, gradient = model(theta).log_evidence_gradient(data)
        except DataError:  # not factorisable even with jitter: a wall for the line search
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

    def at(length: float) -> Array:
        theta = prior.centre.copy()
        theta[: graph.dim][codes != CATEGORICAL] = np.log(length * reach(graph)[codes != CATEGORICAL])
        return theta

    if rapid:
        return model(descend(at(max(COLD_STARTS)), _spaced(data, MOST), iterations)[1])
    part = _spaced(data, min(max(60, len(data) // 3), MOST))
    trials = [descend(at(length), part, max(1, iterations // 4)) for length in COLD_STARTS]
    best = descend(min(trials, key=lambda trial: trial[0])[1], part, iterations)[1]
    return model(best if part is data else descend(best, data, min(LAST_STEPS, iterations))[1])


def _spaced(data: Observations, size: int) -> Observations:
    """At most ``size`` of the observations, evenly spaced in time."""
    if size >= len(data):
        return data
    chosen = np.linspace(0, len(data) - 1, size).round().astype(np.int64)
    return Observations(data.X[chosen], data.y[chosen], data.noise[chosen])


def _logarithms(theta: Hyperparameters, prior: Prior) -> Array:
    values = np.concatenate([theta.lengthscales, theta.variances, [theta.noise]])
    if len(values) != len(prior.centre):
        raise DataError(f"the start has {len(values)} hyperparameters, the graph needs {len(prior.centre)}")
    logs: Array = np.log(np.maximum(values, np.finfo(float).tiny))
    return logs
