"""The display shows what it was told, in words that fit."""

from __future__ import annotations

import io
import math
import sys
import threading

import pytest
import yaml
from rich.console import Console

from dechbo.execution.outcome import Outcome
from dechbo.graph import FactorGraph
from dechbo.interactions import Interaction
from dechbo.optimizer import AskInfo
from dechbo.studies import words
from dechbo.studies.display import Board, finishing
from dechbo.studies.rows import Standing
from dechbo.studies.run import Event


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


def board(clock: Clock | None = None, **options) -> Board:
    settings = {"direction": "minimize", "target": 10, "dim": 3, "clock": clock or Clock(), **options}
    return Board("tuning", **settings)


def after(view: Board, number: int, value: float | None, *, feasible: bool = True) -> Standing:
    """The standing of a study with one more result."""
    sign, now, shown = (-1 if view.direction == "maximize" else 1), view.standing, value if feasible else None
    best = now.best if shown is None or (now.best and sign * now.best[1] <= sign * shown) else (number, shown)
    return Standing(now.finished + 1, now.failed + (value is None), best, (*now.values, shown))


def finish(board: Board, number: int, value: float | None, *, error: str | None = None, constraints=None) -> Event:
    outcome = Outcome(value, constraints or {}, error, 0.5)
    event = Event("finished" if value is not None else "failed", number, {}, outcome)
    board.take(Event("started", number, {}))
    board.take(event, after(board, number, value, feasible=all(c <= 0 for c in outcome.constraints.values())))
    return event


def shown(board: Board, width: int = 80) -> str:
    console = Console(file=io.StringIO(), width=width, color_system=None)
    console.print(board.panel(width))
    return console.file.getvalue()


def test_the_panel_shows_trials_best_running_gap_interactions_and_time_left():
    clock = Clock()
    view = board(clock)
    for number, value in enumerate([3.0, 2.0, 2.5]):
        clock.now += 4
        finish(view, number, value)
    view.take(
        Event(
            "started",
            3,
            {},
            info=AskInfo("acquisition", 0.1, FactorGraph(3, ((0, 1), (2,))), gap=0.0125, certified=True),
        )
    )
    view.interactions = [Interaction(("lr", "width"), 0.93, 0.2), Interaction(("lr",), 1.0, 0.5)]
    clock.now += 2
    text = shown(view)
    for part in ("dechbo · tuning", "3 of 10", "about 28 s left", "2  trial 1", "█▁▁", "trial 2: 2.5 in 0.5 s"):
        assert part in text
    for part in ("trial 3 for 2 s", "at most 1.25% from the best on its grid", "lr × width (93%)", "Ctrl-C"):
        assert part in text
    assert "failed" not in text


@pytest.mark.parametrize("width", [40, 60, 80, 120, 200])
def test_the_panel_fits_every_width(width):
    view = board()
    finish(view, 0, None, error='Traceback (most recent call last):\n  File "a", line 1\nValueError: ' + "x" * 300)
    finish(view, 1, 1.0)
    view.interactions = [Interaction((f"parameter_{i}", f"other_{i}"), 0.9, 0.1) for i in range(5)]
    text = shown(view, width)
    assert max(map(len, text.splitlines())) <= width
    assert all(name in text for name in ("trials ", "best so far ", "running ", "interactions ", "failed "))


def test_infeasible_values_and_failures_are_never_the_best():
    view = board()
    finish(view, 0, 5.0)
    finish(view, 1, 1.0, constraints={"memory": 0.5})
    finish(view, 2, None, error="out of memory")
    assert view.course == [5.0, 5.0, 5.0]
    assert "5  trial 0" in shown(view)
    assert "3 of 10" in shown(view)
    assert "1: out of memory (1×)" in shown(view)


def test_maximising_turns_the_best_round():
    view = board(direction="maximize")
    for number, value in enumerate([1.0, 3.0, 2.0]):
        finish(view, number, value)
    assert view.course == [1.0, 3.0, 3.0]


def test_a_line_of_the_log_says_all_without_control_codes():
    view = board()
    line = view.line(finish(view, 7, 1.25))
    assert line.split() == ["trial", "7", "1.25", "best", "1.25", "0.5", "s", "1", "of", "10"]
    broken = view.line(finish(view, 8, 0.5, constraints={"memory": 2.0}))
    assert "infeasible: memory = 2" in broken
    failed = view.line(finish(view, 9, None, error="Traceback (most recent call last):\n …\nValueError: bad"))
    assert "failed" in failed
    assert failed.endswith("ValueError: bad")
    assert "\x1b" not in line + broken + failed


def test_a_long_first_ask_is_explained_and_an_interruption_too():
    clock = Clock()
    view = board(clock)
    view.take(Event("asking"))
    assert "choosing the next point" in shown(view)
    clock.now = 9.0
    assert "compiles its inner loops" in shown(view)
    view.interrupted = True
    assert "ending; Ctrl-C again to leave at once" in shown(view)
    view.take(Event("started", 0, {}))
    assert finishing(1) in shown(view)
    assert finishing(2) == "finishing 2 running evaluations; Ctrl-C again to leave at once"


def test_time_left_needs_two_steps_and_forgets_one_long_wait():
    clock = Clock()
    view = board(clock)
    finish(view, 0, 1.0)
    assert view.left is None
    for number, step in enumerate([1.0, 40.0, 1.0, 1.0]):  # the second one compiled the inner loops
        clock.now += step
        finish(view, number + 1, 1.0)
    assert view.left == 5.0


def test_trials_that_others_finish_count_and_quicken_the_pace():
    clock = Clock()
    view = board(clock, target=12)
    for number in range(3):
        clock.now += 6
        one = Outcome(5.0, {}, None, 6.0)
        view.take(Event("finished", number, {}, one), Standing(2 * number + 2, 1, (9, 1.0), (5.0, 1.0)))
    text = shown(view)
    for part in ("6 of 12", "about 18 s left", "1  trial 9", "failed", "trial 2: 5 in 6 s"):
        assert part in text


def test_the_display_reads_while_the_run_writes():
    view, done = board(target=1000), threading.Event()
    one = Outcome(5.0, {}, None, 6.0)

    def write():
        for number in range(20_000):
            view.take(Event("finished", number, {}, one), Standing(number))
        done.set()

    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        writer = threading.Thread(target=write)
        writer.start()
        while not done.is_set():
            assert view.left is None or view.left == 0
        writer.join()
    finally:
        sys.setswitchinterval(before)


# ------------------------------------------------------------------------- words


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        *[(0, "0 ms"), (0.004, "4 ms"), (0.31, "0.31 s"), (9.5, "9.5 s"), (42.4, "42 s"), (59.7, "1 min")],
        *[(120, "2 min"), (200, "3 min 20 s"), (3600, "1 h"), (7500, "2 h 5 min"), (86400, "1 d"), (273600, "3 d 4 h")],
    ],
)
def test_durations(seconds, text):
    assert words.duration(seconds) == text


def test_a_sparkline_ends_with_the_last_value_and_fits():
    assert words.sparkline([3, 2, 1, 0]) == "█▅▃▁"
    assert words.sparkline([1.0] * 5) == "▁▁▁▁▁"
    assert len(words.sparkline(range(1000), 40)) == 40
    assert words.sparkline(range(1000), 40)[-1] == "█"
    assert words.sparkline([math.nan, math.inf]) == words.sparkline([]) == words.sparkline([1.0], 0) == ""


def test_the_certificate_or_why_there_is_none():
    pairs, whole = FactorGraph(3, ((0, 1), (2,))), FactorGraph(3, ((0, 1, 2),))
    said = {
        words.certificate(None, 3): "–",
        words.certificate(AskInfo("initial design", 0.0), 3): "initial design",
        words.certificate(AskInfo("acquisition", 0.0, pairs, gap=0.0, certified=True), 3): "proven best",
        words.certificate(AskInfo("acquisition", 0.0, pairs, gap=1e-7, certified=True), 3): "below 0.01%",
        words.certificate(AskInfo("constrained", 0.0, pairs), 3): "constraints",
        words.certificate(AskInfo("elsewhere", 0.0, pairs), 3): "elsewhere",
        words.certificate(AskInfo("acquisition", 0.0, whole), 3): "one factor holds all",
        words.certificate(AskInfo("joint bound", 0.0, pairs), 3): "whole function",
    }
    assert len(said) == 8
    assert all(part in text for text, part in said.items())


def test_interactions_in_words_with_probability_and_share():
    pair = Interaction(("lr", "width", "act"), 0.97, 0.123)
    assert words.in_words(pair, 5) == "lr, width and act almost surely act together (97%): 12% of the variance"
    assert words.in_words(Interaction(("a", "b"), 0.4, 0.0), 5).startswith(
        "a and b perhaps act together (40%), with no"
    )
    assert words.in_words(Interaction(("a", "b", "c"), 0.8, 0.8), 3).startswith("all parameters probably")
    weak = [Interaction(("a", "b"), 0.01, 0.3), Interaction(("a", "c"), 0.5, 0.1), Interaction(("b",), 1.0, 0.9)]
    assert words.strongest(weak) == [weak[1]]


def test_errors_of_one_kind_come_from_the_same_line_whatever_their_numbers():
    trace = 'Traceback (most recent call last):\n  File "train.py", line {line}, in run\n    x\n{end}'
    first = trace.format(line=4, end="ValueError: loss 3.5")
    assert words.kind_of(first) == words.kind_of(trace.format(line=4, end="ValueError: loss 17"))
    assert words.kind_of(first) != words.kind_of(trace.format(line=9, end="ValueError: loss 3.5"))
    assert words.kind_of(first) != words.kind_of(trace.format(line=4, end="KeyError: 'x'"))
    assert words.kind_of("stopped after 10 s") == words.kind_of("stopped after 12.5 s")
    assert words.essence(first) == "ValueError: loss 3.5"
    assert words.essence("ended with code 1:\nsomething") == "ended with code 1:"
    command = "the command failed with exit code 1; its last output:\nTraceback …\nValueError: bad"
    assert words.essence(command) == "the command failed with exit code 1: ValueError: bad"
    assert words.essence(None) == "no reason given"


def test_a_long_error_is_cut_but_its_kind_is_not():
    long = "the model said " + "x" * 10_000
    assert len(words.essence(long)) == 200
    assert words.essence(long).endswith("x…")
    filler = "y" * 180
    assert words.kind_of(f"{filler} 1 and then far behind") == words.kind_of(f"{filler} 123456 and then far behind")


def test_parameters_to_copy_keep_every_digit_and_type():
    params = {
        "lr": 1e-05,
        "x": 0.1 + 0.2,
        "n": 3,
        "flag": True,
        "none": None,
        "text": "yes",
        "colon": "a: b",
        "s": "1.0",
    }
    assert yaml.safe_load(words.as_yaml(params)) == params
    assert '"lr": 1e-05' in words.as_json(params)
