"""The evidence as the target of the chain.

Notation: K = K_0 + sum_{I in U} s_I K_I, where K_0 holds the constant, the singletons and the noise at fixed
hyperparameters, and K_I is the product of centred one-dimensional kernels. The state of the chain is (U, s, noise).
The variance of a new interaction is drawn around what the variance components found for it, or from its prior; the
Hastings ratio corrects for that. Given U and the noise, all variances move together, by proposals that are reversible
for the Laplace approximation of their posterior.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import solve_triangular
from scipy.linalg.blas import daxpy
from scipy.linalg.lapack import dpotrf, dpotri
from scipy.optimize import minimize

from dechbo.data.observations import Observations
from dechbo.errors import DataError
from dechbo.gp import AdditiveGP
from dechbo.gp.additive import cholesky, log_density, solve_lower
from dechbo.graph import Scope
from dechbo.structure.sampler import State

Array = NDArray[np.float64]

VARIANCE_MEDIAN, VARIANCE_SPREAD = 0.03, 1.5  # prior of log s_I: normal, for values of standard deviation 1
NOISE_MEDIAN, NOISE_SPREAD, MIN_NOISE = 1e-2, 3.0, 1e-6  # prior of the log noise, as in the fit
NOISE_FREE = 1e-8  # the noise variance of a chain on noise-free data
_DRAW_SPREAD = 0.7  # of a new log s_I around its typical value
_PROBES = 64  # random vectors for the Fisher information
_MOVES = (0.6, 1.0)  # how far a proposal goes: 1 forgets the current variances
_WALKS = (0.5, 2.0)  # standard deviations of a step of one logarithm; for the noise in units of its approximation
_WALK_SHARES = (0.3, 0.1)  # of the updates: steps of the noise, steps of one variance


@dataclass(frozen=True, eq=False)
class Covariance:
    """The payload of a state: K with its noise, and the variance of each interaction."""

    K: Array
    variances: Mapping[Scope, float]
    noise: float

    @cached_property
    def root(self) -> Array | None:
        """The Cholesky factor of K, with anything above its diagonal; None if K is not positive definite."""
        L, failed = dpotrf(self.K, lower=1, clean=0)
        return None if failed else L


@dataclass(frozen=True, eq=False)
class LaplaceApproximation:
    """N(mean, covariance) of the log variances of ``scopes``, and of the log noise if it is free."""

    scopes: tuple[Scope, ...]
    mean: Array
    covariance: Array
    typical: Mapping[Scope, float]
    _restricted: dict[tuple[Scope, ...], tuple[Array, Array]] = field(default_factory=dict)
    _given_noise: dict[tuple[Scope, ...], Array] = field(default_factory=dict)

    def restricted(self, scopes: tuple[Scope, ...]) -> tuple[Array, Array]:
        """The mean and a root of the covariance for other scopes: the marginal, and independent new ones."""
        if scopes not in self._restricted:
            at = {scope: k for k, scope in enumerate(self.scopes)}
            noise = [len(at)] if self._has_noise else []
            known = [k for k, scope in enumerate(scopes) if scope in at] + [len(scopes)] * len(noise)
            source = [at[scope] for scope in scopes if scope in at] + noise
            centres = [np.log(self.typical.get(scope, VARIANCE_MEDIAN)) for scope in scopes]
            mean = np.array([*centres, *([0.0] * len(noise))])
            covariance = np.diag(np.full(len(mean), VARIANCE_SPREAD**2 / 2))
            mean[known] = self.mean[source]
            covariance[np.ix_(known, known)] = self.covariance[np.ix_(source, source)]
            self._restricted[scopes] = mean, np.linalg.cholesky(covariance)
        return self._restricted[scopes]

    def given_noise(self, scopes: tuple[Scope, ...]) -> tuple[Array, Array]:
        """The mean of the log variances and a root of their covariance given the noise, at any noise.

        Where the data have next to none, the posterior of the log noise is a plateau that falls off on one side, and
        its normal approximation would spoil proposals that move it together with the variances.
        """
        mean, root = self.restricted(scopes)
        if scopes not in self._given_noise:
            precision = np.linalg.inv(root @ root.T)[: len(scopes), : len(scopes)]
            given = np.linalg.cholesky(np.linalg.inv(precision)) if scopes else precision
            self._given_noise[scopes] = np.asarray(given, dtype=np.float64)
        return mean[: len(scopes)], self._given_noise[scopes]

    @property
    def noise_deviation(self) -> float:
        """The standard deviation of the log noise."""
        return float(np.sqrt(self.covariance[-1, -1]))

    @property
    def _has_noise(self) -> bool:
        return len(self.mean) > len(self.scopes)


class EvidenceTarget:
    """log p(y | U, s) at the hyperparameters of ``reference``, a model of singletons.

    A proposal costs one product of one-dimensional Gram matrices per changed scope and one Cholesky factorisation.
    ``typical`` variances of scopes guide the draws for new ones. At most ``memory_limit`` bytes of Gram matrices are
    cached.
    """

    def __init__(
        self,
        reference: AdditiveGP,
        data: Observations,
        *,
        typical: Mapping[Scope, float] | None = None,
        free_noise: bool = True,
        memory_limit: int = 2**30,
    ) -> None:
        if reference.graph.max_factor_size != 1:
            raise DataError("the reference of a chain needs to be a model of singletons")
        self.reference = reference
        self.data = data
        self.typical = {} if typical is None else typical
        self.free_noise = free_noise
        self._max_cached = max(3, memory_limit // (8 * len(data) ** 2))
        self._cached: dict[Scope, Array] = {}
        K = np.asfortranarray(reference.gram(data.X))
        noise = reference.hyperparameters.noise + data.noise
        # usually 0; without noise, further factors must not make the matrix singular
        jitter = max(cholesky(K, noise)[1], NOISE_FREE - float(noise.min()))
        K[np.diag_indices_from(K)] += noise + jitter
        self._empty = Covariance(K, {}, reference.hyperparameters.noise)

    def propose(
        self, rng: np.random.Generator, current: State | None, added: tuple[Scope, ...], removed: tuple[Scope, ...]
    ) -> tuple[float, Any, float]:
        """log p(y | U', s'), with variances drawn for the added scopes, and the correction for these draws.

        The correction is log p(s') - log g(s') summed over the added scopes, minus the same over the removed ones.
        """
        before = self._empty if current is None else current.payload
        return self.propose_variances(before, {scope: self.draw(rng, scope) for scope in added}, removed)

    def propose_variances(
        self, before: Covariance, added: Mapping[Scope, float], removed: tuple[Scope, ...]
    ) -> tuple[float, Covariance, float]:
        """As ``propose``, with the variances of the added scopes given."""
        value, payload = self._changed(before, added, removed)
        correction = sum(self._log_importance(scope, s) for scope, s in added.items())
        correction -= sum(self._log_importance(scope, before.variances[scope]) for scope in removed)
        return value, payload, correction

    def evaluate(self, variances: Mapping[Scope, float], noise: float | None = None) -> tuple[float, Covariance]:
        """log p(y | U, s) for given variances, and a given noise if it is not the reference's."""
        before = self._empty
        if noise is not None and noise != before.noise:
            K = before.K.copy(order="F")
            K[np.diag_indices_from(K)] += noise - before.noise
            before = Covariance(K, {}, noise)
        return self._changed(before, dict(variances), ())

    def draw(self, rng: np.random.Generator, scope: Scope) -> float:
        """A variance from g: around the typical one three times in four, from the prior otherwise."""
        typical = self.typical.get(scope)
        if typical is None or rng.random() < 0.25:
            return float(VARIANCE_MEDIAN * np.exp(VARIANCE_SPREAD * rng.standard_normal()))
        return float(typical * np.exp(_DRAW_SPREAD * rng.standard_normal()))

    def _log_importance(self, scope: Scope, variance: float) -> float:
        """log p(s) - log g(s), both as densities of log s."""
        typical = self.typical.get(scope)
        if typical is None:
            return 0.0
        prior = _log_normal(variance, VARIANCE_MEDIAN, VARIANCE_SPREAD)
        around = _log_normal(variance, typical, _DRAW_SPREAD)
        return prior - float(np.logaddexp(np.log(0.75) + around, np.log(0.25) + prior))

    def update_variances(self, rng: np.random.Generator, state: State, laplace: LaplaceApproximation) -> State:
        """One step: of all log s_I, of the log noise, or of one log s_I.

        theta' = m + sqrt(1 - b^2) (theta - m) + b C^(1/2) xi is reversible for N(m, C), so the acceptance ratio is that
        of the posterior over N(m, C) at theta' and at theta. Random walks reach what N(m, C) hardly does.
        """
        scopes, before = state.index.scopes, state.payload
        theta = self._logarithms(scopes, before)
        if len(theta) == 0:
            return state
        proposal, log_reversal = theta.copy(), 0.0
        kind = rng.random()
        if self.free_noise and (kind < _WALK_SHARES[0] or not scopes):
            proposal[-1] += _WALKS[int(rng.random() * len(_WALKS))] * laplace.noise_deviation * rng.standard_normal()
        elif kind < sum(_WALK_SHARES):
            at = int(rng.random() * len(scopes))
            proposal[at] += _WALKS[int(rng.random() * len(_WALKS))] * rng.standard_normal()
        else:
            mean, root = laplace.given_noise(scopes)
            b = _MOVES[int(rng.random() * len(_MOVES))]
            z = solve_lower(root, theta[: len(scopes)] - mean)
            moved = np.sqrt(1 - b * b) * z + b * rng.standard_normal(len(z))
            proposal[: len(scopes)] = mean + root @ moved
            log_reversal = 0.5 * float(moved @ moved - z @ z)
        value, log_prior, payload = self._at(scopes, proposal, before)
        if not np.isfinite(value):
            return state
        log_ratio = value + log_prior - state.log_likelihood - self._log_prior(theta) + log_reversal
        if log_ratio >= 0 or rng.random() < np.exp(log_ratio):
            return State(state.index, state.log_prior, value, payload)
        return state

    def laplace(self, rng: np.random.Generator, peak: Covariance) -> LaplaceApproximation:
        """N(m, C) with the MAP m of ``peak`` and C^-1 = Fisher information + prior precision.

        The information of log s_I and log s_J is s_I s_J tr(K^-1 K_I K^-1 K_J) / 2, estimated with random vectors.
        """
        scopes = tuple(sorted(peak.variances))
        theta = self._logarithms(scopes, peak)
        L, _ = dpotrf(peak.K, lower=1, clean=1)
        U = solve_triangular(L, rng.choice([-1.0, 1.0], (len(L), _PROBES)), lower=True, trans=1, check_finite=False)
        images = [peak.variances[scope] * (self._product(scope) @ U) for scope in scopes]
        if self.free_noise:
            images.append(peak.noise * U)
        whitened = [solve_triangular(L, image, lower=True, check_finite=False).ravel() for image in images]
        flat = np.array(whitened).reshape(len(theta), L.shape[0] * _PROBES)
        precision = 0.5 * flat @ flat.T / _PROBES + np.diag(self._spreads(len(scopes)) ** -2.0)
        return LaplaceApproximation(scopes, theta, np.linalg.inv(precision), self.typical)

    def _logarithms(self, scopes: tuple[Scope, ...], payload: Covariance) -> Array:
        known = [payload.variances[scope] for scope in scopes]
        return np.asarray(np.log([*known, *([payload.noise] if self.free_noise else [])]))

    def _spreads(self, count: int) -> Array:
        return np.asarray(np.r_[np.full(count, VARIANCE_SPREAD), [NOISE_SPREAD] * self.free_noise])

    def _log_prior(self, theta: Array) -> float:
        """Of log variances and the log noise, without its constant."""
        off = self._off(theta)
        return -0.5 * float(off @ off)

    def _off(self, theta: Array) -> Array:
        count = len(theta) - self.free_noise
        centre = np.log(np.r_[np.full(count, VARIANCE_MEDIAN), [NOISE_MEDIAN] * self.free_noise])
        return np.asarray((theta - centre) / self._spreads(count))

    def _at(self, scopes: tuple[Scope, ...], theta: Array, before: Covariance) -> tuple[float, float, Covariance]:
        """log p(y | U, s, noise), log p(s, noise) and the payload; ``before`` has the same scopes, or none of them."""
        if np.abs(theta).max(initial=0.0) > 50:
            return -np.inf, -np.inf, before
        payload = self._covariance(scopes, theta, before)
        if self.free_noise and not MIN_NOISE <= payload.noise <= 1.0 + 1e-9:
            return -np.inf, -np.inf, before
        return self._value(payload), self._log_prior(theta), payload

    def _covariance(self, scopes: tuple[Scope, ...], theta: Array, before: Covariance) -> Covariance:
        sizes = np.exp(theta).tolist()
        noise = sizes[-1] if self.free_noise else before.noise
        variances = dict(zip(scopes, sizes, strict=False))
        K = before.K.copy(order="F")
        for scope, s in variances.items():
            _add(K, s - before.variances.get(scope, 0.0), self._product(scope))
        K[np.diag_indices_from(K)] += noise - before.noise
        return Covariance(K, variances, noise)

    def fit_variances(self, start: Mapping[Scope, float], noise: float, iterations: int) -> Covariance:
        """The MAP variances and noise for the interactions of ``start``."""
        scopes = tuple(sorted(start))
        before = self._empty
        theta = np.log(np.maximum([*(start[s] for s in scopes), *([noise] if self.free_noise else [])], 1e-8))
        if len(theta) == 0:
            return before
        bounds = [(np.log(1e-8), np.log(100.0))] * len(scopes) + [(np.log(MIN_NOISE), 0.0)] * self.free_noise

        def loss(theta: Array) -> tuple[float, Array]:
            density, slope, _ = self._density(scopes, theta, before)
            return (-density, -slope) if np.isfinite(density) else (1e10, np.zeros_like(theta))

        found = minimize(loss, theta, jac=True, method="L-BFGS-B", bounds=bounds, options={"maxiter": iterations})
        return self._covariance(scopes, found.x, before)

    def _density(self, scopes: tuple[Scope, ...], theta: Array, before: Covariance) -> tuple[float, Array, Covariance]:
        """log p(y, s, noise | U) as a density of the logarithms, its slope, and the payload."""
        payload = self._covariance(scopes, theta, before)
        L, failed = dpotrf(payload.K, lower=1, clean=0)
        if failed:
            return -np.inf, np.zeros_like(theta), before
        z = solve_triangular(L, self.data.y, lower=True, check_finite=False)
        alpha = solve_triangular(L, z, lower=True, trans=1, check_finite=False)
        value = log_density(L, z)
        inverse, _ = dpotri(L, lower=1, overwrite_c=1)
        M = np.asfortranarray(np.tril(np.outer(alpha, alpha) - inverse))
        M[np.diag_indices_from(M)] *= 0.5  # half of the sum over the symmetric matrix is the sum over this one
        flat = M.ravel(order="K")
        slopes = [float(flat @ self._product(scope).ravel(order="K")) for scope in scopes]
        if self.free_noise:
            slopes.append(float(np.trace(M)))
        slope = np.exp(theta) * np.array(slopes) - self._off(theta) / self._spreads(len(scopes))
        return value + self._log_prior(theta), slope, payload

    def _changed(
        self, before: Covariance, added: Mapping[Scope, float], removed: tuple[Scope, ...]
    ) -> tuple[float, Covariance]:
        K = before.K.copy(order="F")
        for scope, variance in (*added.items(), *((scope, -before.variances[scope]) for scope in removed)):
            _add(K, variance, self._product(scope))
        rest = {scope: variance for scope, variance in before.variances.items() if scope not in removed}
        payload = Covariance(K, {**rest, **added}, before.noise)
        return self._value(payload), payload

    def _value(self, payload: Covariance) -> float:
        L = payload.root
        return -np.inf if L is None else log_density(L, solve_lower(L, self.data.y))

    def _product(self, scope: Scope) -> Array:
        """K_I, cached; the least recently used one leaves first."""
        found = self._cached.pop(scope, None)
        if found is None:
            if len(scope) == 1:
                x = self.data.X[:, scope[0]]
                found = np.asfortranarray(self.reference.correlation.matrix(scope[0], x, x))
            else:
                found = self._product(scope[:1]) * self._product(scope[1:2])
                for i in scope[2:]:
                    found *= self._product((i,))
            while len(self._cached) >= self._max_cached:
                del self._cached[next(iter(self._cached))]
        self._cached[scope] = found
        return found


def _add(K: Array, factor: float, term: Array) -> None:
    """K += factor * term, without a temporary; both in Fortran order."""
    daxpy(term.ravel(order="K"), K.ravel(order="K"), a=factor)


def _log_normal(value: float, median: float, spread: float) -> float:
    """The density of log value, without the constant that all share."""
    return float(-0.5 * (np.log(value / median) / spread) ** 2 - np.log(spread))
