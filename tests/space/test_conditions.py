"""Conditional parameters: no value where they are inactive, and one coordinate of their own."""

from __future__ import annotations

import json
import pickle
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dechbo import Categorical, Float, Int, Space
from dechbo.errors import ParameterError, SpaceError
from dechbo.space.conditions import Conditional
from dechbo.space.fixed import check_fixed, fixed_coordinates

SPACE = Space(
    {
        "gamma": Float(1e-4, 10, log=True, when={"kernel": ["rbf", "poly"]}),  # before its parents
        "clf": Categorical(["svm", "forest", "knn"]),
        "C": Float(1e-3, 1e3, log=True, when={"clf": "svm"}),
        "kernel": Categorical(["rbf", "linear", "poly"], when={"clf": "svm"}),
        "degree": Int(2, 5, when={"kernel": "poly"}),
        "depth": Int(1, 20, when={"clf": "forest"}),
        "x": Float(0, 1),
        "mode": Categorical(["a", "b"]),
        "both": Float(0, 1, step=0.25, when={"clf": ["forest", "knn"], "mode": "b"}),
    }
)
FINITE = Space(
    {
        "clf": Categorical(["svm", "forest"]),
        "kernel": Categorical(["rbf", "linear"], when={"clf": "svm"}),
        "degree": Int(1, 3, when={"kernel": "rbf"}),
        "depth": Int(1, 4, when={"clf": "forest"}),
        "n": Int(1, 2),
    }
)
points = st.lists(st.floats(0, 1, exclude_max=True), min_size=SPACE.dim, max_size=SPACE.dim).map(np.array)


def expected_names(params: dict[str, Any]) -> set[str]:
    """By hand, from the definition of SPACE."""
    names = {"clf", "x", "mode"}
    if params["clf"] == "svm":
        names |= {"C", "kernel"}
        names |= {"gamma"} if params["kernel"] in ("rbf", "poly") else set()
        names |= {"degree"} if params["kernel"] == "poly" else set()
    if params["clf"] == "forest":
        names |= {"depth"}
    if params["clf"] in ("forest", "knn") and params["mode"] == "b":
        names |= {"both"}
    return names


@given(points)
def test_a_point_has_exactly_the_active_parameters_and_comes_back(u: np.ndarray) -> None:
    point = SPACE.from_uniform(u)
    params = SPACE.decode(point)
    assert set(params) == expected_names(params) == SPACE.active(params)
    assert list(params) == [name for name in SPACE if name in params]
    np.testing.assert_allclose(SPACE.encode(params), point, atol=1e-12)
    assert SPACE.native(params) == params


@given(points, points)
def test_inactive_coordinates_do_not_matter(u: np.ndarray, other: np.ndarray) -> None:
    raw = np.array([p.from_uniform(x) for p, x in zip(SPACE.parameters, u, strict=True)])
    moved = np.array([p.from_uniform(x) for p, x in zip(SPACE.parameters, other, strict=True)])
    active = SPACE.conditions.active(raw[None])[0]
    mixed = np.where(active, raw, moved)
    np.testing.assert_array_equal(SPACE.canonical(mixed[None]), SPACE.canonical(raw[None]))
    np.testing.assert_array_equal(SPACE.canonical(SPACE.canonical(raw[None])), SPACE.canonical(raw[None]))
    assert SPACE.decode(mixed) == SPACE.decode(raw)


@given(points)
def test_an_inactive_parameter_has_a_coordinate_that_no_value_has(u: np.ndarray) -> None:
    point = SPACE.from_uniform(u)
    for i, (parameter, active) in enumerate(
        zip(SPACE.parameters, SPACE.conditions.active(point[None])[0], strict=True)
    ):
        if isinstance(parameter, Conditional):
            assert parameter.is_active(point[i : i + 1])[0] == active
            values = parameter.grid(50)
            assert parameter.inactive in values
            assert all(parameter.encode(parameter.decode(v)) != parameter.inactive for v in values)
    filled = SPACE.conditions.filled(point, np.empty((0, SPACE.dim)))
    np.testing.assert_allclose(SPACE.canonical(filled[None])[0], point)


def test_the_tables_forbid_exactly_what_is_not_canonical() -> None:
    candidates = [parameter.grid(4) for parameter in SPACE.parameters]
    walls = SPACE.conditions.tables(candidates)
    rng = np.random.default_rng(0)
    seen = set()
    for _ in range(3000):
        choice = [int(rng.integers(len(values))) for values in candidates]
        point = np.array([values[k] for values, k in zip(candidates, choice, strict=True)])
        allowed = all(table[tuple(choice[i] for i in scope)] == 0 for scope, table in walls)
        assert allowed == np.array_equal(SPACE.canonical(point[None])[0], point)
        seen.add(allowed)
    assert seen == {True, False}


def test_the_points_of_a_finite_space_are_counted() -> None:
    # n: 2; svm with rbf: 3 degrees, svm with linear: 1, forest: 4 depths
    assert FINITE.conditions.count({}) == 2 * (3 + 1 + 4)
    assert FINITE.conditions.count(fixed_coordinates(FINITE, {"clf": "svm"})) == 2 * (3 + 1)
    assert FINITE.conditions.count(fixed_coordinates(FINITE, check_fixed(FINITE, {"degree": 2}))) == 2
    assert SPACE.conditions.count({}) == np.inf


def test_a_space_survives_json_and_pickle_and_shows_its_conditions() -> None:
    assert Space.from_json(json.loads(json.dumps(SPACE.to_json()))) == SPACE
    assert pickle.loads(pickle.dumps(SPACE)) == SPACE
    assert "when={'clf': ('svm',)}" in repr(SPACE)
    assert "when" not in repr(Space({"x": Float(0, 1)}))
    assert Float(0, 1, when={"a": "b"}) != Float(0, 1)
    assert Categorical(["x", "y"], when={"a": "b"}) != Categorical(["x", "y"])


def test_a_value_that_is_not_there_is_refused_and_one_that_is_missing_too() -> None:
    good = {"clf": "forest", "depth": 3, "x": 0.5, "mode": "a"}
    SPACE.encode(good)
    with pytest.raises(ParameterError, match="'C' is there only when 'clf' is 'svm': leave it out"):
        SPACE.encode({**good, "C": 1.0})
    with pytest.raises(ParameterError, match=r"\['depth'\] are missing"):
        SPACE.encode({name: value for name, value in good.items() if name != "depth"})
    assert SPACE.replaced(good, "clf", "knn") == {"clf": "knn", "x": 0.5, "mode": "a"}
    assert set(SPACE.replaced(good, "clf", "svm")) == {
        "clf",
        "C",
        "kernel",
        "x",
        "mode",
    }  # kernel: linear, which has no gamma


def test_fixing_a_conditional_parameter_fixes_what_it_needs() -> None:
    assert check_fixed(SPACE, {"degree": 3}) == {"degree": 3, "kernel": "poly", "clf": "svm"}
    with pytest.raises(ParameterError, match="'gamma' is there only when 'kernel' is 'rbf' or 'poly': fix that, too"):
        check_fixed(SPACE, {"gamma": 0.1})
    with pytest.raises(ParameterError, match="'depth' is there only when 'clf' is 'forest'"):
        check_fixed(SPACE, {"depth": 3, "clf": "svm"})


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"x": Float(0, 1, when={"y": "a"})}, "depends on 'y', which is not a parameter"),
        ({"x": Float(0, 1, when={"n": 1}), "n": Int(1, 3)}, "must be a Categorical"),
        ({"x": Float(0, 1, when={"c": "z"}), "c": Categorical(["a", "b"])}, "'z', which is not one of its choices"),
        (
            {"a": Categorical([1, 2], when={"b": 1}), "b": Categorical([1, 2], when={"a": 1})},
            r"conditions of \['a', 'b'\] go round",
        ),
    ],
)
def test_impossible_conditions(parameters: dict[str, Any], message: str) -> None:
    with pytest.raises(SpaceError, match=message):
        Space(parameters)


@pytest.mark.parametrize("when", ["clf", {}, {1: 2}, {"clf": []}])
def test_conditions_that_are_none(when: Any) -> None:
    with pytest.raises(SpaceError, match="when"):
        Float(0, 1, when=when)


def test_a_linear_constraint_needs_parameters_that_are_always_there() -> None:
    with pytest.raises(SpaceError, match="'x' is not"):
        Space({"c": Categorical(["a", "b"]), "x": Float(0, 1, when={"c": "a"}), "y": Float(0, 1)}, ["x + y <= 1"])
