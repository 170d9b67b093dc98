"""Toulbar2: branch and bound by the weighted constraint solver of that name; needs ``pip install dechbo[toulbar2]``."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from dechbo.errors import DechboError, OptionError
from dechbo.maxsum.maximum import Maximum
from dechbo.maxsum.maxsum import MaxSum
from dechbo.maxsum.messages import Array
from dechbo.tables import FactorTables

DIGITS = 9  # decimal digits of a cost, in units of the largest range of a table


@dataclass(frozen=True, kw_only=True)
class Toulbar2:
    """Exact on any graph, given time: starts from max-sum's choice and proves it or finds a better one.

    After ``time_limit`` seconds the best choice and bound so far are returned, which may depend on the machine. Proven
    means: up to costs of 1e-9 of the largest range of a table, rounded up into the bound.
    """

    time_limit: float = 60.0

    def __post_init__(self) -> None:
        given = self.time_limit
        if isinstance(given, bool) or not isinstance(given, (int, float)) or not 1 <= given < math.inf:
            raise OptionError(f"Toulbar2 needs a time_limit of at least 1 second, got {given!r}")

    def maximize(self, tables: FactorTables) -> Maximum:
        """The best choice found, and the bound that was proven."""
        pytoulbar2 = _package()
        start = MaxSum().maximize(tables)
        if start.upper_bound <= start.value:
            return start
        finite = tables.flat[tables.flat > -np.inf]
        scale = float(np.ptp(finite)) or 1.0
        best, unit = [_largest(table) for table in tables.values], scale * 10.0**-DIGITS
        # costs are whole numbers of units, so that nothing depends on how the solver rounds
        costs = [_whole_costs(table, top, unit) for table, top in zip(tables.values, best, strict=True)]
        offset = math.fsum(best)
        limit = sum(int(cost[cost < math.inf].max(initial=0.0)) for cost in costs) + 1
        problem = pytoulbar2.CFN(ubinit=limit, verbose=-1)
        for i, size in enumerate(tables.sizes):
            problem.AddVariable(f"x{i}", range(int(size)))
        for scope, cost in zip(tables.graph.scopes, costs, strict=True):
            cells = np.where(cost < math.inf, cost, limit).astype(np.int64).ravel().tolist()
            problem.AddFunction([f"x{i}" for i in scope], cells)
        answer = problem.Solve(timeLimit=math.ceil(self.time_limit))
        choice = start.choice if answer is None else np.array(answer[0], dtype=np.int64)
        if tables.value(choice) < start.value:
            choice = start.choice
        value = tables.value(choice)
        # costs were rounded down, which only raises the bound; no answer may also mean that everything is forbidden
        nothing = answer is None and problem.GetDDualBound() >= limit
        proven = -math.inf if nothing else offset - problem.GetDDualBound() * unit
        rounding = 64.0 * float(np.finfo(np.float64).eps) * (math.fsum(map(abs, best)) + abs(offset))
        bound = max(value, min(start.upper_bound, proven + rounding))
        return Maximum(choice, value, bound, start.rounds, start.converged, start.residual, mean=tables.mean)


def _whole_costs(table: Array, top: float, unit: float) -> Array:
    return np.floor((top - table) / unit)


def _largest(table: Array) -> float:
    top = float(table.max())
    return top if top > -math.inf else 0.0


def _package() -> Any:
    try:
        import pytoulbar2
    except ImportError:
        raise DechboError("Toulbar2 needs the package pytoulbar2: pip install 'dechbo[toulbar2]'") from None
    return pytoulbar2
