"""Exact: the maximum by variable elimination, on any graph whose intermediate tables fit in memory."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from heapq import heapify, heappop, heappush
from numbers import Integral

import numpy as np

from dechbo.errors import OptionError, TableError
from dechbo.graph import Scope
from dechbo.maxsum.absorb import aligned
from dechbo.maxsum.maximum import Maximum
from dechbo.maxsum.messages import Array, Indices
from dechbo.tables import FactorTables

Neighbours = list[set[int]]


@dataclass(frozen=True, kw_only=True)
class Exact:
    """Maximise out one variable after the other, then trace back: upper_bound = value on every graph.

    No intermediate table may hold more than ``max_cells`` cells; where one would, ``maximize`` raises TableError.
    """

    max_cells: int = 2**24

    def __post_init__(self) -> None:
        if isinstance(self.max_cells, bool) or not isinstance(self.max_cells, Integral) or self.max_cells < 1:
            raise OptionError(f"Exact needs max_cells >= 1 (a whole number), got {self.max_cells!r}")

    def maximize(self, tables: FactorTables) -> Maximum:
        """The exact maximum of ``tables``."""
        # a variable with one candidate has nothing to choose: without it, tables have fewer axes
        free = [frozenset(i for i in scope if tables.sizes[i] > 1) for scope in tables.graph.scopes]
        order, peak = elimination_order(free, tables.sizes)
        if peak > math.log(self.max_cells) + 1e-9:
            raise TableError(
                f"exact elimination needs a table of {_count(peak)} cells here, max_cells is {self.max_cells}: "
                "use MaxSum, fewer candidates or a sparser graph"
            )
        choice = _eliminate(tables, order)
        value = tables.value(choice)
        return Maximum(choice, value, value, 0, True, 0.0, mean=tables.mean)


def elimination_order(scopes: Sequence[frozenset[int]], sizes: Indices) -> tuple[list[int], float]:
    """The better of two greedy orders (smallest table, fewest new edges) and the log of its largest table's cells."""
    weights = [math.log(size) for size in sizes.tolist()]

    def table(i: int, neighbours: Neighbours) -> float:
        return weights[i] + sum(weights[j] for j in neighbours[i])

    def fill(i: int, neighbours: Neighbours) -> float:
        near = neighbours[i]
        missing = sum(len(near) - 1 - len(near & neighbours[j]) for j in near) / 2
        return missing + 1e-3 * table(i, neighbours)

    orders = [_greedy_order(scopes, len(weights), cost, table) for cost in (table, fill)]
    return min(orders, key=lambda order: order[1])


def _greedy_order(
    scopes: Sequence[frozenset[int]],
    dim: int,
    cost: Callable[[int, Neighbours], float],
    table: Callable[[int, Neighbours], float],
) -> tuple[list[int], float]:
    neighbours: Neighbours = [set() for _ in range(dim)]
    for scope in scopes:
        for i in scope:
            neighbours[i] |= scope - {i}
    current = [cost(i, neighbours) for i in range(dim)]
    heap = [(current[i], i) for i in sorted({i for scope in scopes for i in scope})]
    heapify(heap)
    order, peak, gone = [], 0.0, [False] * dim
    while heap:
        known, i = heappop(heap)
        if gone[i] or known != current[i]:
            continue  # an entry that a later one replaced
        gone[i] = True
        order.append(i)
        peak = max(peak, table(i, neighbours))
        near = neighbours[i]
        for j in near:
            neighbours[j] |= near
            neighbours[j] -= {i, j}
        touched = near.union(*(neighbours[j] for j in near)) if cost is not table else near
        for j in sorted(touched):
            if (new := cost(j, neighbours)) != current[j]:
                current[j] = new
                heappush(heap, (new, j))
    return order, peak


def _eliminate(tables: FactorTables, order: Sequence[int]) -> Indices:
    """psi(x_S) = max_{x_i} sum of the tables that see i; argmaxima are kept and read in reverse order."""
    turn = {i: n for n, i in enumerate(order)}
    buckets: list[list[tuple[Scope, Array]]] = [[] for _ in order]

    def place(scope: Scope, table: Array) -> None:
        if scope:
            buckets[min(turn[i] for i in scope)].append((scope, table))

    for scope, table in zip(tables.graph.scopes, tables.values, strict=True):
        free = tuple(i for i in scope if tables.sizes[i] > 1)
        place(free, table.reshape([tables.sizes[i] for i in free]))
    answers: list[tuple[Scope, Indices]] = []
    for i, bucket in zip(order, buckets, strict=True):
        # the neighbour that goes next comes last, so that its maximum runs along memory
        scope = (*sorted({j for other, _ in bucket for j in other} - {i}, key=lambda j: -turn[j]), i)
        total = np.zeros([tables.sizes[j] for j in scope])
        for other, table in bucket:
            total += aligned(table, other, scope)
        answers.append((scope[:-1], total.argmax(axis=-1)))
        place(scope[:-1], total.max(axis=-1))
    choice = np.zeros(tables.graph.dim, dtype=np.int64)
    for i, (scope, best) in zip(reversed(order), reversed(answers), strict=True):
        choice[i] = best[tuple(choice[list(scope)])]
    return choice


def _count(log_cells: float) -> str:
    exponent = log_cells / math.log(10)
    return f"{math.exp(log_cells):.4g}" if exponent < 300 else f"10^{exponent:.0f}"
