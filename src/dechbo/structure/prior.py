"""Interactions: their prior law, the law by which moves choose scopes, and the set as a chain holds it.

Notation: d = ``dim`` variables; every singleton is always in the graph, so what is learned is U, the set of
*interactions*: scopes of 2 to ``max_factor_size`` variables, each sorted. They are pure interactions: scopes may
overlap and may be nested, and there is no heredity (a triple needs none of its pairs).
"""

from __future__ import annotations

import math
from bisect import bisect, bisect_left, insort
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dechbo.errors import OptionError, ScopeError
from dechbo.graph import FactorGraph, Scope

Interactions = frozenset[Scope]


def interaction_graph(dim: int, interactions: Iterable[Scope]) -> FactorGraph:
    """The factor graph: all singletons, then the interactions in sorted order."""
    return FactorGraph(dim, tuple((i,) for i in range(dim)) + tuple(sorted(interactions)))


@dataclass(frozen=True)
class GraphPrior:
    """log p(U) = Σ_{I in U} log w(|I|) + const, with w(m) = expected · exp(−size_cost (m − 2)) / C(d, m).

    Each scope I is in U on its own, with odds w(|I|): a factor has its price, each further variable costs
    ``size_cost`` more, and the number of possible scopes is corrected for. So the expected number of pairs is nearly
    ``expected`` (a little less: odds are not probabilities), whatever d is.
    """

    dim: int
    max_factor_size: int = 3
    expected: float = 0.3
    size_cost: float = 1.0

    def __post_init__(self) -> None:
        for name in ("dim", "max_factor_size"):
            given = getattr(self, name)
            if isinstance(given, bool) or not isinstance(given, (int, np.integer)) or given < 1:
                raise OptionError(f"GraphPrior needs {name} >= 1 (a whole number), got {given!r}")
            object.__setattr__(self, name, int(given))
        for name in ("expected", "size_cost"):
            given = getattr(self, name)
            if isinstance(given, bool) or not isinstance(given, (int, float, np.number)) or not math.isfinite(given):
                raise OptionError(f"GraphPrior needs a finite number for {name}, got {given!r}")
        if self.expected <= 0:
            raise OptionError(f"GraphPrior needs expected > 0 interactions, got {self.expected!r}")
        if self.size_cost < 0:
            raise OptionError(f"GraphPrior needs size_cost >= 0, got {self.size_cost!r}")

    @property
    def largest(self) -> int:
        """The most variables that an interaction can have: ``max_factor_size``, or all d."""
        return min(self.max_factor_size, self.dim)

    @cached_property
    def _log_weights(self) -> tuple[float, ...]:
        return tuple(
            math.log(self.expected) - self.size_cost * (size - 2) - math.log(math.comb(self.dim, size))
            for size in range(2, self.largest + 1)
        )

    def log_weight(self, size: int) -> float:
        """log w(size), the log odds of one scope of that size."""
        if not 2 <= size <= self.largest:
            raise ScopeError(f"an interaction has 2 to {self.largest} of the {self.dim} variables, got {size}")
        return self._log_weights[size - 2]

    def log_density(self, interactions: Iterable[Scope]) -> float:
        """log p(U) without its constant; 0 for no interactions."""
        # by size, so that the value depends on the set alone and not on the way there
        return sum(n * self.log_weight(size) for size, n in sorted(Counter(map(len, interactions)).items()))


@dataclass(frozen=True, eq=False)
class ScopeDistribution:
    """The law by which moves choose variables; it stays fixed while a chain runs.

    q(i, j) = (1 − epsilon) w_ij + epsilon / C(d, 2), with Σ w = 1
    g(v | S) = (1 − epsilon) Σ_{s in S} w_sv / Σ_{s in S, u allowed} w_su + epsilon / (number of allowed variables)

    where the allowed variables are those outside S (and not banned); where S has no weight towards them, g is uniform.
    A larger scope is a pair from q that takes further variables from g, in any order:
    q(S) = Σ_{v in S} q(S − {v}) g(v | S − {v}). Where ``triples`` have weights of their own, half of the triples are
    drawn by those: q(S) = (w_S + Σ_v …) / 2. Weights are dense: 8 d² bytes. ``uniform`` is the blind law.
    """

    dim: int
    epsilon: float
    weights: NDArray[np.float64] | None  # (d, d), symmetric, each pair's weight; None: uniform
    pairs: NDArray[np.int64]  # (n, 2)
    cumulative: NDArray[np.float64]  # (n,)
    triples: Mapping[Scope, float] = field(default_factory=dict)  # weights that sum to 1, or none

    @classmethod
    def uniform(cls, dim: int) -> ScopeDistribution:
        """Every pair is as likely as every other."""
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
        """w_ij ∝ exp(log_weights) for the pairs given, 0 for the others; the caller tempers what is too sharp.

        ``triples`` are scopes of three variables with their log weights.
        """
        if not 0 < epsilon <= 1:
            raise OptionError(
                f"ScopeDistribution needs 0 < epsilon <= 1, or some scopes are never proposed, got {epsilon!r}"
            )
        given, logs = np.asarray(pairs), np.asarray(log_weights, dtype=np.float64)
        if given.ndim != 2 or given.shape[1] != 2 or not np.issubdtype(given.dtype, np.integer):
            raise OptionError(f"ScopeDistribution needs pairs as (n, 2) whole numbers, got {given.dtype} {given.shape}")
        if logs.shape != (len(given),):
            raise OptionError(
                f"ScopeDistribution needs one log weight for each of {len(given)} pairs, got shape {logs.shape}"
            )
        if given.size and (given.min() < 0 or given.max() >= dim):
            raise OptionError(
                f"ScopeDistribution needs variables from 0 to {dim - 1}, got {given.min()} to {given.max()}"
            )
        low, high = np.minimum(*given.T), np.maximum(*given.T)
        seen = np.zeros((dim, dim), dtype=bool)
        seen[low, high] = True
        if (low == high).any() or np.count_nonzero(seen) < len(given):
            raise OptionError("ScopeDistribution needs pairs of two different variables, each pair once")
        if not (logs < np.inf).all() or not np.isfinite(logs).any():
            raise OptionError("ScopeDistribution needs log weights below infinity, not NaN, some of them finite")
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
        """A triple from q; None where a pair finds no third variable."""
        if self.triples and rng.random() < 0.5:
            return self._named[min(bisect(self._bounds, rng.random()), len(self._named) - 1)]
        pair = self.draw_pair(rng)
        third = self.draw_variable(rng, pair)
        return None if third is None else tuple(sorted((*pair, third)))

    @cached_property
    def _named(self) -> tuple[Scope, ...]:
        return tuple(self.triples)

    @cached_property
    def _bounds(self) -> list[float]:
        bounds: list[float] = np.cumsum(list(self.triples.values())).tolist()
        return bounds

    def draw_variable(self, rng: np.random.Generator, scope: Scope, banned: Scope = ()) -> int | None:
        """A variable from g(· | scope) that is not in ``banned``; None where there is none."""
        allowed = self.dim - len(scope) - len(banned)
        if allowed < 1:
            return None
        if self.weights is not None and rng.random() >= self.epsilon:
            cumulative = self._towards(self.weights, scope, banned).cumsum()
            if (total := cumulative[-1]) > 0:
                at = int(cumulative.searchsorted(rng.random() * total, side="right"))
                return at if at < self.dim else None  # d only where u · total rounds up to total
        return skipping(int(rng.random() * allowed), tuple(sorted(scope + banned)))

    def probability(self, scope: Scope) -> float:
        """q(scope)."""
        if len(scope) == 2:
            blind = 2 * self.epsilon / (self.dim * (self.dim - 1))
            return blind if self.weights is None else blind + (1 - self.epsilon) * float(self.weights[scope])
        rests = [(v, tuple(i for i in scope if i != v)) for v in scope]
        grown = sum(self.probability(rest) * self.variable_probability(v, rest) for v, rest in rests)
        return 0.5 * (grown + self.triples.get(scope, 0.0)) if len(scope) == 3 and self.triples else grown

    def variable_probability(self, variable: int, scope: Scope, banned: Scope = ()) -> float:
        """g(variable | scope), with the variables ``banned`` not allowed."""
        blind = 1 / (self.dim - len(scope) - len(banned))
        if self.weights is None:
            return blind
        towards = self._towards(self.weights, scope, banned)
        total = float(towards.sum())
        return (1 - self.epsilon) * float(towards[variable]) / total + self.epsilon * blind if total > 0 else blind

    @staticmethod
    def _towards(weights: NDArray[np.float64], scope: Scope, banned: Scope) -> NDArray[np.float64]:
        """Σ_{s in scope} w_sv for each allowed v, 0 for the others (summed anew: a difference would cancel)."""
        row: NDArray[np.float64] = weights[scope[0]].copy()
        for s in scope[1:]:
            row += weights[s]
        for s in scope + banned:
            row[s] = 0
        return row


@dataclass(frozen=True)
class ScopeIndex:
    """A set of interactions, ready for moves: sorted (the order of visits leaves no trace), and by variable."""

    scopes: tuple[Scope, ...]
    interactions: Interactions
    holding: dict[int, tuple[Scope, ...]]  # A(i): the interactions that hold variable i, sorted; read only

    @classmethod
    def of(cls, prior: GraphPrior, interactions: Iterable[Sequence[int]]) -> ScopeIndex:
        """Checked once; variables may come in any order."""
        listed = tuple(tuple(scope) for scope in interactions)
        given = [tuple(sorted(scope)) for scope in FactorGraph.covering(prior.dim, listed).scopes[: len(listed)]]
        for scope in given:
            if not 2 <= len(scope) <= prior.max_factor_size:
                raise ScopeError(f"an interaction has 2 to {prior.max_factor_size} variables, got scope {scope}")
        return cls((), frozenset(), {}).changed((), tuple(given))

    def __len__(self) -> int:
        return len(self.scopes)

    def __contains__(self, scope: object) -> bool:
        return scope in self.interactions

    def changed(self, removed: tuple[Scope, ...], added: tuple[Scope, ...]) -> ScopeIndex:
        """Without the scopes ``removed``, with the scopes ``added``."""
        scopes, holding = list(self.scopes), dict(self.holding)
        for scope in removed:
            del scopes[bisect_left(scopes, scope)]
            for i in scope:
                holding[i] = tuple(other for other in holding[i] if other != scope)
        for scope in added:
            insort(scopes, scope)
            for i in scope:
                holding[i] = tuple(sorted((*holding.get(i, ()), scope)))
        return ScopeIndex(tuple(scopes), self.interactions.difference(removed).union(added), holding)


def _normalised(triples: Mapping[Scope, float], dim: int) -> dict[Scope, float]:
    """Weights that sum to 1, from log weights."""
    for scope, log in triples.items():
        if len(scope) != 3 or tuple(sorted(set(scope))) != tuple(scope) or scope[0] < 0 or scope[-1] >= dim:
            raise OptionError(f"ScopeDistribution needs triples of three sorted variables below {dim}, got {scope}")
        if not math.isfinite(log):
            raise OptionError(f"ScopeDistribution needs finite log weights of triples, got {log!r} for {scope}")
    top = max(triples.values(), default=0.0)
    each = {scope: math.exp(log - top) for scope, log in triples.items()}
    total = sum(each.values())
    return {scope: weight / total for scope, weight in each.items()}


def skipping(position: int, skipped: tuple[int, ...]) -> int:
    """The whole number at ``position`` once the ``skipped`` ones, sorted, are left out."""
    for number in skipped:
        position += position >= number
    return position
