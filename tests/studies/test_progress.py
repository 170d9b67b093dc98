"""The progress panel and the log show the events of a run, and fit the terminal."""

from __future__ import annotations

import io
import sys
import threading
from typing import Any

import pytest
from optuna.trial import FrozenTrial, TrialState, create_trial
from rich.console import Console

from dechbo.execution.outcome import Outcome
from dechbo.integrations.optuna import STALE
from dechbo.interactions import Interaction, Interactions
from dechbo.optimizer import AskInfo
from dechbo.studies.pace import Pace
from dechbo.studies.progress import COMPILING, Progress, ProgressPanel, interrupt_note, progress_of
from dechbo.studies.run import Event
from dechbo.studies.store import IMPORTED


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


def new_panel(clock: Clock | None = None, **options: Any) -> ProgressPanel:
    settings: dict[str, Any] = {"direction": "minimize", "target": 10, "dim": 3, "clock": clock or Clock(), **options}
    return ProgressPanel("tuning", **settings)


def after(view: ProgressPanel, number: int, value: float | None, *, feasible: bool = True) -> Progress:
    """The progress of a study after one more result."""
    sign, now, shown = (-1 if view.direction == "maximize" else 1), view.progress, value if feasible else None
    best = now.best if shown is None or (now.best and sign * now.best[1] <= sign * shown) else (number, shown)
    return Progress(now.finished + 1, now.failed + (value is None), best, (*now.values, shown))


def finish(
    view: ProgressPanel,
    number: int,
    value: float | None,
    *,
    error: str | None = None,
    constraints: dict[str, float] | None = None,
) -> Event:
    outcome = Outcome(value, constraints or {}, error, 0.5)
    event = Event("finished" if value is not None else "failed", number, {}, outcome)
    view.update(Event("started", number, {}))
    view.update(event, after(view, number, value, feasible=all(c <= 0 for c in outcome.constraints.values())))
    return event


def study_trial(number: int, value: float | None, *, size: float = -1.0, **attributes: bool) -> FrozenTrial:
    state = TrialState.FAIL if value is None else TrialState.COMPLETE
    trial = create_trial(state=state, value=value, constraints={"size": size}, system_attrs=attributes)
    trial.number = number
    return trial


@pytest.mark.parametrize(("direction", "best"), [("minimize", (0, 2.0)), ("maximize", (3, 5.0))])
def test_the_progress_of_a_study(direction: str, best: tuple[int, float]) -> None:
    trials = [
        study_trial(0, 2.0, **{IMPORTED: True}),
        study_trial(1, None),
        study_trial(2, 9.0, size=1.0),  # infeasible
        study_trial(3, 5.0),
        study_trial(4, 2.0),
        study_trial(5, 5.0),
        study_trial(6, None, **{STALE: True}),
        study_trial(7, 1.0, size=1.0),
    ]
    assert progress_of(trials, direction) == Progress(6, 1, best, (2.0, None, None, 5.0, 2.0, 5.0, None))
    assert progress_of([], direction) == Progress()


def shown(view: ProgressPanel, width: int = 80) -> str:
    page = io.StringIO()
    Console(file=page, width=width, color_system=None).print(view.panel(width))
    return page.getvalue()


def test_the_panel_shows_trials_best_running_gap_interactions_and_time_left() -> None:
    clock = Clock()
    view = new_panel(clock)
    for number, value in enumerate([3.0, 2.0, 2.5]):
        clock.now += 4
        finish(view, number, value)
    view.update(
        Event(
            "started",
            3,
            {},
            info=AskInfo("max-sum", 0.1, "bound", gap=0.0125, certified=True),
        )
    )
    view.interactions = [Interaction(("lr", "width"), 0.93, 0.2), Interaction(("lr",), 1.0, 0.5)]
    clock.now += 2
    text = shown(view)
    for part in ("dechbo · tuning", "3 of 10", "more than 28 s left", "2  trial 1", "█▁▁", "trial 2: 2.5 in 0.5 s"):
        assert part in text
    for part in ("trial 3 for 2 s", "at most 1.25% from the best on its grid", "lr × width (93%)", "Ctrl-C"):
        assert part in text
    assert "failed" not in text
    assert "rough" not in text
    view.interactions = Interactions(view.interactions, converged=False)
    assert "rough so far: lr × width (93%)" in shown(view)


@pytest.mark.parametrize("width", [60, 80, 100])
def test_a_line_that_is_too_long_ends_in_an_ellipsis(width: int) -> None:
    view = new_panel(Clock())
    finish(view, 0, None, error=f"the command failed: {'no such [/min] rate ' * 8}")
    view.interactions = [Interaction((f"time [min] {'x' * 60}", "width" * 10), 0.93, 0.2)]
    lines = {line.split()[1]: line.rstrip(" │\n") for line in shown(view, width).splitlines() if line.startswith("│ ")}
    assert all(lines[name].endswith("…") for name in ("last", "failed", "interactions"))


@pytest.mark.parametrize("width", [40, 60, 80, 120, 200])
def test_the_panel_fits_every_width(width: int) -> None:
    view = new_panel()
    finish(view, 0, None, error='Traceback (most recent call last):\n  File "a", line 1\nValueError: ' + "x" * 300)
    finish(view, 1, 1.0)
    view.interactions = [Interaction((f"parameter_{i}", f"other_{i}"), 0.9, 0.1) for i in range(5)]
    text = shown(view, width)
    assert max(map(len, text.splitlines())) <= width
    assert all(name in text for name in ("trials ", "best so far ", "running ", "interactions ", "failed "))


def test_infeasible_values_and_failures_are_never_the_best() -> None:
    view = new_panel()
    finish(view, 0, 5.0)
    finish(view, 1, 1.0, constraints={"memory": 0.5})
    finish(view, 2, None, error="out of memory")
    assert view.best_values == [5.0, 5.0, 5.0]
    assert "5  trial 0" in shown(view)
    assert "3 of 10" in shown(view)
    assert "1: out of memory (1×)" in shown(view)


def test_the_largest_value_is_best_when_maximising() -> None:
    view = new_panel(direction="maximize")
    for number, value in enumerate([1.0, 3.0, 2.0]):
        finish(view, number, value)
    assert view.best_values == [1.0, 3.0, 3.0]


def test_a_log_line_has_value_best_time_and_reason_without_control_codes() -> None:
    view = new_panel()
    line = view.log_line(finish(view, 7, 1.25))
    assert line.split() == ["trial", "7", "1.25", "best", "1.25", "0.5", "s", "1", "of", "10"]
    broken = view.log_line(finish(view, 8, 0.5, constraints={"memory": 2.0}))
    assert "infeasible: memory = 2" in broken
    failed = view.log_line(finish(view, 9, None, error="Traceback (most recent call last):\n …\nValueError: bad"))
    assert "failed" in failed
    assert failed.endswith("ValueError: bad")
    assert "\x1b" not in line + broken + failed


def test_only_a_compilation_is_called_one_and_an_interruption_is_answered() -> None:
    clock, compiling = Clock(), [False]
    view = new_panel(clock, compiling=lambda: compiling[0])
    view.update(Event("asking"))
    clock.now = 60.0
    assert "choosing the next point for 1 min" in shown(view)
    assert COMPILING not in shown(view)  # slow, but for another reason
    compiling[0] = True
    assert COMPILING in shown(view)
    view.interrupted = True
    assert "stopping; Ctrl-C again to stop at once" in shown(view)
    view.update(Event("started", 0, {}))
    assert interrupt_note(1) in shown(view)
    assert interrupt_note(2) == "waiting for 2 running evaluations; Ctrl-C again to stop at once"


def test_time_left_grows_with_the_cost_of_asks() -> None:
    """40 trials with asks of 0.02 n seconds and evaluations of 0.1 s: at half time, the truth within a tenth."""
    clock = Clock()
    view = new_panel(clock, target=40)
    seen = {}
    for number in range(40):
        view.update(Event("asking"))
        clock.now += 0.02 * number if number >= 5 else 0.0
        source = "max-sum" if number >= 5 else "initial design"
        view.update(Event("started", number, {}, info=AskInfo(source, 0.1, "bound")))
        clock.now += 0.1
        seen[number] = (clock.now, view.seconds_left, "more than" in shown(view))
        view.update(Event("finished", number, {}, Outcome(1.0, seconds=0.1)), Progress(number + 1, 0, (0, 1.0), (1.0,)))
        seen[number + 1] = (clock.now, view.seconds_left, "more than" in shown(view))
    for half in (15, 20, 30):
        at, left, _ = seen[half]
        assert left == pytest.approx(clock.now - at, rel=0.1)
    assert seen[4][2]  # before the first model nobody knows its cost
    assert not seen[20][2]


def test_one_slow_ask_in_many_counts_by_its_share() -> None:
    """Every tenth ask learns a graph and takes 3 s instead of 0.3: a median would promise a third."""
    pace = Pace()
    for n in range(1, 101):
        pace.asked(n, 3.0 if n % 10 == 0 else 0.3, by_model=True)
        pace.evaluated(0.0, 0.0)
    left = pace.seconds_left(100, 200)
    assert left is not None
    assert 40 < left < 110
    assert Pace(workers=4).seconds_left(0, 10) is None


def test_time_left_needs_two_steps_and_ignores_one_long_wait() -> None:
    clock = Clock()
    view = new_panel(clock)
    finish(view, 0, 1.0)
    assert view.seconds_left is None
    for number, step in enumerate([1.0, 40.0, 1.0, 1.0]):  # the second one compiled the inner loops
        clock.now += step
        finish(view, number + 1, 1.0)
    assert view.seconds_left == 5.0


def test_trials_of_other_processes_count_for_the_pace() -> None:
    clock = Clock()
    view = new_panel(clock, target=12)
    for number in range(3):
        clock.now += 6
        one = Outcome(5.0, {}, None, 6.0)
        view.update(Event("finished", number, {}, one), Progress(2 * number + 2, 1, (9, 1.0), (5.0, 1.0)))
    text = shown(view)
    for part in ("6 of 12", "more than 18 s left", "1  trial 9", "failed", "trial 2: 5 in 6 s"):
        assert part in text


def test_the_display_reads_while_the_run_writes() -> None:
    view, done = new_panel(target=1000), threading.Event()
    one = Outcome(5.0, {}, None, 6.0)

    def write() -> None:
        for number in range(20_000):
            view.update(Event("finished", number, {}, one), Progress(number))
        done.set()

    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        writer = threading.Thread(target=write)
        writer.start()
        while not done.is_set():
            left = view.seconds_left
            assert left is None or left >= 0
        writer.join()
    finally:
        sys.setswitchinterval(before)
