"""The prior over sets of interactions.

Notation: d = ``dim`` variables. Every singleton is always in the graph, so what is learned is U, the set of
*interactions*: scopes of 2 to ``max_factor_size`` variables. They are pure interactions: scopes may overlap and may be
nested, and there is no heredity (a triple does not need its pairs).
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from dechbo.errors import OptionError, ScopeError
from dechbo.graph import Scope


@dataclass(frozen=True)
class GraphPrior:
    """log p(U) = Σ_{I in U} log w(|I|) + const, with w(m) = expected · exp(−size_cost (m − 2)) / C(d, m).

    Each scope I is in U independently, with odds w(|I|). Every further variable of a scope costs ``size_cost``, and
    dividing by the number of scopes of that size makes the expected number of pairs nearly ``expected`` for every d
    (slightly less, because odds are not probabilities).
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
    def max_size(self) -> int:
        """The largest possible interaction: min(``max_factor_size``, d)."""
        return min(self.max_factor_size, self.dim)

    @cached_property
    def _log_weights(self) -> tuple[float, ...]:
        return tuple(
            math.log(self.expected) - self.size_cost * (size - 2) - math.log(math.comb(self.dim, size))
            for size in range(2, self.max_size + 1)
        )

    def log_weight(self, size: int) -> float:
        """log w(size), the log odds of one scope of that size."""
        if not 2 <= size <= self.max_size:
            raise ScopeError(f"an interaction has 2 to {self.max_size} of the {self.dim} variables, got {size}")
        return self._log_weights[size - 2]

    def log_density(self, interactions: Iterable[Scope]) -> float:
        """log p(U) without its constant; 0 for no interactions."""
        # summed by size, so that the value depends on the set alone and not on the path of the chain
        return sum(n * self.log_weight(size) for size, n in sorted(Counter(map(len, interactions)).items()))
