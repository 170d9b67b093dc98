"""The same maximisation problem with fewer factors: exact, and it removes cycles.

A singleton factor becomes a unary term of its variable. A factor whose scope is a subset of another one is added into
the table of that superset. Forbidden cells (-inf) become finite but so low that they are never worth choosing.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from dechbo.compiled import compiled
from dechbo.graph import FactorGraph, Scope
from dechbo.maxsum.larger import larger
from dechbo.maxsum.messages import Array, Indices, Packed, pack
from dechbo.tables import FactorTables


@dataclass(frozen=True)
class Absorption:
    """What becomes of each factor."""

    singletons: tuple[tuple[int, int], ...]  # (factor, its variable)
    absorbed: tuple[tuple[int, int], ...]  # (factor, the factor whose scope holds its scope)
    kept: tuple[int, ...]


@dataclass(frozen=True, eq=False)
class Reduced:
    """phi(x) = sum_i unary_i(x_i) + sum_k table_k(x), over kept factors of two variables or more; all cells finite."""

    graph: FactorGraph  # of the tables as they came
    sizes: Indices
    flat: Array
    starts: Indices  # of all factors' tables in flat
    unary: Array
    unary_at: Indices
    scale: float  # the largest range of a table's allowed cells
    floor: float  # no allowed choice has a lower value; -inf where no cell is forbidden

    def packed(self, factors: tuple[int, ...]) -> Packed:
        """Some of the kept factors, for the compiled loops."""
        scopes = [self.graph.scopes[k] for k in factors]
        tables = self.starts[np.array(factors, dtype=np.int64)]
        return pack(self.flat, tables, scopes, self.sizes, self.unary, self.unary_at)


@lru_cache(maxsize=8)
def absorption(graph: FactorGraph) -> Absorption:
    """Each factor goes to the largest scope that holds its own (the first one among equals)."""
    held = [frozenset(scope) for scope in graph.scopes]
    singletons, absorbed, kept = [], [], []
    for k, scope in enumerate(graph.scopes):
        if len(scope) == 1:
            singletons.append((k, scope[0]))
            continue
        rarest = min((graph.factors_of[i] for i in scope), key=len)
        supersets = [j for j in rarest if held[k] < held[j]]
        if supersets:
            absorbed.append((k, max(supersets, key=lambda j: len(held[j]))))
        else:
            kept.append(k)
    return Absorption(tuple(singletons), tuple(absorbed), tuple(kept))


def reduce(tables: FactorTables) -> Reduced:
    """Absorb singletons and subsets; the tables' own memory is used unless a cell has to change."""
    graph, plan = tables.graph, absorption(tables.graph)
    unary_at = np.concatenate([[0], np.cumsum(tables.sizes)])
    unary = np.zeros(unary_at[-1])
    for k, i in plan.singletons:
        unary[unary_at[i] : unary_at[i + 1]] = tables.values[k]
    flat = tables.flat.copy() if plan.absorbed else tables.flat
    for k, j in plan.absorbed:
        shape = [tables.sizes[i] for i in graph.scopes[j]]
        view = flat[tables.starts[j] : tables.starts[j + 1]].reshape(shape)
        view += aligned(tables.values[k], graph.scopes[k], graph.scopes[j])
    kept = np.array(plan.kept, dtype=np.int64)
    low, high = extremes(flat, tables.starts[kept], tables.starts[kept + 1])
    unary_low, unary_high = extremes(unary, unary_at[:-1], unary_at[1:])
    ranges = np.concatenate([high[0] - low[0], unary_high[0] - unary_low[0]])
    floor = -np.inf
    if not (np.isfinite(low[1]).all() and np.isfinite(unary_low[1]).all()):
        lows = np.concatenate([low[0], unary_low[0]])
        floor = float(lows.sum())
        flat = flat.copy() if flat is tables.flat else flat
        # deeper than everything else can gain, and than rounding can hide
        depth = 1.0 + 2.0 * float(ranges.sum()) + 1e-9 * float(np.abs(lows).sum())
        for k, finite in zip(kept, low[0], strict=True):
            _lift(flat[tables.starts[k] : tables.starts[k + 1]], finite - depth)
        for i, finite in enumerate(unary_low[0]):
            _lift(unary[unary_at[i] : unary_at[i + 1]], finite - depth)
    return Reduced(graph, tables.sizes, flat, tables.starts, unary, unary_at, float(ranges.max()), floor)


def aligned(table: Array, scope: Scope, superset: Scope) -> Array:
    """``table`` with its axes in the order of ``superset``, length 1 where the variable is not in ``scope``."""
    order = sorted(range(len(scope)), key=lambda axis: superset.index(scope[axis]))
    lengths = dict(zip(scope, table.shape, strict=True))
    return np.transpose(table, order).reshape([lengths.get(i, 1) for i in superset])


def _lift(cells: Array, value: float) -> None:
    cells[cells == -np.inf] = value


def extremes(flat: Array, starts: Indices, ends: Indices) -> tuple[Array, Array]:
    """For each part of ``flat``: rows (over finite cells, over all cells) of the minima and of the maxima.

    A part without a finite cell counts as 0.
    """
    low, high = np.empty((2, len(starts))), np.empty((2, len(starts)))
    least_and_most(flat, starts, ends, low[1], high[1])
    low[0], high[0] = low[1], high[1]
    for k in np.flatnonzero(low[1] == -np.inf):
        cells = flat[starts[k] : ends[k]]
        finite = cells[cells > -np.inf]
        low[0, k], high[0, k] = (finite.min(), finite.max()) if finite.size else (0.0, 0.0)
    return low, high


@compiled
def least_and_most(flat: Array, starts: Indices, ends: Indices, low: Array, high: Array) -> None:
    """min and max of flat[starts[k]:ends[k]] for each k."""
    for k in range(len(starts)):
        part = flat[starts[k] : ends[k]]
        least, most = np.inf, -np.inf
        for cell in range(len(part)):
            least = -larger(-least, -part[cell])
            most = larger(most, part[cell])
        low[k], high[k] = least, most
