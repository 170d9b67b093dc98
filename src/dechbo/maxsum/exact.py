"""Exact maximisation by variable elimination, on any graph whose intermediate tables fit in memory."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from heapq import heapify, heappop, heappush

import numpy as np

from dechbo.checks import whole
from dechbo.errors import TableError
from dechbo.graph import Scope
from dechbo.maxsum.maximum import Maximum
from dechbo.maxsum.messages import Array, Indices
from dechbo.maxsum.reduction import aligned
from dechbo.tables import FactorTables

Neighbours = list[set[int]]


@dataclass(frozen=True, kw_only=True)
class Exact:
    """Maximise out one variable at a time, then trace back: upper_bound = value on every graph.

    ``maximize`` raises TableError if an intermediate table needs more than ``max_cells`` cells.
    """

    max_cells: int = 2**24

    def __post_init__(self) -> None:
        whole("max_cells", self.max_cells, 1)

    def maximize(self, tables: FactorTables) -> Maximum:
        """The exact maximum of ``tables``."""
        # a variable with one candidate leaves no choice: drop its axis
        free = [frozenset(i for i in scope if tables.sizes[i] > 1) for scope in tables.graph.scopes]
        order, peak = elimination_order(free, tables.sizes)
        if peak > math.log(self.max_cells) + 1e-9:
            raise TableError(
                f"exact elimination needs a table of {_count(peak)} cells here, max_cells is {self.max_cells}: "
                "use MaxSum, fewer candidates or a sparser graph"
            )
        choice = eliminate(tables, order)
        value = tables.value(choice)
        return Maximum(choice, value, value, 0, True, 0.0, mean=tables.mean)


def elimination_order(scopes: Sequence[frozenset[int]], sizes: Indices) -> tuple[list[int], float]:
    """The better of two greedy orders (smallest table, fewest new edges), and the log size of its largest table."""
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
            continue  # stale: a later entry replaced it
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


def eliminate(tables: FactorTables, order: Sequence[int]) -> Indices:
    """psi(x_S) = max_{x_i} sum of the tables that see i; argmaxima are stored and read in reverse order."""
    turn = {i: n for n, i in enumerate(order)}
    buckets: list[list[tuple[Scope, Array]]] = [[] for _ in order]

    def place(scope: Scope, table: Array) -> None:
        if scope:
            buckets[min(turn[i] for i in scope)].append((scope, table))

    for scope, table in zip(tables.graph.scopes, tables.values, strict=True):
        free = tuple(i for i in scope if tables.sizes[i] > 1)
        place(free, table.reshape([tables.sizes[i] for i in free]))
    argmaxima: list[tuple[Scope, Indices]] = []
    for i, bucket in zip(order, buckets, strict=True):
        # the neighbour eliminated next comes last, so that its maximum runs along contiguous memory
        scope = (*sorted({j for other, _ in bucket for j in other} - {i}, key=lambda j: -turn[j]), i)
        total = np.zeros([tables.sizes[j] for j in scope])
        for other, table in bucket:
            total += aligned(table, other, scope)
        argmaxima.append((scope[:-1], total.argmax(axis=-1)))
        place(scope[:-1], total.max(axis=-1))
    choice = np.zeros(tables.graph.dim, dtype=np.int64)
    for i, (scope, best) in zip(reversed(order), reversed(argmaxima), strict=True):
        choice[i] = best[tuple(choice[list(scope)])]
    return choice


def _count(log_cells: float) -> str:
    exponent = log_cells / math.log(10)
    return f"{math.exp(log_cells):.4g}" if exponent < 300 else f"10^{exponent:.0f}"
