"""FactorTables: phi and its mean, one shared buffer, and errors that say what was expected and what it got."""

from __future__ import annotations

import copy
import itertools
import pickle
import tracemalloc
from typing import Any

import numpy as np
import pytest
from hypothesis import given

from dechbo.errors import DechboError, TableError
from dechbo.graph import FactorGraph
from dechbo.tables import FactorTables, table_starts
from strategies import factor_graphs, factor_tables

GRAPH = FactorGraph(3, ((2, 0), (1,), (0,)))


def example() -> FactorTables:
    return FactorTables(GRAPH, ([[0.0, 1.0], [2.0, 3.0], [4.0, 5.0]], [10.0, 20.0], [0.1, 0.2]))  # type: ignore[arg-type]


# ---------------------------------------------------------------- what tables say


def test_value_mean_and_sizes_of_an_example() -> None:
    tables = example()
    assert tables.sizes.tolist() == [2, 2, 3]
    assert tables.starts.tolist() == [0, 6, 8, 10]
    assert [value.shape for value in tables.values] == [(3, 2), (2,), (2,)]
    assert tables.value([1, 0, 2]) == 5.0 + 10.0 + 0.2
    assert tables.value(np.array([0, 1, 1])) == 2.0 + 20.0 + 0.1
    assert tables.mean == pytest.approx(2.5 + 15.0 + 0.15)
    assert type(tables.value((0, 0, 0))) is float
    assert type(tables.mean) is float


@given(factor_tables(factor_graphs(max_dim=4)))
def test_value_is_the_sum_of_the_cells_and_mean_that_of_all_choices(tables: FactorTables) -> None:
    choices = list(itertools.product(*map(range, tables.sizes)))
    values = []
    for choice in choices:
        cells = [
            tables.values[k][tuple(choice[i] for i in scope)].item() for k, scope in enumerate(tables.graph.scopes)
        ]
        values.append(tables.value(choice))
        assert values[-1] == pytest.approx(sum(cells), rel=1e-14, abs=1e-14)
    assert tables.mean == pytest.approx(np.mean(values), rel=1e-12, abs=1e-12)


@given(factor_tables(forbidden=True))
def test_mean_of_the_allowed_cells(tables: FactorTables) -> None:
    means = [value[np.isfinite(value)].mean() if np.isfinite(value).any() else -np.inf for value in tables.values]
    assert tables.mean == pytest.approx(sum(means), rel=1e-12, abs=1e-12)


def test_forbidden_cells() -> None:
    tables = FactorTables(FactorGraph(1, ((0,),)), (np.array([-np.inf, 3.0]),))
    assert tables.value([0]) == -np.inf
    assert tables.mean == 3.0
    assert FactorTables(FactorGraph(1, ((0,),)), (np.full(2, -np.inf),)).mean == -np.inf


# ---------------------------------------------------------------- one buffer


@given(factor_tables(forbidden=True))
def test_values_are_views_of_one_buffer_that_from_flat_shares(tables: FactorTables) -> None:
    again = FactorTables.from_flat(tables.graph, tables.sizes, tables.flat)
    for made in (tables, again, copy.deepcopy(tables), pickle.loads(pickle.dumps(tables))):
        assert made.graph == tables.graph
        assert made.sizes.tolist() == tables.sizes.tolist()
        assert made.starts.tolist() == tables.starts.tolist()
        assert made.flat.tolist() == tables.flat.tolist()
        for k, (value, expected) in enumerate(zip(made.values, tables.values, strict=True)):
            assert value.base is made.flat or value.base is made.flat.base
            assert np.shares_memory(value, made.flat[made.starts[k] : made.starts[k + 1]])
            assert value.tolist() == expected.tolist()
    assert again.flat is tables.flat


def test_the_constructor_keeps_nothing_of_the_arrays_it_was_given() -> None:
    array = np.zeros(2)
    tables = FactorTables(FactorGraph(1, ((0,),)), (array,))
    array[:] = 7.0
    assert tables.flat.tolist() == [0.0, 0.0]


def test_tables_in_any_layout_and_number_type() -> None:
    transposed = np.arange(6).reshape(2, 3).T
    tables = FactorTables(GRAPH, (transposed, np.zeros(2, np.float32), [0, 0]))  # type: ignore[arg-type]
    assert tables.flat.dtype == np.float64
    assert tables.values[0].tolist() == transposed.tolist()


# ---------------------------------------------------------------- bad input


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ((), r"one table per factor \(3\), got 0"),
        ((np.zeros((3, 2)), np.zeros(2)), r"one table per factor \(3\), got 2"),
        ((np.zeros((3, 2)), np.zeros(2), np.zeros(2), np.zeros(2)), r"one table per factor \(3\), got 4"),
        ((np.zeros(6), np.zeros(2), np.zeros(2)), r"scope \(2, 0\) needs 2 axes, got shape \(6,\)"),
        ((np.zeros((3, 2)), np.zeros((2, 1)), np.zeros(2)), r"scope \(1,\) needs 1 axes, got shape \(2, 1\)"),
        ((np.zeros((3, 2)), 1.0, np.zeros(2)), r"scope \(1,\) needs 1 axes, got shape \(\)"),
        ((np.zeros((3, 2)), np.zeros(2), np.zeros(3)), r"variable 0 has 2 candidates in one table and 3 in that of"),
        ((np.zeros((3, 0)), np.zeros(2), np.zeros(0)), r"variable 0 has no candidates in the table of scope \(2, 0\)"),
        ((np.zeros((3, 2)), [0, np.nan], np.zeros(2)), r"finite or -inf \(a forbidden cell\), got NaN or \+inf"),
        ((np.zeros((3, 2)), [0, np.inf], np.zeros(2)), r"finite or -inf \(a forbidden cell\), got NaN or \+inf"),
        ((np.zeros((3, 2)), [-np.inf, np.nan], np.zeros(2)), "got NaN"),
        (([[1.0], [1.0, 2.0]], np.zeros(2), np.zeros(2)), r"scope \(2, 0\) needs an array of numbers, got \[\[1.0\], "),
        ((np.zeros((3, 2)), ["a", "b"], np.zeros(2)), r"scope \(1,\) needs an array of numbers, got \['a', 'b'\]"),
    ],
)
def test_bad_tables(values: Any, message: str) -> None:
    with pytest.raises(TableError, match=message):
        FactorTables(GRAPH, values)


@pytest.mark.parametrize(
    ("sizes", "flat", "message"),
    [
        ([2, 2, 3], np.zeros(9), r"float64 buffer of 10 cells, got shape \(9,\)"),
        ([2, 2, 3], np.zeros((10, 1)), r"buffer of 10 cells, got shape \(10, 1\)"),
        ([2, 2, 3], np.zeros(20)[::2], r"contiguous float64 buffer of 10 cells, got shape \(10,\).*strides \(16,\)"),
        ([2, 2, 3], np.zeros(10, np.float32), "float64 buffer of 10 cells, got .* dtype float32"),
        ([2, 2, 3], np.full(10, np.nan), "got NaN"),
        ([2, 2], np.zeros(10), r"each of 3 variables needs at least one candidate, got the sizes \[2 2\]"),
        ([2, 0, 3], np.zeros(8), r"at least one candidate, got the sizes \[2 0 3\]"),
        ([-2, 2, -3], np.zeros(6), "at least one candidate"),
    ],
)
def test_bad_buffers(sizes: Any, flat: Any, message: str) -> None:
    with pytest.raises(TableError, match=message):
        FactorTables.from_flat(GRAPH, np.array(sizes), flat)


@pytest.mark.parametrize(
    ("choice", "message"),
    [
        ([0, 0], r"a choice needs 3 whole numbers, got shape \(2,\)"),
        ([[0, 0, 0]], r"a choice needs 3 whole numbers, got shape \(1, 3\)"),
        ([0.0, 0.0, 0.0], "a choice needs 3 whole numbers, got .* dtype float64"),
        ([True, False, True], "a choice needs 3 whole numbers, got .* dtype bool"),
        (["a", "b", "c"], "a choice needs 3 whole numbers"),
        ([0, 0, 3], "variable 2 has the candidates 0 to 2, got the choice 3"),
        ([0, -1, 0], "variable 1 has the candidates 0 to 1, got the choice -1"),
    ],
)
def test_bad_choices(choice: Any, message: str) -> None:
    with pytest.raises(TableError, match=message) as caught:
        example().value(choice)
    assert isinstance(caught.value, DechboError)


@given(factor_tables())
def test_table_starts_count_the_cells(tables: FactorTables) -> None:
    starts = table_starts(tables.graph, tables.sizes)
    assert starts.dtype == np.int64
    assert np.diff(starts).tolist() == [value.size for value in tables.values]


@pytest.mark.parametrize(
    ("size", "candidates", "cells"),
    [(5, 1000, "1e\\+15"), (3, 2**21, "9.22e\\+18"), (64, 2, "1.84e\\+19"), (200, 1000, "inf")],
)
def test_absurd_tables_are_refused_before_memory_is_taken(size: int, candidates: int, cells: str) -> None:
    graph = FactorGraph(size + 1, ((size,), tuple(range(size))))
    sizes = np.full(size + 1, candidates)
    tracemalloc.start()
    with pytest.raises(TableError, match=rf"would hold {cells} cells; the largest is that of scope \(0, 1, 2.*smaller"):
        table_starts(graph, sizes)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 2**20


def test_tables_are_added_onto_the_same_scope_or_beside() -> None:
    rng = np.random.default_rng(0)
    graph = FactorGraph(3, ((0, 1), (2,)))
    tables = FactorTables(graph, (rng.normal(size=(2, 3)), rng.normal(size=4)))
    same, new = rng.normal(size=(3, 2)), np.where(rng.random((4, 2)) < 0.5, 0.0, -np.inf)
    total = tables.plus([((1, 0), same), ((2, 0), new), ((0, 2), np.ones((2, 4)))])
    assert total.graph.scopes == ((0, 1), (2,), (2, 0))
    for choice in np.ndindex(2, 3, 4):
        i, j, k = choice
        assert total.value(choice) == pytest.approx(tables.value(choice) + same[j, i] + new[k, i] + 1)
    assert tables.value((0, 0, 0)) == tables.values[0][0, 0] + tables.values[1][0]  # as they were


def test_values_whose_sums_overflow_are_refused() -> None:
    graph = FactorGraph(2, ((0, 1), (1,)))
    for value in (1e306, -1e306):
        with pytest.raises(TableError, match="scale the tables down"):
            FactorTables(graph, (np.array([[-np.inf, value], [0.0, 0.0]]), np.zeros(2)))
    assert FactorTables(graph, (np.full((2, 2), -np.inf), np.array([1e300, -1e300]))).value([0, 0]) == -np.inf
