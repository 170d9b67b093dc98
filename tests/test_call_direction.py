"""At run time, too, calls go from later rooms to earlier ones: nothing below calls upwards."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress

import pytest

import dechbo
from call_trace import Trace, room, six_dimensional_run, traced
from test_architecture import ORDER

# Upward calls that are left: "room/file.function" of the caller and of the callee, with the reason.
KNOWN: dict[tuple[str, str], str] = {}


def upward_calls(trace: Trace) -> set[tuple[str, str]]:
    places = {caller: room(caller) for pair in trace.calls for caller in pair}
    above = Trace(calls={(a, b) for a, b in trace.calls if ORDER.index(places[a]) < ORDER.index(places[b])})
    return above.between_rooms()


def constrained_run() -> dechbo.Optimizer:
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


def factors_run() -> dechbo.Optimizer:
    """The next ask has the paper's parts."""
    space = dechbo.Space({f"x{i}": dechbo.Float(0, 1) for i in range(4)})
    optimizer = dechbo.Optimizer.paper(space, seed=0, n_initial=5)
    for _ in range(7):
        params = optimizer.ask()
        optimizer.tell(params, sum((x - 0.3) ** 2 for x in params.values()))
    return optimizer


@pytest.mark.parametrize(
    "trace",
    [
        lambda: traced(six_dimensional_run(13).ask),
        lambda: traced(six_dimensional_run(20).ask),
        lambda: traced(constrained_run().ask),
        lambda: traced(factors_run().ask),
    ],
    ids=["warm", "cold", "constrained", "factors"],
)
def test_no_room_calls_a_later_one(trace: Callable[[], Trace]) -> None:
    found = trace()
    assert len(found.files) > 20  # an ask crosses most rooms
    assert upward_calls(found) - set(KNOWN) == set()


def test_an_upward_call_is_seen() -> None:
    """A beta schedule of the package's own later room, passed down as a callback, is an upward call."""
    from dechbo.optimizer.design import needs_initial_point

    space = dechbo.Space({"a": dechbo.Float(0, 1)})
    history = dechbo.Optimizer(space, seed=0)._history

    def beta(t: int) -> float:
        with suppress(AttributeError):
            needs_initial_point(None, history)  # type: ignore[arg-type]
        return 1.0

    optimizer = dechbo.Optimizer(space, seed=0, n_initial=2, theory=dechbo.TheoryOptions(beta=beta))
    for x in (0.1, 0.5, 0.9):
        optimizer.tell({"a": x}, x)
    assert ("acquisition/beta._from_callable", "optimizer/design.needs_initial_point") in upward_calls(
        traced(optimizer.ask)
    )
