"""Runs in worker processes, several at a time. Covered by tests/bench/test_runner.py."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING, Any

from dechbo.bench.peers import ONE_THREAD
from dechbo.bench.records import NOT_RUN, Run, RunRecord
from dechbo.bench.runner import execute, record_crash
from dechbo.errors import WorkerDied
from dechbo.execution import Outcome, ProcessExecutor, report_progress

if TYPE_CHECKING:
    from dechbo.bench.progress import BenchProgress

PROGRESS_SECONDS = 0.25  # between updates of the progress


def run_all(
    runs: Sequence[Run], results: Path, *, workers: int, cpu_limit: float | None, progress: BenchProgress
) -> None:
    """Execute all ``runs`` in order, ``workers`` at a time with one thread each; Ctrl-C leaves no process behind."""
    waiting, started = deque(enumerate(runs)), dict[int, float]()
    objective = partial(_execute, results=results, cpu_limit=cpu_limit)
    with ProcessExecutor(objective, workers, environment=ONE_THREAD) as executor:
        while waiting or started:
            while waiting and len(started) < executor.capacity:
                number, run = waiting.popleft()
                started[number] = perf_counter()
                progress.run_started(run)
                executor.submit(number, {"run": run})
            finished = executor.wait(PROGRESS_SECONDS)
            for number, (done, regret) in executor.progress():
                progress.evaluation_done(runs[number], done, regret)
            for number, outcome in finished:
                status, regret = _result(runs[number], outcome, results)
                progress.run_ended(runs[number], status, regret, perf_counter() - started.pop(number))


def _execute(params: dict[str, Any], *, results: Path, cpu_limit: float | None) -> Outcome:
    """Execute one run, in a worker process."""

    def report(done: int, regret: float) -> None:
        report_progress((done, regret))

    return Outcome(execute(params["run"], results, cpu_limit=cpu_limit, report=report).final_regret)


def _result(run: Run, outcome: Outcome, results: Path) -> tuple[str, float]:
    """The status and the final regret of a run; if its process died, write its record."""
    if isinstance(outcome.exception, WorkerDied):
        record = record_crash(run, results, str(outcome.error))
    elif outcome.exception is not None:  # not the method's fault: no record, so that the run can be repeated
        return f"{NOT_RUN}: {outcome.exception}", float("inf")
    else:
        record = RunRecord.read(run.path(results))
    return record.status, record.final_regret
