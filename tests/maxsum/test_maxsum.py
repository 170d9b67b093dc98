from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dechbo.errors import OptionError
from dechbo.graph import FactorGraph
from dechbo.maxsum import Exact, Maximum, MaxSum
from dechbo.maxsum.forest import connected_components
from dechbo.tables import FactorTables
from strategies import acyclic_graphs, brute_force, factor_tables, loopy_tables, relabelled_graph


def toulbar2_optimum(tables: FactorTables) -> float:
    """max phi of whole-number tables by an exact weighted constraint solver, which minimises 100 - phi a table."""
    import pytoulbar2

    problem = pytoulbar2.CFN(ubinit=10**7)
    for i, size in enumerate(tables.sizes):
        problem.AddVariable(f"x{i}", range(int(size)))
    for scope, table in zip(tables.graph.scopes, tables.values, strict=True):
        problem.AddFunction([f"x{i}" for i in scope], (100 - table).astype(int).ravel().tolist())
    _, cost, _ = problem.Solve()
    return float(100 * len(tables.values) - cost)


@settings(max_examples=80)
@given(factor_tables(forbidden=True), st.sampled_from([0.0, 0.5]))
def test_value_optimum_and_bound_are_in_order(tables: FactorTables, damping: float) -> None:
    answer, optimum = MaxSum(damping=damping).maximize(tables), brute_force(tables)
    assert answer.value == tables.value(answer.choice)
    assert answer.value <= optimum + 1e-14 * abs(optimum) or answer.value == optimum
    assert answer.upper_bound >= optimum - 1e-14 * abs(optimum) or answer.upper_bound == optimum
    assert answer.upper_bound >= answer.value
    assert answer.gap >= 0


@settings(max_examples=80)
@given(factor_tables(acyclic_graphs(), max_candidates=3, forbidden=True))
def test_acyclic_graphs_are_exact_ties_included(tables: FactorTables) -> None:
    answer = MaxSum(rounds=1).maximize(tables)
    assert answer.value == pytest.approx(brute_force(tables), rel=1e-14, abs=1e-12)
    assert answer.upper_bound == answer.value
    assert (answer.rounds, answer.converged, answer.residual, answer.gap) == (0, True, 0.0, 0.0)


@pytest.mark.parametrize("seed", range(6))
def test_loopy_graphs_against_toulbar2(seed: int) -> None:
    tables = loopy_tables(np.random.default_rng(seed), integer=True)
    optimum, answer = toulbar2_optimum(tables), MaxSum().maximize(tables)
    assert Exact().maximize(tables).value == optimum
    assert answer.value <= optimum <= answer.upper_bound
    assert answer.rounds >= 1
    assert answer.gap < 0.25


def test_a_cycle_through_two_shared_variables() -> None:
    graph = FactorGraph(4, ((0, 1, 2), (1, 2, 3)))
    assert connected_components(graph).cyclic == (0, 1)
    rng = np.random.default_rng(1)
    tables = FactorTables(graph, tuple(rng.normal(size=(3, 3, 3)) for _ in range(2)))
    answer = MaxSum().maximize(tables)
    assert answer.value <= brute_force(tables) <= answer.upper_bound
    assert answer.rounds > 0


def test_a_subset_scope_makes_no_cycle() -> None:
    graph = FactorGraph(3, ((0, 1, 2), (2, 0), (1,)))
    assert connected_components(graph).cyclic == ()


def test_a_forest_and_cycles_side_by_side() -> None:
    rng = np.random.default_rng(2)
    graph = FactorGraph(8, ((0, 1), (1, 2), (2, 0), (3, 4), (5,), (4, 6), (7,), (4,)))
    plan = connected_components(graph)
    assert plan.cyclic == (0, 1, 2)
    assert sorted(plan.forest) == [3, 5]
    assert len(plan.roots) == 3
    tables = FactorTables(graph, tuple(rng.normal(size=[3] * len(scope)) for scope in graph.scopes))
    answer, optimum = MaxSum().maximize(tables), Exact().maximize(tables)
    assert answer.value <= optimum.value + 1e-12
    assert optimum.value <= answer.upper_bound
    np.testing.assert_array_equal(answer.choice[3:], optimum.choice[3:])


def test_a_chain_of_2000_variables() -> None:
    rng = np.random.default_rng(3)
    graph = FactorGraph(2000, tuple((i, i + 1) for i in range(1999)))
    tables = FactorTables(graph, tuple(1e6 + rng.normal(size=(3, 3)) for _ in graph.scopes))
    answer = MaxSum().maximize(tables)
    best = np.zeros(3)
    for table in tables.values:
        best = (table - 1e6 + best[:, None]).max(axis=0)
    assert answer.value - 1999e6 == pytest.approx(best.max(), abs=1e-4)


@pytest.mark.parametrize("seed", range(5))
def test_relabelling_the_variables_commutes(seed: int) -> None:
    rng = np.random.default_rng(seed)
    tables = loopy_tables(rng, dim=9, factors=12, candidates=(2, 4))
    new = rng.permutation(9)
    renamed = FactorTables(relabelled_graph(tables.graph, new.tolist()), tables.values)
    for maximizer in (MaxSum(), Exact()):
        before, after = maximizer.maximize(tables), maximizer.maximize(renamed)
        np.testing.assert_array_equal(after.choice[new], before.choice)
        assert after.value == pytest.approx(before.value, rel=1e-10)
        assert after.upper_bound == pytest.approx(before.upper_bound, rel=1e-10)


def test_forbidden_cells_are_not_chosen_where_avoidable() -> None:
    different = np.where(np.eye(3, dtype=bool), -np.inf, 0.0)  # colour a triangle and its tail with three colours
    graph = FactorGraph(5, ((0, 1), (1, 2), (2, 0), (2, 3), (3, 4), (4, 2), (0,)))
    answer = MaxSum().maximize(FactorTables(graph, (different,) * 6 + (np.array([0.0, 0.0, 1.0]),)))
    assert answer.value == 1.0
    assert answer.choice[0] == 2
    assert answer.upper_bound == pytest.approx(1.0)


@pytest.mark.parametrize("scopes", [((0,), (1,), (2,)), ((0, 1), (1, 2)), ((0, 1), (1, 2), (2, 0))])
def test_everything_forbidden(scopes: tuple[tuple[int, ...], ...]) -> None:
    tables = FactorTables(FactorGraph(3, scopes), tuple(np.full([2] * len(scope), -np.inf) for scope in scopes))
    for maximizer in (MaxSum(), Exact()):
        answer = maximizer.maximize(tables)
        assert answer.value == answer.upper_bound == -np.inf
        assert answer.gap == 0


def test_constant_tables_are_proven_at_once() -> None:
    tables = FactorTables(FactorGraph(3, ((0, 1), (1, 2), (2, 0))), (np.full((2, 2), 0.1),) * 3)
    answer = MaxSum().maximize(tables)
    assert answer.converged
    assert answer.rounds == 1
    assert answer.upper_bound == pytest.approx(answer.value, rel=1e-13)


def test_one_variable_one_candidate() -> None:
    answer = MaxSum().maximize(FactorTables(FactorGraph(1, ((0,),)), (np.array([3.0]),)))
    assert answer.value == answer.upper_bound == 3.0
    assert answer.choice.tolist() == [0]
    assert answer.choice.dtype == np.int64


def test_repeats_give_the_same_answer() -> None:
    tables = loopy_tables(np.random.default_rng(4))
    first, second = MaxSum().maximize(tables), MaxSum().maximize(tables)
    np.testing.assert_array_equal(first.choice, second.choice)
    assert (first.value, first.upper_bound, first.residual) == (second.value, second.upper_bound, second.residual)


def test_no_neighbouring_choice_is_better() -> None:
    tables = loopy_tables(np.random.default_rng(5))
    answer = MaxSum(rounds=1, dual_sweeps=0).maximize(tables)
    for i, size in enumerate(tables.sizes):
        for h in range(size):
            neighbour = answer.choice.copy()
            neighbour[i] = h
            assert tables.value(neighbour) <= answer.value + 1e-12


def test_more_sweeps_tighten_the_bound() -> None:
    tables = loopy_tables(np.random.default_rng(6))
    plain = {"smooth_sweeps": 0, "restarts": 0, "cluster_cells": 0}
    bounds = [MaxSum(dual_sweeps=sweeps, **plain).maximize(tables).upper_bound for sweeps in (0, 1, 10, 50)]
    assert bounds == sorted(bounds, reverse=True)


def test_gap_in_words() -> None:
    choice = np.zeros(1, dtype=np.int64)
    assert Maximum(choice, 3.0, 4.0, 1, True, 0.0, mean=1.0).gap == 0.5
    assert Maximum(choice, 3.0, 3.0, 1, True, 0.0, mean=3.0).gap == 0.0
    assert Maximum(choice, 1.0, 3.0, 1, True, 0.0, mean=1.0).gap == np.inf
    assert Maximum(choice, -np.inf, 3.0, 1, True, 0.0, mean=-np.inf).gap == np.inf


@pytest.mark.parametrize(
    "option",
    [
        {"rounds": 0},
        {"rounds": 1.5},
        {"rounds": True},
        {"damping": 1.0},
        {"damping": -0.1},
        {"damping": float("nan")},
        {"damping": "half"},
        {"tolerance": -1e-9},
        {"tolerance": float("inf")},
        {"dual_sweeps": -1},
        {"smooth_sweeps": 0.5},
        {"restarts": -1},
        {"cluster_cells": True},
        {"work": -1},
    ],
)
def test_options_are_checked(option: dict[str, Any]) -> None:
    with pytest.raises(OptionError, match=next(iter(option))):
        MaxSum(**option)
