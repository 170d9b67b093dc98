"""All one-dimensional kernels of a model, plain or centred. Tested by tests/gp/test_centring.py."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from dechbo.compiled import compiled
from dechbo.gp.centring import Centring, Domain
from dechbo.gp.kernels import CATEGORICAL, MATERN52, SE, SQRT5, correlation_rows, correlations

Array = NDArray[np.float64]
Ints = NDArray[np.int64]

_MAX_EXPONENT = 600.0  # products of exp(z) stay within doubles; above, the exponential is computed per pair


class Pairs(NamedTuple):
    """Observations in the form from which the compiled loops compute k_i and dk_i/dlog l_i of any pair.

    Modes: 0 Matérn by products, 1 Matérn by exponentials, 2 squared exponential, 3 categorical.
    """

    z: Array  # (n, d) scaled coordinates a (x - centre)
    u: Array  # exp(z)
    w: Array  # exp(-z)
    mean: Array  # (n, d) a_i(x); not read for plain kernels
    mean_slope: Array  # its derivative in log l_i
    modes: Ints  # (d,)
    shared: Array  # (d,) the correlation of unequal categories
    inverse: Array  # (d,) 1 / nu
    log_slope: Array  # (d,) d log nu / d log l
    centred: bool


class Correlation:
    """k_i of every variable, centred over ``domains`` if they are given."""

    def __init__(self, codes: Ints, lengthscales: Array, domains: Sequence[Domain] | None = None) -> None:
        self.codes = codes
        self.lengthscales = lengthscales
        self.domains = domains

    @cached_property
    def centring(self) -> Centring | None:
        """The means over the domains; None for plain kernels."""
        return None if self.domains is None else Centring.of(self.codes, self.lengthscales, self.domains)

    def subset(self, chosen: Sequence[int]) -> Correlation:
        """The kernels of the ``chosen`` variables only, the same numbers to the last bit."""
        at = np.asarray(chosen)
        domains = None if self.domains is None else [self.domains[i] for i in chosen]
        small = Correlation(self.codes[at], self.lengthscales[at], domains)
        if self.centring is not None:
            small.centring = self.centring.subset(at)
        return small

    def matrix(self, i: int, a: Array, b: Array, means: Array | None = None) -> Array:
        """k_i(a_p, b_q): (len(a), len(b)); ``means`` are those of a, if known."""
        k = correlations(self.codes[i], a, b, self.lengthscales[i])
        if self.centring is None:
            return k
        at_a = self.centring.mean(i, a) if means is None else means
        k -= np.outer(at_a, at_a if b is a else self.centring.mean(i, b))
        k *= self.centring.inverse[i]
        return k

    def diagonal(self, i: int, a: Array) -> Array:
        """k_i(a_p, a_p)."""
        if self.centring is None:
            return np.ones(len(a))
        answer: Array = (1.0 - self.centring.mean(i, a) ** 2) * self.centring.inverse[i]
        return answer

    def diagonals(self, X: Array) -> Array:
        """k_i(x_i, x_i) of all variables at points X: (n, d)."""
        if self.centring is None:
            return np.ones(X.shape)
        answer: Array = (1.0 - self.centring.means(X)[0] ** 2) * self.centring.inverse
        return answer

    def rows(self, point: Array, X: Array, means: Array | None = None) -> tuple[Array, Array]:
        """k_i(x_i, X_pi) and its derivative in x_i: two (d, n) arrays; ``means`` are those of X, if known."""
        values, slopes = correlation_rows(self.codes, point, X, self.lengthscales)
        if self.centring is not None:
            observed = self.means(X) if means is None else means
            here, change = self.means(point[None])[:, :1], self.centring.mean_slopes(point)[:, None]
            values = (values - here * observed) * self.centring.inverse[:, None]
            slopes = (slopes - change * observed) * self.centring.inverse[:, None]
            slopes[self.codes == CATEGORICAL] = 0.0
        return values, slopes

    def point_rows(self, points: Array, X: Array, means: Array) -> tuple[Array, Array, Array, Array]:
        """``rows`` of several points (n, d), with the ``means`` of X, and the diagonals there with their derivatives.

        Two (n, d, len(X)) arrays and two (n, d) arrays.
        """
        if self.centring is None:
            nothing = np.zeros((0, 0))
            values, slopes = _point_rows(
                self.codes, points, X, self.lengthscales, False, nothing, nothing, means, np.zeros(0)
            )
            return values, slopes, np.ones(points.shape), np.zeros(points.shape)
        here, change = self.centring.means(points)[0], self.centring.mean_slopes(points)
        inverse = self.centring.inverse
        values, slopes = _point_rows(self.codes, points, X, self.lengthscales, True, here, change, means, inverse)
        return values, slopes, (1.0 - here**2) * inverse, -2.0 * here * change * inverse

    def means(self, X: Array) -> Array:
        """The means a_i(X_pi) of centred kernels, (d, n); zeros for plain ones."""
        return np.zeros(X.T.shape) if self.centring is None else self.centring.means(X)[0].T

    def diagonal_slopes(self, points: Array) -> tuple[Array, Array]:
        """k_i(x_i, x_i) and its derivative in x_i at ``points`` (…, d): two arrays of the same shape."""
        if self.centring is None:
            return np.ones(points.shape), np.zeros(points.shape)
        here = self.centring.means(np.atleast_2d(points))[0].reshape(points.shape)
        inverse = self.centring.inverse
        return (1.0 - here**2) * inverse, -2.0 * here * self.centring.mean_slopes(points) * inverse

    def pairs(self, X: Array) -> Pairs:
        """The observations X (n, d) for the compiled loops."""
        codes, lengthscales = self.codes, self.lengthscales
        centre = 0.5 * (X.max(axis=0) + X.min(axis=0))
        scale = np.where(codes == CATEGORICAL, 1.0, np.where(codes == MATERN52, SQRT5, 1.0) / lengthscales)
        z = np.ascontiguousarray((X - centre) * scale)
        fits = np.abs(z).max(axis=0) <= _MAX_EXPONENT
        modes = np.where(codes == MATERN52, np.where(fits, 0, 1), codes + 1).astype(np.int64)
        safe = np.where(modes == 0, z, 0.0)
        if self.centring is None:
            mean = slope = z  # not read
            inverse = log_slope = lengthscales
        else:
            mean, slope = (np.ascontiguousarray(part) for part in self.centring.means(X))
            inverse, log_slope = self.centring.inverse, self.centring.log_slope
        shared = np.exp(-1.0 / lengthscales)
        return Pairs(
            z, np.exp(safe), np.exp(-safe), mean, slope, modes, shared, inverse, log_slope, self.centring is not None
        )


@compiled
def _point_rows(
    codes: Ints,
    points: Array,
    X: Array,
    lengthscales: Array,
    centred: bool,
    here: Array,
    change: Array,
    means: Array,
    inverse: Array,
) -> tuple[Array, Array]:
    n, d = points.shape
    t = X.shape[0]
    values, slopes = np.empty((n, d, t)), np.empty((n, d, t))
    for m in range(n):
        for i in range(d):
            x = points[m, i]
            if codes[i] == MATERN52:
                rate = SQRT5 / lengthscales[i]
                for p in range(t):
                    delta = x - X[p, i]
                    s = abs(delta) * rate
                    decay = np.exp(-s)
                    values[m, i, p] = (1.0 + s + s * s * (1.0 / 3.0)) * decay
                    slopes[m, i, p] = -rate * rate * delta * (1.0 + s) * decay * (1.0 / 3.0)
            elif codes[i] == SE:
                rate = 1.0 / lengthscales[i]
                for p in range(t):
                    delta = (x - X[p, i]) * rate
                    values[m, i, p] = np.exp(-0.5 * delta * delta)
                    slopes[m, i, p] = -delta * rate * values[m, i, p]
            else:
                shared = np.exp(-1.0 / lengthscales[i])
                for p in range(t):
                    values[m, i, p] = 1.0 if x == X[p, i] else shared
                    slopes[m, i, p] = 0.0
            if centred:
                for p in range(t):
                    values[m, i, p] = (values[m, i, p] - here[m, i] * means[i, p]) * inverse[i]
                    slopes[m, i, p] = (slopes[m, i, p] - change[m, i] * means[i, p]) * inverse[i]
                if codes[i] != MATERN52 and codes[i] != SE:
                    slopes[m, i, :] = 0.0
    return values, slopes
