"""Runs: one method on one problem, every evaluation on disk at once, taken up again where it was killed."""

from __future__ import annotations

import signal
import sys
import threading
import time
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from importlib import metadata
from pathlib import Path
from types import FrameType
from typing import Any

import numpy as np
from scipy.stats import qmc

from dechbo.bench import methods, problems
from dechbo.bench.methods import Method
from dechbo.bench.peers import Peer, PeerOutOfTime
from dechbo.bench.problems import Problem
from dechbo.bench.records import CRASHED, FINISHED, OUT_OF_TIME, Journal, Record, Run, Step, finite, machine
from dechbo.errors import ParameterError
from dechbo.space import Space

Report = Callable[[int, float], None]  # evaluations done, best regret so far


class _Stopped(Exception):
    """The method can go no further; the message is the run's status."""


class _CpuLimit(Exception):
    """Raised by a signal in the middle of an ask."""


def initial_points(space: Space, run: Run) -> list[dict[str, Any]]:
    """The points that every method is given on this problem and seed: scrambled Sobol, through ``from_uniform``."""
    rng = np.random.default_rng([run.seed, zlib.crc32(run.problem.encode())])
    if space.dim <= qmc.Sobol.MAXDIM:
        count = max(run.initial - 1, 0).bit_length()
        draws = qmc.Sobol(space.dim, rng=rng).random_base2(count)[: run.initial]
    else:
        draws = rng.random((run.initial, space.dim))
    return [space.decode(space.from_uniform(u)) for u in draws]


def execute(run: Run, results: Path, *, cpu_limit: float | None = None, report: Report | None = None) -> Record:
    """Make the whole run, or the rest of it, and write its record.

    ``cpu_limit`` bounds the CPU seconds that the method may spend; ``report`` hears of every step.
    """
    problem = problems.problem(run.problem, run.seed)
    with Journal(results, run) as journal:
        course = _Course(run, problem, journal, cpu_limit, report or (lambda done, best: None))
        try:
            course.go()
            status = FINISHED
        except _Stopped as stopped:
            status = str(stopped)
        finally:
            course.close()
        record = Record.of(
            run,
            journal.steps,
            status,
            optimum=problem.optimum,
            dim=problem.space.dim,
            options=course.options,
            versions=course.versions,
            machine=machine(),
            date=datetime.now(UTC).date().isoformat(),
            resumed=tuple(journal.resumed),
            cpu_limit=cpu_limit,
        )
        record.write(results)
        journal.remove()
    return record


def give_up(run: Run, results: Path, reason: str) -> Record:
    """The record of a run whose process died: it counts with what it reached."""
    problem = problems.problem(run.problem, run.seed)
    with Journal(results, run) as journal:
        facts: dict[str, Any] = {"optimum": problem.optimum, "dim": problem.space.dim, "machine": machine()}
        date = datetime.now(UTC).date().isoformat()
        record = Record.of(run, journal.steps, f"{CRASHED}: {reason}", date=date, versions=our_versions(), **facts)
        record.write(results)
        journal.remove()
    return record


class _Course:
    """The course of one run: the given points first, then ask, evaluate, write down, tell."""

    def __init__(self, run: Run, problem: Problem, journal: Journal, cpu_limit: float | None, report: Report) -> None:
        self.run, self.problem, self.journal, self.cpu_limit, self._report = run, problem, journal, cpu_limit, report
        self.options: dict[str, Any] = {}
        self.versions = our_versions()
        self.spent = sum(step.ask_cpu for step in journal.steps)
        self._method: Method | None = None
        self._telling = _Taken()  # time of the last tell: part of the next ask

    def go(self) -> None:
        """Everything that is still to do."""
        steps = self.journal.steps
        for params in initial_points(self.problem.space, self.run)[len(steps) :]:
            self._evaluate(params, _Taken())
        self._method = self._restored()
        while len(steps) < self.run.total:
            with self._clock() as asking:
                params = self._method.ask()
            self._check(params)
            self._evaluate(params, self._telling + asking)
            with self._clock() as self._telling:
                self._method.tell(params, steps[-1].value)
            self._save()

    def close(self) -> None:
        """End the method's process, if it has one."""
        if isinstance(self._method, Peer):
            self._method.close()

    def _restored(self) -> Method:
        """The method, and all that it has seen so far."""
        steps = self.journal.steps
        method = self._built()
        saved = self.journal.saved
        if hasattr(method, "load") and hasattr(method, "evaluations"):
            # a point that it asked for itself has to be asked for again, or its state would not be the same
            if saved.exists():
                method = type(method).load(saved)
            for number in range(len(method.evaluations), len(steps)):
                with self._clock(counted=False):
                    again = method.ask() if number >= self.run.initial else steps[number].params
                    method.tell(again, steps[number].value)
                if again != steps[number].params:
                    raise _Stopped(f"{CRASHED}: taken up again it asks for another point than before")
        else:
            for step in steps:
                with self._clock(counted=False):
                    method.tell(step.params, step.value)
        return method

    def _built(self) -> Method:
        run, space = self.run, self.problem.space
        with self._clock(counted=False):
            if not methods.is_peer(run.method):
                entry = methods.ENTRIES[run.method]
                self.options = dict(entry.options)
                return entry.made(space, run.seed, run.initial)
            left = None if self.cpu_limit is None else self.cpu_limit - self.spent
            peer = Peer(
                run.method,
                space,
                seed=run.seed,
                n_initial=run.initial,
                budget=run.total,
                cpu_left=left,
                log=self.journal.log,
            )
        self.options, self.versions = peer.options, peer.versions
        self._method = peer  # from here on it is closed whatever happens
        return peer

    def _evaluate(self, params: dict[str, Any], asking: _Taken) -> None:
        started = time.perf_counter()
        try:
            value = finite(self.problem(params))
        except Exception:
            value = None  # a failed evaluation is told as such
        seconds = time.perf_counter() - started
        self.journal.append(Step(params, value, asking.seconds, asking.cpu, seconds))
        known = [step.value for step in self.journal.steps if step.value is not None]
        self._report(len(self.journal.steps), self.problem.regret(min(known)) if known else np.inf)

    def _check(self, params: dict[str, Any]) -> None:
        try:
            self.problem.space.encode(params)
        except ParameterError as error:
            raise _Stopped(f"{CRASHED}: suggested a point outside the space: {error}") from error

    def _save(self) -> None:
        save = getattr(self._method, "save", None)
        if save is not None:
            save(self.journal.saved)

    @contextmanager
    def _clock(self, *, counted: bool = True) -> Iterator[_Taken]:
        """Time what the method does and stop the run where it fails or has used up its CPU time."""
        taken = _Taken()
        cpu = getattr(self._method, "cpu_clock", time.process_time)
        started, used = time.perf_counter(), cpu()
        try:
            with _cpu_timer(None if self.cpu_limit is None or not counted else self.cpu_limit - self.spent):
                yield taken
        except (_CpuLimit, PeerOutOfTime):
            raise _Stopped(OUT_OF_TIME) from None
        except Exception as error:
            raise _Stopped(f"{CRASHED}: {type(error).__name__}: {error}") from error
        if counted:
            taken.seconds, taken.cpu = time.perf_counter() - started, cpu() - used
            self.spent += taken.cpu
            if self.cpu_limit is not None and self.spent > self.cpu_limit:
                raise _Stopped(OUT_OF_TIME)


@dataclass
class _Taken:
    """Wall and CPU seconds of a call."""

    seconds: float = 0.0
    cpu: float = 0.0

    def __add__(self, other: _Taken) -> _Taken:
        return _Taken(self.seconds + other.seconds, self.cpu + other.cpu)


@contextmanager
def _cpu_timer(left: float | None) -> Iterator[None]:
    """Raise ``_CpuLimit`` once this process has used ``left`` more seconds of CPU time."""
    if left is None or threading.current_thread() is not threading.main_thread():
        yield
        return

    def ring(number: int, frame: FrameType | None) -> None:
        raise _CpuLimit

    before = signal.signal(signal.SIGPROF, ring)
    signal.setitimer(signal.ITIMER_PROF, max(left, 1e-3), 1.0)  # again and again, should a callback swallow it
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0.0)
        signal.signal(signal.SIGPROF, before)


def our_versions() -> dict[str, str]:
    """The versions that our own methods and the paper's rivals depend on."""
    packages = ("dechbo", "numpy", "scipy", "numba")
    return {"python": sys.version.split()[0], **{name: metadata.version(name) for name in packages}}
