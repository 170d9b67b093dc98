from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given, settings

from dechbo.graph import FactorGraph
from dechbo.maxsum import BoundedMaxSum
from dechbo.maxsum.bounded import edge_weights, spanning_forest
from dechbo.tables import FactorTables
from strategies import brute_force, factor_graphs, factor_tables


@settings(max_examples=60)
@given(factor_tables(factor_graphs(max_dim=4, max_factors=8), forbidden=True))
def test_ours_is_between_the_optimum_and_the_bound_of_the_paper(tables: FactorTables) -> None:
    answer, optimum = BoundedMaxSum().maximize(tables), brute_force(tables)
    assert answer.value == tables.value(answer.choice) <= optimum + 1e-14 * abs(optimum) or answer.value == optimum
    assert answer.upper_bound >= optimum - 1e-14 * abs(optimum) or answer.upper_bound == optimum
    assert answer.upper_bound <= answer.paper_bound
    assert answer.gap >= 0


def test_the_weight_is_what_a_variable_can_change() -> None:
    table = np.random.default_rng(0).normal(size=(3, 4, 2))
    changes = [
        max(
            abs(table[a] - table[b])
            for a, b in itertools.product(np.ndindex(table.shape), repeat=2)
            if all(a[n] == b[n] for n in range(3) if n != axis)
        )
        for axis in range(3)
    ]
    assert edge_weights(table) == pytest.approx(changes)


def test_the_lightest_edge_of_a_cycle_goes() -> None:
    scopes = [(0, 1), (1, 2), (2, 0)]
    kept = spanning_forest(scopes, [[5.0, 4.0], [3.0, 1.0], [2.0, 6.0]], 3)
    assert kept == [[True, True], [True, False], [True, True]]


def test_by_hand() -> None:
    """A ring of three: the weak pair loses its second variable; the rest is solved exactly."""
    strong, weak = np.array([[4.0, 0.0], [0.0, 3.0]]), np.array([[0.0, 0.5], [0.25, 0.0]])
    tables = FactorTables(FactorGraph(3, ((0, 1), (1, 2), (2, 0))), (strong, strong, weak))
    answer = BoundedMaxSum().maximize(tables)
    assert answer.choice.tolist() == [0, 0, 0]
    assert answer.value == 8.0
    assert answer.upper_bound == pytest.approx(8.5)  # max over x_0 of the weak table at x_2 = 0
    assert answer.paper_bound == pytest.approx(8.5)  # no loss at x_2 = 0, and a weight of 0.5
