"""At run time, too, calls go from later rooms to earlier ones: nothing below calls upwards."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

import dechbo
from call_trace import PACKAGE, Trace, room, six_dimensional_run, traced
from test_architecture import ORDER

# Upward calls that are left: "room/file.function" of the caller and of the callee, with the reason.
KNOWN: dict[tuple[str, str], str] = {}


def upward_calls(trace: Trace) -> set[tuple[str, str]]:
    places = {caller: room(caller) for pair in trace.calls for caller in pair}
    above = Trace(calls={(a, b) for a, b in trace.calls if ORDER.index(places[a]) < ORDER.index(places[b])})
    return above.between_rooms()


def constrained_ask() -> dechbo.Optimizer:
    """The next ask has pending points, a known constraint and a learned one."""
    space = dechbo.Space(
        {"a": dechbo.Float(0, 1), "b": dechbo.Int(0, 5), "c": dechbo.Categorical(["u", "v"])},
        constraints=["a + 0.1 * b <= 1.2"],
    )
    optimizer = dechbo.Optimizer(space, seed=0, n_initial=5)
    for k in range(8):
        params = optimizer.ask()
        if k < 7:
            value = params["a"] - 0.1 * params["b"] + (params["c"] == "u")
            optimizer.tell(params, value, constraints={"limit": params["a"] - 0.7})
    return optimizer


@pytest.mark.parametrize(
    "prepared",
    [lambda: six_dimensional_run(24), lambda: six_dimensional_run(20), constrained_ask],
    ids=["warm", "cold", "constrained"],
)
def test_no_room_calls_a_later_one(prepared: Callable[[], dechbo.Optimizer]) -> None:
    trace = traced(prepared().ask)
    assert len(trace.files) > 20  # an ask crosses most of the house
    assert upward_calls(trace) - set(KNOWN) == set()


def test_known_upward_calls_still_exist() -> None:
    files = {path.relative_to(PACKAGE).with_suffix("").as_posix() for path in Path(PACKAGE).rglob("*.py")}
    assert all(name.split(".")[0] in files for pair in KNOWN for name in pair)


def test_an_upward_call_is_seen() -> None:
    """An engine that a user plugs in lives outside of the package, and what it calls is its own business."""
    optimizer = six_dimensional_run(12)
    trace = traced(optimizer.ask)
    reversed_calls = Trace(calls={(callee, caller) for caller, callee in trace.calls})
    assert upward_calls(reversed_calls)
