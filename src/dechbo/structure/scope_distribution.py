"""The distribution from which structure moves draw scopes and variables."""

from __future__ import annotations

import math
from bisect import bisect
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dechbo.errors import OptionError
from dechbo.graph import Scope


@dataclass(frozen=True, eq=False)
class ScopeDistribution:
    """The distribution from which moves draw scopes and variables; fixed while a chain runs.

    q(i, j) = (1 − epsilon) w_ij + epsilon / C(d, 2), with Σ w = 1
    g(v | S) = (1 − epsilon) Σ_{s in S} w_sv / Σ_{s in S, u allowed} w_su + epsilon / (number of allowed variables)

    where the allowed variables are those outside S that are not banned; if S has no weight towards them, g is uniform.
    A larger scope is a pair from q extended by variables from g, in any order:
    q(S) = Σ_{v in S} q(S − {v}) g(v | S − {v}). If ``triples`` have weights of their own, half of the triples are
    drawn from those: q(S) = (w_S + Σ_v …) / 2. Weights are dense: 8 d² bytes.
    """

    dim: int
    epsilon: float
    weights: NDArray[np.float64] | None  # (d, d), symmetric, each pair's weight; None: uniform
    pairs: NDArray[np.int64]  # (n, 2)
    cumulative: NDArray[np.float64]  # (n,)
    triples: Mapping[Scope, float] = field(default_factory=dict)  # weights that sum to 1, or none

    @classmethod
    def uniform(cls, dim: int) -> ScopeDistribution:
        """Every pair has the same probability."""
        return cls(dim, 1.0, None, np.empty((0, 2), dtype=np.int64), np.empty(0))

    @classmethod
    def from_pairs(
        cls,
        dim: int,
        pairs: ArrayLike,
        log_weights: ArrayLike,
        *,
        epsilon: float = 0.2,
        triples: Mapping[Scope, float] | None = None,
    ) -> ScopeDistribution:
        """w_ij ∝ exp(log_weights) for the pairs given, 0 for the others.

        ``triples`` maps scopes of three variables to their log weights.
        """
        if not 0 < epsilon <= 1:
            raise OptionError(f"epsilon needs to be in (0, 1], or some scopes are never proposed, got {epsilon!r}")
        given, logs = np.asarray(pairs), np.asarray(log_weights, dtype=np.float64)
        if given.ndim != 2 or given.shape[1] != 2 or not np.issubdtype(given.dtype, np.integer):
            raise OptionError(f"pairs need to be an (n, 2) array of whole numbers, got {given.dtype} {given.shape}")
        if logs.shape != (len(given),):
            raise OptionError(f"expected one log weight for each of {len(given)} pairs, got shape {logs.shape}")
        if given.size and (given.min() < 0 or given.max() >= dim):
            raise OptionError(f"pairs need variables from 0 to {dim - 1}, got {given.min()} to {given.max()}")
        low, high = np.minimum(*given.T), np.maximum(*given.T)
        seen = np.zeros((dim, dim), dtype=bool)
        seen[low, high] = True
        if (low == high).any() or np.count_nonzero(seen) < len(given):
            raise OptionError("pairs need two different variables, and each pair only once")
        if not (logs < np.inf).all() or not np.isfinite(logs).any():
            raise OptionError("log weights need to be below infinity and not NaN, and at least one finite")
        each = np.exp(logs - logs.max())
        each /= each.sum()
        weights = np.zeros((dim, dim))
        weights[low, high] = weights[high, low] = each
        ordered = np.stack([low, high], axis=1).astype(np.int64)
        return cls(dim, float(epsilon), weights, ordered, np.cumsum(each), _normalised(triples or {}, dim))

    def draw_pair(self, rng: np.random.Generator) -> Scope:
        """A pair from q."""
        if self.weights is None or rng.random() < self.epsilon:
            first = int(rng.random() * self.dim)
            second = skipping(int(rng.random() * (self.dim - 1)), (first,))
            return (first, second) if first < second else (second, first)
        at = self.cumulative.searchsorted(rng.random() * self.cumulative[-1], side="right")
        i, j = self.pairs[min(at, len(self.pairs) - 1)].tolist()
        return i, j

    def draw_triple(self, rng: np.random.Generator) -> Scope | None:
        """A triple from q; None if there is no third variable."""
        if self.triples and rng.random() < 0.5:
            return self._weighted_triples[min(bisect(self._bounds, rng.random()), len(self._weighted_triples) - 1)]
        pair = self.draw_pair(rng)
        third = self.draw_variable(rng, pair)
        return None if third is None else tuple(sorted((*pair, third)))

    @cached_property
    def _weighted_triples(self) -> tuple[Scope, ...]:
        return tuple(self.triples)

    @cached_property
    def _bounds(self) -> list[float]:
        bounds: list[float] = np.cumsum(list(self.triples.values())).tolist()
        return bounds

    def draw_variable(self, rng: np.random.Generator, scope: Scope, banned: Scope = ()) -> int | None:
        """A variable from g(· | scope) that is not in ``banned``; None if there is none."""
        allowed = self.dim - len(scope) - len(banned)
        if allowed < 1:
            return None
        if self.weights is not None and rng.random() >= self.epsilon:
            cumulative = self._towards(self.weights, scope, banned).cumsum()
            if (total := cumulative[-1]) > 0:
                at = int(cumulative.searchsorted(rng.random() * total, side="right"))
                return at if at < self.dim else None  # d only if u · total rounds up to total
        return skipping(int(rng.random() * allowed), tuple(sorted(scope + banned)))

    def probability(self, scope: Scope) -> float:
        """q(scope)."""
        if len(scope) == 2:
            uniform = 2 * self.epsilon / (self.dim * (self.dim - 1))
            return uniform if self.weights is None else uniform + (1 - self.epsilon) * float(self.weights[scope])
        rests = [(v, tuple(i for i in scope if i != v)) for v in scope]
        grown = sum(self.probability(rest) * self.variable_probability(v, rest) for v, rest in rests)
        return 0.5 * (grown + self.triples.get(scope, 0.0)) if len(scope) == 3 and self.triples else grown

    def variable_probability(self, variable: int, scope: Scope, banned: Scope = ()) -> float:
        """g(variable | scope), excluding the variables ``banned``."""
        uniform = 1 / (self.dim - len(scope) - len(banned))
        if self.weights is None:
            return uniform
        towards = self._towards(self.weights, scope, banned)
        total = float(towards.sum())
        return (1 - self.epsilon) * float(towards[variable]) / total + self.epsilon * uniform if total > 0 else uniform

    @staticmethod
    def _towards(weights: NDArray[np.float64], scope: Scope, banned: Scope) -> NDArray[np.float64]:
        """Σ_{s in scope} w_sv for each allowed v, 0 for the others (a sum, because differences would cancel)."""
        row: NDArray[np.float64] = weights[scope[0]].copy()
        for s in scope[1:]:
            row += weights[s]
        for s in scope + banned:
            row[s] = 0
        return row


def _normalised(triples: Mapping[Scope, float], dim: int) -> dict[Scope, float]:
    """Weights that sum to 1, from log weights."""
    for scope, log in triples.items():
        if len(scope) != 3 or tuple(sorted(set(scope))) != tuple(scope) or scope[0] < 0 or scope[-1] >= dim:
            raise OptionError(f"triples need three sorted variables below {dim}, got {scope}")
        if not math.isfinite(log):
            raise OptionError(f"triples need finite log weights, got {log!r} for {scope}")
    top = max(triples.values(), default=0.0)
    each = {scope: math.exp(log - top) for scope, log in triples.items()}
    total = sum(each.values())
    return {scope: weight / total for scope, weight in each.items()}


def skipping(position: int, skipped: tuple[int, ...]) -> int:
    """The whole number at ``position`` among those not in ``skipped``, which is sorted."""
    for number in skipped:
        position += position >= number
    return position
