"""What every maximiser has to satisfy."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dechbo.graph import FactorGraph
from dechbo.maxsum import Auto, BoundedMaxSum, Exact, Maximizer, MaxSum, Toulbar2
from dechbo.tables import FactorTables
from maxsum_cases import PLAIN, random_pairs
from strategies import acyclic_graphs, brute_force, factor_tables, loopy_tables, relabelled_graph

MAXIMIZERS: dict[str, Maximizer] = {
    "MaxSum": MaxSum(),
    "MaxSum, messages only": MaxSum(**PLAIN),
    "MaxSum, small clusters": MaxSum(cluster_cells=20, restarts=0),
    "BoundedMaxSum": BoundedMaxSum(),
    "Exact": Exact(),
    "auto": Auto(),
    "auto, nothing is narrow": Auto(max_cells=1),
    "Toulbar2": Toulbar2(time_limit=20),
}
every = pytest.mark.parametrize("name", MAXIMIZERS)


@every
@settings(max_examples=25)
@given(factor_tables(acyclic_graphs(), max_candidates=3, forbidden=True))
def test_acyclic_graphs_are_exact(name: str, tables: FactorTables) -> None:
    answer = MAXIMIZERS[name].maximize(tables)
    assert answer.value == pytest.approx(brute_force(tables), rel=1e-14, abs=1e-12)
    assert answer.upper_bound == pytest.approx(answer.value, rel=1e-12, abs=1e-12)


@every
@settings(max_examples=25)
@given(factor_tables(forbidden=True))
def test_value_optimum_and_bound_are_in_order(name: str, tables: FactorTables) -> None:
    answer, optimum = MAXIMIZERS[name].maximize(tables), brute_force(tables)
    assert answer.value == tables.value(answer.choice)
    assert answer.value <= optimum + 1e-14 * abs(optimum) or answer.value == optimum
    assert answer.upper_bound >= optimum - 1e-14 * abs(optimum) or answer.upper_bound == optimum
    assert answer.upper_bound >= answer.value


@every
@settings(max_examples=10)
@given(st.integers(0, 2**32 - 1), st.floats(-100, 100))
def test_a_constant_added_to_a_table_changes_no_choice(name: str, seed: int, constant: float) -> None:
    rng = np.random.default_rng(seed)
    tables = loopy_tables(rng, dim=6, factors=8, candidates=(2, 4))
    k = int(rng.integers(len(tables.values)))
    moved = FactorTables(tables.graph, tuple(t + constant * (n == k) for n, t in enumerate(tables.values)))
    before, after = MAXIMIZERS[name].maximize(tables), MAXIMIZERS[name].maximize(moved)
    np.testing.assert_array_equal(after.choice, before.choice)
    assert after.upper_bound - after.value == pytest.approx(before.upper_bound - before.value, abs=1e-5)


@every
@pytest.mark.parametrize("wide", [False, True])
def test_relabelling_the_variables_commutes(name: str, wide: bool) -> None:
    rng = np.random.default_rng(7)
    tables = random_pairs(9, pairs=45) if wide else loopy_tables(rng, dim=9, factors=12, candidates=(2, 4))
    new = rng.permutation(tables.graph.dim)
    renamed = FactorTables(relabelled_graph(tables.graph, new.tolist()), tables.values)
    before, after = MAXIMIZERS[name].maximize(tables), MAXIMIZERS[name].maximize(renamed)
    np.testing.assert_array_equal(after.choice[new], before.choice)
    assert after.value == pytest.approx(before.value, rel=1e-10)
    assert after.upper_bound == pytest.approx(before.upper_bound, rel=1e-8 if name == "Toulbar2" else 1e-10)


@every
def test_the_tables_stay_as_they_were(name: str) -> None:
    tables = random_pairs(9, pairs=45)
    before = tables.flat.copy()
    MAXIMIZERS[name].maximize(tables)
    np.testing.assert_array_equal(tables.flat, before)


@pytest.mark.parametrize("seed", range(4))
def test_hard_graphs_against_toulbar2(seed: int) -> None:
    """Triples and pairs without singletons, where messages alone end well below the optimum."""
    rng = np.random.default_rng(seed)
    scopes = {frozenset(rng.choice(14, 3, replace=False).tolist()) for _ in range(16)} | {
        frozenset((i, i + 1)) for i in range(13)
    }
    graph = FactorGraph.covering(14, [tuple(sorted(scope)) for scope in sorted(scopes, key=sorted)])
    tables = FactorTables(graph, tuple(rng.normal(size=[5] * len(scope)) for scope in graph.scopes))
    optimum, answer = Toulbar2().maximize(tables), MaxSum().maximize(tables)
    assert optimum.upper_bound == pytest.approx(optimum.value, abs=1e-6)
    assert answer.value <= optimum.value + 1e-9 <= answer.upper_bound + 2e-9
    assert answer.value >= optimum.value - 0.01 * (optimum.value - optimum.mean)
    assert answer.gap < 0.2
