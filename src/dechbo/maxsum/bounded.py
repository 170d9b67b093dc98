"""BoundedMaxSum: cut a cyclic graph down to a spanning forest, solve that exactly, and bound what the cut may cost.

After Rogers, Farinelli, Stranders and Jennings, "Bounded approximate decentralised coordination via the max-sum
algorithm" (Artificial Intelligence, 2011).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from dechbo.graph import FactorGraph, Scope
from dechbo.maxsum.maximum import Maximum
from dechbo.maxsum.maxsum import MaxSum
from dechbo.maxsum.messages import Array, Indices
from dechbo.maxsum.reduction import ReducedTables, merge_plan, reduce_tables
from dechbo.tables import FactorTables


@dataclass(frozen=True, eq=False)
class BoundedMaximum(Maximum):
    """A maximum with the bound of the paper beside: tree optimum + sum of the removed weights, never below ours."""

    paper_bound: float = math.inf


@dataclass(frozen=True, kw_only=True)
class BoundedMaxSum:
    """Max-sum on a maximum spanning forest of the factor graph, with a bound from the edges that were left out.

    The weight of an edge (I, i) is how much x_i can matter to factor I: the maximum over the other variables of
    (max - min over x_i) of phi_I. Factors lose the variables of the edges outside the forest. With these minimised out,
    the forest's exact maximiser is the choice; with them maximised out, its maximum is the upper bound.
    """

    def maximize(self, tables: FactorTables) -> BoundedMaximum:
        """The maximiser of the forest, and the bounds."""
        reduced = reduce_tables(tables)
        factors = merge_plan(tables.graph).remaining
        weights = [edge_weights(_table(reduced, k)) for k in factors]
        kept = spanning_forest([tables.graph.scopes[k] for k in factors], weights, tables.graph.dim)
        lower, upper = (_forest(reduced, factors, kept, largest) for largest in (False, True))
        pessimist, optimist = MaxSum().maximize(lower), MaxSum().maximize(upper)
        value = tables.value(pessimist.choice)
        edges = [
            (w, here) for row, flags in zip(weights, kept, strict=True) for w, here in zip(row, flags, strict=True)
        ]
        removed = [weight for weight, in_forest in edges if not in_forest]
        rounding = 16.0 * float(np.finfo(np.float64).eps) * _size(upper)
        paper = math.fsum([pessimist.value, *removed]) + rounding
        bound = min(optimist.value + rounding, paper)
        if value == -math.inf and bound < reduced.floor:
            bound = paper = -math.inf
        bound, paper = max(bound, value), max(paper, value)
        return BoundedMaximum(pessimist.choice, value, bound, 0, True, 0.0, tables.mean, paper)


def edge_weights(table: Array) -> list[float]:
    """max over the other axes of (max - min along the axis), for each axis."""
    return [float((table.max(axis=axis) - table.min(axis=axis)).max()) for axis in range(table.ndim)]


def spanning_forest(scopes: Sequence[Scope], weights: list[list[float]], dim: int) -> list[list[bool]]:
    """Kruskal's maximum spanning forest of the graph of variables and factors; which edges of each factor it keeps."""
    parents = list(range(dim + len(scopes)))

    def root(node: int) -> int:
        while parents[node] != node:
            parents[node] = parents[parents[node]]
            node = parents[node]
        return node

    kept = [[False] * len(scope) for scope in scopes]
    edges = [(-weight, k, axis) for k, row in enumerate(weights) for axis, weight in enumerate(row)]
    for _, k, axis in sorted(edges):
        ends = root(dim + k), root(scopes[k][axis])
        if ends[0] != ends[1]:
            parents[ends[0]] = ends[1]
            kept[k][axis] = True
    return kept


def _forest(reduced: ReducedTables, factors: tuple[int, ...], kept: list[list[bool]], largest: bool) -> FactorTables:
    """The factors with the removed variables maximised or minimised out, and the unary terms."""
    dim = reduced.graph.dim
    unary = np.split(reduced.unary.copy(), reduced.unary_starts[1:-1])
    scopes: list[Scope] = [(i,) for i in range(dim)]
    values: list[Array] = list(unary)
    for k, edges in zip(factors, kept, strict=True):
        out = tuple(axis for axis, in_forest in enumerate(edges) if not in_forest)
        table = _table(reduced, k)
        table = table.max(axis=out) if largest else table.min(axis=out)
        scope = tuple(i for i, in_forest in zip(reduced.graph.scopes[k], edges, strict=True) if in_forest)
        if len(scope) == 1:
            values[scope[0]] = values[scope[0]] + table
        else:
            scopes.append(scope)
            values.append(table)
    return FactorTables(FactorGraph(dim, tuple(scopes)), tuple(values))


def _table(reduced: ReducedTables, k: int) -> Array:
    shape: Indices = reduced.sizes[list(reduced.graph.scopes[k])]
    return reduced.flat[reduced.starts[k] : reduced.starts[k] + shape.prod()].reshape(shape)


def _size(tables: FactorTables) -> float:
    """The sum of the largest magnitudes of all tables."""
    return float(np.maximum.reduceat(np.abs(tables.flat), tables.starts[:-1]).sum())
