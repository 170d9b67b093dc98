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
    """A Poisson number of interactions of each size m, whose rate is unknown and learned with the graph:

        rate_m ~ Gamma(shape a_m, rate 1/d),   a_m = expected · exp(−size_cost (m − 2)),
        p(U | rates) ∝ Π_{I in U} rate_|I| / C(d, |I|).

    With the rates integrated out, n_m being the number of interactions of size m,

        log p(U) = Σ_m [log Γ(a_m + n_m) − log Γ(a_m) − n_m log((1 + 1/d) C(d, m))] + const.

    The first pair has odds of about ``expected`` to be anywhere; after n pairs, the next has odds of n + ``expected``:
    data without interactions show none, and data with many make a further one likely.
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

    def log_shape(self, size: int) -> float:
        """log a_m."""
        return math.log(self.expected) - self.size_cost * (size - 2)

    @cached_property
    def _log_scopes(self) -> tuple[float, ...]:
        """log((1 + 1/d) C(d, m)) for m = 2, 3, ..."""
        return tuple(
            math.log1p(1 / self.dim) + math.log(math.comb(self.dim, size)) for size in range(2, self.max_size + 1)
        )

    def log_odds(self, size: int, present: int = 0) -> float:
        """The log odds of one more scope of that size, with ``present`` others of its size in the graph."""
        if not 2 <= size <= self.max_size:
            raise ScopeError(f"an interaction has 2 to {self.max_size} of the {self.dim} variables, got {size}")
        return (
            float(np.logaddexp(self.log_shape(size), math.log(present) if present else -math.inf))
            - (self._log_scopes[size - 2])
        )

    def log_density(self, interactions: Iterable[Scope]) -> float:
        """log p(U) without its constant; 0 for no interactions."""
        # by size, so that the value depends on the set alone and not on the path of the chain
        counts = sorted(Counter(map(len, interactions)).items())
        return sum(self.log_odds(size, present) for size, count in counts for present in range(count))
