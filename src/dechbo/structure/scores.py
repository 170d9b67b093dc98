"""Scores of absent scopes, which guide the proposals of the chain.

Notation: M = alpha alpha^T - (K + noise)^-1 of a fitted model; k_i(p, q) the centred kernel of variable i between two
observations. The score of an absent scope I is the slope of the evidence in its variance at 0,

    dlog p(y)/ds_I = 1/2 sum_{p, q} M_pq prod_{i in I} k_i(p, q).

Over all pairs of variables this is one symmetric matrix product; over all extensions of given pairs by a third variable
it is another one. Scores only guide proposals, so single precision is enough. Centred factors are orthogonal, so a
triple need not show up in any of its pairs; triples get scores of their own.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import solve_triangular
from scipy.linalg.blas import ssyrk

from dechbo.data.observations import Observations
from dechbo.gp import AdditiveGP
from dechbo.gp.additive import cholesky
from dechbo.gp.gram import pair_rows
from dechbo.graph import Scope
from dechbo.structure.scope_distribution import ScopeDistribution

Array = NDArray[np.float64]

MAX_TRIPLE_WORK = 2e10  # multiply-adds: enough for all triples up to d = 54 at t = 500, d = 120 at t = 150
_CHUNK = 2**22  # numbers in memory at once: 16 MiB in single precision
_MAX_LOG_ODDS = 8.0  # of the best scope against a typical one
_MAX_TRIPLES_PER_VARIABLE = 4  # with weights of their own


@dataclass(frozen=True, eq=False)
class Scores:
    """Robust z-scores (in robust standard deviations from the median) of all pairs and of the best triples."""

    pairs: Array  # (d, d), 0 on the diagonal
    triples: dict[Scope, float]  # best first

    def significant(self) -> list[tuple[float, Scope]]:
        """Scopes with a score above the expected maximum of as many random ones, best first."""
        i, j = np.triu_indices(len(self.pairs), 1)
        values = self.pairs[i, j]
        found: list[tuple[float, Scope]] = [(value, scope) for scope, value in self.triples.items()]
        for k in np.flatnonzero(values > _threshold(len(values))):
            found.append((float(values[k]), (int(i[k]), int(j[k]))))
        return sorted(found, key=lambda item: (-item[0], item[1]))


def score_scopes(model: AdditiveGP, data: Observations, max_size: int = 3) -> Scores:
    """Scores of all pairs, and for ``max_size`` >= 3 of as many triples as ``MAX_TRIPLE_WORK`` allows."""
    d = data.dim
    weights, rows = evidence_weights(model, data), PairRows(model, data)
    pairs = pair_sums(weights, rows, d)
    i, j = np.triu_indices(d, 1)
    pairs = _robust_z_scores(pairs, ~np.eye(d, dtype=bool))
    triples: dict[Scope, float] = {}
    if max_size >= 3 and d >= 3:
        count = int(min(len(i), MAX_TRIPLE_WORK // (2.0 * d * len(weights)) + 1, _CHUNK // d + 1))
        base = np.sort(np.argsort(-pairs[i, j], kind="stable")[:count])
        triples = _best_triples(weights, rows, np.stack([i[base], j[base]], axis=1), d)
    return Scores(pairs, triples)


def proposal_distribution(
    found: Sequence[Scores], known: Iterable[Scope] = (), *, epsilon: float = 0.2
) -> ScopeDistribution:
    """Weights exp(score) for the moves of a chain, from the maximum of several models' scores, clipped.

    Each model reveals what it does not explain: the singletons the strongest interactions, richer models weaker ones.
    ``known`` scopes, which a richer model already explains, get the maximal weight. The weights are fixed while a
    chain runs, which keeps the Hastings ratio simple.
    """
    d = len(found[0].pairs)
    logs = np.clip(np.max([scores.pairs for scores in found], axis=0), 0.0, _MAX_LOG_ODDS)
    triples: dict[Scope, float] = {}
    for scores in found:
        for scope, value in scores.triples.items():
            triples[scope] = max(triples.get(scope, 0.0), min(value, _MAX_LOG_ODDS))
    for scope in known:
        logs[np.ix_(scope, scope)] = _MAX_LOG_ODDS
        if len(scope) == 3:
            triples[scope] = _MAX_LOG_ODDS
    i, j = np.triu_indices(d, 1)
    pairs = np.stack([i, j], axis=1)
    return ScopeDistribution.from_pairs(d, pairs, logs[i, j], epsilon=epsilon, triples=triples)


class PairRows:
    """k_i of all variables for pairs of observations, in single precision, chunk by chunk."""

    def __init__(self, model: AdditiveGP, data: Observations) -> None:
        self._pairs = model.correlation.pairs(data.X)
        self.first, self.second = np.tril_indices(len(data))
        self.size = max(1, _CHUNK // data.dim)

    def __iter__(self) -> Iterator[tuple[slice, NDArray[np.float32]]]:
        for start in range(0, len(self.first), self.size):
            chunk = slice(start, start + self.size)
            yield chunk, pair_rows(self._pairs, self.first[chunk], self.second[chunk])


def evidence_weights(model: AdditiveGP, data: Observations) -> NDArray[np.float32]:
    """M for every pair of observations p >= q, halved for p = q because the pairs p < q are left out."""
    L, _ = cholesky(model.gram(data.X), model.hyperparameters.noise + data.noise)
    inverse = solve_triangular(L, np.eye(len(data)), lower=True, check_finite=False)
    alpha = inverse.T @ (inverse @ data.y)
    M = np.outer(alpha, alpha) - inverse.T @ inverse
    M[np.diag_indices_from(M)] *= 0.5
    weights: NDArray[np.float32] = M[np.tril_indices(len(data))].astype(np.float32)
    return weights


def pair_sums(weights: NDArray[np.float32], rows: PairRows, d: int) -> Array:
    """sum w k k^T; positive and negative weights apart, as two symmetric products cost half of one general product."""
    total = np.zeros((d, d))
    for chunk, k in rows:
        w = weights[chunk]
        for sign in (1.0, -1.0):
            chosen = np.flatnonzero(sign * w > 0)
            if len(chosen):
                scaled = k[chosen] * np.sqrt(np.abs(w[chosen]))[:, None]
                total += sign * ssyrk(1.0, scaled.T)  # the upper triangle
    answer: Array = np.triu(total) + np.triu(total, 1).T
    return answer


def triple_sums(weights: NDArray[np.float32], rows: PairRows, pairs: NDArray[np.int64], d: int) -> Array:
    """sum w k_i k_j k_v for every pair (i, j) of ``pairs`` (n, 2) and every variable v: (n, d)."""
    total = np.zeros((len(pairs), d))
    for chunk, k in rows:
        k = np.ascontiguousarray(k.T)  # (d, observations' pairs)
        for start in range(0, len(pairs), 512):
            i, j = pairs[start : start + 512].T
            total[start : start + 512] += (k[i] * k[j] * weights[chunk]) @ k.T
    return total


def _best_triples(weights: NDArray[np.float32], rows: PairRows, pairs: NDArray[np.int64], d: int) -> dict[Scope, float]:
    """Triples of one of ``pairs`` and a third variable with a significant score, best first."""
    sums = triple_sums(weights, rows, pairs, d)
    third = np.broadcast_to(np.arange(d), sums.shape)
    valid = (third != pairs[:, :1]) & (third != pairs[:, 1:])
    standard = _robust_z_scores(sums, valid)
    # each triple comes from up to three pairs: count the comparisons of distinct ones
    best: dict[Scope, float] = {}
    at = np.argwhere(valid & (standard > _threshold(max(2, int(valid.sum()) // 3))))
    order = np.argsort(-standard[at[:, 0], at[:, 1]], kind="stable")
    for n, v in at[order]:
        scope = tuple(sorted((*pairs[n].tolist(), int(v))))
        best.setdefault(scope, float(standard[n, v]))
        if len(best) == _MAX_TRIPLES_PER_VARIABLE * d:
            break
    return best


def _robust_z_scores(values: Array, valid: NDArray[np.bool_]) -> Array:
    """(value - median) / (1.4826 MAD) of the ``valid`` values; 0 for the others."""
    answer = np.zeros_like(values)
    if not valid.any():
        return answer
    off = values[valid] - np.median(values[valid])
    # the MAD is 0 if there are few scopes or most scores are equal
    min_spread = max(float(np.finfo(np.float32).eps) * float(np.abs(off).max()), float(np.finfo(np.float64).tiny))
    answer[valid] = off / max(1.4826 * float(np.median(np.abs(off))), min_spread)
    return answer


def _threshold(count: int) -> float:
    """About the maximum of ``count`` standard normal numbers, sqrt(2 log count); at least 3, as tails are heavier."""
    return max(3.0, float(np.sqrt(2 * np.log(max(count, 1)))))
