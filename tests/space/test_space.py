"""Spaces: points of named parameters, JSON, and bad input that says what to do."""

from __future__ import annotations

import copy
import json
import math
import pickle
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dechbo.errors import DechboError, ParameterError, SpaceError
from dechbo.space import Categorical, Float, Int, Parameter, Space, parameter_from_json
from space_strategies import draws, spaces


@given(spaces, st.data())
def test_space_round_trip(space: Space, data: st.DataObject) -> None:
    u = np.array([data.draw(draws) for _ in space])
    point = space.from_uniform(u)
    params = space.decode(point)
    assert list(params) == list(space.names)
    again = space.encode(params)
    assert again.shape == (space.dim,)
    assert again.dtype == np.float64
    exact = ~space.is_continuous
    assert again[exact].tolist() == point[exact].tolist()
    json.dumps(params, allow_nan=False)


@given(spaces)
def test_space_survives_json_pickle_and_copy(space: Space) -> None:
    text = json.dumps(space.to_json(), allow_nan=False)
    assert Space.from_json(json.loads(text)) == space
    assert pickle.loads(pickle.dumps(space)) == space
    assert copy.deepcopy(space) == space
    for parameter in (space[name] for name in space):
        assert parameter_from_json(json.loads(json.dumps(parameter.to_json()))) == parameter


def example_space() -> Space:
    return Space(
        {
            "learning_rate": Float(1e-5, 1, log=True),
            "layers": Int(1, 8),
            "act": Categorical(["relu", "tanh"]),
            "drop": Float(0, 1, step=0.05),
        }
    )


def test_space_as_a_collection() -> None:
    space = example_space()
    assert space.names == ("learning_rate", "layers", "act", "drop")
    assert list(space) == list(space.names)
    assert len(space) == space.dim == 4
    assert space["layers"] == Int(1, 8)
    assert "act" in space
    assert space.is_continuous.tolist() == [True, False, False, False]
    assert space.is_categorical.tolist() == [False, False, True, False]
    assert [p.kernel_kind for p in space.parameters] == ["numeric", "numeric", "categorical", "numeric"]
    assert not space.is_continuous.flags.writeable
    assert eval(repr(space)) == space
    assert space != Space(dict(reversed([(name, space[name]) for name in space])))
    assert space != 3
    with pytest.raises(AttributeError):
        space.names = ()


def test_a_space_keeps_nothing_of_the_dict_it_was_given() -> None:
    given_dict: dict[str, Parameter] = {"x": Float(0, 1)}
    space = Space(given_dict)
    given_dict["y"] = Float(0, 1)
    assert space.names == ("x",)


def test_cardinality() -> None:
    assert example_space().cardinality == math.inf
    assert example_space().log_cardinality == math.inf
    assert not example_space().is_finite
    finite_space = Space({"layers": Int(1, 8), "act": Categorical("ab"[i] for i in range(2))})  # type: ignore[arg-type]
    assert finite_space.cardinality == 16
    assert finite_space.log_cardinality == pytest.approx(math.log(16))
    large = Space({f"x{i}": Int(0, 9) for i in range(2000)})
    assert large.cardinality == math.inf
    assert large.is_finite
    assert large.log_cardinality == pytest.approx(2000 * math.log(10))


@pytest.mark.parametrize(
    ("mapping", "message"),
    [
        ({}, "at least one parameter"),
        ([("x", Float(0, 1))], "needs a dict"),
        ({"": Float(0, 1)}, "non-empty string, got ''"),
        ({3: Float(0, 1)}, "non-empty string, got 3"),
        ({"x": (0, 1)}, r"'x' needs a Float, Int or Categorical, got \(0, 1\): write Float\(0, 1\)"),
        ({"x": ["a", "b"]}, r"write Categorical\(\['a', 'b'\]\)"),
        ({"x": Float}, r"write Float\(\.\.\.\)"),
        ({"x": 3}, "leave it out"),
        ({"x": None}, "got None"),
    ],
)
def test_bad_spaces(mapping: Any, message: str) -> None:
    with pytest.raises(SpaceError, match=message):
        Space(mapping)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"learning_rat": 0.1}, "no parameter is called 'learning_rat'; did you mean 'learning_rate'?"),
        ({"zzz": 0.1}, "no parameter is called 'zzz'; the space has \\['learning_rate', 'layers', 'act', 'drop'\\]"),
        ({7: 0.1}, "no parameter is called 7"),
        ({"layers": None}, r"parameter 'layers': expected a whole number from 1 to 8, got None"),
        ({"act": "rely"}, r"parameter 'act': expected one of"),
        ({"drop": 0.07}, "parameter 'drop'"),
    ],
)
def test_bad_points(changes: dict[Any, Any], message: str) -> None:
    params = {"learning_rate": 0.1, "layers": 3, "act": "relu", "drop": 0.5, **changes}
    with pytest.raises(ParameterError, match=message):
        example_space().encode(params)


def test_missing_names_and_wrong_shapes() -> None:
    space = example_space()
    with pytest.raises(ParameterError, match=r"\['act', 'drop'\] are missing"):
        space.encode({"learning_rate": 0.1, "layers": 3})
    with pytest.raises(ParameterError, match="expected a dict"):
        space.encode([0.1, 3, "relu", 0.5])  # type: ignore[arg-type]
    with pytest.raises(ParameterError, match=r"shape \(4,\), got shape \(3,\)"):
        space.decode(np.zeros(3))
    with pytest.raises(ParameterError, match="NaN"):
        space.decode(np.full(4, np.nan))
    with pytest.raises(ParameterError, match="did you mean 'drop'"):
        space["drops"]


@pytest.mark.parametrize(
    "data",
    [
        None,
        {},
        {"parameters": 3},
        {"parameters": [{"type": "int", "low": 0, "high": 3}]},
        {"parameters": [{"name": "x", "type": "complex"}]},
        {"parameters": [{"name": "x", "type": []}]},
        {"parameters": [{"name": "x", "type": "int", "low": 0}]},
        {"parameters": [{"name": "x", "type": "int", "low": 0, "high": 3, "color": 1}]},
        {"parameters": [{"name": "x", "type": "categorical", "choices": ["a"]}] * 2},
        {"parameters": [{"name": ["x"], "type": "categorical", "choices": ["a"]}]},
        {"parameters": []},
    ],
)
def test_bad_json(data: Any) -> None:
    with pytest.raises(DechboError):
        Space.from_json(data)


def test_five_thousand_parameters_come_back() -> None:
    kinds: list[Parameter] = [
        Float(0, 1),
        Float(1e-5, 1, log=True),
        Int(1, 1000, log=True),
        Float(0, 1, step=0.05),
        Categorical(["a", "b", "c"]),
    ]
    space = Space({f"x{i}": kinds[i % 5] for i in range(5000)})
    point = space.from_uniform(np.random.default_rng(0).random(5000))
    np.testing.assert_allclose(space.encode(space.decode(point)), point, atol=1e-12)
    assert space.is_categorical.sum() == 1000
    assert not space.is_finite
