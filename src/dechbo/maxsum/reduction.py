"""An equivalent maximisation problem with fewer factors and fewer cycles.

A singleton factor becomes a unary term of its variable. A factor whose scope is a subset of another scope is added to
that factor's table. Forbidden cells (-inf) get a finite value so low that choosing them never pays.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from dechbo.compiled import compiled
from dechbo.graph import FactorGraph, Scope
from dechbo.maxsum.fast_max import fast_max
from dechbo.maxsum.messages import Array, Indices, Packed, pack
from dechbo.tables import FactorTables


@dataclass(frozen=True)
class MergePlan:
    """Where each factor of a graph goes."""

    singletons: tuple[tuple[int, int], ...]  # (factor, its variable)
    merged: tuple[tuple[int, int], ...]  # (factor, the factor whose scope contains its scope)
    remaining: tuple[int, ...]


@dataclass(frozen=True, eq=False)
class ReducedTables:
    """phi(x) = sum_i unary_i(x_i) + sum_k table_k(x), k over the remaining factors; all cells are finite."""

    graph: FactorGraph  # the original graph
    sizes: Indices
    flat: Array
    starts: Indices  # of every factor's table in flat
    unary: Array
    unary_starts: Indices
    scale: float  # the largest range of a table's allowed cells
    floor: float  # no allowed choice has a lower value; -inf where no cell is forbidden

    def packed(self, factors: tuple[int, ...]) -> Packed:
        """Pack some of the remaining factors for the compiled loops."""
        scopes = [self.graph.scopes[k] for k in factors]
        tables = self.starts[np.array(factors, dtype=np.int64)]
        return pack(self.flat, tables, scopes, self.sizes, self.unary, self.unary_starts)


@lru_cache(maxsize=8)
def merge_plan(graph: FactorGraph) -> MergePlan:
    """Merge each factor into the largest scope that contains its own (the first of equals)."""
    variables = [frozenset(scope) for scope in graph.scopes]
    singletons, merged, remaining = [], [], []
    for k, scope in enumerate(graph.scopes):
        if len(scope) == 1:
            singletons.append((k, scope[0]))
            continue
        rarest = min((graph.factors_of[i] for i in scope), key=len)
        supersets = [j for j in rarest if variables[k] < variables[j]]
        if supersets:
            merged.append((k, max(supersets, key=lambda j: len(variables[j]))))
        else:
            remaining.append(k)
    return MergePlan(tuple(singletons), tuple(merged), tuple(remaining))


def reduce_tables(tables: FactorTables) -> ReducedTables:
    """Merge singletons and subsets; the tables' own memory is used unless a cell has to change."""
    flat, unary, unary_starts = merged_tables(tables)
    remaining = np.array(merge_plan(tables.graph).remaining, dtype=np.int64)
    low, high = extremes(flat, tables.starts[remaining], tables.starts[remaining + 1])
    unary_low, unary_high = extremes(unary, unary_starts[:-1], unary_starts[1:])
    ranges = np.concatenate([high[0] - low[0], unary_high[0] - unary_low[0]])
    floor = -np.inf
    if not (np.isfinite(low[1]).all() and np.isfinite(unary_low[1]).all()):
        lows = np.concatenate([low[0], unary_low[0]])
        floor = float(lows.sum())
        flat = flat.copy() if flat is tables.flat else flat
        depth = forbidden_depth(float(ranges.sum()), float(np.abs(lows).sum()))
        fill_forbidden(flat, tables.starts[remaining], tables.starts[remaining + 1], low[0] - depth)
        fill_forbidden(unary, unary_starts[:-1], unary_starts[1:], unary_low[0] - depth)
    return ReducedTables(
        tables.graph, tables.sizes, flat, tables.starts, unary, unary_starts, float(ranges.max()), floor
    )


def merged_tables(tables: FactorTables) -> tuple[Array, Array, Indices]:
    """(flat, unary, unary_starts): subsets added into the tables that contain them, singletons as unary terms."""
    graph, plan = tables.graph, merge_plan(tables.graph)
    unary_starts = np.concatenate([[0], np.cumsum(tables.sizes)])
    unary = np.zeros(unary_starts[-1])
    for k, i in plan.singletons:
        unary[unary_starts[i] : unary_starts[i + 1]] = tables.values[k]
    flat = tables.flat.copy() if plan.merged else tables.flat
    for k, j in plan.merged:
        shape = [tables.sizes[i] for i in graph.scopes[j]]
        view = flat[tables.starts[j] : tables.starts[j + 1]].reshape(shape)
        view += aligned(tables.values[k], graph.scopes[k], graph.scopes[j])
    return flat, unary, unary_starts


def forbidden_depth(ranges: float, magnitudes: float) -> float:
    """How far below its lowest allowed cell a table's forbidden cells go, from sums over all tables.

    More than all other tables together can gain, and more than rounding can hide.
    """
    return 1.0 + 2.0 * ranges + 1e-9 * magnitudes


def fill_forbidden(flat: Array, starts: Indices, ends: Indices, values: Array) -> None:
    """Replace -inf in flat[starts[k]:ends[k]] by values[k]."""
    for start, end, value in zip(starts, ends, values, strict=True):
        cells = flat[start:end]
        cells[cells == -np.inf] = value


def aligned(table: Array, scope: Scope, superset: Scope) -> Array:
    """``table`` with its axes in the order of ``superset``, length 1 where the variable is not in ``scope``."""
    order = sorted(range(len(scope)), key=lambda axis: superset.index(scope[axis]))
    lengths = dict(zip(scope, table.shape, strict=True))
    return np.transpose(table, order).reshape([lengths.get(i, 1) for i in superset])


def extremes(flat: Array, starts: Indices, ends: Indices) -> tuple[Array, Array]:
    """Minima and maxima of each part of ``flat``; row 0 is over the finite cells, row 1 over all cells.

    A part without a finite cell counts as 0.
    """
    low, high = np.empty((2, len(starts))), np.empty((2, len(starts)))
    minima_and_maxima(flat, starts, ends, low[1], high[1])
    low[0], high[0] = low[1], high[1]
    for k in np.flatnonzero(low[1] == -np.inf):
        cells = flat[starts[k] : ends[k]]
        finite = cells[cells > -np.inf]
        low[0, k], high[0, k] = (finite.min(), finite.max()) if finite.size else (0.0, 0.0)
    return low, high


@compiled
def minima_and_maxima(flat: Array, starts: Indices, ends: Indices, low: Array, high: Array) -> None:
    """min and max of flat[starts[k]:ends[k]] for each k."""
    for k in range(len(starts)):
        part = flat[starts[k] : ends[k]]
        lowest, highest = np.inf, -np.inf
        for cell in range(len(part)):
            lowest = -fast_max(-lowest, -part[cell])
            highest = fast_max(highest, part[cell])
        low[k], high[k] = lowest, highest
