"""Scores of absent scopes, which guide the proposals of the chain.

Notation: M = alpha alpha^T - (K + noise)^-1 of a fitted model; k_i(p, q) the centred kernel of variable i between two
observations. The score of an absent scope I is the slope of the evidence in its variance at 0,

    dlog p(y)/ds_I = 1/2 sum_{p, q} M_pq prod_{i in I} k_i(p, q),

for all pairs and triples at once (``ComponentGrams``), or those of the variables that ``screen`` chooses.
Scores only guide proposals, so single precision is enough. Centred factors are orthogonal, so a triple need not show up
in any of its pairs; triples get scores of their own.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import solve_triangular

from dechbo.data.observations import Observations
from dechbo.gp import AdditiveGP
from dechbo.gp.additive import cholesky
from dechbo.graph import Scope
from dechbo.structure.components import ComponentGrams, Components, screen
from dechbo.structure.scope_distribution import ScopeDistribution

Array = NDArray[np.float64]

_MAX_LOG_ODDS = 4.0  # of the best scope against a typical one
_MAX_TRIPLES_PER_VARIABLE = 4  # with weights of their own


@dataclass(frozen=True, eq=False)
class Scores:
    """Robust z-scores (in robust standard deviations from the median) of all pairs and of the best triples."""

    pairs: Array  # (d, d), 0 on the diagonal
    triples: dict[Scope, float]  # best first

    def largest(self, most: int) -> list[Scope]:
        """The scopes with the largest scores, pairs and triples together."""
        i, j = np.triu_indices(len(self.pairs), 1)
        values = self.pairs[i, j]
        order = np.argsort(-values, kind="stable")[:most]
        found: list[tuple[float, Scope]] = [(float(values[k]), (int(i[k]), int(j[k]))) for k in order]
        found += [(value, scope) for scope, value in self.triples.items()]
        return [scope for _, scope in sorted(found, key=lambda item: (-item[0], item[1]))[:most]]


def score_scopes(model: AdditiveGP, data: Observations, max_size: int = 3) -> Scores:
    """Scores of all pairs and triples, or of those of as many variables as the work allows."""
    d = data.dim
    grams = ComponentGrams(model.correlation, data)
    paired, tripled = screen(grams, data, max_size, noise=None)
    (sums,) = grams.contracted([evidence_weights(model, data)], Components.start(d, paired, tripled, max_size=max_size))
    own = np.triu(np.ones(sums.pairs.shape, dtype=bool), 1)
    pairs = np.zeros((d, d))
    pairs[np.ix_(paired, paired)] = _robust_z_scores(sums.pairs, own)
    behind = np.arange(len(tripled)) > np.repeat(np.arange(len(tripled)), np.arange(len(tripled)))[:, None]
    standard = replace(sums, pairs=np.zeros_like(sums.pairs), triples=_robust_z_scores(sums.triples, behind))
    return Scores(pairs + pairs.T, standard.interactions(_MAX_TRIPLES_PER_VARIABLE * d))


def proposal_distribution(scores: Scores, known: Iterable[Scope] = (), *, epsilon: float = 0.2) -> ScopeDistribution:
    """Weights exp(score) for the moves of a chain, clipped; ``known`` scopes get the maximal weight.

    The weights are fixed while a chain runs, which keeps the Hastings ratio simple.
    """
    d = len(scores.pairs)
    logs = np.clip(scores.pairs, 0.0, _MAX_LOG_ODDS)
    triples = {scope: min(value, _MAX_LOG_ODDS) for scope, value in scores.triples.items()}
    for scope in known:
        logs[np.ix_(scope, scope)] = _MAX_LOG_ODDS
        if len(scope) == 3:
            triples[scope] = _MAX_LOG_ODDS
    i, j = np.triu_indices(d, 1)
    pairs = np.stack([i, j], axis=1)
    return ScopeDistribution.from_pairs(d, pairs, logs[i, j], epsilon=epsilon, triples=triples)


def evidence_weights(model: AdditiveGP, data: Observations) -> NDArray[np.float32]:
    """M for every pair of observations p >= q, halved for p = q because the pairs p < q are left out."""
    L, _ = cholesky(model.gram(data.X), model.hyperparameters.noise + data.noise)
    inverse = solve_triangular(L, np.eye(len(data)), lower=True, check_finite=False)
    alpha = inverse.T @ (inverse @ data.y)
    M = np.outer(alpha, alpha) - inverse.T @ inverse
    M[np.diag_indices_from(M)] *= 0.5
    weights: NDArray[np.float32] = M[np.tril_indices(len(data))].astype(np.float32)
    return weights


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
