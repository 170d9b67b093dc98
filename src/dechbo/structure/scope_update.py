"""A Gibbs step for one scope: whether it is in the graph, and its variance, given everything else.

With the leading eigenfunctions Φ of the scope's kernel (``gains``), A the inverse covariance without the scope, and
λ_r, v_r the eigenpairs of Φ' A Φ, the evidence changes with the variance s of the scope by

    gain(s) = ½ Σ_r [s (v_r' Φ' A y)^2 / (1 + s λ_r) − log(1 + s λ_r)],

so the whole conditional law q of (absent, or s on a grid) costs one triangular solve of a few columns. q leaves the
small eigenvalues out; a draw from it is accepted with probability min(1, p(new) q(old) / (p(old) q(new))), p by
factorisation, so that the chain's law is exact. Mostly the draw is "still absent", and costs no factorisation at all.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from itertools import product
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dechbo.gp.additive import solve_lower
from dechbo.graph import Scope
from dechbo.structure.evidence import VARIANCE_MEDIAN, VARIANCE_SPREAD, Covariance, EvidenceTarget
from dechbo.structure.gains import eigenfunctions
from dechbo.structure.prior import GraphPrior
from dechbo.structure.sampler import State
from dechbo.structure.scopes import ScopeIndex

Array = NDArray[np.float64]

FEATURES = 4  # of each variable
MAX_PRODUCTS = 12  # of them, for a scope
DEVIATIONS, CELLS = 3.5, 28  # of the prior of log s: what the grid covers, in so many cells
FROM_PRIOR = 0.05  # of the draws of a variance: q must not be 0 anywhere


@dataclass(frozen=True, eq=False)
class ConditionalLaw:
    """q: the probability that the scope is absent, and those of the cells of log s if it is not."""

    log_absent: float
    log_present: float
    cells: Array  # (CELLS,), summing to 1

    def draw(self, rng: np.random.Generator) -> float | None:
        """A variance; None for absent."""
        if rng.random() < np.exp(self.log_absent):
            return None
        if rng.random() < FROM_PRIOR:
            return float(VARIANCE_MEDIAN * np.exp(VARIANCE_SPREAD * rng.standard_normal()))
        cell = min(int(np.searchsorted(np.cumsum(self.cells), rng.random())), CELLS - 1)
        return float(VARIANCE_MEDIAN * np.exp(_EDGES[cell] + _WIDTH * rng.random()))

    def log_probability(self, variance: float | None) -> float:
        """log q, for a variance as a density of log s."""
        if variance is None:
            return self.log_absent
        off = float(np.log(variance / VARIANCE_MEDIAN))
        cell = int(np.floor((off - _EDGES[0]) / _WIDTH))
        within = self.cells[cell] / _WIDTH if 0 <= cell < CELLS else 0.0
        return self.log_present + float(np.log((1 - FROM_PRIOR) * within + FROM_PRIOR * np.exp(_log_prior(off))))


_EDGES = VARIANCE_SPREAD * np.linspace(-DEVIATIONS, DEVIATIONS, CELLS, endpoint=False)
_WIDTH = float(_EDGES[1] - _EDGES[0])
_CENTRES = _EDGES + 0.5 * _WIDTH
_VARIANCES = VARIANCE_MEDIAN * np.exp(_CENTRES)


def _log_prior(off: Any) -> Any:
    """Of log s, at a distance from its median."""
    return -0.5 * (off / VARIANCE_SPREAD) ** 2 - np.log(VARIANCE_SPREAD * np.sqrt(2 * np.pi))


class ScopeUpdate:
    """The step for the chains of one target."""

    def __init__(self, target: EvidenceTarget, prior: GraphPrior) -> None:
        self.target = target
        self.prior = prior
        self._products: dict[Scope, Array] = {}

    @cached_property
    def _eigenfunctions(self) -> Array:
        single = eigenfunctions(self.target.reference.correlation, self.target.data.X, FEATURES)
        return single.astype(np.float64)

    def features(self, scope: Scope) -> Array:
        """Φ: products of the eigenfunctions, those with the largest mean squares: (t, at most MAX_PRODUCTS)."""
        if scope not in self._products:
            parts = self._eigenfunctions[list(scope)]  # (m, FEATURES, t)
            sizes = np.square(parts).mean(axis=2)
            combinations = list(product(range(FEATURES), repeat=len(scope)))
            expected = [np.prod(sizes[range(len(scope)), at]) for at in combinations]
            kept = [combinations[k] for k in np.argsort(expected)[::-1][:MAX_PRODUCTS]]
            columns = [np.prod(parts[range(len(scope)), at], axis=0) for at in kept]
            self._products[scope] = np.asfortranarray(np.array(columns).T)
        return self._products[scope]

    def conditional(self, rest: Covariance, scope: Scope, others: int) -> ConditionalLaw:
        """q, given the covariance without the scope and the number of other scopes of its size."""
        L = rest.root
        assert L is not None
        W = solve_lower(L, np.column_stack([self.features(scope), self.target.data.y]))
        values, vectors = np.linalg.eigh(W[:, :-1].T @ W[:, :-1])
        b = vectors.T @ (W[:, :-1].T @ W[:, -1])
        grown = 1.0 + _VARIANCES[:, None] * np.maximum(values, 0.0)
        logs = 0.5 * (_VARIANCES[:, None] * b**2 / grown - np.log(grown)).sum(axis=1) + _log_prior(_CENTRES)
        top = float(logs.max())
        cells = np.exp(logs - top)
        total = float(cells.sum())
        log_odds = self.prior.log_odds(len(scope), others) + top + float(np.log(total * _WIDTH))
        return ConditionalLaw(
            -float(np.logaddexp(0.0, log_odds)), -float(np.logaddexp(0.0, -log_odds)), np.asarray(cells / total)
        )

    def probability(self, state: State, scope: Scope) -> float:
        """The conditional probability of the scope, by q."""
        law = self._law(state, scope)
        return 0.0 if law is None else float(np.exp(law[0].log_present))

    def _law(self, state: State, scope: Scope) -> tuple[ConditionalLaw, Covariance, ScopeIndex] | None:
        """q, and the state without the scope; None if that has no finite density."""
        before: Covariance = state.payload
        if scope in before.variances:
            rest = self.target.propose_variances(before, {}, (scope,))[1]
            index = state.index.changed((scope,), ())
        else:
            rest, index = before, state.index
        if rest.root is None:
            return None
        others = sum(len(other) == len(scope) for other in index.scopes)
        return self.conditional(rest, scope, others), rest, index

    def __call__(self, rng: np.random.Generator, state: State, scope: Scope) -> State:
        """One step for ``scope``, which must not depend on ``state``."""
        found = self._law(state, scope)
        if found is None:
            return state
        law, rest, index = found
        now = state.payload.variances.get(scope)
        drawn = law.draw(rng)
        if drawn is None and now is None:
            return state
        added = {} if drawn is None else {scope: drawn}
        value, payload, _ = self.target.propose_variances(rest, added, ())
        new_index = index.changed((), tuple(added))
        new = State(new_index, self.prior.log_density(new_index.scopes), value, payload)
        log_ratio = new.log_posterior + self._log_density(drawn) - law.log_probability(drawn)
        log_ratio -= state.log_posterior + self._log_density(now) - law.log_probability(now)
        return new if log_ratio >= 0 or rng.random() < np.exp(log_ratio) else state

    @staticmethod
    def _log_density(variance: float | None) -> float:
        """log p(s) as a density of log s; 0 for absent."""
        return 0.0 if variance is None else float(_log_prior(np.log(variance / VARIANCE_MEDIAN)))
