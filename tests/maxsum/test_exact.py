from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings

from dechbo.errors import OptionError, TableError
from dechbo.graph import FactorGraph
from dechbo.maxsum import Exact
from dechbo.tables import FactorTables
from strategies import brute_force, factor_graphs, factor_tables


@settings(max_examples=60)
@given(factor_tables(factor_graphs(max_dim=5, max_size=4), forbidden=True))
def test_exact_equals_brute_force(tables: FactorTables) -> None:
    answer = Exact().maximize(tables)
    assert answer.value == pytest.approx(brute_force(tables), rel=1e-14, abs=1e-12)
    assert answer.value == tables.value(answer.choice)
    assert answer.upper_bound == answer.value
    assert answer.gap == 0
    assert answer.converged


def test_a_long_chain() -> None:
    rng = np.random.default_rng(0)
    graph = FactorGraph(300, tuple((i + 1, i) for i in range(299)))
    tables = FactorTables(graph, tuple(rng.normal(size=(3, 3)) for _ in graph.scopes))
    best = np.zeros(3)
    for table in tables.values:
        best = (table + best).max(axis=1)
    assert Exact().maximize(tables).value == pytest.approx(best.max())


def test_variables_with_one_candidate_cost_no_axis() -> None:
    dim = 80  # more variables around the hub than NumPy has axes
    graph = FactorGraph(dim, tuple((0, i) for i in range(1, dim)) + tuple((i, i + 1) for i in range(1, dim - 1)))
    sizes = [2] + [1] * (dim - 1)
    rng = np.random.default_rng(1)
    tables = FactorTables(graph, tuple(rng.normal(size=[sizes[i] for i in scope]) for scope in graph.scopes))
    assert Exact().maximize(tables).value == brute_force(tables)


def test_too_large_says_what_it_needs() -> None:
    scopes = tuple((i, j) for i in range(8) for j in range(i))
    tables = FactorTables(FactorGraph(8, scopes), tuple(np.zeros((10, 10)) for _ in scopes))
    with pytest.raises(TableError, match=r"1e\+08 cells here, max_cells is 1000000: use MaxSum"):
        Exact(max_cells=10**6).maximize(tables)


@pytest.mark.parametrize("max_cells", [0, -1, 2.5, True, "many"])
def test_options_are_checked(max_cells: Any) -> None:
    with pytest.raises(OptionError, match="max_cells"):
        Exact(max_cells=max_cells)
