"""Random factor graphs and tables for property tests, and oracles that need no messages."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence

import numpy as np
from hypothesis import strategies as st

from dechbo.graph import FactorGraph, Scope
from dechbo.tables import FactorTables


@st.composite
def factor_graphs(draw: st.DrawFn, max_dim: int = 5, max_factors: int = 6, max_size: int = 3) -> FactorGraph:
    """Any graph: nested, overlapping, in several components, axes in any order."""
    dim = draw(st.integers(1, max_dim))
    scope = st.lists(st.integers(0, dim - 1), min_size=1, max_size=max_size, unique=True).map(tuple)
    scopes = draw(st.lists(scope, max_size=max_factors, unique_by=frozenset))
    return FactorGraph.covering(dim, scopes)


def relabelled_graph(graph: FactorGraph, new: Sequence[int] | Mapping[int, int]) -> FactorGraph:
    """The same graph with variable i called ``new[i]``; factors and axes keep their order."""
    return FactorGraph(graph.dim, tuple(tuple(new[i] for i in scope) for scope in graph.scopes))


@st.composite
def acyclic_graphs(draw: st.DrawFn, max_dim: int = 7, max_size: int = 3) -> FactorGraph:
    """Trees of factors, in one component or several: each new factor hangs on one known variable, or on none."""
    scopes, dim = [], 1
    for _ in range(draw(st.integers(0, 4))):
        new = list(range(dim, min(dim + draw(st.integers(1, max_size - 1)), max_dim)))
        anchor = [] if draw(st.integers(0, 4)) == 0 else [draw(st.integers(0, dim - 1))]
        dim += len(new)
        if len(new) + len(anchor) >= 2:
            scopes.append(tuple(draw(st.permutations(anchor + new))))
    return FactorGraph.covering(dim, scopes)


@st.composite
def factor_tables(
    draw: st.DrawFn,
    graphs: st.SearchStrategy[FactorGraph] | None = None,
    max_candidates: int = 4,
    forbidden: bool = False,
) -> FactorTables:
    """Tables on such a graph: whole numbers (many ties) or floats, or far from 0; some cells -inf if asked."""
    graph = draw(factor_graphs() if graphs is None else graphs)
    sizes = draw(st.lists(st.integers(1, max_candidates), min_size=graph.dim, max_size=graph.dim))
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    kind = draw(st.sampled_from(["whole", "float", "far", "constant"]))
    values = []
    for scope in graph.scopes:
        shape = [sizes[i] for i in scope]
        table = {
            "whole": rng.integers(-2, 3, shape).astype(float),
            "float": rng.normal(size=shape),
            "far": 1e6 + 1e-3 * rng.normal(size=shape),
            "constant": np.full(shape, rng.normal()),
        }[kind]
        if forbidden:
            table[rng.random(shape) < draw(st.sampled_from([0.0, 0.2, 0.6]))] = -np.inf
        values.append(table)
    return FactorTables(graph, tuple(values))


def brute_force(tables: FactorTables) -> float:
    """max phi by trying every choice."""
    return max(tables.value(choice) for choice in itertools.product(*map(range, tables.sizes)))


def loopy_tables(
    rng: np.random.Generator,
    dim: int = 20,
    factors: int = 28,
    candidates: tuple[int, int] = (2, 5),
    integer: bool = False,
) -> FactorTables:
    """One connected component with many cycles, of binary and ternary factors and a few singletons."""
    scopes: dict[frozenset[int], Scope] = {frozenset((i, (i + 1) % dim)): (i, (i + 1) % dim) for i in range(dim)}
    scopes |= {frozenset((i,)): (i,) for i in range(0, dim, 3)}
    while len(scopes) < dim + factors // 2:
        scope = tuple(int(i) for i in rng.choice(dim, rng.integers(2, 4), replace=False))
        scopes.setdefault(frozenset(scope), scope)
    graph = FactorGraph(dim, tuple(scopes.values()))
    sizes = rng.integers(candidates[0], candidates[1] + 1, dim)
    shapes = [[sizes[i] for i in scope] for scope in graph.scopes]
    tables = [rng.integers(-50, 51, shape).astype(float) if integer else rng.normal(size=shape) for shape in shapes]
    return FactorTables(graph, tuple(tables))
