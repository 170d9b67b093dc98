"""Coordinate exchange never lowers a score, and finds the optimum of separable ones."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from numpy.typing import NDArray

from dechbo import Categorical, Float, Int, Space
from dechbo.search.exchange import MAX_VALUES, exchange
from search_cases import LIMITED, MIXED, Anything, Hill, is_in

Array = NDArray[np.float64]

DISCRETE = Space(
    {
        **{f"n{i}": Int(0, 4) for i in range(4)},
        **{f"c{i}": Categorical(list("pqrs")) for i in range(3)},
    }
)


@pytest.mark.parametrize("seed", range(5))
def test_the_optimum_of_a_separable_function_is_found(seed: int) -> None:
    rng = np.random.default_rng(seed)
    grids = [parameter.grid(5) for parameter in DISCRETE.parameters]
    tables = [rng.normal(size=len(grid)) for grid in grids]

    def values(points: Array) -> Array:
        total = np.zeros(len(points))
        for i, (grid, table) in enumerate(zip(grids, tables, strict=True)):
            total += table[np.abs(points[:, i, None] - grid).argmin(axis=1)]
        return total

    end = exchange(Anything(values), DISCRETE, DISCRETE.from_uniform(rng.random(7)), np.arange(7))
    assert values(end[None])[0] == pytest.approx(sum(table.max() for table in tables))
    assert is_in(DISCRETE, end[None])


@pytest.mark.parametrize("seed", range(8))
def test_no_score_is_lowered_and_the_end_is_a_local_optimum(seed: int) -> None:
    """A rugged function: no single exchange of the end is better."""
    rng = np.random.default_rng(seed)
    codes = rng.normal(size=(7, 3))

    def values(points: Array) -> Array:
        return np.asarray(np.sin(9 * points @ codes).sum(axis=1))

    start = DISCRETE.from_uniform(rng.random(7))
    end = exchange(Anything(values), DISCRETE, start, np.arange(7))
    assert values(end[None])[0] >= values(start[None])[0]
    for i, parameter in enumerate(DISCRETE.parameters):
        line = np.tile(end, (int(parameter.cardinality), 1))
        line[:, i] = parameter.grid(10)
        assert values(line).max() <= values(end[None])[0] + 1e-9


def test_only_the_given_coordinates_move() -> None:
    start = MIXED.encode({"a": 0.1, "b": 0.9, "k": 0, "c": "p"})
    hill = Hill(MIXED, MIXED.encode({"a": 0.5, "b": 0.5, "k": 5, "c": "r"}))
    assert MIXED.decode(exchange(hill, MIXED, start, np.array([2]))) == {"a": 0.1, "b": 0.9, "k": 5, "c": "p"}
    np.testing.assert_array_equal(exchange(hill, MIXED, start, np.array([], dtype=np.int64)), start)


def test_a_wide_range_is_entered_on_a_grid_and_then_step_by_step() -> None:
    space = Space({"n": Int(0, 10_000), "x": Float(0, 1)})
    assert space["n"].cardinality > 100 * MAX_VALUES
    peak = space.encode({"n": 6671, "x": 0.5})  # four steps from a value of the grid, 6667
    end = exchange(Hill(space, peak), space, space.encode({"n": 17, "x": 0.5}), np.array([0]))
    assert abs(space.decode(end)["n"] - 6671) <= 4
    assert is_in(space, end[None])


def test_known_constraints_are_never_broken() -> None:
    peak = LIMITED.encode({"a": 0.2, "b": 0.2, "k": 6, "c": "r"})
    hill = Hill(LIMITED, peak)
    for a, c in itertools.product((0.0, 0.5), "pq"):
        start = LIMITED.encode({"a": a, "b": 0.3, "k": 1, "c": c})
        end = exchange(hill, LIMITED, start, np.array([2, 3]))
        assert LIMITED.allows(end)
        assert LIMITED.decode(end)["k"] == (4 if a == 0.0 else 5)
        assert LIMITED.decode(end)["c"] == "r"
