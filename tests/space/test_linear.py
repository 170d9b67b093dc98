"""Known linear constraints: how they are written and parsed."""

from __future__ import annotations

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from dechbo.errors import SpaceError
from dechbo.space import Linear

names = st.from_regex(r"[a-zé_][\wß.]{0,5}", fullmatch=True)
numbers = st.floats(-1e6, 1e6).filter(lambda c: c != 0) | st.floats(1e-300, 1e300) | st.integers(1, 99).map(float)
linears = st.builds(Linear, st.dictionaries(names, numbers, min_size=1, max_size=4), st.floats(-1e300, 1e300))


@given(linears)
def test_what_is_shown_is_read_back(linear: Linear) -> None:
    assert Linear.parse(str(linear)) == linear
    assert Linear.from_json(linear.to_json()) == linear
    assert hash(linear) == hash(Linear.parse(str(linear)))
    assert eval(repr(linear), {"Linear": Linear}) == linear


@given(linears, st.lists(st.floats(-1e3, 1e3), min_size=4, max_size=4), st.booleans())
def test_python_reads_the_text_the_same_way(linear: Linear, values: list[float], spaced: bool) -> None:
    """Python's own arithmetic is the oracle, with names that it can read."""
    plain = Linear({f"p{k}": c for k, c in enumerate(linear.coefficients.values())}, linear.upper)
    point = dict(zip(plain.coefficients, values, strict=False))
    total = sum(c * point[name] for name, c in plain.coefficients.items())
    assume(abs(total - plain.upper) > 1e-6 * (abs(total) + abs(plain.upper)))
    text = str(plain) if spaced else str(plain).replace(" ", "")
    assert eval(text, {}, point) == (total <= plain.upper)


def test_both_sides_may_hold_terms() -> None:
    assert Linear.parse("3*a*2 - -b + .5 < 1e-3*c + a") == Linear({"a": 5, "b": 1, "c": -0.001}, -0.5)
    assert Linear.parse("2*lr>=wd") == Linear({"wd": 1, "lr": -2}, 0)
    assert str(Linear.parse("2*lr >= wd")) == "2*lr - wd >= 0"


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("a + b", "exactly one of <= and >="),
        ("a <= b <= c", "exactly one of <= and >="),
        ("a == 1", "cannot read '== 1'"),
        ("a*b <= 1", "multiplies 'a' by 'b'"),
        ("a**2 <= 1", "cannot read"),
        ("a b <= 1", "expected .* before 'b'"),
        ("2a <= 1", "cannot read '2a"),
        ("(a + b) <= 1", "without brackets"),
        ("a/2 <= 1", "cannot read '/2"),
        ("<= 1", "nothing on one side"),
        ("a + <= 1", "got 'the end'"),
        ("a - a <= 1", "needs 1 to 4 parameters"),
        ("1 <= 2", "needs 1 to 4 parameters"),
        ("a + b + c + d + e <= 1", "needs 1 to 4 parameters"),
        ("a <= 1e999", "finite numbers"),
    ],
)
def test_bad_texts(text: str, says: str) -> None:
    with pytest.raises(SpaceError, match=says):
        Linear.parse(text)


@pytest.mark.parametrize("given", [3, None, ["a <= 1"]])
def test_a_constraint_is_a_text_or_a_linear(given: object) -> None:
    with pytest.raises(SpaceError, match="a string like"):
        Linear.parse(given)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("coefficients", "upper"),
    [("a", 1), ({1: 2}, 1), ({"a": "1"}, 1), ({"a": 1}, None), ({"a": float("nan")}, 1), ({"a": True}, 1)],
)
def test_bad_linears(coefficients: object, upper: object) -> None:
    with pytest.raises(SpaceError):
        Linear(coefficients, upper)  # type: ignore[arg-type]
