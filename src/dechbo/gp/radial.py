"""One factor over all variables: a Gaussian process whose kernel is a function of a scaled distance.

Notation: r^2 = sum_i rho_i delta_i^2 with relevances rho_i = 1 / l_i^2; delta_i is the difference of two coordinates,
or 1 for two different categories; k = c + s g(r^2), with g(u) = exp(-u / 2) or Matérn-5/2, (1 + v + v^2 / 3) exp(-v),
v = sqrt(5 u).

c is the variance of an unknown constant, 1 for values of standard deviation 1. Without it the model returns, far from
the data, to the average of the values; where half of the evaluations crowd around one optimum, that average is far
above what any other place is worth.

Categories are embedded as one-hot vectors of length 1 / sqrt(2), so every distance, Gram matrix and gradient is a
matrix product over the columns of that embedding.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.linalg.lapack import dpotri

from dechbo.data.observations import Observations
from dechbo.gp.additive import (
    CONSTANT_VARIANCE,
    MIN_DEVIATION,
    cholesky,
    extended_cholesky,
    leave_one_out,
    log_density,
    solve_lower,
)

Array = NDArray[np.float64]
Ints = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class ColumnEmbedding:
    """Coordinates (n, d) as columns (n, p) between which distances are Euclidean."""

    categories: tuple[int, ...]  # (d,) the number of categories of each variable, 0 for a numeric one

    @property
    def dim(self) -> int:
        """The number of variables."""
        return len(self.categories)

    @cached_property
    def owner(self) -> Ints:
        """(p,) the variable of each column."""
        return np.repeat(np.arange(self.dim), np.maximum(1, self.categories))

    def __call__(self, points: Array) -> Array:
        """The columns of ``points`` (n, d)."""
        if not any(self.categories):
            return points
        parts = [
            (points[:, i, None] == np.arange(many)) * np.sqrt(0.5) if many else points[:, i, None]
            for i, many in enumerate(self.categories)
        ]
        return np.hstack(parts)


def shape(kernel: str, u: Array) -> tuple[Array, Array]:
    """g(u) and g'(u) for u = r^2 >= 0."""
    if kernel == "se":
        g = np.exp(-0.5 * u)
        return g, -0.5 * g
    v = np.sqrt(5.0 * u)
    decay = np.exp(-v)
    return (1.0 + v + v * v / 3.0) * decay, (-5.0 / 6.0) * (1.0 + v) * decay


@dataclass(frozen=True, eq=False)
class RadialGP:
    """A Gaussian process over all variables at once; immutable."""

    embedding: ColumnEmbedding
    relevances: Array  # (d,) rho
    variance: float
    noise: float
    kernel: str = "matern52"
    constant_variance: float = CONSTANT_VARIANCE

    @property
    def prior_variance(self) -> float:
        """Var f(x), the same everywhere."""
        return self.constant_variance + self.variance

    def columns(self, points: Array) -> Array:
        """The embedded points, scaled so that distances are r."""
        scaled: Array = self.embedding(points) * self.scales
        return scaled

    @cached_property
    def scales(self) -> Array:
        """(p,) the factor of each column, 1 / l."""
        return np.sqrt(self.relevances)[self.embedding.owner]

    def gram(self, X: Array) -> Array:
        """K at the points X, without noise."""
        columns = self.columns(X)
        K = self.covariances(_squared_distances(columns, columns))
        np.fill_diagonal(K, self.prior_variance)
        return K

    def covariances(self, u: Array) -> Array:
        """k at squared distances u = r^2."""
        return self.constant_variance + self.variance * shape(self.kernel, u)[0]

    def condition(self, data: Observations) -> RadialPosterior:
        """The posterior given ``data``."""
        L, jitter = cholesky(self.gram(data.X), self.noise + data.noise)
        z = solve_lower(L, data.y)
        alpha = solve_lower(L, z, transposed=True)
        return RadialPosterior(self, data.X, L, alpha, jitter)

    def log_evidence(self, data: Observations) -> float:
        """log p(y | X), the full sum."""
        L, _ = cholesky(self.gram(data.X), self.noise + data.noise)
        return log_density(L, solve_lower(L, data.y))

    def log_predictive(self, data: Observations) -> float:
        """sum_p log p(y_p | all other values)."""
        posterior = self.condition(data)
        return float(leave_one_out(posterior.L, posterior.alpha).sum())

    def log_evidence_gradient(self, data: Observations) -> tuple[float, Array]:
        """The evidence, and its gradient in (log relevances, log variance, log noise).

        With M = alpha alpha^T - (K + noise)^-1 and G = s M o g'(r^2), the slope in log rho_i is
        sum_pq G_pq rho_i delta_i^2 / 2 = rho_i (sum_p x_pi^2 G_p. - x_i^T G x_i): one matrix product for all variables.
        """
        owner = self.embedding.owner
        columns = self.columns(data.X)
        g, slope = shape(self.kernel, _squared_distances(columns, columns))
        np.fill_diagonal(g, 1.0)
        L, _ = cholesky(self.constant_variance + self.variance * g, self.noise + data.noise)
        z = solve_lower(L, data.y)
        alpha = solve_lower(L, z, transposed=True)
        inverse, _ = dpotri(L, lower=1)
        M = np.outer(alpha, alpha) - (inverse + np.tril(inverse, -1).T)
        G = self.variance * M * slope
        by_column = columns**2 * G.sum(axis=1)[:, None] - columns * (G @ columns)
        relevances = np.bincount(owner, by_column.sum(axis=0), minlength=self.embedding.dim)
        variance = 0.5 * self.variance * float((M * g).sum())
        return log_density(L, z), np.concatenate([relevances, [variance, 0.5 * np.trace(M) * self.noise]])


@dataclass(frozen=True, eq=False)
class RadialPosterior:
    """The posterior of a RadialGP, from ``RadialGP.condition``."""

    gp: RadialGP
    X: Array  # (n, d): observed points, then pending ones
    L: Array
    alpha: Array  # (n,), zero for pending points
    jitter: float

    @cached_property
    def _columns(self) -> Array:
        return self.gp.columns(self.X)

    def joint(self, points: ArrayLike) -> tuple[Array, Array]:
        """Mean and standard deviation at ``points`` (n, d)."""
        at = np.atleast_2d(np.asarray(points, dtype=np.float64))
        gp = self.gp
        k = gp.covariances(_squared_distances(gp.columns(at), self._columns))
        V = solve_lower(self.L, k.T)
        return k @ self.alpha, np.sqrt(np.maximum(gp.prior_variance - np.einsum("pn,pn->n", V, V), 0.0))

    def joint_gradient(self, points: Array) -> tuple[Array, Array, Array, Array]:
        """Mean and standard deviation at ``points`` (n, d), and their gradients (n, d), 0 for categories."""
        gp = self.gp
        here, there = gp.columns(points), self._columns
        g, slope = shape(gp.kernel, _squared_distances(here, there))
        k = gp.constant_variance + gp.variance * g
        V = solve_lower(self.L, k.T)
        deviation = np.sqrt(np.maximum(gp.prior_variance - np.einsum("pn,pn->n", V, V), 0.0))
        solved = solve_lower(self.L, V, transposed=True)  # K^-1 k
        mean_change = self._change(here, there, slope * self.alpha)
        variance_change = -2.0 * self._change(here, there, slope * solved.T)
        slope_change = 0.5 * variance_change / np.maximum(deviation, MIN_DEVIATION)[:, None]
        return k @ self.alpha, deviation, mean_change, slope_change

    def change(self, points: Array, weights: Array) -> Array:
        """sum_p weights_p d r^2(x, x_p) / dx_i times the variance at ``points`` (n, d); weights are (n, t)."""
        return self._change(self.gp.columns(points), self._columns, weights)

    def _change(self, here: Array, there: Array, weights: Array) -> Array:
        """sum_p weights_p d u(x, x_p) / dx_i times the variance, for numeric variables: (n, d)."""
        gp = self.gp
        columns: Array = 2.0 * gp.variance * (here * weights.sum(axis=1)[:, None] - weights @ there)
        columns *= gp.scales
        if not any(gp.embedding.categories):
            return columns
        numeric = np.array([many == 0 for many in gp.embedding.categories])
        answer = np.zeros((len(here), gp.embedding.dim))
        answer[:, numeric] = columns[:, numeric[gp.embedding.owner]]
        return answer

    def with_pending(self, points: Array) -> RadialPosterior:
        """Condition the deviations, but not the means, on ``points`` (m, d) too (GP-BUCB)."""
        if len(points) == 0:
            return self
        gp = self.gp
        cross = gp.covariances(_squared_distances(self._columns, gp.columns(points)))
        L, jitter = extended_cholesky(self.L, cross, gp.gram(points), gp.noise + self.jitter, gp.prior_variance)
        alpha = np.append(self.alpha, np.zeros(len(points)))
        return RadialPosterior(gp, np.vstack([self.X, points]), L, alpha, max(jitter, self.jitter))


def _squared_distances(a: Array, b: Array) -> Array:
    """|a_p - b_q|^2, at least 0: (len(a), len(b))."""
    squares: Array = (a * a).sum(axis=1)[:, None] + (b * b).sum(axis=1)[None] - 2.0 * (a @ b.T)
    return np.maximum(squares, 0.0)
