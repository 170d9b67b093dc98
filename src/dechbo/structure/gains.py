"""How much an absent scope would raise the evidence: for the search, and for the proposals of the chains.

Notation: A = (K + noise)^-1 and α = A y of a fitted model; k_i(x, x') ≈ Σ_r φ_ir(x) φ_ir(x'), the leading
eigenfunctions of the kernel of variable i. With Φ the products of the features of its variables, one column each, a
scope of variance s adds s Φ Φ' to K, and the evidence changes by

    gain(s) = ½ b' (I/s + G)^-1 b − ½ log det(I + s G),   b = Φ' α,  G = Φ' A Φ.

The slope of the evidence at s = 0, ½ (α' K_I α − tr(A K_I)), would need no features. But where the noise is small, it
is ruled by the finest details of A, and an interaction worth 40 nats can have a slope like hundreds of others.

1. For every scope, G is replaced by the diagonal Σ_p A_pp Φ_pr^2, its mean over independent variables: matrix products
   of t columns for all scopes.
2. For the best scopes of step 1, G is computed.

Single precision is enough: gains only guide. Centred factors are orthogonal, so a triple need not show up in any of its
pairs; triples have gains of their own.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import combinations, product

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import solve_triangular

from dechbo.compiled import compiled
from dechbo.data.observations import Observations
from dechbo.gp import AdditiveGP
from dechbo.gp.additive import cholesky
from dechbo.gp.correlation import Correlation
from dechbo.graph import Scope
from dechbo.structure.components import ComponentGrams, largest_involvement
from dechbo.structure.prior import GraphPrior
from dechbo.structure.scope_distribution import ScopeDistribution

Array = NDArray[np.float64]
Ints = NDArray[np.int64]
Single = NDArray[np.float32]

VARIANCES = np.array([0.001, 0.005, 0.02, 0.08, 0.3])  # of a new scope, for values of standard deviation 1
PAIR_FEATURES, TRIPLE_FEATURES = 4, 3  # of each variable
MAX_EXACT = 256  # scopes with G
MAX_WORK = 2e10  # operations over all triples, and over all pairs
_MAX_LOG_ODDS = 4.0  # of the best scope against a typical one
_MAX_TRIPLES_PER_VARIABLE = 4  # with weights of their own
_GAUSS, _WEIGHTS = np.polynomial.legendre.leggauss(16)  # enough for the first few eigenfunctions


@dataclass(frozen=True, eq=False)
class Gains:
    """In nats, of all pairs and of the best triples; 0 where no variance in VARIANCES helps."""

    pairs: Array  # (d, d), 0 on the diagonal
    triples: dict[Scope, float]  # best first
    variances: dict[Scope, float]  # of the best scopes, where the gain is largest

    def largest(self, most: int) -> list[Scope]:
        """The scopes with the largest gains, pairs and triples together."""
        i, j = np.triu_indices(len(self.pairs), 1)
        values = self.pairs[i, j]
        order = np.argsort(-values, kind="stable")[:most]
        found: list[tuple[float, Scope]] = [(float(values[k]), (int(i[k]), int(j[k]))) for k in order]
        found += [(value, scope) for scope, value in self.triples.items()]
        return [scope for _, scope in sorted(found, key=lambda item: (-item[0], item[1]))[:most]]

    def of(self, scope: Scope) -> float:
        """The gain of one scope; 0 for a triple that is not among the best."""
        return float(self.pairs[scope]) if len(scope) == 2 else self.triples.get(scope, 0.0)

    def pair_probabilities(self, prior: GraphPrior) -> Array:
        """The probability that one more scope holds a pair, each scope judged alone: (d, d), 0 on the diagonal."""
        odds = np.exp(np.minimum(self.pairs, 50.0) + prior.log_odds(2))
        for triple, gain in self.triples.items():
            more = math.exp(min(gain, 50.0) + prior.log_odds(3))
            for i, j in combinations(triple, 2):
                odds[i, j] += more
                odds[j, i] += more
        np.fill_diagonal(odds, 0.0)
        return np.asarray(odds / (1 + odds))


def evidence_gains(model: AdditiveGP, data: Observations, max_size: int = 3) -> Gains:
    """The gains of all pairs and triples, or of those of as many variables as the work allows."""
    solves = _Solves(model, data)
    features = eigenfunctions(model.correlation, data.X, PAIR_FEATURES)
    paired, tripled = _affordable(model, data, max_size, solves)
    d = data.dim
    pairs = np.zeros((d, d))
    pairs[np.ix_(paired, paired)] = _pair_gains(features[paired], solves)
    triples = _triple_gains(features[tripled][:, :TRIPLE_FEATURES], tripled, solves, _MAX_TRIPLES_PER_VARIABLE * d)
    rough = Gains(np.triu(pairs) + np.triu(pairs, 1).T, triples, {})
    exact, variances = _exact_gains(features, rough.largest(MAX_EXACT), solves)
    for scope, gain in exact.items():
        if len(scope) == 2:
            rough.pairs[scope] = rough.pairs[scope[::-1]] = gain
        else:
            triples[scope] = gain
    ordered = sorted(triples.items(), key=lambda item: (-item[1], item[0]))
    return Gains(rough.pairs, dict(ordered), variances)


def eigenfunctions(correlation: Correlation, X: Array, most: int) -> Single:
    """φ_ir(x_i) at the points X (t, d) for the ``most`` largest eigenvalues: (d, most, t), 0 where there are fewer.

    Nyström's method: with weights w and an eigenvector v of sqrt(w) k(u, u') sqrt(w') of eigenvalue λ,
    φ(x) = Σ_u k(x, u) sqrt(w_u) v_u / sqrt(λ).
    """
    d = X.shape[1]
    answer = np.zeros((d, most, len(X)), dtype=np.float32)
    domains = (None,) * d if correlation.domains is None else correlation.domains
    for i, domain in enumerate(domains):
        at = 0.5 * (_GAUSS + 1.0) if domain is None else domain
        root = np.sqrt(0.5 * _WEIGHTS) if domain is None else np.full(len(domain), len(domain) ** -0.5)
        values, vectors = np.linalg.eigh(root[:, None] * correlation.matrix(i, at, at) * root)
        first = [r for r in range(len(at) - 1, -1, -1) if values[r] > 1e-9][:most]
        loads = root[:, None] * vectors[:, first] / np.sqrt(values[first])
        answer[i, : len(first)] = (correlation.matrix(i, X[:, i], at) @ loads).T
    return answer


class _Solves:
    """α, the diagonal of A, and the inverse of the Cholesky factor of K + noise."""

    def __init__(self, model: AdditiveGP, data: Observations) -> None:
        L, _ = cholesky(model.gram(data.X), model.hyperparameters.noise + data.noise)
        root = solve_triangular(L, np.eye(len(data)), lower=True, check_finite=False)
        self.whitened = root @ data.y
        self.alpha = (root.T @ self.whitened).astype(np.float32)
        self.diagonal = (root * root).sum(axis=0).astype(np.float32)
        self._root = root

    @cached_property
    def root(self) -> Single:
        """L^-1."""
        single: Single = self._root.astype(np.float32)
        return single


def _affordable(model: AdditiveGP, data: Observations, max_size: int, solves: _Solves) -> tuple[Ints, Ints]:
    """The variables whose pairs, and those whose triples, have gains: all, or those with the largest
    α' G α / tr(A G), G the sum over all pairs, or triples, with that variable."""
    d, t = data.dim, len(data)
    most = (
        int(np.sqrt(2 * MAX_WORK / (4 * PAIR_FEATURES**2 * t))),
        int(np.cbrt(6 * MAX_WORK / (4 * TRIPLE_FEATURES**3 * t))) if max_size > 2 else 0,
    )
    if d <= most[0] and (max_size < 3 or d <= most[1]):
        return np.arange(d), np.arange(d if max_size > 2 else 0)
    grams = ComponentGrams(model.correlation, data)
    A = solves.root.T @ solves.root
    twice = np.where(grams.rows[0] == grams.rows[1], 1.0, 2.0).astype(np.float32)
    weights = [matrix[grams.rows] * twice for matrix in (np.outer(solves.alpha, solves.alpha), A)]
    return largest_involvement(grams, weights, most)


def _pair_gains(features: Single, solves: _Solves) -> Array:
    """(m, m), only above the diagonal."""
    m, R, t = features.shape
    flat = features.reshape(m * R, t)
    b = (flat * solves.alpha) @ flat.T
    g = (flat**2 * solves.diagonal) @ (flat**2).T
    gains = np.zeros((m, m))
    for i in range(m - 1):
        rows = slice(i * R, (i + 1) * R)
        b_i, g_i = (part[rows, (i + 1) * R :].reshape(1, R, m - 1 - i, R) for part in (b, g))
        gains[i, i + 1 :] = _diagonal_gains(b_i, g_i, VARIANCES)[0]
    return gains


def _triple_gains(features: Single, variables: Ints, solves: _Solves, most: int) -> dict[Scope, float]:
    """The ``most`` triples with the largest gains, best first."""
    n, R, t = features.shape
    found: list[tuple[float, Scope]] = []
    flat = features.reshape(n * R, t)
    weighted, squares = flat * solves.alpha, flat**2
    for j in range(1, n - 1):
        own = features[j]
        products = (features[:j, :, None] * own).reshape(j * R * R, t)
        b = products @ weighted[(j + 1) * R :].T
        g = (products**2 * solves.diagonal) @ squares[(j + 1) * R :].T
        shape = (j, R * R, n - 1 - j, R)
        gains = _diagonal_gains(b.reshape(shape), g.reshape(shape), VARIANCES)
        for at in np.argsort(-gains, axis=None, kind="stable")[:most]:
            i, k = divmod(int(at), n - 1 - j)
            if gains[i, k] > 0:
                scope = (int(variables[i]), int(variables[j]), int(variables[j + 1 + k]))
                found.append((float(gains[i, k]), scope))
    found.sort(key=lambda item: (-item[0], item[1]))
    return {scope: gain for gain, scope in found[:most]}


@compiled
def _diagonal_gains(b: Single, g: Single, variances: Array) -> Array:
    """max_s Σ_r ½ [s b_r^2 / (1 + s g_r) − log(1 + s g_r)], at least 0, over r = (axes 1 and 3) of (m, R, n, R)."""
    gains = np.zeros((b.shape[0], b.shape[2]))
    for i in range(b.shape[0]):
        for k in range(b.shape[2]):
            for s in variances:
                fit, volume = 0.0, 1.0
                for p in range(b.shape[1]):
                    for q in range(b.shape[3]):
                        grown = 1.0 + s * g[i, p, k, q]
                        fit += s * b[i, p, k, q] * b[i, p, k, q] / grown
                        volume *= grown
                gains[i, k] = max(gains[i, k], 0.5 * (fit - np.log(volume)))
    return gains


def _exact_gains(
    features: Single, scopes: Sequence[Scope], solves: _Solves
) -> tuple[dict[Scope, float], dict[Scope, float]]:
    """Gains with G itself, and the variances where they are reached."""
    gains, variances = {}, {}
    for scope in scopes:
        R = PAIR_FEATURES if len(scope) == 2 else TRIPLE_FEATURES
        columns = [np.prod([features[i, r] for i, r in zip(scope, at, strict=True)], axis=0)
                   for at in product(range(R), repeat=len(scope))]  # fmt: skip
        whitened = (solves.root @ np.array(columns).T).astype(np.float64)
        values, vectors = np.linalg.eigh(whitened.T @ whitened)
        b = vectors.T @ (whitened.T @ solves.whitened)
        grown = 1.0 + VARIANCES[:, None] * np.maximum(values, 0.0)
        each = 0.5 * (VARIANCES[:, None] * b**2 / grown - np.log(grown)).sum(axis=1)
        gains[scope], variances[scope] = max(float(each.max()), 0.0), float(VARIANCES[each.argmax()])
    return gains, variances


def proposal_distribution(gains: Gains, known: Iterable[Scope] = (), *, epsilon: float = 0.2) -> ScopeDistribution:
    """Weights exp(gain) for the moves of a chain, clipped; ``known`` scopes get the maximal weight.

    The weights are fixed while a chain runs, which keeps the Hastings ratio simple.
    """
    d = len(gains.pairs)
    logs = np.clip(gains.pairs, 0.0, _MAX_LOG_ODDS)
    triples = {scope: min(value, _MAX_LOG_ODDS) for scope, value in gains.triples.items()}
    for scope in known:
        logs[np.ix_(scope, scope)] = _MAX_LOG_ODDS
        if len(scope) == 3:
            triples[scope] = _MAX_LOG_ODDS
    i, j = np.triu_indices(d, 1)
    pairs = np.stack([i, j], axis=1)
    return ScopeDistribution.from_pairs(d, pairs, logs[i, j], epsilon=epsilon, triples=triples)
