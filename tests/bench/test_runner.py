"""Runs: the same points for all, everything on disk at once, and a killed run that ends as if it had not been."""

from __future__ import annotations

import dataclasses
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from bench_cases import some
from dechbo.bench import methods, problems, runner
from dechbo.bench.methods import MethodSpec
from dechbo.bench.records import Journal, Run, RunRecord
from dechbo.space import Float, Int, Parameter, Space

SMALL = Run("rosenbrock-4", "random", 1, initial=4, evaluations=6)


class Killed(BaseException):
    """Stands in for a kill: nothing of ours may catch it."""


def killed_after(count: int) -> Callable[[int, float], None]:
    def report(done: int, regret: float) -> None:
        if done == count:
            raise Killed

    return report


def same_course(first: RunRecord, second: RunRecord) -> bool:
    """Whether two runs evaluated the same points with the same values, bit for bit."""
    kept = ("run", "status", "values", "best_params", "optimum", "options")
    return all(getattr(first, name) == getattr(second, name) for name in kept)


class Misbehaving:
    """A method that answers well twice, and then does what ``how`` does."""

    def __init__(self, space: Space, *, how: Any, **_: Any) -> None:
        self.space, self.how, self.asked = space, how, 0

    def ask(self) -> dict[str, Any]:
        self.asked += 1
        centre = self.space.from_uniform(np.full(self.space.dim, 0.5))
        return dict(self.space.decode(centre) if self.asked < 3 else self.how())

    def tell(self, params: Any, value: float | None) -> None: ...


def misbehave(monkeypatch: pytest.MonkeyPatch, how: Any) -> Run:
    spec = MethodSpec("odd", "odd", lambda space, **options: Misbehaving(space, how=how, **options))
    monkeypatch.setitem(methods.METHODS, "odd", spec)
    return dataclasses.replace(SMALL, method="odd")


def test_every_method_is_given_the_same_points_of_the_space() -> None:
    space = problems.problem("nk-8").space
    run = Run("nk-8", "random", 3, initial=5)
    points = runner.initial_params(space, run)
    assert points == runner.initial_params(space, dataclasses.replace(run, method="dechbo"))
    assert len(points) == 5
    for params in points:
        assert space.decode(space.encode(params)) == params
    assert points != runner.initial_params(space, dataclasses.replace(run, seed=4))


def test_initial_points_keep_known_constraints_and_are_the_same_without_any() -> None:
    parameters: dict[str, Parameter] = {"a": Int(0, 4), "b": Int(0, 4), "x": Float(0, 1)}
    free, limited = Space(parameters), Space(parameters, ["a + b <= 2"])
    run = Run("limited", "random", 0, initial=32)
    before, points = runner.initial_params(free, run), runner.initial_params(limited, run)
    assert all(params["a"] + params["b"] <= 2 for params in points)
    assert [new for old, new in zip(before, points, strict=True) if old["a"] + old["b"] <= 2] == [
        old for old in before if old["a"] + old["b"] <= 2
    ]
    assert points == runner.initial_params(limited, dataclasses.replace(run, method="dechbo"))


def test_a_method_that_breaks_a_known_constraint_has_crashed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    space = Space({"a": Float(0, 1), "b": Float(0, 1)}, ["a + b <= 1"])
    problem = problems.Problem("Limited-2", space, None, None, lambda params: params["a"])
    monkeypatch.setattr(problems, "problem", lambda name, seed: problem)
    run = dataclasses.replace(misbehave(monkeypatch, lambda: {"a": 1.0, "b": 1.0}), problem="limited-2")
    record = runner.execute(run, tmp_path)
    assert record.status.startswith("crashed: suggested a point that breaks a known constraint")


def test_a_run_leaves_a_record_and_nothing_else(tmp_path: Path) -> None:
    heard: list[tuple[int, float]] = []
    record = runner.execute(SMALL, tmp_path, report=lambda done, regret: heard.append((done, regret)))
    problem = problems.problem(SMALL.problem, SMALL.seed)
    given = runner.initial_params(problem.space, SMALL)
    assert list(record.values[:4]) == [problem(params) for params in given]
    assert record.finished
    assert len(record.values) == 10
    assert len(record.ask_cpu) == 6
    assert problem(some(record.best_params)) == min(map(some, record.values))
    assert [done for done, _ in heard] == list(range(1, 11))
    assert [regret for _, regret in heard] == record.regret.tolist()
    assert record.versions["dechbo"]
    assert record.machine["cpu"]
    assert RunRecord.read(SMALL.path(tmp_path)) == record
    assert not list((tmp_path / "running").iterdir())


def test_every_evaluation_is_on_disk_before_the_next_ask(tmp_path: Path) -> None:
    lines: list[int] = []

    def report(done: int, regret: float) -> None:
        lines.append(len((tmp_path / "running" / f"{SMALL.key}.jsonl").read_text().splitlines()))

    runner.execute(SMALL, tmp_path, report=report)
    assert lines == list(range(1, 11))


@pytest.mark.parametrize(
    ("method", "cuts"),
    [
        ("random", (2, 5, 9)),
        ("sobol", (6,)),
        ("dechbo", (2, 7, 8)),
        ("add-gp-ucb", (7,)),
        ("add-mes-r", (6,)),
        ("rembo", (6,)),
    ],
)
def test_an_interrupted_run_ends_as_an_uninterrupted_one(tmp_path: Path, method: str, cuts: tuple[int, ...]) -> None:
    run = dataclasses.replace(SMALL, method=method)
    whole = runner.execute(run, tmp_path / "whole")
    for cut in cuts:
        with pytest.raises(Killed):
            runner.execute(run, tmp_path / "cut", report=killed_after(cut))
    resumed = runner.execute(run, tmp_path / "cut")
    assert same_course(resumed, whole)
    assert resumed.resumed == cuts


def test_the_default_resumes_from_its_run_file_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What was saved is not asked for again: at most the one evaluation after the last save."""
    run = dataclasses.replace(SMALL, method="dechbo", evaluations=5)
    with pytest.raises(Killed):
        runner.execute(run, tmp_path, report=killed_after(8))
    asked = 0

    def counting(self: Any) -> Any:
        nonlocal asked
        asked += 1
        return ask(self)

    from dechbo.optimizer import Optimizer

    ask = Optimizer.ask
    monkeypatch.setattr(Optimizer, "ask", counting)
    runner.execute(run, tmp_path)
    assert asked == 2  # one again, one new


def test_a_method_that_fails_counts_with_what_it_had(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run = misbehave(monkeypatch, lambda: 1 / 0)
    record = runner.execute(run, tmp_path)
    assert record.status == "crashed: ZeroDivisionError: division by zero"
    assert len(record.values) == 6
    assert record.final_regret == record.regret[5]


def test_a_point_outside_the_space_is_a_failure_of_the_method(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run = misbehave(monkeypatch, lambda: {"x1": 1e9})
    assert runner.execute(run, tmp_path).status.startswith("crashed: suggested a point outside the space")


def test_a_method_that_uses_up_its_time_is_stopped_in_the_middle_of_an_ask(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def burn() -> None:
        while True:
            pass

    record = runner.execute(misbehave(monkeypatch, burn), tmp_path, cpu_limit=0.3)
    assert record.status == "out of time"
    assert len(record.values) == 6
    assert record.cpu_limit == 0.3
    assert signal.getitimer(signal.ITIMER_PROF) == (0.0, 0.0)


def test_a_failed_evaluation_is_told_as_such(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class Fails:
        name, optimum = "Fails", 0.0
        space = problems.problem("rosenbrock-4").space
        calls = 0
        noise_free = report = None

        def __call__(self, params: Any) -> float:
            self.calls += 1
            if self.calls % 3 == 0:
                raise RuntimeError("no power")
            return float("nan") if self.calls % 3 == 1 else params["x1"]

        def regret(self, value: float) -> float:
            return value

    fails = Fails()
    monkeypatch.setattr(problems, "problem", lambda name, seed: fails)
    record = runner.execute(dataclasses.replace(SMALL, method="dechbo"), tmp_path)
    assert record.finished
    assert [value is None for value in record.values] == [True, False, True] * 3 + [True]


def test_a_run_whose_process_died_is_recorded(tmp_path: Path) -> None:
    with pytest.raises(Killed):
        runner.execute(SMALL, tmp_path, report=killed_after(7))
    record = runner.record_crash(SMALL, tmp_path, "killed by SIGSEGV")
    assert record.status == "crashed: killed by SIGSEGV"
    assert len(record.values) == 7
    assert np.isfinite(record.final_regret)


def bench(results: Path, *arguments: str) -> subprocess.Popen[str]:
    code = "from dechbo.cli import main; main()"
    command = [sys.executable, "-c", code, "bench", "run", *arguments, "--results", str(results)]
    # a shell's background job ignores Ctrl-C, and so would its children
    return subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, preexec_fn=_heed_ctrl_c
    )


def _heed_ctrl_c() -> None:
    signal.signal(signal.SIGINT, signal.SIG_DFL)


def finish(process: subprocess.Popen[str]) -> None:
    output = process.communicate()[0]
    assert process.returncode == 0, output


@pytest.mark.system
def test_a_bench_killed_by_sigkill_ends_as_an_uninterrupted_one(tmp_path: Path) -> None:
    arguments = ["rosenbrock-4,nk-8", "--methods", "dechbo,dechbo-random,gp-ucb,random", "--seeds", "2"]
    arguments += ["--evaluations", "25", "--initial", "5"]
    finish(bench(tmp_path / "whole", *arguments))
    kills = 0
    while kills < 3:
        process = bench(tmp_path / "cut", *arguments)
        wait_for_steps(tmp_path / "cut", process, more=12)
        ended = process.poll() is not None
        process.kill()
        process.communicate()
        if ended:
            break
        kills += 1
    finish(bench(tmp_path / "cut", *arguments))
    assert kills
    paths = sorted((tmp_path / "whole" / "runs").glob("*/*/*.gz"))
    assert len(paths) == 16
    resumed = 0
    for path in paths:
        again = RunRecord.read(tmp_path / "cut" / path.relative_to(tmp_path / "whole"))
        assert same_course(again, RunRecord.read(path))
        resumed += bool(again.resumed)
    assert resumed
    assert not list((tmp_path / "cut" / "running").iterdir())


def wait_for_steps(results: Path, process: subprocess.Popen[str], more: int) -> None:
    """Wait until ``more`` evaluations were made since now, or the process ended."""
    before = steps_in(results)
    while process.poll() is None and steps_in(results) < before + more:
        time.sleep(0.02)


def steps_in(results: Path) -> int:
    running = sum(len(path.read_text().splitlines()) for path in results.glob("running/*.jsonl") if path.exists())
    return running + sum(len(RunRecord.read(path).values) for path in results.glob("runs/*/*/*.gz"))


@pytest.mark.system
def test_a_worker_that_dies_costs_its_own_run_only(tmp_path: Path) -> None:
    arguments = ("rosenbrock-4", "--methods", "dechbo,random", "--seeds", "2", "--evaluations", "40", "--workers", "1")
    process = bench(tmp_path, *arguments)
    wait_for_steps(tmp_path, process, more=15)
    children = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
    workers = [pid for pid in children if b"dechbo.execution.child" in Path(f"/proc/{pid}/cmdline").read_bytes()]
    os.kill(int(workers[0]), signal.SIGKILL)
    output = process.communicate()[0]
    assert process.returncode == 0, output
    statuses = [RunRecord.read(path).status for path in sorted(tmp_path.glob("runs/*/*/*.gz"))]
    assert len(statuses) == 4
    assert [status for status in statuses if status != "finished"] == [
        "crashed: the process died with signal 9 (SIGKILL)"
    ]
    assert "SIGKILL" in output


@pytest.mark.system
def test_ctrl_c_stops_and_the_same_command_goes_on(tmp_path: Path) -> None:
    arguments = ("rosenbrock-4", "--methods", "dechbo", "--seeds", "2", "--evaluations", "60")
    process = bench(tmp_path, *arguments)
    wait_for_steps(tmp_path, process, more=20)
    process.send_signal(signal.SIGINT)
    output = process.communicate()[0]
    assert process.returncode == 1
    assert "run the same command again" in output
    journals = list(tmp_path.glob("running/*.jsonl"))
    assert journals
    for path in journals:
        with Journal(tmp_path, run_of(path)):
            pass  # nobody holds it
    finish(bench(tmp_path, *arguments))


def run_of(path: Path) -> Run:
    problem, method, rest = path.stem.split(".")
    seed, budget = rest.split("-")
    initial, evaluations = budget.split("+")
    return Run(problem, method, int(seed), int(initial), int(evaluations))


def test_the_key_of_a_run_names_it(tmp_path: Path) -> None:
    with Journal(tmp_path, SMALL) as journal:
        assert run_of(journal.path) == SMALL
        assert json.dumps(journal.steps) == "[]"


def test_initial_points_that_another_method_has_evaluated_are_not_evaluated_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = runner.execute(Run("rosenbrock-4", "random", 1, 5, 3), tmp_path)
    whole = runner.execute(Run("rosenbrock-4", "sobol", 1, 5, 3), tmp_path / "other")
    calls = []
    evaluate = problems.Problem.__call__

    def counted(self: problems.Problem, params: Any) -> float:
        calls.append(params)
        return evaluate(self, params)

    monkeypatch.setattr(problems.Problem, "__call__", counted)
    second = runner.execute(Run("rosenbrock-4", "sobol", 1, 5, 3), tmp_path)
    assert len(calls) == 3
    assert second.values == whole.values
    assert second.values[:5] == first.values[:5]
    runner.execute(Run("rosenbrock-4", "sobol", 2, 5, 3), tmp_path)  # another seed has other points
    assert len(calls) == 3 + 8
