"""The additive Gaussian process: f = sum_I f_I, each f_I an independent GP (Assumptions 1 and 2).

Notation: K = sum_I K_I, the Gram matrix; L L^T = K + noise; alpha = (K + noise)^-1 y; z = L^T alpha;
k_I(x) = (cov(f_I(x), f(x_p)))_p. Equation (1):  mu_I = k_I^T alpha,  sigma_I^2 = s_I - |L^-1 k_I|^2.

Tested by tests/gp/test_posterior.py and tests/gp/test_evidence.py.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.linalg import solve_triangular
from scipy.linalg.lapack import dpotrf, dpotri, dtrtrs

from dechbo.data.observations import Observations
from dechbo.errors import DataError
from dechbo.gp.centring import Domain
from dechbo.gp.correlation import Correlation
from dechbo.gp.gram import contraction, cross_gram, factor_sum_slopes, factor_sums, gram
from dechbo.gp.kernels import KERNELS, kernel_codes
from dechbo.graph import FactorGraph

Array = NDArray[np.float64]

CONSTANT_VARIANCE = 1.0  # prior variance of the constant that goes with centred factors, for standardised values
MIN_BATCH = 16  # points from which joint predictions are computed variable by variable
MIN_DEVIATION = 1e-9  # below this, the gradient of a deviation is not followed
_JITTERS = (0.0, 1e-12, 1e-10, 1e-8, 1e-6, 1e-4, 1e-2)


@dataclass(frozen=True, eq=False, init=False)
class Hyperparameters:
    """One lengthscale per variable (shared by all factors that see it), one variance per factor, the noise variance."""

    lengthscales: Array
    variances: Array
    noise: float

    def __init__(self, lengthscales: ArrayLike, variances: ArrayLike, noise: float) -> None:
        lengths, factors = np.array(lengthscales, dtype=np.float64), np.array(variances, dtype=np.float64)
        if lengths.ndim != 1 or factors.ndim != 1:
            raise DataError(
                f"expected one lengthscale per variable and one variance per factor, "
                f"got shapes {lengths.shape} and {factors.shape}"
            )
        if not ((lengths > 0).all() and np.isfinite(lengths).all()):
            raise DataError(f"lengthscales need to be positive and finite, got {lengths}")
        if not ((factors >= 0).all() and np.isfinite(factors).all()):
            raise DataError(f"variances need to be at least 0 and finite, got {factors}")
        if not (np.isfinite(noise) and noise >= 0):
            raise DataError(f"noise is a variance, at least 0, got {noise}")
        object.__setattr__(self, "lengthscales", lengths)
        object.__setattr__(self, "variances", factors)
        object.__setattr__(self, "noise", float(noise))


class AdditiveGP:
    """A factor graph with its hyperparameters; immutable.

    ``kernel`` is one name for all variables, or one name for each ("matern52", "se", "categorical"). ``domains`` are
    one per variable: None for the unit interval, or the values of a discrete variable. If they are given, the kernels
    are centred over them and a constant of variance 1 is added. Each factor then averages to zero, and factors with
    different scopes are orthogonal.
    """

    def __init__(
        self,
        graph: FactorGraph,
        hyperparameters: Hyperparameters,
        *,
        kernel: str | Sequence[str] = "matern52",
        domains: Sequence[Domain] | None = None,
    ) -> None:
        if len(hyperparameters.lengthscales) != graph.dim or len(hyperparameters.variances) != len(graph.scopes):
            raise DataError(
                f"the graph has {graph.dim} variables and {len(graph.scopes)} factors, got "
                f"{len(hyperparameters.lengthscales)} lengthscales and {len(hyperparameters.variances)} variances"
            )
        self.graph = graph
        self.hyperparameters = hyperparameters
        self.codes = kernel_codes(kernel, graph.dim)
        if domains is not None and len(domains) != graph.dim:
            raise DataError(f"centred kernels need one domain for each of {graph.dim} variables, got {len(domains)}")
        self.domains = domains
        self.correlation = Correlation(self.codes, hyperparameters.lengthscales, domains)
        self.constant_variance = 0.0 if domains is None else CONSTANT_VARIANCE
        self._latest: tuple[Observations, AdditivePosterior] | None = None

    def restricted(self, factors: Sequence[int], variables: Sequence[int]) -> AdditiveGP:
        """The model of some of the ``factors``, over the ``variables`` that they see; its kernels are the same bits."""
        number = {i: n for n, i in enumerate(variables)}
        scopes = tuple(tuple(number[i] for i in self.graph.scopes[k]) for k in factors)
        theta, chosen, kernels = self.hyperparameters, list(variables), self.kernels
        small = AdditiveGP(
            FactorGraph(len(chosen), scopes),
            Hyperparameters(theta.lengthscales[chosen], theta.variances[list(factors)], theta.noise),
            kernel=[kernels[i] for i in chosen],
            domains=None if self.domains is None else [self.domains[i] for i in chosen],
        )
        small.correlation = self.correlation.subset(chosen)
        return small

    @property
    def kernels(self) -> tuple[str, ...]:
        """The kernel of each variable."""
        return tuple(KERNELS[code] for code in self.codes)

    def gram(self, X: Array) -> Array:
        """K = sum_I K_I at the points X, without noise."""
        return gram(self.graph, self.correlation.pairs(X), self.hyperparameters.variances) + self.constant_variance

    def condition(self, data: Observations) -> AdditivePosterior:
        """The posterior given ``data``: one Cholesky factorisation, cached for the same ``data`` object."""
        if self._latest is not None and self._latest[0] is data:
            return self._latest[1]
        self.check(data)
        L, jitter = cholesky(self.gram(data.X), self.hyperparameters.noise + data.noise)
        z = solve_triangular(L, data.y, lower=True, check_finite=False)
        alpha = solve_triangular(L, z, lower=True, trans=1, check_finite=False)
        posterior = AdditivePosterior(self, data.X, L, alpha, jitter)
        self._latest = (data, posterior)
        return posterior

    def log_evidence(self, data: Observations) -> float:
        """log p(y | X) = -|L^-1 y|^2 / 2 - sum log L_pp - n/2 log 2 pi: the full sum, never divided by n."""
        self.check(data)
        L, _ = cholesky(self.gram(data.X), self.hyperparameters.noise + data.noise)
        return log_density(L, solve_triangular(L, data.y, lower=True, check_finite=False))

    def log_predictive(self, data: Observations) -> float:
        """sum_p log p(y_p | all other values)."""
        posterior = self.condition(data)
        return float(leave_one_out(posterior.L, posterior.alpha).sum())

    def log_evidence_gradient(self, data: Observations) -> tuple[float, Array]:
        """The evidence, and its gradient in (log lengthscales, log variances, log noise).

        d/dtheta = sum M o dK/dtheta / 2,  M = alpha alpha^T - (K + noise)^-1.
        """
        self.check(data)
        theta = self.hyperparameters
        pairs = self.correlation.pairs(data.X)
        L, _ = cholesky(gram(self.graph, pairs, theta.variances) + self.constant_variance, theta.noise + data.noise)
        z = solve_triangular(L, data.y, lower=True, check_finite=False)
        alpha = solve_triangular(L, z, lower=True, trans=1, check_finite=False)
        inverse, _ = dpotri(L, lower=1)
        M = np.outer(alpha, alpha) - inverse.T  # right on and above the diagonal, which is all that is read
        lengths, variances = contraction(self.graph, pairs, theta.variances, M)
        noise = 0.5 * np.trace(M) * theta.noise
        return log_density(L, z), np.concatenate([lengths, variances * theta.variances, [noise]])

    def prior_variances(self, index: int, points: Array) -> Array:
        """Var f_I at points (n, len(scope)): s_I prod_i k_i(x_i, x_i)."""
        variance = np.full(len(points), self.hyperparameters.variances[index])
        if self.domains is not None:
            for axis, i in enumerate(self.graph.scopes[index]):
                variance *= self.correlation.diagonal(i, points[:, axis])
        return variance

    def joint_prior_variances(self, points: Array) -> Array:
        """Var f at points (n, d)."""
        variances = self.hyperparameters.variances
        if self.domains is None:
            return np.full(len(points), variances.sum())
        diagonals = self.correlation.diagonals(points)
        total = np.full(len(points), self.constant_variance)
        for factors, scopes in self.graph.by_size:
            total += diagonals[:, scopes].prod(axis=2) @ variances[factors]
        return total

    def joint_prior_slopes(self, diagonals: Array, slopes: Array) -> tuple[Array, Array]:
        """Var f and its gradient, (n,) and (n, d), from k_i(x_i, x_i) and its derivatives, both (n, d)."""
        variances = self.hyperparameters.variances
        if self.domains is None:
            return np.full(len(diagonals), variances.sum()), np.zeros(diagonals.shape)
        values, changes = diagonals[:, :, None], slopes[:, :, None]
        total = factor_sums(self.graph, values, variances)[:, 0] + self.constant_variance
        one = np.ones((len(diagonals), 1, 1))
        return total, factor_sum_slopes(self.graph, values, changes, variances, one)[:, 0]

    def check(self, data: Observations) -> None:
        """Raise DataError if the model cannot be conditioned on ``data``."""
        if data.dim != self.graph.dim:
            raise DataError(f"the model has {self.graph.dim} variables, the observations have {data.dim}")
        if len(data) == 0:
            raise DataError("the model needs at least one observation")


@dataclass(frozen=True, eq=False)
class AdditivePosterior:
    """The posterior of all factors, from ``AdditiveGP.condition``.

    ``jitter`` is what had to be added to the diagonal to factorise K (usually 0).
    """

    gp: AdditiveGP
    X: Array  # (n, d): observed points, then pending ones
    L: Array  # (n, n)
    alpha: Array  # (n,), zero for pending points
    jitter: float
    pending: int = 0  # the number of pending points

    def factor(self, index: int, points: ArrayLike) -> tuple[Array, Array]:
        """Mean and standard deviation of f_I at ``points`` (n, len(scope)): equation (1)."""
        scope = self.gp.graph.scopes[index]
        at = np.atleast_2d(np.asarray(points, dtype=np.float64))
        if at.ndim != 2 or at.shape[1] != len(scope):
            raise DataError(f"scope {scope} needs points of shape (n, {len(scope)}), got {at.shape}")
        theta = self.gp.hyperparameters
        covariance = np.full((len(self.X), len(at)), theta.variances[index])
        for axis, i in enumerate(scope):
            covariance *= self.gp.correlation.matrix(i, self.X[:, i], at[:, axis])
        return self._moments(covariance, self.gp.prior_variances(index, at))

    def joint(self, points: ArrayLike) -> tuple[Array, Array]:
        """Mean and standard deviation of f = sum_I f_I at ``points`` (n, d)."""
        at = np.atleast_2d(np.asarray(points, dtype=np.float64))
        if at.ndim != 2 or at.shape[1] != self.gp.graph.dim:
            raise DataError(f"expected points of shape (n, {self.gp.graph.dim}), got {at.shape}")
        return self._moments(self._joint_covariances(at), self.gp.joint_prior_variances(at))

    def covariances(self, point: Array) -> tuple[Array, Array, Array]:
        """k_I(x) of all factors (|U|, n), and k_i(x_i) of all variables with its derivative in x_i (d, n)."""
        gp = self.gp
        theta = gp.hyperparameters
        values, slopes = gp.correlation.rows(point, self.X, self._observed_means)
        rows = np.empty((len(gp.graph.scopes), len(self.X)))
        for factors, scopes in gp.graph.by_size:
            product = theta.variances[factors][:, None] * values[scopes[:, 0]]
            for axis in range(1, scopes.shape[1]):
                product *= values[scopes[:, axis]]
            rows[factors] = product
        return rows, values, slopes

    @cached_property
    def _observed_means(self) -> Array:
        """The means of the centred kernels at X, (d, n)."""
        return self.gp.correlation.means(self.X)

    def joint_gradient(self, points: Array) -> tuple[Array, Array, Array, Array]:
        """Mean and standard deviation of f at ``points`` (n, d), and their gradients (n, d), 0 for categories."""
        gp, graph, variances = self.gp, self.gp.graph, self.gp.hyperparameters.variances
        values, slopes, diagonal, diagonal_slopes = gp.correlation.point_rows(points, self.X, self._observed_means)
        k = factor_sums(graph, values, variances) + gp.constant_variance
        V = solve_lower(self.L, k.T)
        prior, prior_slopes = gp.joint_prior_slopes(diagonal, diagonal_slopes)
        deviations = np.sqrt(np.maximum(prior - np.einsum("pn,pn->n", V, V), 0.0))
        solved = solve_lower(self.L, V, transposed=True)  # (K + noise)^-1 k
        weights = np.stack([np.broadcast_to(self.alpha, k.shape), solved.T], axis=1)
        changes = factor_sum_slopes(graph, values, slopes, variances, weights)
        half = 0.5 * prior_slopes - changes[:, 1]
        return k @ self.alpha, deviations, changes[:, 0], half / np.maximum(deviations, MIN_DEVIATION)[:, None]

    def with_pending(self, points: Array) -> AdditivePosterior:
        """Condition the deviations, but not the means, on ``points`` (m, d) too (GP-BUCB)."""
        if len(points) == 0:
            return self
        # next to an equal point only rounding error of the prior variance is left, which therefore sets the scale
        scale = float(self.gp.joint_prior_variances(points).max())
        noise = self.gp.hyperparameters.noise + self.jitter
        L, jitter = extended_cholesky(self.L, self._joint_covariances(points), self.gp.gram(points), noise, scale)
        alpha = np.append(self.alpha, np.zeros(len(points)))
        return AdditivePosterior(
            self.gp, np.vstack([self.X, points]), L, alpha, max(jitter, self.jitter), self.pending + len(points)
        )

    def _joint_covariances(self, points: Array) -> Array:
        rows = np.empty((len(points), len(self.X)))
        if len(points) < MIN_BATCH:
            for row, point in zip(rows, points, strict=True):
                row[:] = self.covariances(point)[0].sum(axis=0) + self.gp.constant_variance
            return rows.T
        gp = self.gp
        both = gp.correlation.pairs(np.vstack([self.X, points]))
        cross = cross_gram(gp.graph, both, gp.hyperparameters.variances, len(self.X))
        return cross + gp.constant_variance

    def _moments(self, covariance: Array, prior: Array) -> tuple[Array, Array]:
        mean = covariance.T @ self.alpha
        V = solve_triangular(self.L, covariance, lower=True, check_finite=False)
        return mean, np.sqrt(np.maximum(prior - np.einsum("pn,pn->n", V, V), 0.0))


def cholesky(K: Array, noise: Array, *, scale: float | None = None, solved: int = 0) -> tuple[Array, float]:
    """L with L L^T = K + diag(noise + jitter), and the smallest jitter of a short list that makes it possible.

    K may be a Schur complement after ``solved`` earlier rows; ``scale`` is then the size of the original diagonal.
    """
    scale = max(float(np.mean(np.diagonal(K))) if scale is None else scale, np.finfo(float).tiny)
    # four times the rounding error of a squared pivot (Higham 2002, Theorem 10.3)
    rounding = 4 * (solved + len(K) + 1) * np.finfo(float).eps * scale
    for step in _JITTERS:
        A = np.array(K, order="F")
        A[np.diag_indices_from(A)] += noise + step * scale
        L, info = dpotrf(A, lower=1, overwrite_a=1, clean=1)
        # a pivot at the level of rounding error means that the matrix is singular
        if info == 0 and np.diagonal(L).min() ** 2 > rounding:
            return L, step * scale
    raise DataError("the covariance matrix could not be factorised: are the hyperparameters finite?")


def extended_cholesky(L: Array, cross: Array, corner: Array, noise: float, scale: float) -> tuple[Array, float]:
    """The factor of [[L L^T, cross], [cross^T, corner + noise]], and the jitter added to its corner.

    ``scale`` is the size of the prior variances.
    """
    n, m = cross.shape
    C = solve_lower(L, cross)
    end, jitter = cholesky(corner - C.T @ C, np.full(m, noise), scale=scale, solved=n)
    longer = np.zeros((n + m, n + m), order="F")
    longer[:n, :n], longer[n:, :n], longer[n:, n:] = L, C.T, end
    return longer, jitter


def solve_lower(L: Array, b: Array, *, transposed: bool = False) -> Array:
    """L^-1 b, or L^-T b, without the checks of SciPy's front end, which cost more than small solves."""
    solved, info = dtrtrs(L, b, lower=1, trans=int(transposed))
    if info != 0:
        raise DataError("the covariance matrix is singular")
    answer: Array = solved
    return answer


def leave_one_out(L: Array, alpha: Array) -> Array:
    """log p(y_p | all other values) of every value, (n,): normal, of mean y_p - alpha_p / c_p and variance 1 / c_p.

    c is the diagonal of (L L^T)^-1 (Rasmussen and Williams 2006, Section 5.4.2).
    """
    inverse, _ = dpotri(L, lower=1)
    c = np.diagonal(inverse)
    densities: Array = 0.5 * (np.log(c) - alpha**2 / c - np.log(2 * np.pi))
    return densities


def one_by_one(L: Array, z: Array) -> Array:
    """log p(y_p | the values before it) of every value, (n,), with z = L^-1 y: they add up to ``log_density``."""
    densities: Array = -0.5 * z * z - np.log(np.diagonal(L)) - 0.5 * np.log(2 * np.pi)
    return densities


def log_density(L: Array, z: Array) -> float:
    """log N(y; 0, L L^T) with z = L^-1 y."""
    return float(-0.5 * z @ z - np.log(np.diagonal(L)).sum() - 0.5 * len(z) * np.log(2 * np.pi))
