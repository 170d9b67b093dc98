"""Reversible moves between sets of interactions, each with its exact forward and reverse probability.

A move type is drawn with a fixed probability p(type) that does not depend on the state; a move that is impossible
there leaves the state unchanged. With n interactions, S a scope of size m, and q and g of ``ScopeDistribution``:

    birth   S absent, |S| <= 3                       q(S) · share of its size (2/3 pairs, 1/3 triples; or pairs only)
    death   of S, |S| <= 3                           1/n
    grow    S -> S + {v}                             1/n · g(v | S)
    shrink  S -> S − {v}, m > 2                      1/n · 1/m
    swap    S -> R + {v}, R = S − {u}                1/n · 1/m · g(v | R, v ≠ u)
    merge   A, B -> A ∪ B (overlapping, not nested)  1/n · (1/|A| + 1/|B|) Σ_{i in A∩B} 1/(|A(i)| − 1)
    split   S -> A, B (the same, A ∪ B = S)          1/n · 2/s(m),  s(m) = 3^m − 3·2^m + 3

Merge draws a scope, one of its variables i, and another of the |A(i)| interactions that contain i, in either order of
A and B. s(m) counts the ways to assign each variable of S to A, to B or to both, each of the three at least once.
Every change of state belongs to exactly one type, so p(type) times the above is the whole proposal probability.
"""

from __future__ import annotations

import math
from bisect import bisect, bisect_left
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType

import numpy as np

from dechbo.errors import OptionError
from dechbo.graph import Scope
from dechbo.structure.prior import GraphPrior
from dechbo.structure.scope_distribution import ScopeDistribution, skipping
from dechbo.structure.scopes import ScopeIndex

MAX_BIRTH_SIZE = 3  # larger scopes arise by grow and merge: q(S) sums over m!/2 orders
REVERSE = MappingProxyType(
    {
        "birth": "death",
        "death": "birth",
        "grow": "shrink",
        "shrink": "grow",
        "merge": "split",
        "split": "merge",
        "swap": "swap",
    }
)
MOVE_PROBABILITIES: Mapping[str, float] = MappingProxyType(
    {"birth": 0.25, "death": 0.25, "grow": 0.1, "shrink": 0.1, "merge": 0.05, "split": 0.05, "swap": 0.2}
)
Scopes = tuple[Scope, ...]
Change = tuple[Scopes, Scopes]  # removed, added


@dataclass(frozen=True)
class Proposal:
    """A change of state by a named move, with the log probabilities of proposing it and of proposing its reverse."""

    name: str
    removed: Scopes
    added: Scopes
    log_forward: float
    log_reverse: float


class Moves:
    """Draws proposals. ``probabilities`` are relative weights of the move types; an omitted type is never used."""

    def __init__(
        self,
        prior: GraphPrior,
        distribution: ScopeDistribution | None = None,
        probabilities: Mapping[str, float] | None = None,
    ) -> None:
        self.max_size = prior.max_size
        self.distribution = ScopeDistribution.uniform(prior.dim) if distribution is None else distribution
        if self.distribution.dim != prior.dim:
            raise OptionError(f"the prior has {prior.dim} variables, the distribution has {self.distribution.dim}")
        self.probabilities = _checked(MOVE_PROBABILITIES if probabilities is None else probabilities, self.max_size)
        self._names = tuple(self.probabilities)
        self._bounds = np.cumsum(list(self.probabilities.values())).tolist()[:-1]
        sizes = range(2, min(self.max_size, MAX_BIRTH_SIZE) + 1)
        self.birth_sizes = {size: 2.0 ** (sizes[-1] - size) / (2 ** len(sizes) - 1) for size in sizes}
        self._draw: dict[str, Callable[[np.random.Generator, ScopeIndex], Change | None]] = {
            "birth": self._birth,
            "death": self._death,
            "grow": self._grow,
            "shrink": self._shrink,
            "merge": self._merge,
            "split": self._split,
            "swap": self._swap,
        }

    def pick(self, rng: np.random.Generator) -> str:
        """Draw a move type."""
        return self._names[bisect(self._bounds, rng.random())]

    def propose(self, rng: np.random.Generator, current: ScopeIndex, name: str | None = None) -> Proposal | None:
        """A proposal of a drawn type, or of type ``name``; None if that move is impossible here.

        ``log_forward`` includes p(type) in either case.
        """
        name = self.pick(rng) if name is None else name
        change = self._draw[name](rng, current)
        if change is None or any(scope in current for scope in change[1]):
            return None
        return self.proposal(current, name, *change)

    def proposal(self, current: ScopeIndex, name: str, removed: Scopes, added: Scopes) -> Proposal:
        """The given change by the move ``name``, with its exact log probabilities; the move must be able to make it."""
        count = len(current)
        forward = self._log_choice(name, count, removed, added, current, 0)
        reverse = self._log_choice(REVERSE[name], count + len(added) - len(removed), added, removed, current, 1)
        return Proposal(
            name,
            removed,
            added,
            math.log(self.probabilities[name]) + forward,
            math.log(self.probabilities[REVERSE[name]]) + reverse,
        )

    def _log_choice(
        self, name: str, count: int, removed: Scopes, added: Scopes, current: ScopeIndex, more: int
    ) -> float:
        """The log probability of a move from a state of ``count`` interactions, by the table at the top of this file.

        ``more`` is by how much A(i) is larger there than in ``current``, for the variables that a merge shares.
        """
        if name == "birth":
            return math.log(self.birth_sizes[len(added[0])] * self.distribution.probability(added[0]))
        scope = removed[0]
        chance = 1.0
        if name == "grow":
            (new,) = set(added[0]).difference(scope)
            chance = self.distribution.variable_probability(new, scope)
        elif name == "shrink":
            chance = 1 / len(scope)
        elif name == "swap":
            (new,), (old,) = set(added[0]).difference(scope), set(scope).difference(added[0])
            rest = tuple(i for i in scope if i != old)
            chance = self.distribution.variable_probability(new, rest, (old,)) / len(scope)
        elif name == "merge":
            shared = set(scope).intersection(removed[1])
            meet = sum(1 / (len(current.by_variable[i]) - 1 + more) for i in sorted(shared))
            chance = (1 / len(scope) + 1 / len(removed[1])) * meet
        elif name == "split":
            return math.log(2) - math.log(_ways_to_split(len(scope))) - math.log(count)  # 3^m may overflow a float
        return math.log(chance / count)

    def _birth(self, rng: np.random.Generator, current: ScopeIndex) -> Change | None:
        if not self.birth_sizes:
            return None
        if len(self.birth_sizes) > 1 and rng.random() >= self.birth_sizes[2]:
            triple = self.distribution.draw_triple(rng)
            return None if triple is None else ((), (triple,))
        return (), (self.distribution.draw_pair(rng),)

    def _death(self, rng: np.random.Generator, current: ScopeIndex) -> Change | None:
        scope = _one_of(rng, current.scopes)
        return None if scope is None or len(scope) > MAX_BIRTH_SIZE else ((scope,), ())

    def _grow(self, rng: np.random.Generator, current: ScopeIndex) -> Change | None:
        scope = _one_of(rng, current.scopes)
        if scope is None or len(scope) == self.max_size or (new := self.distribution.draw_variable(rng, scope)) is None:
            return None
        return (scope,), (tuple(sorted((*scope, new))),)

    def _shrink(self, rng: np.random.Generator, current: ScopeIndex) -> Change | None:
        scope = _one_of(rng, current.scopes)
        if scope is None or len(scope) == 2:
            return None
        old = scope[int(rng.random() * len(scope))]
        return (scope,), (tuple(i for i in scope if i != old),)

    def _swap(self, rng: np.random.Generator, current: ScopeIndex) -> Change | None:
        scope = _one_of(rng, current.scopes)
        if scope is None:
            return None
        old = scope[int(rng.random() * len(scope))]
        rest = tuple(i for i in scope if i != old)
        new = self.distribution.draw_variable(rng, rest, (old,))
        return None if new is None else ((scope,), (tuple(sorted((*rest, new))),))

    def _merge(self, rng: np.random.Generator, current: ScopeIndex) -> Change | None:
        scope = _one_of(rng, current.scopes)
        if scope is None:
            return None
        holders = current.by_variable[scope[int(rng.random() * len(scope))]]
        if len(holders) == 1:
            return None
        other = holders[skipping(int(rng.random() * (len(holders) - 1)), (bisect_left(holders, scope),))]
        union = tuple(sorted({*scope, *other}))
        # nested scopes: the union is already present, so propose() returns None
        return None if len(union) > self.max_size else ((scope, other), (union,))

    def _split(self, rng: np.random.Generator, current: ScopeIndex) -> Change | None:
        scope = _one_of(rng, current.scopes)
        if scope is None or len(scope) == 2:
            return None
        while True:  # rejection sampling: uniform over the s(m) ways
            parts = [int(3 * rng.random()) for _ in scope]  # 0: to A, 1: to B, 2: to both
            if len(set(parts)) == 3:
                break
        first, second = (tuple(i for i, part in zip(scope, parts, strict=True) if part != other) for other in (1, 0))
        return (scope,), (first, second)


def _ways_to_split(size: int) -> int:
    """s(m), the number of maps from m variables onto {A, B, both}."""
    return int(3**size - 3 * 2**size + 3)


def _one_of(rng: np.random.Generator, scopes: Scopes) -> Scope | None:
    return scopes[int(rng.random() * len(scopes))] if scopes else None


def _checked(probabilities: Mapping[str, float], max_size: int) -> dict[str, float]:
    if unknown := sorted(set(probabilities) - set(REVERSE)):
        raise OptionError(f"moves are {', '.join(REVERSE)}, got {unknown}")
    if not all(0 <= weight < math.inf for weight in probabilities.values()):
        raise OptionError(f"move probabilities need to be finite and at least 0, got {dict(probabilities)}")
    used = {name: float(probabilities[name]) for name in REVERSE if probabilities.get(name, 0) > 0}
    if unpaired := sorted(name for name in used if REVERSE[name] not in used):
        raise OptionError(f"each move needs its reverse: {unpaired[0]!r} comes without {REVERSE[unpaired[0]]!r}")
    if "birth" not in used:
        raise OptionError("moves need birth and death, or the chain cannot reach every graph")
    if max_size > MAX_BIRTH_SIZE and not {"grow", "merge"} & set(used):
        raise OptionError(f"scopes of more than {MAX_BIRTH_SIZE} variables need grow and shrink, or merge and split")
    total = sum(used.values())
    return {name: weight / total for name, weight in used.items()}
