"""Max-value entropy (Wang and Jegelka 2017), and max-values drawn from a Gumbel distribution (tests: test_mes.py).

Notation: gamma = (y* - mu) / sigma; psi, Psi the standard normal density and distribution; lambda = psi / Psi.

The information gained when f(x) ~ N(mu, sigma^2) turns out to lie below y*:
    a(gamma) = gamma lambda(gamma) / 2 - log Psi(gamma),    a'(gamma) = -lambda (1 + gamma (gamma + lambda)) / 2.
As gamma -> -inf both terms grow as gamma^2 / 2 and cancel: a = log|gamma| + (log 2 pi - 1) / 2 + 2 / gamma^2 + ...
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import erfcx, log_ndtr, ndtri

Array = NDArray[np.float64]

SERIES_BELOW = -300.0  # below, the expansion is exact to 1e-9; above, cancellation costs less than that
QUARTILES = np.array([0.25, 0.5, 0.75])
BISECTION_STEPS = 40


def entropy_gain(gamma: Array) -> Array:
    """a(gamma), at least 0 and decreasing."""
    inner = np.maximum(gamma, SERIES_BELOW)
    near = 0.5 * inner * _hazard(inner) - log_ndtr(inner)
    far = np.minimum(gamma, SERIES_BELOW)
    tail = np.log(-far) + 0.5 * (np.log(2 * np.pi) - 1) + 2 / far / far
    gain: Array = np.where(gamma > SERIES_BELOW, near, tail)
    return gain


def entropy_slope(gamma: Array) -> Array:
    """a'(gamma)."""
    inner = np.maximum(gamma, SERIES_BELOW)
    hazard = _hazard(inner)
    far = np.minimum(gamma, SERIES_BELOW)
    return np.where(gamma > SERIES_BELOW, -0.5 * hazard * (1 + inner * (inner + hazard)), 1 / far - 4 / far / far / far)


@dataclass(frozen=True, eq=False)
class MaxValueEntropy:
    """a(gamma) averaged over max-values y* (K,), with sigma at least ``min_deviation``.

    That minimum is the deviation of the noise: gamma stays bounded where f is known better than one value can tell.
    """

    max_values: Array
    min_deviation: float

    def values(self, mean: Array, deviation: Array) -> Array:
        """The values at many points."""
        gamma = (self.max_values[:, None] - mean) / np.maximum(deviation, self.min_deviation)
        average: Array = entropy_gain(gamma).mean(axis=0)
        return average

    def slopes(self, mean: float, deviation: float) -> tuple[float, float, float]:
        """The value, -mean a' / sigma, and -mean a' gamma / sigma (0 where sigma is at its minimum)."""
        spread = max(deviation, self.min_deviation)
        gamma = (self.max_values - mean) / spread
        slope = entropy_slope(gamma)
        by_deviation = -float((slope * gamma).mean()) / spread if deviation > self.min_deviation else 0.0
        return float(entropy_gain(gamma).mean()), -float(slope.mean()) / spread, by_deviation


def max_quantiles(mean: Array, deviation: Array, levels: Array) -> Array:
    """y with prod_x Psi((y - mu(x)) / sigma(x)) = level, for each level: the maximum of independent normals.

    By bisection between the largest quantile of one point at ``level`` and at level^(1/n).
    """
    single = deviation[:, None]
    low = (mean[:, None] + single * ndtri(levels)).max(axis=0)
    high = (mean[:, None] + single * ndtri(levels ** (1 / len(mean)))).max(axis=0)
    for _ in range(BISECTION_STEPS):
        middle = (low + high) / 2
        below = log_ndtr((middle - mean[:, None]) / single).sum(axis=0) < np.log(levels)
        low, high = np.where(below, middle, low), np.where(below, high, middle)
    found: Array = (low + high) / 2
    return found


def gumbel(mean: Array, deviation: Array) -> tuple[float, float]:
    """Location a and scale b of P(y* < y) = exp(-exp(-(y - a) / b)), from the quartiles of the maximum.

    b = (y_75 - y_25) / (log log 4 - log log(4/3)),  a = y_50 + b log log 2.
    """
    lower, median, upper = max_quantiles(mean, deviation, QUARTILES)
    scale = (upper - lower) / (np.log(np.log(4)) - np.log(np.log(4 / 3)))
    return float(median + scale * np.log(np.log(2))), float(scale)


def gumbel_samples(rng: np.random.Generator, mean: Array, deviation: Array, count: int) -> Array:
    """``count`` max-values a - b log(-log r), r uniform."""
    location, scale = gumbel(mean, deviation)
    uniform = np.clip(rng.random(count), np.finfo(float).tiny, None)
    drawn: Array = location - scale * np.log(-np.log(uniform))
    return drawn


def _hazard(gamma: Array) -> Array:
    """lambda = psi / Psi = sqrt(2 / pi) / erfcx(-gamma / sqrt(2)): all digits on the left, 0 far on the right."""
    answer: Array = np.sqrt(2 / np.pi) / erfcx(-gamma / np.sqrt(2))
    return answer
