"""The initial design: Sobol points in order, known constraints, fixed coordinates."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from scipy.stats import qmc

from dechbo import Categorical, Float, Int, Optimizer, Space
from dechbo.search.initial import initial_points
from optimizer_cases import box

MIXED = Space({"a": Float(0, 1), "n": Int(0, 6), "c": Categorical(["p", "q", "r"])})


def test_it_is_the_scrambled_sobol_sequence() -> None:
    sobol = qmc.Sobol(3, rng=np.random.default_rng([7, 0])).random_base2(4)
    drawn = list(itertools.islice(initial_points(box(3), 7, 0, 0, {}), 16))
    np.testing.assert_array_equal(drawn, sobol)


@pytest.mark.parametrize("drawn", [0, 3, 15, 16, 40])
def test_it_goes_on_where_it_stopped(drawn: int) -> None:
    whole = list(itertools.islice(initial_points(MIXED, 1, 0, 0, {}), 16))
    rest = list(itertools.islice(initial_points(MIXED, 1, drawn, drawn, {}), 16))
    np.testing.assert_array_equal(rest[: max(0, 16 - drawn)], whole[drawn:])
    assert len(rest) == 16  # without end


def test_fixed_coordinates_stay_and_values_are_those_of_the_space() -> None:
    for point in itertools.islice(initial_points(MIXED, 0, 0, 0, {0: 0.25}), 40):
        assert point[0] == 0.25
        np.testing.assert_array_equal(MIXED.encode(MIXED.decode(point)), point)


def test_only_allowed_points_come_and_in_the_order_of_the_sequence() -> None:
    space = Space({"x": Float(0, 1), "y": Float(0, 1)}, ["x + y <= 0.8"])
    free = Space({"x": Float(0, 1), "y": Float(0, 1)})
    points = np.array(list(itertools.islice(initial_points(space, 3, 0, 0, {}), 4)))
    everything = np.array(list(itertools.islice(initial_points(free, 3, 0, 0, {}), 16)))
    np.testing.assert_array_equal(points, everything[space.region.allows(everything)][:4])


def test_more_parameters_than_sobol_has_dimensions_are_drawn_at_random() -> None:
    dim = qmc.Sobol.MAXDIM + 1
    first, again = (next(initial_points(box(dim), 0, 0, 5, {})) for _ in range(2))
    np.testing.assert_array_equal(first, again)
    assert not np.array_equal(first, next(initial_points(box(dim), 0, 0, 6, {})))


def test_a_thin_region_has_an_initial_design() -> None:
    space = Space({f"x{i}": Float(0, 1) for i in range(4)}, ["x0 + x1 + x2 + x3 <= 0.01"])
    optimizer = Optimizer(space, seed=0, noise=0.1)
    points = np.array([list(params.values()) for params in optimizer.ask(8)])
    assert points.sum(axis=1).max() <= 0.01 + 1e-9
    assert len(np.unique(points, axis=0)) == 8
