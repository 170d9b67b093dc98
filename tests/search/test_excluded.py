"""Excluded points against brute force, and an exclusion with one more rule."""

from __future__ import annotations

from typing import Any

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from dechbo import Categorical, Float, Int, Space
from dechbo.data.history import RESOLUTION
from dechbo.search.excluded import Excluded
from dechbo.space import Parameter

PARAMETERS: dict[str, Parameter] = {"a": Float(0, 1), "n": Int(0, 2), "c": Categorical(["p", "q"])}


@settings(max_examples=50)
@given(st.integers(0, 2**32 - 1), st.booleans())
def test_it_holds_known_points_and_those_that_break_a_constraint(seed: int, constrained: bool) -> None:
    rng = np.random.default_rng(seed)
    space = Space(PARAMETERS, ["a + n <= 1.5"] if constrained else [])
    points = np.array([space.from_uniform(u) for u in rng.random((6, 3))])
    excluded = Excluded(space, points)
    nearby = points.copy()
    nearby[:, 0] = np.clip(nearby[:, 0] + rng.choice([-2, -0.5, 0.5, 2], 6) * RESOLUTION, 0, 1)
    for point in [*points, *nearby, *(space.from_uniform(u) for u in rng.random((20, 3)))]:
        params: dict[str, Any] = space.decode(point)
        broken = constrained and params["a"] + params["n"] > 1.5 + 1e-8
        known = any(abs(p[0] - point[0]) < RESOLUTION and (p[1:] == point[1:]).all() for p in points)
        assert (point in excluded) == (known or broken)


def test_without_points_only_constraints_exclude() -> None:
    space = Space(PARAMETERS, ["a + n <= 1.5"])
    excluded = Excluded(space, np.empty((0, 3)))
    assert space.encode({"a": 0.5, "n": 1, "c": "p"}) not in excluded
    assert space.encode({"a": 0.6, "n": 1, "c": "p"}) in excluded
