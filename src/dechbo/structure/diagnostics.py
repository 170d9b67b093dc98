"""Convergence of the chains: split R-hat, effective sample size, and pair inclusion probabilities.

Notation (Gelman et al., Bayesian Data Analysis, 3rd ed., §11.4–11.5): each chain is split into two halves, which gives
M sequences of N draws; W is the mean of their variances, B/N the variance of their means,

    var⁺ = (N − 1)/N · W + B/N,   R-hat = sqrt(var⁺ / W),
    rho_t = 1 − (W − mean of the autocovariances at lag t) / var⁺,   ESS = M N / (−1 + 2 Σ_k P_k),

where P_k = rho_{2k} + rho_{2k+1}, summed while positive and made non-increasing (Geyer's initial monotone sequence).
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dechbo.errors import DataError
from dechbo.graph import Scope
from dechbo.structure.sampler import Trace
from dechbo.structure.scopes import ScopeSet

Array = NDArray[np.float64]

MAX_RHAT = 1.1  # above it, chains do not agree
MIN_PROBABILITY = 0.05  # pairs less likely than that, or less unlikely, need not have converged
MAX_SHORTFALL = 3.0  # nats by which the best graph of a chain may be worse than its start


@dataclass(frozen=True, eq=False)
class Convergence:
    """R-hat and effective sample size of the log posterior and of every pair that is in some samples but not in all.

    ``converged`` looks at the log posterior and at pairs with a probability from MIN_PROBABILITY to one minus it. Of
    thousands of pairs some are in a few samples in a row of one chain: that is an R-hat above 1.1, and a probability
    below 0.05 whatever the chain does. ``worst_rhat`` is over all pairs.

    ``shortfall`` is by how many nats the best chain's graph is worse than the start; below 0 it is better.
    """

    rhat: float  # of the log posterior; NaN if it never changed: a chain that never moved proves nothing
    ess: float
    pairs: tuple[Scope, ...]
    pair_rhat: Array  # (len(pairs),)
    pair_ess: Array  # (len(pairs),)
    pair_probabilities: Array  # (len(pairs),), over all chains
    shortfall: float = 0.0

    @property
    def rhat_ok(self) -> bool:
        """Whether no R-hat is above MAX_RHAT: of the log posterior, and of pairs not nearly always or never there."""
        doubtful = np.abs(self.pair_probabilities - 0.5) <= 0.5 - MIN_PROBABILITY
        return not (self.rhat > MAX_RHAT or (self.pair_rhat[doubtful] > MAX_RHAT).any())

    @property
    def converged(self) -> bool:
        """Whether the chains agree, and with a graph that is not worse than their start."""
        return self.rhat_ok and self.shortfall <= MAX_SHORTFALL

    @property
    def worst_rhat(self) -> float:
        """The largest R-hat; NaN if nothing ever changed."""
        return max([*self.pair_rhat.tolist(), *([] if math.isnan(self.rhat) else [self.rhat])], default=math.nan)


def diagnose(traces: Sequence[Trace], *, shortfall: float = 0.0) -> Convergence:
    """Compare chains of the same length with the same target."""
    lengths = {len(trace.samples) for trace in traces}
    if len(lengths) != 1:
        raise DataError(f"chains to compare need the same number of samples, got {sorted(lengths)}")
    log_posteriors = np.array([trace.log_posteriors for trace in traces])
    pairs, indicators = pair_indicators([trace.samples for trace in traces])
    return Convergence(
        float(split_rhat(log_posteriors)),
        float(effective_sample_size(log_posteriors)),
        pairs,
        split_rhat(indicators),
        effective_sample_size(indicators),
        indicators.mean(axis=(0, 1)),
        shortfall,
    )


def split_rhat(chains: ArrayLike) -> Array:
    """sqrt(var⁺ / W) of draws of shape (chains, draws, ...); NaN for a constant, inf for different constants."""
    halves = _halves(chains)
    within, pooled = _variances(halves)
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.asarray(np.sqrt(pooled / within))


def effective_sample_size(chains: ArrayLike) -> Array:
    """M N / tau of draws of shape (chains, draws, ...), tau at least 1 / log10(M N); NaN for a constant."""
    halves = _halves(chains)
    m, n = halves.shape[:2]
    within, pooled = _variances(halves)
    with np.errstate(divide="ignore", invalid="ignore"):
        rho = 1 - (within - _autocovariances(halves).mean(axis=0)) / pooled  # (draws, ...)
    rho[0] = np.where(pooled > 0, 1.0, np.nan)
    sums = rho[: n - n % 2].reshape(n // 2, 2, *rho.shape[1:]).sum(axis=1)
    positive = np.logical_and.accumulate(sums > 0, axis=0)
    positive[0] = True
    monotone = np.minimum.accumulate(sums, axis=0)
    tau = -1 + 2 * np.where(positive, monotone, 0.0).sum(axis=0)
    return np.asarray(m * n / np.maximum(tau, 1 / np.log10(m * n)))


def pair_indicators(chains: Sequence[Sequence[ScopeSet]]) -> tuple[tuple[Scope, ...], Array]:
    """The pairs that share a factor in some samples but not in all, and an indicator (m, n, pairs) of each."""
    known: dict[ScopeSet, frozenset[Scope]] = {}
    for chain in chains:
        for sample in chain:
            if sample not in known:
                known[sample] = _pairs_of(sample)
    seen = frozenset[Scope]().union(*known.values())
    pairs = tuple(sorted(seen.difference(frozenset.intersection(*known.values())))) if known else ()
    column = {pair: k for k, pair in enumerate(pairs)}
    indicators = np.zeros((len(chains), len(chains[0]), len(pairs)))
    for c, chain in enumerate(chains):
        for t, sample in enumerate(chain):
            indicators[c, t, [column[pair] for pair in known[sample] if pair in column]] = 1
    return pairs, indicators


def pair_probabilities(dim: int, samples: Iterable[Iterable[Scope]]) -> Array:
    """The share of samples in which two variables are in a common factor: (d, d), symmetric, 0 on the diagonal."""
    visits = Counter(frozenset(sample) for sample in samples)
    if not visits:
        raise DataError("pair probabilities need at least one sample, got none")
    counts = np.zeros((dim, dim))
    for interactions, times in visits.items():
        for i, j in _pairs_of(interactions):
            counts[i, j] += times
    return (counts + counts.T) / visits.total()


def _pairs_of(interactions: ScopeSet) -> frozenset[Scope]:
    """All pairs of variables that share a scope."""
    return frozenset((min(pair), max(pair)) for scope in interactions for pair in combinations(scope, 2))


def _halves(chains: ArrayLike) -> Array:
    """(2 · chains, draws // 2, ...): first halves, then second halves; the middle of odd draws is dropped."""
    draws = np.asarray(chains, dtype=np.float64)
    if draws.ndim < 2 or draws.shape[0] < 1 or draws.shape[1] < 4:
        raise DataError(f"diagnostics need draws of shape (chains, at least 4 draws, ...), got {draws.shape}")
    half = draws.shape[1] // 2
    return np.concatenate([draws[:, :half], draws[:, -half:]])


def _variances(halves: Array) -> tuple[Array, Array]:
    """W and var⁺."""
    n = halves.shape[1]
    within = halves.var(axis=1, ddof=1).mean(axis=0)
    return within, (n - 1) / n * within + halves.mean(axis=1).var(axis=0, ddof=1)


def _autocovariances(halves: Array) -> Array:
    """Σ_s x_s x_{s+t} / N of each centred sequence, by FFT padded with zeros: (sequences, lags, ...)."""
    n = halves.shape[1]
    centred = halves - halves.mean(axis=1, keepdims=True)
    spectrum = np.fft.rfft(centred, 2 * n, axis=1)
    return np.asarray(np.fft.irfft(np.abs(spectrum) ** 2, 2 * n, axis=1)[:, :n] / n)
