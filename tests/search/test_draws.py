"""All points of a finite space, and draws that end where a space is exhausted."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from dechbo import Categorical, Int, Space
from dechbo.search.draws import MAX_CONSTRAINED_DRAWS, MAX_DRAWS, MAX_IDLE_DRAWS, bounded_draws, listed_points

Array = NDArray[np.float64]

FINITE = Space({"n": Int(0, 2), "c": Categorical(["p", "q"])})


def forever(value: float = 0.0, step: float = 0.0) -> Iterator[Array]:
    return (np.array([value + k * step, 0.0]) for k in itertools.count())


def test_every_point_is_listed_once() -> None:
    listed = listed_points(FINITE, {})
    assert len(listed) == len(np.unique(listed, axis=0)) == 6
    assert [FINITE.decode(point) for point in listed_points(FINITE, {1: 1.0})] == [{"n": n, "c": "q"} for n in range(3)]


def test_without_constraints_draws_end_after_many() -> None:
    assert sum(1 for _ in bounded_draws(FINITE, forever(), 7)) == MAX_DRAWS + 7


def test_under_constraints_draws_end_when_they_only_repeat() -> None:
    space = Space({"n": Int(0, 2), "m": Int(0, 2)}, ["n + m <= 3"])
    assert sum(1 for _ in bounded_draws(space, forever(), 0)) == MAX_IDLE_DRAWS
    assert sum(1 for _ in bounded_draws(space, forever(step=1e-3), 5)) == MAX_CONSTRAINED_DRAWS + 5
