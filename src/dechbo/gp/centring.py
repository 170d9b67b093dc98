"""Centred one-dimensional kernels: functions that average to 0 over their domain, with mean variance 1.

With m(x) = mean over u of k(x, u) and c = mean of m, the kernel k(x, x') - m(x) m(x') / c is that of a function
conditioned on averaging to zero. Divided by its mean diagonal nu = 1 - mean(m^2) / c, it has mean variance 1. A
factor's variance is then its share of the variance of f, and factors over different scopes are orthogonal, so the
constant is identified. In code: k_hat = (k - a(x) a(x')) / nu with a = m / sqrt(c).

The mean is over the unit interval (closed forms) or over the given values of a discrete variable. A centred categorical
kernel does not depend on its lengthscale: it is 1 for equal categories and -1 / (C - 1) otherwise.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray
from scipy.special import erf

from dechbo.gp.kernels import CATEGORICAL, MATERN52, SE, SQRT5, correlations

Array = NDArray[np.float64]
Domain = Array | None  # the values of a discrete variable, or None for the unit interval

_GAUSS, _WEIGHTS = np.polynomial.legendre.leggauss(64)
NODES, WEIGHTS = 0.5 * (_GAUSS + 1.0), 0.5 * _WEIGHTS


@dataclass(frozen=True, eq=False)
class Centring:
    """a, nu and their derivatives in log l, for all variables at their lengthscales."""

    codes: NDArray[np.int64]
    lengthscales: Array
    domains: Sequence[Domain]
    root: Array  # sqrt(c), (d,)
    root_slope: Array  # d sqrt(c) / d log l
    inverse: Array  # 1 / nu
    log_slope: Array  # d log nu / d log l

    @classmethod
    def of(cls, codes: NDArray[np.int64], lengthscales: Array, domains: Sequence[Domain]) -> Centring:
        """Average over each domain: closed forms for m, 64 Gauss nodes (or the discrete values) for c and nu."""
        d = len(codes)
        c, dc, square, dsquare = np.empty(d), np.empty(d), np.empty(d), np.empty(d)
        continuous = np.array([domain is None for domain in domains])
        m, dm = _interval_means(codes, NODES[:, None], lengthscales)
        for target, values in ((c, m), (dc, dm), (square, m * m), (dsquare, 2 * m * dm)):
            target[:] = WEIGHTS @ values
        for i in np.flatnonzero(~continuous):
            domain = domains[int(i)]
            assert domain is not None
            m_i, dm_i = _value_means(int(codes[i]), domain, domain, float(lengthscales[i]))
            c[i], dc[i], square[i], dsquare[i] = m_i.mean(), dm_i.mean(), (m_i**2).mean(), (2 * m_i * dm_i).mean()
        nu = np.maximum(1.0 - square / c, 1e-12)
        dnu = -(dsquare / c - square * dc / c**2)
        root = np.sqrt(c)
        return cls(codes, lengthscales, domains, root, 0.5 * dc / root, 1.0 / nu, dnu / nu)

    def subset(self, chosen: NDArray[np.int64]) -> Centring:
        """Of the ``chosen`` variables, the same numbers to the last bit."""
        return Centring(
            self.codes[chosen],
            self.lengthscales[chosen],
            [self.domains[i] for i in chosen],
            self.root[chosen],
            self.root_slope[chosen],
            self.inverse[chosen],
            self.log_slope[chosen],
        )

    def means(self, X: Array) -> tuple[Array, Array]:
        """a_i(x_i) and its derivative in log l_i at points X (n, d)."""
        m, dm = _interval_means(self.codes, X, self.lengthscales)
        for i, values in enumerate(self.domains):
            if values is not None:
                m[:, i], dm[:, i] = self._discrete_means(i, X[:, i], values)
        a = m / self.root
        return a, dm / self.root - a * (self.root_slope / self.root)

    def mean(self, i: int, x: Array) -> Array:
        """a_i at coordinates x (n,) of one variable."""
        values = self.domains[i]
        if values is not None:
            answer = self._discrete_means(i, x, values)[0]
        else:
            answer = _interval_mean(int(self.codes[i]), x, float(self.lengthscales[i]))
        scaled: Array = answer / self.root[i]
        return scaled

    def _discrete_means(self, i: int, x: Array, values: Array) -> tuple[Array, Array]:
        """m and its derivative in log l at ``x`` (n,): looked up where each is one of the ``values``."""
        at = np.minimum(np.searchsorted(values, x), len(values) - 1)
        if not (values[at] == x).all():
            return _value_means(int(self.codes[i]), x, values, float(self.lengthscales[i]))
        m, dm = self._domain_means[i]
        return m[at], dm[at]

    @cached_property
    def _domain_means(self) -> dict[int, tuple[Array, Array]]:
        """m and its derivative at every value of every discrete variable."""
        return {
            i: _value_means(int(self.codes[i]), values, values, float(self.lengthscales[i]))
            for i, values in enumerate(self.domains)
            if values is not None
        }

    def mean_slopes(self, points: Array) -> Array:
        """da_i/dx_i at ``points`` (…, d): (k(x, 0) - k(x, 1)) / sqrt(c) on the unit interval, 0 if discrete."""
        slopes = np.zeros(points.shape)
        at = np.flatnonzero([domain is None for domain in self.domains])
        low = _stationary(self.codes[at], points[..., at], self.lengthscales[at])
        high = _stationary(self.codes[at], 1.0 - points[..., at], self.lengthscales[at])
        slopes[..., at] = (low - high) / self.root[at]
        return slopes


def _stationary(codes: NDArray[np.int64], distance: Array, lengthscales: Array) -> Array:
    s = np.abs(distance) * SQRT5 / lengthscales
    matern = (1.0 + s + s * s / 3.0) * np.exp(-s)
    return np.where(codes == MATERN52, matern, np.exp(-0.5 * (distance / lengthscales) ** 2))


def _interval_means(codes: NDArray[np.int64], X: Array, lengthscales: Array) -> tuple[Array, Array]:
    """m(x) = integral of k(x, u) over [0, 1], and its derivative in log l; X is (n, d) or (n, 1)."""
    low, low_slope = _matern_integral(X, lengthscales)
    high, high_slope = _matern_integral(1.0 - X, lengthscales)
    m, dm = low + high, low_slope + high_slope
    if (se := codes == SE).any():
        x, length = np.broadcast_to(X, m.shape)[:, se], lengthscales[se]
        y = 1.0 - x
        m[:, se] = length * np.sqrt(np.pi / 2) * (erf(x / (np.sqrt(2) * length)) + erf(y / (np.sqrt(2) * length)))
        edges = x * np.exp(-0.5 * (x / length) ** 2) + y * np.exp(-0.5 * (y / length) ** 2)
        dm[:, se] = m[:, se] - edges
    return m, dm


def _interval_mean(code: int, x: Array, lengthscale: float) -> Array:
    """m(x) of one variable, to the last bit that of ``_interval_means``, which also computes derivatives."""
    if code == SE:
        return _interval_means(np.array([code]), x[:, None], np.array([lengthscale]))[0][:, 0]
    rate = SQRT5 / lengthscale
    total: Array | float = 0.0
    for distance in (x, 1.0 - x):
        v = np.maximum(rate * distance, 0.0)
        total = total + (8.0 - np.exp(-v) * (8.0 + v * (5.0 + v))) / (3.0 * rate)
    return np.asarray(total)


def _matern_integral(distance: Array, lengthscales: Array) -> tuple[Array, Array]:
    """Integral of the Matérn-5/2 kernel from 0 to ``distance``, and its derivative in log l."""
    rate = SQRT5 / lengthscales
    v = np.maximum(rate * distance, 0.0)
    decay = np.exp(-v)
    integral = (8.0 - decay * (8.0 + v * (5.0 + v))) / (3.0 * rate)
    slope = (8.0 - decay * (8.0 + v * (8.0 + v * (4.0 + v)))) / (3.0 * rate)
    return integral, slope


def _value_means(code: int, x: Array, values: Array, lengthscale: float) -> tuple[Array, Array]:
    """m(x) = mean of k(x, u) over the values u, and its derivative in log l."""
    k = correlations(code, x, values, lengthscale)
    if code == CATEGORICAL:
        dk = np.where(x[:, None] == values, 0.0, k / lengthscale)
    elif code == SE:
        dk = ((x[:, None] - values) / lengthscale) ** 2 * k
    else:
        s = np.abs(x[:, None] - values) * (SQRT5 / lengthscale)
        dk = s * s * (1.0 + s) / 3.0 * np.exp(-s)
    return k.mean(axis=1), dk.mean(axis=1)
