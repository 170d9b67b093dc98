"""Auto: the maximizer that fits the graph."""

from __future__ import annotations

import math
from dataclasses import dataclass

from dechbo.checks import whole
from dechbo.errors import OptionError
from dechbo.maxsum.exact import Exact, elimination_order
from dechbo.maxsum.forest import connected_components
from dechbo.maxsum.maximum import Maximizer, Maximum
from dechbo.maxsum.maxsum import MaxSum
from dechbo.tables import FactorTables


@dataclass(frozen=True, kw_only=True)
class Auto:
    """Forests by one exact pass, graphs of small width by elimination, all others by max-sum with its certificate.

    Small means that no intermediate table has more than ``max_cells`` cells. The choice depends on the tables alone,
    never on which optional packages are installed.
    """

    max_cells: int = 2**18

    def __post_init__(self) -> None:
        whole("max_cells", self.max_cells, 1)

    def pick(self, tables: FactorTables) -> Maximizer:
        """The maximizer for these tables."""
        if not connected_components(tables.graph).cyclic:
            return MaxSum()
        free = [frozenset(i for i in scope if tables.sizes[i] > 1) for scope in tables.graph.scopes]
        if elimination_order(free, tables.sizes)[1] <= math.log(self.max_cells) + 1e-9:
            return Exact(max_cells=self.max_cells)
        return MaxSum()

    def maximize(self, tables: FactorTables) -> Maximum:
        """By the maximizer that ``pick`` gives."""
        return self.pick(tables).maximize(tables)


def as_maximizer(given: Maximizer | str | None) -> Maximizer:
    """``given`` itself, Auto() for "auto", MaxSum() for None."""
    if given is None:
        return MaxSum()
    if isinstance(given, str) and given == "auto":
        return Auto()
    if isinstance(given, (str, type)) or not hasattr(given, "maximize"):
        raise OptionError(
            f'a maximizer is "auto" or has a method maximize(tables), e.g. MaxSum() or Exact(); got {given!r}'
        )
    return given
