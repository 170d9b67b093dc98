"""The evidence as the target of the chain.

Notation: K = K_0 + sum_{I in U} s_I K_I, where K_0 holds the constant, the singletons and the noise at fixed
hyperparameters, and K_I is the product of centred one-dimensional kernels. The state of the chain is (U, s): a new
interaction draws its variance s_I from its prior, which therefore cancels in the Hastings ratio.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import solve_triangular
from scipy.linalg.lapack import dpotrf, dpotri
from scipy.optimize import minimize

from dechbo.data.observations import Observations
from dechbo.errors import DataError
from dechbo.gp import AdditiveGP
from dechbo.gp.additive import cholesky, log_density
from dechbo.gp.gram import contraction, gram
from dechbo.graph import FactorGraph, Scope
from dechbo.structure.sampler import State

Array = NDArray[np.float64]

VARIANCE_MEDIAN, VARIANCE_SPREAD = 0.03, 1.5  # prior of log s_I: normal, for values of standard deviation 1
NOISE_MEDIAN, NOISE_SPREAD, MIN_NOISE = 1e-2, 3.0, 1e-6  # prior of the log noise, as in the fit
NOISE_FREE = 1e-8  # the noise variance of a chain on noise-free data
_STEP_SIZE = 0.7  # standard deviation of the random walks on log s_I and on the log noise


@dataclass(frozen=True, eq=False)
class Covariance:
    """The payload of a state: K with its noise, and the variance of each interaction."""

    K: Array
    variances: Mapping[Scope, float]
    noise: float


class EvidenceTarget:
    """log p(y | U, s) at the hyperparameters of ``reference``, a model of singletons.

    A proposal costs one product of one-dimensional Gram matrices per changed scope and one Cholesky factorisation.
    At most ``memory_limit`` bytes of one-dimensional Gram matrices are cached.
    """

    def __init__(
        self, reference: AdditiveGP, data: Observations, rng: np.random.Generator, *, memory_limit: int = 2**29
    ) -> None:
        if reference.graph.max_factor_size != 1:
            raise DataError("the reference of a chain needs to be a model of singletons")
        self.reference = reference
        self.data = data
        self.rng = rng
        self._max_cached = max(3, memory_limit // (8 * len(data) ** 2))
        self._cached: dict[int, Array] = {}
        K = np.asfortranarray(reference.gram(data.X))
        noise = reference.hyperparameters.noise + data.noise
        # usually 0; without noise, further factors must not make the matrix singular
        jitter = max(cholesky(K, noise)[1], NOISE_FREE - float(noise.min()))
        K[np.diag_indices_from(K)] += noise + jitter
        self._empty = Covariance(K, {}, reference.hyperparameters.noise)

    def log_likelihood(
        self, current: State | None, added: tuple[Scope, ...], removed: tuple[Scope, ...]
    ) -> tuple[float, Any]:
        """log p(y | U', s'); the variances of added scopes are drawn from their prior."""
        before = self._empty if current is None else current.payload
        draws = {scope: self._draw() for scope in added}
        return self._changed(before, draws, removed)

    def evaluate(self, variances: Mapping[Scope, float]) -> tuple[float, Covariance]:
        """log p(y | U, s) for given variances."""
        return self._changed(self._empty, dict(variances), ())

    def update_variances(self, state: State, rng: np.random.Generator, *, noise: bool) -> State:
        """One random-walk Metropolis step on log s_I of every interaction, and on the log noise if ``noise``."""
        if noise:
            state = self._update_noise(state, rng)
        for scope in state.index.scopes:
            old = state.payload.variances[scope]
            new = old * float(np.exp(_STEP_SIZE * rng.standard_normal()))
            value, payload = self._changed(state.payload, {scope: new - old}, ())
            payload = Covariance(payload.K, {**state.payload.variances, scope: new}, payload.noise)
            log_ratio = value - state.log_likelihood + _log_prior(new) - _log_prior(old)
            if log_ratio >= 0 or rng.random() < np.exp(log_ratio):
                state = State(state.index, state.log_prior, value, payload)
        return state

    def _update_noise(self, state: State, rng: np.random.Generator) -> State:
        before = state.payload
        new = before.noise * float(np.exp(_STEP_SIZE * rng.standard_normal()))
        K = before.K.copy(order="F")
        K[np.diag_indices_from(K)] += new - before.noise
        value = self._value(K)
        log_ratio = value - state.log_likelihood + _log_noise_prior(new) - _log_noise_prior(before.noise)
        if MIN_NOISE <= new <= 1.0 and (log_ratio >= 0 or rng.random() < np.exp(log_ratio)):
            return State(state.index, state.log_prior, value, Covariance(K, before.variances, new))
        return state

    def _changed(
        self, before: Covariance, added: Mapping[Scope, float], removed: tuple[Scope, ...]
    ) -> tuple[float, Covariance]:
        K = before.K.copy(order="F")
        for scope, variance in (*added.items(), *((scope, -before.variances[scope]) for scope in removed)):
            K += variance * self._product(scope)
        rest = {scope: variance for scope, variance in before.variances.items() if scope not in removed}
        return self._value(K), Covariance(K, {**rest, **added}, before.noise)

    def _value(self, K: Array) -> float:
        L, info = dpotrf(K, lower=1, clean=0)
        if info != 0:
            return -np.inf
        z = solve_triangular(L, self.data.y, lower=True, check_finite=False)
        return log_density(L, z)

    def _product(self, scope: Scope) -> Array:
        product = self._single(scope[0])
        for i in scope[1:]:
            product = product * self._single(i)
        return product

    def _single(self, i: int) -> Array:
        found = self._cached.get(i)
        if found is None:
            x = self.data.X[:, i]
            found = np.asfortranarray(self.reference.correlation.matrix(i, x, x))
            while len(self._cached) >= self._max_cached:
                del self._cached[next(iter(self._cached))]
            self._cached[i] = found
        return found

    def _draw(self) -> float:
        return float(VARIANCE_MEDIAN * np.exp(VARIANCE_SPREAD * self.rng.standard_normal()))


def _log_prior(variance: float) -> float:
    return float(-0.5 * (np.log(variance / VARIANCE_MEDIAN) / VARIANCE_SPREAD) ** 2)


def _log_noise_prior(noise: float) -> float:
    return float(-0.5 * (np.log(noise / NOISE_MEDIAN) / NOISE_SPREAD) ** 2)


def fit_variances(
    singles: AdditiveGP, data: Observations, start: Mapping[Scope, float], *, free_noise: bool, iterations: int = 30
) -> tuple[dict[Scope, float], float]:
    """The MAP variances of the interactions in ``start``, and the noise if it is free; all else is fixed.

    Only kernels of variables in these interactions are evaluated, so the cost hardly depends on d.
    """
    scopes = tuple(sorted(start))
    seen = sorted({i for scope in scopes for i in scope})
    at = {i: k for k, i in enumerate(seen)}
    graph = FactorGraph.covering(len(seen), tuple(tuple(at[i] for i in scope) for scope in scopes))
    correlation = singles.correlation.subset(seen)
    pairs = correlation.pairs(data.X[:, seen])
    rest = singles.gram(data.X)
    level = singles.hyperparameters.noise
    centre = np.log(np.r_[np.full(len(scopes), VARIANCE_MEDIAN), NOISE_MEDIAN])
    spread = np.r_[np.full(len(scopes), VARIANCE_SPREAD), NOISE_SPREAD]

    def loss(theta: Array) -> tuple[float, Array]:
        sizes = np.exp(theta)
        noise = sizes[-1] if free_noise else level
        try:
            L, _ = cholesky(rest + gram(graph, pairs, sizes[:-1]), noise + data.noise)
        except DataError:  # not positive definite even with jitter: the line search steps back
            return 1e10, np.zeros_like(theta)
        z = solve_triangular(L, data.y, lower=True, check_finite=False)
        alpha = solve_triangular(L, z, lower=True, trans=1, check_finite=False)
        inverse, _ = dpotri(L, lower=1)
        M = np.outer(alpha, alpha) - (inverse + np.tril(inverse, -1).T)
        slopes = contraction(graph, pairs, sizes[:-1], M)[1]
        slopes = sizes * np.append(slopes, 0.5 * np.trace(M) if free_noise else 0.0)
        off = (theta - centre) / spread
        evidence = -0.5 * float(z @ z) - float(np.log(np.diagonal(L)).sum())
        return 0.5 * float(off @ off) - evidence, off / spread - slopes

    theta = np.log(np.r_[[start[scope] for scope in scopes], min(max(level, MIN_NOISE), 1.0)])
    bounds = [(np.log(1e-8), np.log(100.0))] * len(scopes) + [(np.log(MIN_NOISE), 0.0)]
    found = minimize(loss, theta, jac=True, method="L-BFGS-B", bounds=bounds, options={"maxiter": iterations})
    sizes = np.exp(found.x)
    return dict(zip(scopes, sizes[:-1].tolist(), strict=True)), float(sizes[-1]) if free_noise else level
