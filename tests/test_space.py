"""The space: values and coordinates are the same thing seen twice, and bad input says what to do."""

from __future__ import annotations

import copy
import json
import math
import pickle
import time
from decimal import Decimal
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, example, given, settings
from hypothesis import strategies as st

from dechbo.errors import DechboError, OptionError, ParameterError, SpaceError
from dechbo.space import Categorical, Float, Int, Parameter, Space, parameter_from_json

# ---------------------------------------------------------------- strategies

finite = st.floats(allow_nan=False, allow_infinity=False)
units = st.floats(0.0, 1.0)
draws = st.floats(0.0, 1.0, exclude_max=True)


@st.composite
def continuous(draw: st.DrawFn) -> Float:
    log = draw(st.booleans())
    bound = st.floats(min_value=5e-324, allow_infinity=False) if log else finite
    low, high = sorted((draw(bound), draw(bound)))
    assume(low < high)
    return Float(low, high, log=log)


@st.composite
def stepped(draw: st.DrawFn) -> Float:
    """low, high and step with a few decimals; the range need not be a multiple of the step."""
    exponent = draw(st.integers(-12, 6))
    low = draw(st.integers(-(10**6), 10**6))
    step = draw(st.integers(1, 10**4))
    width = draw(st.integers(step, 10**6))
    numbers = [float(Decimal(n).scaleb(exponent)) for n in (low, low + max(width, step), step)]
    return Float(numbers[0], numbers[1], step=numbers[2])


@st.composite
def whole(draw: st.DrawFn, most: int = 2**50) -> Int:
    log = draw(st.booleans())
    most = min(most, 2**40) if log else most
    low = draw(st.integers(1, 10**6) if log else st.integers(-(2**60), 2**60))
    step = draw(st.integers(1, 50))
    steps = draw(st.integers(1, max(1, most // step if log else most - 1)))
    high = min(low + steps * step + draw(st.integers(0, step - 1)), 2**62)
    assume(high - low >= step)
    return Int(low, high, log=log, step=step)


choice = st.none() | st.booleans() | st.integers() | finite | st.text(max_size=5)
categories = st.lists(choice, min_size=1, max_size=8, unique_by=lambda c: (type(c), c)).map(Categorical)
discrete = stepped() | whole() | categories
small = stepped() | whole(most=40) | categories
parameters = continuous() | discrete
spaces = st.dictionaries(st.text(min_size=1, max_size=6), parameters, min_size=1, max_size=6).map(Space)


def same(left: object, right: object) -> bool:
    return type(left) is type(right) and left == right


# ---------------------------------------------------------------- values and coordinates


@given(continuous(), units)
@example(Float(-1e308, 1e308), 0.75)
@example(Float(1e-300, 1e300, log=True), 0.5)
@example(Float(0.0, 5e-324), 0.5)
def test_continuous_round_trip(parameter: Float, u: float) -> None:
    value = parameter.decode(u)
    assert type(value) is float
    assert parameter.low <= value <= parameter.high
    again = parameter.decode(parameter.encode(value))
    largest = max(abs(parameter.low), abs(parameter.high))
    tolerance = 1e-12 * value if parameter.log else 4 * math.ulp(largest)
    assert abs(again - value) <= tolerance + 5e-324


@given(discrete, st.data())
@example(Int(0, 2**50 - 1), None)
@example(Int(10**15, 10**15 + 100, log=True), None)
@example(Int(1, 2**40, log=True), None)
def test_discrete_round_trip_is_exact(parameter: Parameter, data: Any) -> None:
    count = int(parameter.cardinality)
    picked = range(count - 50, count) if data is None else [data.draw(st.integers(0, count - 1))]
    for k in picked:
        value = nth_value(parameter, k)
        u = parameter.encode(value)
        assert same(parameter.decode(u), value)
        assert parameter.encode(parameter.decode(u)) == u


def nth_value(parameter: Parameter, k: int) -> Any:
    if isinstance(parameter, Categorical):
        return parameter.choices[k]
    if isinstance(parameter, Int):
        return parameter.low + k * parameter.step
    return float(Decimal(repr(parameter.low)) + k * Decimal(repr(parameter.step)))


@given(parameters)
def test_bounds_are_exact_and_decode_clamps(parameter: Parameter) -> None:
    if isinstance(parameter, Categorical):
        assert same(parameter.decode(-3.0), parameter.choices[0])
        assert same(parameter.decode(1e9), parameter.choices[-1])
        return
    assert same(parameter.decode(0.0), parameter.low)
    assert parameter.decode(-1.0) == parameter.low
    last = parameter.high if parameter.cardinality == math.inf else nth_value(parameter, int(parameter.cardinality) - 1)
    assert parameter.decode(1.0) == parameter.decode(2.0) == last
    assert parameter.encode(parameter.low) == 0.0
    assert parameter.encode(last) == 1.0


@given(continuous() | stepped() | whole(), units, units)
def test_scales_are_monotone(parameter: Float | Int, left: float, right: float) -> None:
    low, high = sorted((parameter.decode(left), parameter.decode(right)))
    assert parameter.encode(low) <= parameter.encode(high) + 1e-15  # a logarithm may be off by its last digit
    below, above = parameter.decode(min(left, right)), parameter.decode(max(left, right))
    assert below <= above or math.isclose(below, above, rel_tol=1e-15)


@given(discrete, units)
def test_decode_takes_the_nearest_value(parameter: Parameter, u: float) -> None:
    top = parameter.cardinality - 1 if isinstance(parameter, Categorical) else 1.0
    u = u * top
    found = parameter.encode(parameter.decode(u))
    candidates = parameter.grid(50, max(u - 0.1, 0.0), min(u + 0.1, 1.0))
    assert abs(found - u) <= np.abs(candidates - u).min() + 1e-12


def test_steps_print_nicely_and_the_last_lies_within_high() -> None:
    drop = Float(0, 1, step=0.05)
    assert drop.cardinality == 21
    assert [drop.decode(u) for u in drop.grid(100)] == [k / 100 for k in range(0, 101, 5)]
    assert repr(Float(0.1, 0.7, step=0.2).decode(2 / 3)) == "0.5"
    assert Float(0, 0.97, step=0.05).decode(1.0) == 0.95
    assert Float(0, 0.3, step=0.1).cardinality == 4
    assert Float(0, 0.1, step=0.1).cardinality == 2
    assert Int(1, 10, step=4).decode(1.0) == 9
    assert Float(-1e308, 1e308, step=1e307).cardinality == 21


def test_huge_ranges() -> None:
    assert Float(-1e308, 1e308).decode(0.5) == 0.0
    assert Float(-1e308, 1e308).decode(0.25) == pytest.approx(-5e307)
    assert Float(-1.7976931348623157e308, 1.7976931348623157e308).decode(1 - 1e-16) <= 1.7976931348623157e308
    assert Float(1e-300, 1e300, log=True).decode(0.5) == pytest.approx(1.0)
    wide = Int(0, 10**18)
    assert wide.decode(0.5) == 5 * 10**17
    assert wide.decode(wide.encode(10**18)) == 10**18
    assert abs(wide.decode(wide.encode(123456789012345678)) - 123456789012345678) < 200
    assert len(wide.grid(7)) == 7
    assert len(wide.grid(7, 0.25, 0.2500001)) == 7
    huge = Int(-(2**62), 2**62)
    assert huge.decode(0.0) == -(2**62)
    assert huge.decode(1.0) == 2**62
    assert 0.0 <= huge.from_uniform(np.nextafter(1, 0)) <= 1.0


def test_log_scale_is_a_scale() -> None:
    assert Float(1e-4, 1, log=True).decode(0.5) == pytest.approx(1e-2)
    assert Int(1, 10**4, log=True).decode(0.5) == 100
    values = [Int(1, 10**6, log=True).decode(u) for u in Int(1, 10**6, log=True).grid(7)]
    assert values == [1, 10, 100, 1000, 10**4, 10**5, 10**6]
    rate = Int(1, 1000, log=True)
    drawn = [rate.decode(rate.from_uniform(u)) for u in (np.arange(1000) + 0.5) / 1000]
    assert 25 <= np.median(drawn) <= 40  # uniform in the logarithm: the median is near sqrt(1000)


# ---------------------------------------------------------------- candidates


@given(parameters, st.integers(1, 40), units, units)
def test_grid_holds_real_values_in_the_interval(parameter: Parameter, n: int, a: float, b: float) -> None:
    low, high = sorted((a, b))
    grid = parameter.grid(n, low, high)
    assert grid.dtype == np.float64
    assert len(grid) >= 1
    assert (np.diff(grid) > 0).all()
    if isinstance(parameter, Categorical):
        assert grid.tolist() == list(range(len(parameter.choices)))
        return
    assert len(grid) <= n
    if len(grid) > 1 or parameter.cardinality == math.inf:
        assert low <= grid[0]
        assert grid[-1] <= high
    if parameter.cardinality < math.inf:
        assert [parameter.encode(parameter.decode(u)) for u in grid] == grid.tolist()


@given(small, st.integers(2, 50), units, units)
def test_grid_holds_all_real_values_where_they_fit(parameter: Parameter, n: int, a: float, b: float) -> None:
    assume(parameter.cardinality <= 500 and not isinstance(parameter, Categorical))
    low, high = sorted((a, b))
    everything = np.array([parameter.encode(nth_value(parameter, k)) for k in range(int(parameter.cardinality))])
    inside = everything[(everything >= low) & (everything <= high)]
    grid = parameter.grid(n, low, high)
    if len(inside) == 0:
        middle = (low + high) / 2
        assert abs(grid - middle).min() <= abs(everything - middle).min() + 1e-15
        assert len(grid) == 1
    elif len(inside) <= n:
        assert grid.tolist() == inside.tolist()
    else:
        assert len(grid) == n
        assert grid[0] == inside[0]
        assert grid[-1] == inside[-1]


def test_grid_of_a_continuous_parameter() -> None:
    x = Float(-5, 5)
    assert x.grid(5).tolist() == [0, 0.25, 0.5, 0.75, 1]
    assert x.grid(3, 0.5, 0.6).tolist() == pytest.approx([0.5, 0.55, 0.6])
    assert x.grid(1).tolist() == [0.5]
    assert x.grid(4, 0.3, 0.3).tolist() == [0.3]
    assert x.grid(3, -1.0, 2.0).tolist() == [0, 0.5, 1]
    assert Int(0, 1).grid(3, 0.3, 0.4).tolist() == [0.0]
    for parameter in (x, Int(0, 9)):
        with pytest.raises(OptionError, match="n >= 1"):
            parameter.grid(0)


@given(parameters, draws)
def test_from_uniform_gives_a_coordinate(parameter: Parameter, u: float) -> None:
    coordinate = parameter.from_uniform(u)
    assert 0.0 <= coordinate <= (parameter.cardinality - 1 if isinstance(parameter, Categorical) else 1.0)
    if parameter.cardinality == math.inf:
        assert coordinate == u
    else:
        assert parameter.encode(parameter.decode(coordinate)) == coordinate


@settings(deadline=None)  # 24,000 draws
@given(small)
def test_from_uniform_covers_all_values(parameter: Parameter) -> None:
    assume(parameter.cardinality <= 60)
    count = int(parameter.cardinality)
    us = (np.arange(400 * count) + 0.5) / (400 * count)
    seen = {parameter.from_uniform(u) for u in us}
    assert seen == {parameter.encode(nth_value(parameter, k)) for k in range(count)}


# ---------------------------------------------------------------- given values


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


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda: Float(1, 1), "low < high.*single value is a constant, leave it out"),
        (lambda: Float(2, 1), "low < high, got low=2.0, high=1.0: swap"),
        (lambda: Float(0, math.inf), "finite numbers, got high=inf"),
        (lambda: Float(-math.inf, 0), "finite numbers, got low=-inf"),
        (lambda: Float(math.nan, 0), "finite numbers, got low=nan"),
        (lambda: Float(0, 10**400), "finite numbers, got high=1000"),
        (lambda: Float("0", 1), "got low='0'"),
        (lambda: Float(None, 1), "got low=None"),
        (lambda: Float(False, True), "got low=False"),
        (lambda: Float(0, 1, log=True), "low > 0, got low=0.0"),
        (lambda: Float(-1, 1, log=True), "low > 0, got low=-1.0"),
        (lambda: Float(1, 2, log="yes"), "log=True or log=False, got log='yes'"),
        (lambda: Float(0, 1, step=0), "step > 0, got step=0"),
        (lambda: Float(0, 1, step=-0.1), "step > 0"),
        (lambda: Float(0, 1, step=math.nan), "finite numbers, got step=nan"),
        (lambda: Float(0, 1, step=True), "got step=True"),
        (lambda: Float(0, 1, step=1.5), "at most high - low = 1, got step=1.5"),
        (lambda: Float(0, 1, step=1e-300), "leave step out"),
        (lambda: Float(1e16, 1e16 + 10, step=0.5), "leave step out"),
        (lambda: Float(1, 2, log=True, step=0.1), "log=True or a step, got both"),
        (lambda: Int(1, 1), "single value is a constant, leave it out"),
        (lambda: Int(2, 1), "low < high, got low=2, high=1: swap"),
        (lambda: Int(0, 1.5), "whole numbers, got high=1.5: use Float"),
        (lambda: Int(0.0, 1), "whole numbers, got low=0.0: use Float"),
        (lambda: Int(0, math.inf), "use Float"),
        (lambda: Int(False, True), "got low=False"),
        (lambda: Int(0, 5, log=True), "low > 0, got low=0"),
        (lambda: Int(0, 5, step=0), "step > 0"),
        (lambda: Int(0, 5, step=6), "at most high - low = 5"),
        (lambda: Int(0, 5, step=0.5), "whole numbers, got step=0.5"),
        (lambda: Int(0, 2**63), "within ±2"),
        (lambda: Categorical([]), "at least one choice"),
        (lambda: Categorical("relu"), "list of choices.*got 'relu'"),
        (lambda: Categorical({"a", "b"}), "fixed order"),
        (lambda: Categorical({"a": 1}), "list of choices"),
        (lambda: Categorical(3), "list of choices"),
        (lambda: Categorical(["a", "b", "a"]), "distinct choices, got 'a' twice"),
        (lambda: Categorical([1, np.int64(1)]), "distinct choices, got 1 twice"),
        (lambda: Categorical([(1, 2), (3, 4)]), r"plain JSON\), got \(1, 2\)"),
        (lambda: Categorical([[1], [2]]), "plain JSON"),
        (lambda: Categorical([np.zeros(2)]), "plain JSON"),
        (lambda: Categorical([1.0, math.nan]), "finite float.*got nan"),
        (lambda: Categorical([1.0, math.inf]), "finite float.*got inf"),
    ],
)
def test_bad_parameters(build: Any, message: str) -> None:
    with pytest.raises(SpaceError, match=message):
        build()


def test_options_are_keyword_only_and_parameters_frozen() -> None:
    with pytest.raises(TypeError):
        Float(0, 1, True)  # type: ignore[misc]
    with pytest.raises(AttributeError):
        Float(0, 1).low = 3.0  # type: ignore[misc]
    assert type(Int(np.int64(1), np.int32(4)).low) is int
    assert type(Float(np.float32(1), 4).high) is float


# ---------------------------------------------------------------- spaces


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
    for parameter in space.parameters:
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
        space.names = ()  # type: ignore[misc]


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


def test_five_thousand_parameters_are_fast() -> None:
    kinds: list[Parameter] = [
        Float(0, 1),
        Float(1e-5, 1, log=True),
        Int(1, 1000, log=True),
        Float(0, 1, step=0.05),
        Categorical(["a", "b", "c"]),
    ]
    space = Space({f"x{i}": kinds[i % 5] for i in range(5000)})
    point = space.from_uniform(np.random.default_rng(0).random(5000))
    seconds = []
    for _ in range(10):
        start = time.process_time()
        space.encode(space.decode(point))
        seconds.append(time.process_time() - start)
    assert min(seconds) < 0.02
