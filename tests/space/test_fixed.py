"""Parameters that an ask holds at given values."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from dechbo import Categorical, Float, Int, Space
from dechbo.errors import ParameterError
from dechbo.space.fixed import check_fixed, fixed_coordinates

SPACE = Space(
    {"lr": Float(1e-5, 1, log=True), "n": Int(1, 8), "c": Categorical(["a", "b"]), "k": Float(0, 1, step=0.1)}
)


def test_fixed_values_come_back_as_plain_ones_of_their_own_type() -> None:
    assert check_fixed(SPACE, None) == {}
    fixed = check_fixed(SPACE, {"lr": np.float64(1e-3), "n": np.int64(3), "c": "b", "k": 0.30000000000000004})
    assert fixed == {"lr": 1e-3, "n": 3, "c": "b", "k": 0.3}  # continuous: the number itself; stepped: the step
    assert [type(value) for value in fixed.values()] == [float, int, str, float]


def test_coordinates_are_those_of_the_whole_point() -> None:
    params = {"lr": 1e-3, "n": 3, "c": "b", "k": 0.3}
    point = SPACE.encode(params)
    assert fixed_coordinates(SPACE, {}) == {}
    assert fixed_coordinates(SPACE, {"c": "b", "lr": 1e-3}) == {0: point[0], 2: point[2]}
    assert fixed_coordinates(SPACE, params) == dict(enumerate(point))


@pytest.mark.parametrize(
    ("fixed", "message"),
    [
        ("lr", "fixed is a dict of parameter name to value, got 'lr'"),
        ({"depth": 3}, r"fixed names \['depth'\], which are not parameters; the space has .*'lr'"),
        ({"n": 9}, "fixed 'n': "),
        ({"n": 2.5}, "fixed 'n': "),
        ({"c": "d"}, "fixed 'c': "),
        ({"lr": float("nan")}, "fixed 'lr': "),
    ],
)
def test_bad_values_are_refused(fixed: Any, message: str) -> None:
    with pytest.raises(ParameterError, match=message):
        check_fixed(SPACE, fixed)


def test_a_conditional_parameter_that_contradicts_another() -> None:
    space = Space({"c": Categorical(["a", "b"]), "x": Float(0, 1, when={"c": "a"})})
    assert check_fixed(space, {"x": 0.5}) == {"x": 0.5, "c": "a"}
    with pytest.raises(ParameterError, match="'x' is there only when 'c' is 'a': not 'b'"):
        check_fixed(space, {"x": 0.5, "c": "b"})
