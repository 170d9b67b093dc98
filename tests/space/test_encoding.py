"""Values and coordinates are the same thing seen twice; candidates are real values."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, example, given, settings
from hypothesis import strategies as st

from dechbo.errors import OptionError
from dechbo.space import Categorical, Float, Int, Parameter
from space_strategies import (
    continuous,
    discrete,
    draws,
    nth_value,
    parameters,
    same,
    small,
    stepped,
    units,
    whole,
)


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
