"""Random parameters and spaces for property tests."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

from hypothesis import assume
from hypothesis import strategies as st

from dechbo.space import Categorical, Float, Int, Parameter, Space

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


def nth_value(parameter: Parameter, k: int) -> Any:
    if isinstance(parameter, Categorical):
        return parameter.choices[k]
    if isinstance(parameter, Int):
        return parameter.low + k * parameter.step
    return float(Decimal(repr(parameter.low)) + k * Decimal(repr(parameter.step)))
