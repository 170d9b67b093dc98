"""InlineExecutor, and what all executors share: capacity, retries, cancelling, closing."""

from __future__ import annotations

import time
from concurrent.futures import CancelledError
from typing import Any

import pytest

from dechbo.errors import OptionError
from dechbo.execution import InlineExecutor


class Flaky:
    """Fails until its third call."""

    retries = 2
    calls = 0

    def __call__(self, params: dict[str, Any]) -> float:
        self.calls += 1
        if self.calls < 3:
            raise ValueError("not yet")
        return float(params["x"])


def double(params: dict[str, Any]) -> float:
    return 2.0 * float(params["x"])


def test_one_task_after_the_other_in_this_process() -> None:
    with InlineExecutor(double, capacity=2) as executor:
        executor.submit(0, {"x": 1})
        executor.submit(5, {"x": 2})
        with pytest.raises(OptionError, match="all 2 workers are busy"):
            executor.submit(6, {"x": 3})
        assert executor.wait(0.0) == []  # no time to evaluate
        assert [(number, outcome.value) for number, outcome in executor.wait(9.0)] == [(0, 2.0)]
        assert [(number, outcome.value) for number, outcome in executor.wait(9.0)] == [(5, 4.0)]
        began = time.monotonic()
        assert executor.wait(0.05) == []
        assert time.monotonic() - began >= 0.05


def test_a_failed_task_is_tried_again() -> None:
    objective = Flaky()
    executor = InlineExecutor(objective)
    executor.submit(0, {"x": 7})
    assert executor.wait(9.0)[0][1].value == 7.0
    assert objective.calls == 3


def test_an_exception_is_reported_and_ctrl_c_is_not_swallowed() -> None:
    def raises(params: dict[str, Any]) -> float:
        raise params["error"]

    executor = InlineExecutor(raises)
    error = ValueError("no data")
    executor.submit(0, {"error": error})
    ((_, outcome),) = executor.wait(9.0)
    assert outcome.failed
    assert outcome.exception is error
    executor.submit(1, {"error": KeyboardInterrupt()})
    with pytest.raises(KeyboardInterrupt):
        executor.wait(9.0)


def test_cancelling_and_closing() -> None:
    evaluated: list[int] = []

    def objective(params: dict[str, Any]) -> float:
        evaluated.append(params["x"])
        return 0.0

    executor = InlineExecutor(objective, capacity=3)
    for number in range(3):
        executor.submit(number, {"x": number})
    executor.cancel(1)
    ((number, outcome),) = executor.wait(9.0)
    assert (number, outcome.error) == (1, "cancelled")
    assert isinstance(outcome.exception, CancelledError)
    executor.cancel(1)  # it has ended already
    executor.cancel(17)  # there is no such task
    assert executor.wait(0.0) == []
    executor.close()  # what runs may finish
    assert evaluated == [0, 2]
    executor.submit(3, {"x": 3})
    executor.close(kill=True)
    assert evaluated == [0, 2]
    assert executor.wait(0.0) == []


def test_the_number_of_a_running_task_is_taken() -> None:
    with InlineExecutor(double, capacity=2) as executor:
        executor.submit(0, {"x": 1})
        with pytest.raises(OptionError, match="task 0 is running already"):
            executor.submit(0, {"x": 2})
        assert [(number, outcome.value) for number, outcome in executor.wait(9.0)] == [(0, 2.0)]
        executor.submit(0, {"x": 3})
        assert [(number, outcome.value) for number, outcome in executor.wait(9.0)] == [(0, 6.0)]


@pytest.mark.parametrize("capacity", [0, -1, 1.5, True, None])
def test_the_capacity_is_checked(capacity: Any) -> None:
    with pytest.raises(OptionError, match="capacity must be a whole number of at least 1"):
        InlineExecutor(double, capacity)


@pytest.mark.parametrize("objective", [None, 3])
def test_the_objective_is_checked(objective: Any) -> None:
    with pytest.raises(OptionError, match=r"no objective to run: expected a function of the parameters, got (None|3)$"):
        InlineExecutor(objective)
