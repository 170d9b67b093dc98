"""What parameters take, and that bad values and bad parameters say what to do."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from dechbo.errors import ParameterError, SpaceError
from dechbo.space import Categorical, Float, Int, Parameter
from space_strategies import same


@pytest.mark.parametrize("value", [np.float64(0.5), np.float32(0.5), 0.5])
def test_float_takes_numpy_scalars(value: object) -> None:
    assert Float(0, 1).encode(value) == 0.5


@pytest.mark.parametrize("value", [3, np.int64(3), np.uint8(3), 3.0, np.float32(3)])
def test_int_takes_whole_numbers_of_any_type(value: object) -> None:
    u = Int(1, 5).encode(value)
    assert u == 0.5
    assert same(Int(1, 5).decode(u), 3)


def test_steps_forgive_rounding() -> None:
    assert Float(0, 1, step=0.1).encode(0.1 + 0.2) == 0.3
    assert Float(-0.3, 0.3, step=0.1).encode(-0.3 + 3 * 0.1) == 0.5
    assert Float(0, 1, step=0.1).encode(-1e-12) == 0.0


@pytest.mark.parametrize(
    ("parameter", "value", "message"),
    [
        (Float(0, 1), 1.5, "from 0.0 to 1.0, got 1.5"),
        (Float(0, 1), math.nan, "got nan"),
        (Float(0, 1), 10**400, "got 1000"),
        (Float(0, 1), "0.5", "expected a number.*got '0.5'"),
        (Float(0, 1), None, "expected a number.*got None"),
        (Float(0, 1), True, "expected a number.*got True"),
        (Float(0, 1), np.True_, "expected a number"),
        (Float(0, 1), np.array([0.5]), "expected a number"),
        (Float(0, 1, step=0.05), 0.07, "in steps of 0.05, got 0.07"),
        (Float(0, 1, step=0.05), 1.05, "from 0.0 to 1.0 in steps"),
        (Float(0, 0.97, step=0.05), 0.97, "from 0.0 to 0.95 in steps"),
        (Float(0, 1, step=0.05), math.inf, "got inf"),
        (Float(0, 1, step=0.05), -(10**400), "got -1000"),
        (Int(1, 8), 9, "a whole number from 1 to 8, got 9"),
        (Int(1, 8), 0, "got 0"),
        (Int(1, 8), 2.5, "a whole number.*got 2.5"),
        (Int(1, 8), math.inf, "got inf"),
        (Int(1, 8), True, "got True"),
        (Int(1, 8), "2", "got '2'"),
        (Int(0, 10, step=5), 4, "from 0 to 10 in steps of 5, got 4"),
        (Categorical(["relu", "tanh"]), "elu", r"one of \['relu', 'tanh'\], got 'elu'"),
        (Categorical(["relu", "tanh"]), 0, "one of"),
        (Categorical([1, 2]), True, "one of"),
        (Categorical([1, 2]), 1.0, "one of"),
        (Categorical([1, 2]), [1], "one of"),
    ],
)
def test_bad_values(parameter: Parameter, value: object, message: str) -> None:
    with pytest.raises(ParameterError, match=message):
        parameter.encode(value)


def test_choices_of_equal_value_stay_apart() -> None:
    mixed = Categorical([1, True, 1.0, None, "1"])
    assert [mixed.encode(c) for c in mixed.choices] == [0, 1, 2, 3, 4]
    assert [type(mixed.decode(float(i))) for i in range(5)] == [int, bool, float, type(None), str]
    assert mixed.encode(np.int64(1)) == 0
    assert mixed.encode(np.True_) == 1
    assert mixed.encode(np.float64(1)) == 2
    assert mixed.encode(np.str_("1")) == 4
    assert Categorical([1, 2]) != Categorical([1.0, 2.0])
    assert Categorical([0, 1]) != Categorical([1, 0])
    assert len({Categorical(["a"]), Categorical(("a",)), Categorical([1]), Categorical([True])}) == 3
    assert Categorical([1]) != "a"


# ---------------------------------------------------------------- bad parameters


# unchecked by mypy: these tests pass wrong types on purpose
FLOAT: Any = Float
INT: Any = Int
CATEGORICAL: Any = Categorical


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda: FLOAT(1, 1), "low < high.*single value is a constant, leave it out"),
        (lambda: FLOAT(2, 1), "low < high, got low=2.0, high=1.0: swap"),
        (lambda: FLOAT(0, math.inf), "finite numbers, got high=inf"),
        (lambda: FLOAT(-math.inf, 0), "finite numbers, got low=-inf"),
        (lambda: FLOAT(math.nan, 0), "finite numbers, got low=nan"),
        (lambda: FLOAT(0, 10**400), "finite numbers, got high=1000"),
        (lambda: FLOAT("0", 1), "got low='0'"),
        (lambda: FLOAT(None, 1), "got low=None"),
        (lambda: FLOAT(False, True), "got low=False"),
        (lambda: FLOAT(0, 1, log=True), "low > 0, got low=0.0"),
        (lambda: FLOAT(-1, 1, log=True), "low > 0, got low=-1.0"),
        (lambda: FLOAT(1, 2, log="yes"), "log=True or log=False, got log='yes'"),
        (lambda: FLOAT(0, 1, step=0), "step > 0, got step=0"),
        (lambda: FLOAT(0, 1, step=-0.1), "step > 0"),
        (lambda: FLOAT(0, 1, step=math.nan), "finite numbers, got step=nan"),
        (lambda: FLOAT(0, 1, step=True), "got step=True"),
        (lambda: FLOAT(0, 1, step=1.5), "at most high - low = 1, got step=1.5"),
        (lambda: FLOAT(0, 1, step=1e-300), "leave step out"),
        (lambda: FLOAT(1e16, 1e16 + 10, step=0.5), "leave step out"),
        (lambda: FLOAT(1, 2, log=True, step=0.1), "log=True or a step, got both"),
        (lambda: INT(1, 1), "single value is a constant, leave it out"),
        (lambda: INT(2, 1), "low < high, got low=2, high=1: swap"),
        (lambda: INT(0, 1.5), "whole numbers, got high=1.5: use Float"),
        (lambda: INT(0.0, 1), "whole numbers, got low=0.0: use Float"),
        (lambda: INT(0, math.inf), "use Float"),
        (lambda: INT(False, True), "got low=False"),
        (lambda: INT(0, 5, log=True), "low > 0, got low=0"),
        (lambda: INT(0, 5, step=0), "step > 0"),
        (lambda: INT(0, 5, step=6), "at most high - low = 5"),
        (lambda: INT(0, 5, step=0.5), "whole numbers, got step=0.5"),
        (lambda: INT(0, 2**63), "within ±2"),
        (lambda: CATEGORICAL([]), "at least one choice"),
        (lambda: CATEGORICAL("relu"), "list of choices.*got 'relu'"),
        (lambda: CATEGORICAL({"a", "b"}), "fixed order"),
        (lambda: CATEGORICAL({"a": 1}), "list of choices"),
        (lambda: CATEGORICAL(3), "list of choices"),
        (lambda: CATEGORICAL(["a", "b", "a"]), "distinct choices, got 'a' twice"),
        (lambda: CATEGORICAL([1, np.int64(1)]), "distinct choices, got 1 twice"),
        (lambda: CATEGORICAL([(1, 2), (3, 4)]), r"plain JSON\), got \(1, 2\)"),
        (lambda: CATEGORICAL([[1], [2]]), "plain JSON"),
        (lambda: CATEGORICAL([np.zeros(2)]), "plain JSON"),
        (lambda: CATEGORICAL([1.0, math.nan]), "finite float.*got nan"),
        (lambda: CATEGORICAL([1.0, math.inf]), "finite float.*got inf"),
    ],
)
def test_bad_parameters(build: Any, message: str) -> None:
    with pytest.raises(SpaceError, match=message):
        build()


def test_options_are_keyword_only_and_parameters_frozen() -> None:
    with pytest.raises(TypeError):
        FLOAT(0, 1, True)
    with pytest.raises(AttributeError):
        Float(0, 1).low = 3.0  # type: ignore[misc]
    assert type(INT(np.int64(1), np.int32(4)).low) is int
    assert type(FLOAT(np.float32(1), 4).high) is float
