"""A plain function of the interactions as the target of a chain."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from dechbo.graph import Scope
from dechbo.structure.sampler import State
from dechbo.structure.scopes import ScopeSet


@dataclass(frozen=True)
class FunctionTarget:
    """log p(data | U) = function(U), without a payload."""

    function: Callable[[ScopeSet], float]

    def log_likelihood(
        self, current: State | None, added: tuple[Scope, ...], removed: tuple[Scope, ...]
    ) -> tuple[float, None]:
        before: ScopeSet = frozenset() if current is None else current.interactions
        return self.function(before.difference(removed).union(added)), None


FLAT = FunctionTarget(lambda _: 0.0)
