"""The last ulps: constraints hold as Python adds them up, and hardly anything moves."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from dechbo import Float, Int, Linear, Space
from dechbo.space.repair import repair_rounding


def satisfied(space: Space, params: dict[str, Any]) -> bool:
    return all(sum(c * params[name] for name, c in one.coefficients.items()) <= one.upper for one in space.constraints)


@pytest.mark.parametrize("scale", [1e-6, 1.0, 1e6])
def test_points_on_the_edges_and_in_the_corners_of_random_regions(scale: float) -> None:
    rng = np.random.default_rng(0)
    missed = 0
    for _ in range(25):
        names = [f"x{i}" for i in range(rng.integers(2, 5))]
        parameters = {name: Float(-scale * rng.random(), scale * (1 + rng.random())) for name in names}
        parameters["x0"] = Float(1e-3 * scale, scale, log=True)
        rows = [dict(zip(names, rng.normal(size=len(names)).tolist(), strict=True)) for _ in range(3)]
        middle = {name: (p.low + p.high) / 2 for name, p in parameters.items()}
        limits = [Linear(row, sum(c * middle[name] for name, c in row.items()) + 0.1 * scale) for row in rows]
        space = Space(parameters, limits)
        for _ in range(4):
            point = space.region.nearest(rng.choice([0.0, 1.0], len(names)))
            assert point is not None
            params = space.decode(point)
            missed += not satisfied(space, params)
            moved = repair_rounding(space, params, ())
            assert satisfied(space, moved)
            assert np.abs(space.encode(moved) - point).max() < 1e-7
    assert missed > 10


def test_a_corner_that_no_single_value_leaves_inwards() -> None:
    space = Space({"a": Float(0, 1), "b": Float(0, 1)}, ["a - 1.1*b <= -0.03", "b - 1.1*a <= -0.01"])
    b = (0.01 + 1.1 * 0.03) / 0.21
    corner = {"a": 1.1 * b - 0.03 + 1e-12, "b": b + 5e-13}
    assert not satisfied(space, corner)
    assert satisfied(space, repair_rounding(space, corner, ()))


def test_fixed_values_and_whole_numbers_do_not_change() -> None:
    space = Space({"a": Float(0, 1), "b": Float(0, 1), "n": Int(0, 3)}, ["a + b + n <= 2"])
    over = {"a": 0.3 + 1e-12, "b": 0.7, "n": 1}
    assert repair_rounding(space, over, {"a", "b"}) == over
    moved = repair_rounding(space, over, {"a"})
    assert (moved["a"], moved["n"]) == (over["a"], 1)
    assert moved["b"] < 0.7
    assert satisfied(space, moved)


def test_an_equality_keeps_its_tolerance() -> None:
    space = Space({"a": Float(0, 1), "b": Float(0, 1), "c": Float(0, 1)}, ["a + b + c <= 1", "a + b + c >= 1"])
    params = {"a": 0.1, "b": 0.2, "c": 0.7 + 1e-12}
    moved = repair_rounding(space, params, ())
    assert sum(moved.values()) == pytest.approx(1, rel=1e-9)
