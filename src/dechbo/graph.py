"""The factor graph U: which variables each factor sees (Assumption 1).

Notation: d = ``dim`` variables, numbered from 0; a *scope* I is the tuple of variables of one factor;
U = ``scopes``. Scopes may overlap and may be nested, but no two have the same variables.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import combinations
from typing import Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

from dechbo.errors import ScopeError, format_list

Scope = tuple[int, ...]
T = TypeVar("T")


class Named(Protocol):
    """Anything whose variables have names, such as a Space."""

    @property
    def names(self) -> Sequence[str]:
        """One name per variable."""
        ...


@dataclass(frozen=True)
class FactorGraph:
    """d variables, and the scopes of the factors; every variable is in at least one scope."""

    dim: int
    scopes: tuple[Scope, ...]

    def __post_init__(self) -> None:
        object.__setattr__(self, "dim", _checked_dim(self.dim))
        object.__setattr__(self, "scopes", _checked_scopes(self.scopes, self.dim))
        seen: dict[frozenset[int], Scope] = {}
        for scope in self.scopes:
            if (first := seen.setdefault(frozenset(scope), scope)) is not scope:
                raise ScopeError(f"scope {scope} has the same variables as scope {first}: keep one of them")
        missing = sorted(set(range(self.dim)) - {i for scope in self.scopes for i in scope})
        if missing:
            raise ScopeError(
                f"every variable needs a factor, but variables {format_list(missing)} are in no scope: "
                "add them to a scope, or call FactorGraph.covering(dim, scopes)"
            )

    @classmethod
    def singletons(cls, dim: int) -> FactorGraph:
        """One factor per variable: a purely additive function."""
        return cls.covering(dim, ())

    @classmethod
    def covering(cls, dim: int, scopes: Iterable[Scope]) -> FactorGraph:
        """The given scopes, and a singleton for each variable that is in none of them."""
        dim = _checked_dim(dim)
        given = _checked_scopes(scopes, dim)
        covered = {i for scope in given for i in scope}
        return cls(dim, given + tuple((i,) for i in range(dim) if i not in covered))

    @classmethod
    def from_names(cls, space: Named, scopes: Iterable[Iterable[str]]) -> FactorGraph:
        """A graph whose scopes name the parameters of ``space`` instead of their indices."""
        index = {name: i for i, name in enumerate(space.names)}
        numbered = []
        for scope in _as_tuple(scopes):
            names = (scope,) if isinstance(scope, str) else _as_tuple(scope)
            unknown = [name for name in names if not isinstance(name, str) or name not in index]
            if unknown:
                raise ScopeError(
                    f"scope {names} names {unknown}, which are not parameters; the space has {format_list(list(index))}"
                )
            numbered.append(tuple(index[name] for name in names))
        covered = {i for scope in numbered for i in scope}
        missing = [name for name, i in index.items() if i not in covered]
        if missing:
            raise ScopeError(
                f"every parameter needs a factor, but {format_list(missing)} are in no scope: "
                f"add e.g. ({missing[0]!r},) for a parameter that acts on its own"
            )
        return cls(len(index), tuple(numbered))

    def with_subsets(self) -> FactorGraph:
        """The graph with every non-empty subset of a scope added as a scope, smallest scopes first.

        Centred kernels are pure interactions, so a general function of three variables is a sum over all seven subsets.
        """
        subsets = {
            tuple(sorted(subset))
            for scope in self.scopes
            for size in range(1, len(scope) + 1)
            for subset in combinations(scope, size)
        }
        return FactorGraph(self.dim, tuple(sorted(subsets, key=lambda subset: (len(subset), subset))))

    @property
    def max_factor_size(self) -> int:
        """The largest number of variables in a scope."""
        return max(len(scope) for scope in self.scopes)

    @cached_property
    def starts(self) -> NDArray[np.int64]:
        """Scope k is ``members[starts[k]:starts[k + 1]]``."""
        return np.concatenate([[0], np.cumsum([len(scope) for scope in self.scopes])]).astype(np.int64)

    @cached_property
    def members(self) -> NDArray[np.int64]:
        """All scopes, concatenated."""
        return np.array([i for scope in self.scopes for i in scope], dtype=np.int64)

    @cached_property
    def factors_of(self) -> tuple[tuple[int, ...], ...]:
        """A(i), the factors that see variable i, for every i."""
        found: list[list[int]] = [[] for _ in range(self.dim)]
        for k, scope in enumerate(self.scopes):
            for i in scope:
                found[i].append(k)
        return tuple(tuple(factors) for factors in found)

    @cached_property
    def by_size(self) -> tuple[tuple[NDArray[np.int64], NDArray[np.int64]], ...]:
        """For each factor size m: the factors of that size, and their scopes as an (n, m) array."""
        sizes = np.diff(self.starts)
        answer = []
        for size in np.unique(sizes):
            factors = np.flatnonzero(sizes == size)
            answer.append((factors, self.members[self.starts[factors][:, None] + np.arange(size)]))
        return tuple(answer)


def _checked_dim(dim: int) -> int:
    if isinstance(dim, bool) or not isinstance(dim, (int, np.integer)) or dim < 1:
        raise ScopeError(f"a factor graph needs dim >= 1 (a whole number), got {dim!r}")
    return int(dim)


def _checked_scopes(scopes: Iterable[Iterable[int]], dim: int) -> tuple[Scope, ...]:
    return tuple(_checked(_as_tuple(scope), dim) for scope in _as_tuple(scopes))


def _checked(scope: tuple[int, ...], dim: int) -> Scope:
    if not scope:
        raise ScopeError("a scope needs at least one variable, got an empty one")
    for i in scope:
        if isinstance(i, bool) or not isinstance(i, (int, np.integer)):
            raise ScopeError(f"scope {scope} needs whole numbers, got {i!r}; for names use FactorGraph.from_names")
        if not 0 <= i < dim:
            raise ScopeError(f"scope {scope} needs indices from 0 to {dim - 1}, got {i}")
    if len(set(scope)) < len(scope):
        raise ScopeError(f"scope {scope} names a variable twice")
    return tuple(int(i) for i in scope)


def _as_tuple(items: Iterable[T]) -> tuple[T, ...]:
    try:
        return tuple(items)
    except TypeError:
        raise ScopeError(f"scopes are tuples of variables, got {items!r}: write ({items!r},)") from None
