"""Execute one run: one method on one problem, every evaluation on disk at once, resumed where it was killed."""

from __future__ import annotations

import resource
import signal
import sys
import threading
import time
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from importlib import metadata
from pathlib import Path
from types import FrameType
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.stats import qmc

from dechbo.bench import methods, problems
from dechbo.bench.methods import Method
from dechbo.bench.peers import PeerOutOfTime, PeerProcess
from dechbo.bench.problems import Problem
from dechbo.bench.records import CRASHED, FINISHED, OUT_OF_TIME, Journal, Run, RunRecord, Step, finite_or_none, machine
from dechbo.errors import ParameterError
from dechbo.space import Space

Array = NDArray[np.float64]
Report = Callable[[int, float], None]  # called with evaluations done and best regret so far


class _RunEnded(Exception):
    """The method cannot continue; the message is the status of the run."""


class _CpuLimit(Exception):
    """Raised by a signal during an ask."""


def initial_params(space: Space, run: Run) -> list[dict[str, Any]]:
    """The scrambled Sobol points that every method gets on this problem and seed."""
    rng = np.random.default_rng([run.seed, zlib.crc32(run.problem.encode())])
    if space.dim <= qmc.Sobol.MAXDIM:
        count = max(run.initial - 1, 0).bit_length()
        draws = qmc.Sobol(space.dim, rng=rng).random_base2(count)[: run.initial]
    else:
        draws = rng.random((run.initial, space.dim))
    return [space.decode(_allowed(space, space.from_uniform(u), rng)) for u in draws]


def _allowed(space: Space, point: Array, rng: np.random.Generator) -> Array:
    """The point, or a random one instead if it breaks a known constraint."""
    instead = None if space.allows(point) else space.region.draw(point, {}, rng)
    return point if instead is None else instead


def known_initial_values(run: Run, results: Path) -> list[tuple[float | None, float]]:
    """Values and seconds of the initial points, from the record of another method that began with them; else none."""
    for path in sorted((results / "runs" / run.problem).glob(f"*/{run.seed}-{run.initial}+*.json.gz")):
        record = RunRecord.read(path)
        if len(record.values) >= run.initial and not record.true_values:
            seconds = record.evaluation_seconds[: run.initial]
            return list(zip(record.values[: run.initial], seconds, strict=True))
    return []


def execute(run: Run, results: Path, *, cpu_limit: float | None = None, report: Report | None = None) -> RunRecord:
    """Execute the run, or the rest of it, and write its record.

    ``cpu_limit`` bounds the CPU seconds of the method; ``report`` is called after every evaluation.
    """
    problem = problems.problem(run.problem, run.seed)
    with Journal(results, run) as journal:
        known = [] if problem.noise_free is not None else known_initial_values(run, results)
        loop = _RunLoop(run, problem, journal, cpu_limit, report or (lambda done, best: None), known)
        try:
            loop.run_all()
            status = FINISHED
        except _RunEnded as ended:
            status = str(ended)
        finally:
            loop.close()
        record = RunRecord.from_steps(
            run,
            journal.steps,
            status,
            optimum=problem.optimum,
            dim=problem.space.dim,
            options=loop.options,
            versions=loop.versions,
            machine=machine(),
            date=datetime.now(UTC).date().isoformat(),
            resumed=tuple(journal.resumed),
            cpu_limit=cpu_limit,
            peak_memory=resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024,
        )
        if problem.report is not None and record.best_params is not None:
            record = replace(record, report=problem.report(record.best_params))
        record.write(results)
        journal.remove()
    return record


def record_crash(run: Run, results: Path, reason: str) -> RunRecord:
    """Write the record of a run whose process died, with the evaluations that it made."""
    problem = problems.problem(run.problem, run.seed)
    with Journal(results, run) as journal:
        facts: dict[str, Any] = {"optimum": problem.optimum, "dim": problem.space.dim, "machine": machine()}
        facts |= {"date": datetime.now(UTC).date().isoformat(), "versions": dechbo_versions()}
        record = RunRecord.from_steps(run, journal.steps, f"{CRASHED}: {reason}", **facts)
        record.write(results)
        journal.remove()
    return record


class _RunLoop:
    """Evaluate the initial points, then ask, evaluate, write to the journal, tell."""

    def __init__(
        self,
        run: Run,
        problem: Problem,
        journal: Journal,
        cpu_limit: float | None,
        report: Report,
        known: list[tuple[float | None, float]],
    ) -> None:
        self.run, self.problem, self.journal, self.cpu_limit, self._report = run, problem, journal, cpu_limit, report
        self._known = known  # values and seconds of the initial points
        self.options: dict[str, Any] = {}
        self.versions = dechbo_versions()
        self.spent = sum(step.ask_cpu for step in journal.steps)
        self._method: Method | None = None
        self._tell_time = _CallTime()  # of the last tell, counted with the next ask

    def run_all(self) -> None:
        """Do all remaining evaluations."""
        steps = self.journal.steps
        for number, params in enumerate(initial_params(self.problem.space, self.run)):
            if number < len(steps):
                continue
            if self._known:
                self._append(Step(params, self._known[number][0], evaluation_seconds=self._known[number][1]))
            else:
                self._evaluate(params, _CallTime())
        self._method = self._resumed_method()
        while len(steps) < self.run.total:
            with self._timed() as ask_time:
                params = self._method.ask()
            self._check(params)
            self._evaluate(params, self._tell_time + ask_time)
            with self._timed() as self._tell_time:
                self._method.tell(params, steps[-1].value)
            self._save()

    def close(self) -> None:
        """End the process of a peer."""
        if isinstance(self._method, PeerProcess):
            self._method.close()

    def _resumed_method(self) -> Method:
        """The method, told every step of the journal."""
        steps = self.journal.steps
        method = self._new_method()
        saved = self.journal.saved
        if hasattr(method, "load") and hasattr(method, "evaluations"):
            # its own points must be asked for again, or its state would differ
            if saved.exists():
                method = type(method).load(saved)
            for number in range(len(method.evaluations), len(steps)):
                with self._timed(counted=False):
                    again = method.ask() if number >= self.run.initial else steps[number].params
                    method.tell(again, steps[number].value)
                if again != steps[number].params:
                    raise _RunEnded(f"{CRASHED}: after resuming it asks for another point than before")
        else:
            for step in steps:
                with self._timed(counted=False):
                    method.tell(step.params, step.value)
        return method

    def _new_method(self) -> Method:
        run, space = self.run, self.problem.space
        with self._timed(counted=False):
            if not methods.is_peer(run.method):
                spec = methods.METHODS[run.method]
                self.options = dict(spec.options)
                return spec.create(space, run.seed, run.initial)
            left = None if self.cpu_limit is None else self.cpu_limit - self.spent
            peer = PeerProcess(
                run.method,
                space,
                seed=run.seed,
                n_initial=run.initial,
                budget=run.total,
                cpu_left=left,
                log=self.journal.log,
            )
        self.options, self.versions = peer.options, peer.versions
        self._method = peer  # so that close() ends it
        return peer

    def _evaluate(self, params: dict[str, Any], ask_time: _CallTime) -> None:
        started = time.perf_counter()
        try:
            value = finite_or_none(self.problem(params))
        except Exception:
            value = None  # told as a failure
        seconds = time.perf_counter() - started
        noise_free = self.problem.noise_free
        true_value = None if noise_free is None or value is None else finite_or_none(noise_free(params))
        self._append(Step(params, value, ask_time.seconds, ask_time.cpu, seconds, true_value))

    def _append(self, step: Step) -> None:
        """Write the step to the journal, and report it."""
        self.journal.append(step)
        noisy = self.problem.noise_free is not None
        judged = [step.true_value if noisy else step.value for step in self.journal.steps]
        known = [value for value in judged if value is not None]
        self._report(len(self.journal.steps), self.problem.regret(min(known)) if known else np.inf)

    def _check(self, params: dict[str, Any]) -> None:
        try:
            point = self.problem.space.encode(params)
        except ParameterError as error:
            raise _RunEnded(f"{CRASHED}: suggested a point outside the space: {error}") from error
        if not self.problem.space.allows(point):
            raise _RunEnded(f"{CRASHED}: suggested a point that breaks a known constraint: {params}")

    def _save(self) -> None:
        save = getattr(self._method, "save", None)
        if save is not None:
            save(self.journal.saved)

    @contextmanager
    def _timed(self, *, counted: bool = True) -> Iterator[_CallTime]:
        """Time a call of the method; end the run if it fails or has used up its CPU time."""
        call = _CallTime()
        cpu = getattr(self._method, "cpu_clock", time.process_time)
        started, used = time.perf_counter(), cpu()
        try:
            with _cpu_timer(None if self.cpu_limit is None or not counted else self.cpu_limit - self.spent):
                yield call
        except (_CpuLimit, PeerOutOfTime):
            raise _RunEnded(OUT_OF_TIME) from None
        except Exception as error:
            raise _RunEnded(f"{CRASHED}: {type(error).__name__}: {error}") from error
        if counted:
            call.seconds, call.cpu = time.perf_counter() - started, cpu() - used
            self.spent += call.cpu
            if self.cpu_limit is not None and self.spent > self.cpu_limit:
                raise _RunEnded(OUT_OF_TIME)


@dataclass
class _CallTime:
    """Wall and CPU seconds of a call."""

    seconds: float = 0.0
    cpu: float = 0.0

    def __add__(self, other: _CallTime) -> _CallTime:
        return _CallTime(self.seconds + other.seconds, self.cpu + other.cpu)


@contextmanager
def _cpu_timer(left: float | None) -> Iterator[None]:
    """Raise ``_CpuLimit`` when this process has used ``left`` more CPU seconds."""
    if left is None or threading.current_thread() is not threading.main_thread():
        yield
        return

    def on_signal(number: int, frame: FrameType | None) -> None:
        raise _CpuLimit

    before = signal.signal(signal.SIGPROF, on_signal)
    signal.setitimer(signal.ITIMER_PROF, max(left, 1e-3), 1.0)  # repeated, in case a callback swallows the exception
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0.0)
        signal.signal(signal.SIGPROF, before)


def dechbo_versions() -> dict[str, str]:
    """The versions that dechbo's methods and the baselines depend on."""
    packages = ("dechbo", "numpy", "scipy", "numba")
    return {"python": sys.version.split()[0], **{name: metadata.version(name) for name in packages}}
