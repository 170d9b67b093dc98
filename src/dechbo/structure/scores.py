"""What a model misses: the scores of absent scopes, which tell the chain where to look.

Notation: M = alpha alpha^T - (K + noise)^-1 of a fitted model; k_i(p, q) the centred kernel of variable i between two
observations. The score of an absent scope I is the slope of the evidence in its variance at 0,

    dlog p(y)/ds_I = 1/2 sum_{p, q} M_pq prod_{i in I} k_i(p, q).

Over all pairs of variables that is one symmetric matrix product, over all extensions of given pairs by a third variable
another one. They only say where to look, so single precision is enough. Centred factors are orthogonal: a triple need
not show in any of its pairs, which is why triples are scored themselves.
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
from dechbo.structure.prior import ScopeDistribution

Array = NDArray[np.float64]

TRIPLE_WORK = 2e10  # multiply-adds for the scores of triples: all of them up to d = 54 at t = 500, d = 120 at t = 150
_PIECE = 2**22  # numbers in memory at once
_SHARPEST = 8.0  # log odds of the best scope against a typical one
_PER_VARIABLE = 4  # triples that a move may choose by name, per variable


@dataclass(frozen=True, eq=False)
class Scores:
    """Standard scores, in robust standard deviations from their median: of all pairs, and of the triples looked at."""

    pairs: Array  # (d, d), 0 on the diagonal
    triples: dict[Scope, float]  # the best of those that were scored, the best first

    def promising(self) -> list[tuple[float, Scope]]:
        """Scopes whose score is above what the best of as many random ones would reach, the best first."""
        i, j = np.triu_indices(len(self.pairs), 1)
        values = self.pairs[i, j]
        found: list[tuple[float, Scope]] = [(value, scope) for scope, value in self.triples.items()]
        for k in np.flatnonzero(values > _extreme(len(values))):
            found.append((float(values[k]), (int(i[k]), int(j[k]))))
        return sorted(found, key=lambda item: (-item[0], item[1]))


def score_scopes(model: AdditiveGP, data: Observations, largest: int = 3) -> Scores:
    """The standard scores of all pairs, and for ``largest`` >= 3 of the triples that a budget of work allows."""
    d = data.dim
    weights, rows = _weights(model, data), _PairRows(model, data)
    pairs = _pair_sums(weights, rows, d)
    i, j = np.triu_indices(d, 1)
    pairs = _standard(pairs, ~np.eye(d, dtype=bool))
    triples: dict[Scope, float] = {}
    if largest >= 3 and d >= 3:
        count = int(min(len(i), TRIPLE_WORK // (2.0 * d * len(weights)) + 1, _PIECE // d + 1))
        base = np.sort(np.argsort(-pairs[i, j], kind="stable")[:count])
        triples = _best_triples(weights, rows, np.stack([i[base], j[base]], axis=1), d)
    return Scores(pairs, triples)


def score_matrix(model: AdditiveGP, data: Observations) -> Array:
    """dlog p(y)/ds of every absent pair at s = 0, (d, d)."""
    return _pair_sums(_weights(model, data), _PairRows(model, data), data.dim)


def triple_scores(model: AdditiveGP, data: Observations, pairs: NDArray[np.int64]) -> Array:
    """dlog p(y)/ds of every pair (n, 2) with each further variable, (n, d)."""
    return _triple_sums(_weights(model, data), _PairRows(model, data), pairs, data.dim)


def proposal_distribution(
    found: Sequence[Scores], known: Iterable[Scope] = (), *, epsilon: float = 0.2
) -> ScopeDistribution:
    """The law by which moves choose scopes: the best of several models' standard scores, cut off where they are large.

    Each model shows what it does not explain: the singletons the strongest interactions, a richer model the next ones.
    ``known`` scopes, which a richer model explains already, get the full weight. All of it stands while a chain runs,
    so the Hastings ratio stays simple.
    """
    d = len(found[0].pairs)
    logs = np.clip(np.max([scores.pairs for scores in found], axis=0), 0.0, _SHARPEST)
    triples: dict[Scope, float] = {}
    for scores in found:
        for scope, value in scores.triples.items():
            triples[scope] = max(triples.get(scope, 0.0), min(value, _SHARPEST))
    for scope in known:
        logs[np.ix_(scope, scope)] = _SHARPEST
        if len(scope) == 3:
            triples[scope] = _SHARPEST
    i, j = np.triu_indices(d, 1)
    pairs = np.stack([i, j], axis=1)
    return ScopeDistribution.from_pairs(d, pairs, logs[i, j], epsilon=epsilon, triples=triples)


class _PairRows:
    """k_i of all variables between pairs of observations, in single precision, piece by piece."""

    def __init__(self, model: AdditiveGP, data: Observations) -> None:
        self._pairs = model.correlation.pairs(data.X)
        self.first, self.second = np.tril_indices(len(data))
        self.size = max(1, _PIECE // data.dim)

    def __iter__(self) -> Iterator[tuple[slice, NDArray[np.float32]]]:
        for start in range(0, len(self.first), self.size):
            piece = slice(start, start + self.size)
            yield piece, pair_rows(self._pairs, self.first[piece], self.second[piece])


def _weights(model: AdditiveGP, data: Observations) -> NDArray[np.float32]:
    """M of every pair of observations p >= q, halved where p = q: the mirror images count too."""
    L, _ = cholesky(model.gram(data.X), model.hyperparameters.noise + data.noise)
    inverse = solve_triangular(L, np.eye(len(data)), lower=True, check_finite=False)
    alpha = inverse.T @ (inverse @ data.y)
    M = np.outer(alpha, alpha) - inverse.T @ inverse
    M[np.diag_indices_from(M)] *= 0.5
    weights: NDArray[np.float32] = M[np.tril_indices(len(data))].astype(np.float32)
    return weights


def _pair_sums(weights: NDArray[np.float32], rows: _PairRows, d: int) -> Array:
    """sum w k k^T, with the positive and the negative weights apart: two symmetric products cost half of one plain."""
    total = np.zeros((d, d))
    for piece, k in rows:
        w = weights[piece]
        for sign in (1.0, -1.0):
            chosen = np.flatnonzero(sign * w > 0)
            if len(chosen):
                scaled = k[chosen] * np.sqrt(np.abs(w[chosen]))[:, None]
                total += sign * ssyrk(1.0, scaled.T)  # the upper triangle
    answer: Array = np.triu(total) + np.triu(total, 1).T
    return answer


def _triple_sums(weights: NDArray[np.float32], rows: _PairRows, pairs: NDArray[np.int64], d: int) -> Array:
    total = np.zeros((len(pairs), d))
    for piece, k in rows:
        k = np.ascontiguousarray(k.T)  # (d, observations' pairs)
        for start in range(0, len(pairs), 512):
            i, j = pairs[start : start + 512].T
            total[start : start + 512] += (k[i] * k[j] * weights[piece]) @ k.T
    return total


def _best_triples(
    weights: NDArray[np.float32], rows: _PairRows, pairs: NDArray[np.int64], d: int
) -> dict[Scope, float]:
    """The triples made of one of ``pairs`` and a third variable whose standard score is extreme, the best first."""
    sums = _triple_sums(weights, rows, pairs, d)
    third = np.broadcast_to(np.arange(d), sums.shape)
    valid = (third != pairs[:, :1]) & (third != pairs[:, 1:])
    standard = _standard(sums, valid)
    # a triple may come from each of its three pairs: as many comparisons as there are different ones
    best: dict[Scope, float] = {}
    at = np.argwhere(valid & (standard > _extreme(max(2, int(valid.sum()) // 3))))
    order = np.argsort(-standard[at[:, 0], at[:, 1]], kind="stable")
    for n, v in at[order]:
        scope = tuple(sorted((*pairs[n].tolist(), int(v))))
        best.setdefault(scope, float(standard[n, v]))
        if len(best) == _PER_VARIABLE * d:
            break
    return best


def _standard(values: Array, valid: NDArray[np.bool_]) -> Array:
    """The ``valid`` ones of ``values`` in robust standard deviations from their median; 0 for the others."""
    answer = np.zeros_like(values)
    if not valid.any():
        return answer
    off = values[valid] - np.median(values[valid])
    # with few scopes, or where most scores are equal, the spread is 0
    least = max(float(np.finfo(np.float32).eps) * float(np.abs(off).max()), float(np.finfo(np.float64).tiny))
    answer[valid] = off / max(1.4826 * float(np.median(np.abs(off))), least)
    return answer


def _extreme(count: int) -> float:
    """About the largest of ``count`` standard normal numbers, sqrt(2 log count); at least 3: tails are heavier."""
    return max(3.0, float(np.sqrt(2 * np.log(max(count, 1)))))
