"""Sets of interactions: as a factor graph, and as the index that a chain updates."""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from dechbo.errors import ScopeError
from dechbo.graph import FactorGraph, Scope
from dechbo.structure.prior import GraphPrior

ScopeSet = frozenset[Scope]


def interaction_graph(dim: int, interactions: Iterable[Scope]) -> FactorGraph:
    """The factor graph with all singletons, followed by the interactions in sorted order."""
    return FactorGraph(dim, tuple((i,) for i in range(dim)) + tuple(sorted(interactions)))


@dataclass(frozen=True)
class ScopeIndex:
    """A set of interactions, sorted (so that it does not depend on the path of the chain) and indexed by variable."""

    scopes: tuple[Scope, ...]
    interactions: ScopeSet
    by_variable: dict[int, tuple[Scope, ...]]  # A(i): the interactions that contain variable i, sorted; read only

    @classmethod
    def of(cls, prior: GraphPrior, interactions: Iterable[Sequence[int]]) -> ScopeIndex:
        """Check and index ``interactions``; the variables of a scope may come in any order."""
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
        """A copy without the scopes ``removed`` and with the scopes ``added``."""
        scopes, by_variable = list(self.scopes), dict(self.by_variable)
        for scope in removed:
            del scopes[bisect_left(scopes, scope)]
            for i in scope:
                by_variable[i] = tuple(other for other in by_variable[i] if other != scope)
        for scope in added:
            insort(scopes, scope)
            for i in scope:
                by_variable[i] = tuple(sorted((*by_variable.get(i, ()), scope)))
        return ScopeIndex(tuple(scopes), self.interactions.difference(removed).union(added), by_variable)
