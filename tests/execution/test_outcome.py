"""Outcome: what an objective may return or raise, and how that travels between processes."""

from __future__ import annotations

import math
import pickle
from typing import Any

import numpy as np
import pytest

from dechbo.execution.outcome import Outcome, evaluate, shortened_error


@pytest.mark.parametrize(
    ("result", "value", "constraints"),
    [
        (1, 1.0, {}),
        (np.float32(0.5), 0.5, {}),
        (np.array(2.0), 2.0, {}),
        (np.array([2.5]), 2.5, {}),
        ({"value": 3}, 3.0, {}),
        ({"value": 3, "constraints": None}, 3.0, {}),
        ({"value": 3, "constraints": {"size": -1, "time": np.float64(2)}}, 3.0, {"size": -1.0, "time": 2.0}),
        ({"value": 3, "constraints": [0.5, -1]}, 3.0, {"0": 0.5, "1": -1.0}),
    ],
)
def test_what_an_objective_may_return(result: object, value: float, constraints: dict[str, float]) -> None:
    outcome = Outcome.of_result(result)
    assert (outcome.value, outcome.constraints, outcome.error) == (value, constraints, None)
    assert not outcome.failed


@pytest.mark.parametrize(
    ("result", "message"),
    [
        (None, "gave None where a finite number was expected"),
        (math.nan, "gave nan where"),
        (math.inf, "gave inf where"),
        (True, "gave True where"),
        (np.True_, "where a finite number was expected"),
        ("0.5", "gave '0.5' where"),
        ([1.0, 2.0], "where a finite number was expected"),
        (10**400, "where a finite number was expected"),
        ({}, "got an empty dict"),
        ({"loss": 1}, r"got the fields \['loss'\]"),
        ({"value": 1, "constraint": []}, r"got the fields \['constraint', 'value'\]"),
        ({"value": None}, "gave None where"),
        ({"value": 1, "constraints": 3}, "constraints must be a dict or a list of numbers"),
        ({"value": 1, "constraints": {"size": math.nan}}, "constraint 'size' must be a finite number"),
        ({"value": 1, "constraints": ["x"]}, "constraint '0' must be a finite number"),
    ],
)
def test_what_counts_as_failed(result: object, message: str) -> None:
    outcome = Outcome.of_result(result)
    assert outcome.failed
    assert outcome.error is not None
    with pytest.raises(ValueError, match=message):
        raise ValueError(outcome.error)


def test_a_long_error_keeps_its_beginning_and_its_end() -> None:
    text = "Traceback\n" + "x" * 10_000 + "\nValueError: the reason"
    short = shortened_error(text, 2000)
    assert len(short) <= 2000
    assert short.startswith("Traceback\n")
    assert short.endswith("ValueError: the reason")
    assert shortened_error("short", 5) == "short"


class TwoArguments(Exception):
    """Can be pickled, but not loaded: its arguments are not what it was made of."""

    def __init__(self, one: int, two: int) -> None:
        super().__init__(f"sum {one + two}")


def fails(error: BaseException) -> Any:
    def objective(params: dict[str, Any]) -> float:
        raise error

    return objective


def test_evaluating_measures_time_and_checks_the_value() -> None:
    outcome = evaluate(lambda params: {"value": params["x"], "constraints": [0.5]}, {"x": 2})
    assert (outcome.value, outcome.constraints) == (2.0, {"0": 0.5})
    assert outcome.seconds > 0
    assert evaluate(lambda params: math.nan, {}).failed
    assert evaluate(lambda params: Outcome(math.inf), {}).value == math.inf  # taken as it is


@pytest.mark.parametrize("error", [ValueError("no data"), SystemExit(3), KeyboardInterrupt()])
def test_what_an_objective_raises_is_a_failure_with_its_traceback(error: BaseException) -> None:
    outcome = evaluate(fails(error), {})
    assert outcome.exception is error
    assert outcome.error is not None
    assert outcome.error.startswith("Traceback (most recent call last):\n")
    assert type(error).__name__ in outcome.error
    assert "execution/outcome.py" not in outcome.error  # our own frames are not shown


def test_an_outcome_travels_even_if_its_exception_cannot() -> None:
    plain = evaluate(fails(ValueError("no data")), {})
    again = pickle.loads(pickle.dumps(plain.portable()))
    assert again == plain
    assert isinstance(again.exception, ValueError)
    assert Outcome(1.0).portable() == Outcome(1.0)
    for error in (TwoArguments(1, 2), ValueError(lambda: None)):
        again = pickle.loads(pickle.dumps(evaluate(fails(error), {}).portable()))
        assert isinstance(again.exception, RuntimeError)
        assert str(again.exception).startswith(type(error).__name__ + ": ")


def test_a_value_that_cannot_travel_is_a_failure() -> None:
    value: Any = lambda: None  # noqa: E731
    outcome = Outcome(value, seconds=1.5).portable()
    assert outcome.failed
    assert outcome.seconds == 1.5
    assert str(outcome.error).startswith("the value cannot be sent to another process: ")
    again = pickle.loads(pickle.dumps(outcome))
    assert isinstance(again.exception, TypeError)
    assert str(again.exception) == outcome.error
