from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dechbo.graph import FactorGraph
from dechbo.maxsum import Exact
from dechbo.maxsum.clusters import cluster_tables, join_graph
from dechbo.maxsum.exact import elimination_order
from dechbo.maxsum.shifting import shift_costs
from dechbo.tables import FactorTables
from maxsum_cases import random_pairs
from strategies import factor_graphs


@settings(max_examples=60)
@given(factor_graphs(max_dim=8, max_factors=12), st.integers(1, 200), st.integers(0, 2**32 - 1))
def test_every_factor_has_a_cluster_within_the_limit(graph: FactorGraph, max_cells: int, seed: int) -> None:
    sizes = np.random.default_rng(seed).integers(1, 5, graph.dim)
    order, _ = elimination_order([frozenset(scope) for scope in graph.scopes], sizes)
    made = join_graph(graph.scopes, sizes, order, max_cells)
    for scope, home in zip(graph.scopes, made.homes, strict=True):
        assert set(scope) <= set(made.clusters[home])
    for a, b in made.links:
        assert a != b
        assert set(made.clusters[a]) & set(made.clusters[b])
    largest = max(math.prod(sizes[i] for i in scope) for scope in graph.scopes)
    assert all(math.prod(sizes[i] for i in cluster) <= max(max_cells, largest) for cluster in made.clusters)


def test_without_a_limit_it_is_a_junction_tree() -> None:
    tables = random_pairs(0, dim=8, pairs=13, candidates=3)
    order, _ = elimination_order([frozenset(scope) for scope in tables.graph.scopes], tables.sizes)
    made = join_graph(tables.graph.scopes, tables.sizes, order, 10**9)
    assert len(made.links) == len(made.clusters) - 1
    clusters = cluster_tables(made, tables)
    bounds = [shift_costs(clusters) for _ in range(60)]
    assert bounds[-1] == pytest.approx(Exact().maximize(tables).value, rel=1e-6)


def test_tables_of_clusters_add_up() -> None:
    tables = random_pairs(1, dim=8, pairs=13, candidates=3)
    order, _ = elimination_order([frozenset(scope) for scope in tables.graph.scopes], tables.sizes)
    made = join_graph(tables.graph.scopes, tables.sizes, order, 27)
    assert max(map(len, made.clusters)) == 3
    clusters = cluster_tables(made, tables)
    for choice in np.random.default_rng(2).integers(0, 3, (20, 8)):
        cells = [
            clusters.flat[clusters.starts[c] : clusters.starts[c + 1]].reshape([3] * len(cluster))[
                tuple(choice[list(cluster)])
            ]
            for c, cluster in enumerate(made.clusters)
        ]
        assert sum(cells) == pytest.approx(tables.value(choice))


def test_a_variable_of_one_value() -> None:
    graph = FactorGraph(3, ((0, 1), (1, 2), (2, 0)))
    tables = FactorTables(graph, (np.ones((2, 1)), np.ones((1, 2)), np.eye(2)))
    made = join_graph(graph.scopes, tables.sizes, [1, 0, 2], 4)
    assert shift_costs(cluster_tables(made, tables)) == 3.0
