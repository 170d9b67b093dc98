"""Proposals stay in the space; fixed coordinates stay; known constraints hold."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dechbo import Categorical, Float, Int, Space
from dechbo.search.proposals import Proposals, around, spread, within_reach
from search_cases import INSIDE, LIMITED, MIXED, is_in


@settings(max_examples=30)
@given(st.integers(0, 10**6), st.integers(1, 70))
def test_points_over_the_space_and_around_a_point_are_points_of_the_space(seed: int, count: int) -> None:
    rng = np.random.default_rng(seed)
    over = spread(MIXED, rng, count)
    centre = MIXED.from_uniform(rng.random(4))
    near = around(MIXED, rng, centre, count)
    assert over.shape == near.shape == (count, 4)
    assert is_in(MIXED, over)
    assert is_in(MIXED, near)


def test_the_space_is_covered() -> None:
    points = spread(MIXED, np.random.default_rng(0), 256)
    for i in range(2):
        assert np.histogram(points[:, i], 16, (0, 1))[0].min() >= 14  # Sobol points: 16 in every sixteenth
    assert [len(np.unique(points[:, i])) for i in (2, 3)] == [7, 3]


def test_more_parameters_than_sobol_has_dimensions_are_drawn_at_random() -> None:
    space = Space({f"x{i}": Float(0, 1) for i in range(21_300)})
    assert spread(space, np.random.default_rng(0), 2).shape == (2, 21_300)


def test_most_coordinates_of_a_point_around_another_are_kept() -> None:
    space = Space({f"x{i}": Float(0, 1) for i in range(100)})
    centre = np.full(100, 0.5)
    changed = (around(space, np.random.default_rng(0), centre, 500) != centre).sum(axis=1)
    assert changed.min() >= 1
    assert np.median(changed) < 10
    assert changed.max() == 100


def test_whole_numbers_move_a_little_and_sometimes_far() -> None:
    space = Space({"n": Int(0, 1000), "c": Categorical(["p", "q"])})
    centre = space.encode({"n": 500, "c": "p"})
    points = around(space, np.random.default_rng(0), centre, 400)
    steps = np.abs(points[:, 0] * 1000 - 500).round()
    assert ((steps > 0) & (steps <= 3)).sum() > 100
    assert (steps > 50).sum() > 20
    assert set(points[:, 1]) == {0.0, 1.0}


@pytest.mark.parametrize("fixed", [{}, {2: 0.5}, {0: 0.25, 3: 1.0}])
def test_fixed_coordinates_stay_and_constraints_hold(fixed: dict[int, float]) -> None:
    rng = np.random.default_rng(1)
    allowed = INSIDE.copy()
    allowed[list(fixed)] = list(fixed.values())
    assert LIMITED.allows(allowed)
    points = np.vstack([spread(LIMITED, rng, 100), around(LIMITED, rng, allowed, 100)])
    assert not LIMITED.region.allows(points).all()
    found = within_reach(LIMITED, points, fixed, allowed)
    assert is_in(LIMITED, found)
    for i, value in fixed.items():
        assert (found[:, i] == value).all()
    free = within_reach(MIXED, points, fixed, allowed)
    moved = [i for i in range(4) if i not in fixed]
    np.testing.assert_array_equal(free[:, moved], points[:, moved])


def test_every_point_has_a_source() -> None:
    joined = Proposals.joined([("max-sum", np.zeros((1, 2))), ("spread", np.ones((3, 2)))])
    assert joined.sources == ("max-sum", "spread", "spread", "spread")
    assert joined.points.tolist() == [[0, 0], [1, 1], [1, 1], [1, 1]]
