"""The region of known constraints: which points they allow, and the points near and inside."""

from __future__ import annotations

import itertools
import pickle

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from scipy.optimize import linprog

from dechbo import Categorical, Float, Int, Space
from dechbo.errors import SpaceError
from dechbo.space import Linear


@pytest.mark.parametrize(
    ("constraints", "says"),
    [
        (["x + z <= 1"], "names 'z', which is not a parameter"),
        (["x + c <= 1"], "'c' is categorical"),
        (["x + y >= 2.1"], "no point of the space"),
        (["x + y <= 0.3", "x >= 0.4"], "no point of the space"),
        (["2*n >= 2.5", "2*n <= 3.5"], "no point of the space"),  # 1.25 <= n <= 1.75 has reals, but no whole number
        ("x <= 1", "constraints are a list"),
        (3, "constraints are a list"),
    ],
)
def test_bad_constraints_of_a_space(constraints: object, says: str) -> None:
    with pytest.raises(SpaceError, match=says):
        Space({"x": Float(0, 1), "y": Float(0, 1), "n": Int(0, 5), "c": Categorical(["a", "b"])}, constraints)  # type: ignore[arg-type]


def mixed() -> Space:
    return Space(
        {
            "a": Float(0, 1),
            "b": Float(-1, 1),
            "lr": Float(1e-5, 1, log=True),
            "wd": Float(1e-6, 1, log=True),
            "n": Int(1, 10),
            "m": Int(1, 1000, log=True),
            "k": Float(0, 1, step=0.1),
            "c": Categorical(["x", "y"]),
        },
        ["a + b <= 1", "wd <= 2*lr", "n + m <= 30", "n >= m", Linear({"k": 1, "a": 1}, upper=0.3)],
    )


def test_a_space_keeps_its_constraints() -> None:
    space = mixed()
    assert [str(c) for c in space.constraints][:2] == ["a + b <= 1", "wd - 2*lr <= 0"]
    again = Space.from_json(space.to_json())
    assert again == space == pickle.loads(pickle.dumps(space))
    assert again.constraints == space.constraints
    assert "wd - 2*lr <= 0" in repr(space)
    plain = Space({name: space[name] for name in space})
    assert plain != space
    assert plain.constraints == ()
    assert "constraints" not in plain.to_json()
    with pytest.raises(SpaceError, match="JSON of a constraint"):
        Space.from_json({**plain.to_json(), "constraints": ["a <= 1"]})


def test_a_value_on_the_edge_is_allowed() -> None:
    space = Space({"x": Float(0, 1, step=0.1), "y": Float(0, 1, step=0.1)}, ["x + y <= 0.3"])
    assert 0.1 + 0.2 > 0.3
    assert space.allows(space.encode({"x": 0.1, "y": 0.2}))
    assert not space.allows(space.encode({"x": 0.2, "y": 0.2}))


@given(st.integers(0, 2**32 - 1))
@settings(max_examples=10)
def test_points_of_the_region(seed: int) -> None:
    """Allowed is what Python computes; drawn, nearest and pulled-in points are allowed and keep fixed coordinates."""
    space, rng = mixed(), np.random.default_rng(seed)

    def holds(point: np.ndarray) -> bool:
        p = space.decode(point)
        return bool(
            p["a"] + p["b"] <= 1 + 1e-9
            and p["wd"] <= 2 * p["lr"] * (1 + 1e-8)
            and p["n"] + p["m"] <= 30
            and p["n"] >= p["m"]
            and p["k"] + p["a"] <= 0.3 + 1e-9
        )

    points = np.array([space.from_uniform(u) for u in rng.random((20, 8))])
    assert space.region.allows(points).tolist() == [holds(point) for point in points]
    fixed = {4: space["n"].encode(3), 3: space["wd"].encode(1e-3)}
    allowed = space.region.allowed_point({})
    assert allowed is not None
    assert holds(allowed)
    assert all(map(holds, space.region.pull_inside(points, allowed)))
    drawn, near = space.draw(rng, fixed), space.region.nearest(points[0], fixed)
    assert near is not None
    assert holds(drawn)
    assert holds(near)
    assert all(point[i] == x for point in (drawn, near) for i, x in fixed.items())
    assert near[7] == points[0][7]  # what no constraint speaks of stays
    assert np.array_equal(space.encode(space.decode(near))[4:7], near[4:7])


def test_no_point_of_a_slice() -> None:
    space = mixed()
    assert space.region.allowed_point({4: space["n"].encode(1), 5: space["m"].encode(2)}) is None


@given(st.lists(st.tuples(*[st.integers(-3, 3)] * 3, st.integers(-6, 6)), min_size=1, max_size=4))
@settings(max_examples=60)
def test_whole_numbers_are_counted_and_reached(rows: list[tuple[int, int, int, int]]) -> None:
    """Against all 4 * 5 * 3 points: whether there is one, how many, and the nearest."""
    rows = [row for row in rows if any(row[:3])]
    assume(rows)
    parameters = {"x": Int(0, 3), "y": Int(-2, 2), "z": Int(1, 3)}
    constraints = [Linear(dict(zip("xyz", row[:3], strict=True)), row[3]) for row in rows]
    allowed = [
        p
        for p in itertools.product(range(4), range(-2, 3), range(1, 4))
        if all(np.dot(row[:3], p) <= row[3] for row in rows)
    ]
    if not allowed:
        with pytest.raises(SpaceError, match="no point"):
            Space(parameters, constraints)
        return
    space = Space(parameters, constraints)
    held = [i for i in range(3) if i not in space.region.variables]
    count = space.region.count({}) * np.prod([space.parameters[i].cardinality for i in held])
    assert count == len(allowed)
    codes = np.array([space.encode(dict(zip("xyz", p, strict=True))) for p in allowed])
    corner = np.array([1.0, 0.0, 0.5])
    near = space.region.nearest(corner)
    assert near is not None
    assert np.abs(near - corner).sum() == pytest.approx(np.abs(codes - corner).sum(axis=1).min(), abs=1e-6)


@given(st.lists(st.tuples(*[st.integers(-3, 3)] * 3, st.floats(-4, 4)), min_size=1, max_size=4))
@settings(max_examples=60)
def test_satisfiable_as_scipy_says(rows: list[tuple[int, int, int, float]]) -> None:
    rows = [row for row in rows if any(row[:3])]
    assume(rows)
    A, b = np.array([row[:3] for row in rows], dtype=float), np.array([row[3] for row in rows])
    # the largest t with A x + t <= b: positive where there is room, negative where there is none
    found = linprog([0, 0, 0, -1], np.column_stack([A, np.ones(len(A))]), b, bounds=[(0, 1)] * 3 + [(None, 9)])
    assume(abs(found.fun) > 1e-3)
    parameters = {name: Float(0, 1) for name in "xyz"}
    constraints = [Linear(dict(zip("xyz", row[:3], strict=True)), row[3]) for row in rows]
    if found.fun > 0:
        with pytest.raises(SpaceError, match="no point"):
            Space(parameters, constraints)
    else:
        assert Space(parameters, constraints).region.allowed_point({}) is not None


def test_a_thin_region_is_reached() -> None:
    space = Space({f"x{i}": Float(0, 1) for i in range(4)}, ["x0 + x1 + x2 + x3 <= 1e-3", "x0 >= 1e-4"])
    rng = np.random.default_rng(0)
    points = np.array([space.draw(rng, {}) for _ in range(30)])
    assert space.region.allows(points).all()
    assert len(np.unique(points, axis=0)) == 30
    assert points.sum(axis=1).max() > 5e-4
