"""Where evaluations run: the Workers protocol, and processes of this machine."""

from __future__ import annotations

import contextlib
import os
import socket
import subprocess
import sys
import time
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from multiprocessing.connection import Connection, wait
from pathlib import Path
from typing import IO, Any, Protocol

from dechbo.errors import OptionError, StudyError
from dechbo.studies.outcome import Outcome
from dechbo.studies.process import death, kill_group

THREADS = (
    "OMP_NUM_THREADS",
    "OPENBLAS_NUM_THREADS",
    "MKL_NUM_THREADS",
    "BLIS_NUM_THREADS",
    "VECLIB_MAXIMUM_THREADS",
    "NUMBA_NUM_THREADS",
)
GLANCE = 0.2  # seconds between looks at processes that may have died without a word


class Workers(Protocol):
    """Where evaluations run: ``capacity`` of them side by side."""

    capacity: int

    def submit(self, number: int, params: dict[str, Any]) -> None:
        """Start the evaluation of trial ``number``; only while fewer than ``capacity`` are under way."""

    def wait(self, timeout: float) -> list[tuple[int, Outcome]]:
        """The evaluations that finished, within ``timeout`` seconds; maybe none."""

    def close(self, *, kill: bool = False) -> None:
        """Let go of everything; with ``kill`` end what still runs."""


@dataclass
class _Task:
    number: int
    params: dict[str, Any]
    tries: int = 0


@dataclass
class _Worker:
    """A child process and what it does now."""

    process: subprocess.Popen[bytes]
    connection: Connection
    task: _Task | None = None
    started: float | None = None  # when the evaluation began
    command: int | None = None  # its process group
    ready: bool = False

    def end(self) -> None:
        """End the process and the command it runs."""
        self.connection.close()
        if self.command is not None:
            kill_group(self.command)
        kill_group(self.process.pid)
        self.process.wait()


class ProcessWorkers:
    """Persistent child processes of this one, each evaluates one trial at a time; they end when this one ends.

    They run in the folder of the study file. A child that dies is a failed evaluation, and a new one takes its place.
    Their output goes to ``log``, by default to the objective's own. Each may use its share of the cores in threads,
    unless the environment says otherwise.
    """

    def __init__(
        self,
        objective: Callable[[Mapping[str, Any]], Outcome] | None,
        count: int = 1,
        *,
        log: Path | None = None,
    ) -> None:
        if objective is None:
            raise StudyError("this study has no objective to run: add one to its file, or use dechbo ask and tell")
        if isinstance(count, bool) or not isinstance(count, int) or count < 1:
            raise OptionError(f"workers is a whole number at least 1, got {count!r}")
        self.capacity = count
        self._objective = objective
        self._log = log if log is not None else getattr(objective, "log", None)
        self._timeout: float | None = getattr(objective, "timeout", None)
        self._retries: int = getattr(objective, "retries", 0)
        self._workers: list[_Worker] = []
        self._again: deque[_Task] = deque()
        self._done: list[tuple[int, Outcome]] = []

    def submit(self, number: int, params: dict[str, Any]) -> None:
        """Start an evaluation in an idle child, or in a new one."""
        self._give(_Task(number, params))

    def wait(self, timeout: float) -> list[tuple[int, Outcome]]:
        """The evaluations that finished, within ``timeout`` seconds; maybe none."""
        deadline = time.monotonic() + timeout
        while True:
            self._look(min(GLANCE, max(0.0, deadline - time.monotonic())))
            if self._done or time.monotonic() >= deadline:
                done, self._done = self._done, []
                return done

    def close(self, *, kill: bool = False) -> None:
        """End all children; without ``kill`` those under way may finish first (their outcomes are dropped)."""
        while not kill and any(worker.task for worker in self._workers):
            self.wait(GLANCE)
        for worker in self._workers:
            worker.end()
        self._workers.clear()

    def __enter__(self) -> ProcessWorkers:
        return self

    def __exit__(self, *_: object) -> None:
        self.close(kill=True)

    @property
    def busy(self) -> int:
        """How many evaluations are under way."""
        return sum(worker.task is not None for worker in self._workers)

    def _give(self, task: _Task) -> None:
        worker = next((worker for worker in self._workers if worker.task is None), None)
        if worker is None:
            if len(self._workers) >= self.capacity:
                raise OptionError(f"all {self.capacity} workers are busy: wait for one first")
            worker = self._start()
            self._workers.append(worker)
        task.tries += 1
        worker.task, worker.started, worker.command = task, None, None
        with contextlib.suppress(OSError):  # a child that died while idle is found by the next look
            worker.connection.send((task.number, task.params))

    def _start(self) -> _Worker:
        ours, theirs = socket.socketpair()
        threads = str(max(1, (os.cpu_count() or 1) // self.capacity))  # the cores are shared, not fought for
        environment = {**dict.fromkeys(THREADS, threads), **os.environ, "PYTHONUNBUFFERED": "1"}
        with theirs, self._output() as output:
            process = subprocess.Popen(
                [sys.executable, "-P", "-m", "dechbo.studies.child", str(theirs.fileno())],
                cwd=getattr(self._objective, "folder", None),
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                env=environment,
                pass_fds=[theirs.fileno()],
                start_new_session=True,  # Ctrl-C is for the parent, which decides
            )
        connection = Connection(ours.detach())
        with contextlib.suppress(OSError):
            connection.send(self._objective)
        return _Worker(process, connection)

    def _output(self) -> IO[bytes]:
        if self._log is not None:
            with contextlib.suppress(OSError):
                return open(self._log, "ab")
        return open(os.devnull, "wb")

    def _look(self, timeout: float) -> None:
        """Read what the children say, end those that take too long, replace those that died."""
        if not self._workers:
            time.sleep(timeout)
        talking = wait([worker.connection for worker in self._workers], timeout)
        for worker in list(self._workers):
            if worker.connection in talking:
                self._read(worker)
            elif worker.process.poll() is not None:
                self._bury(worker, f"the process {death(worker.process.returncode)}")
            elif self._timeout is not None and worker.started is not None and self._overdue(worker):
                self._bury(worker, f"stopped after {self._timeout:g} s (timeout)")
        while self._again and self.busy < self.capacity:
            self._give(self._again.popleft())

    def _overdue(self, worker: _Worker) -> bool:
        assert self._timeout is not None
        assert worker.started is not None
        # a command's time limit is kept by the child itself, which is given a moment more to tell how it ended
        limit = self._timeout + (0.0 if worker.command is None else 5.0)
        return time.monotonic() - worker.started > limit

    def _read(self, worker: _Worker) -> None:
        try:
            kind, content = worker.connection.recv()
        except (EOFError, OSError):
            with contextlib.suppress(subprocess.TimeoutExpired):
                worker.process.wait(5.0)
            kill_group(worker.process.pid)
            self._bury(worker, f"the process {death(worker.process.wait())}")
            return
        if kind == "broken":
            raise StudyError(content)
        if kind == "ready":
            worker.ready = True
        elif kind == "started":
            worker.started = time.monotonic()
        elif kind == "command":
            worker.command = content
        elif kind == "finished":
            self._finish(worker, content)

    def _bury(self, worker: _Worker, error: str) -> None:
        """A child is gone: its evaluation failed."""
        seconds = 0.0 if worker.started is None else time.monotonic() - worker.started
        worker.end()
        self._workers.remove(worker)
        if worker.task is not None and worker.ready and worker.started is None:  # it died while idle, nothing was tried
            worker.task.tries -= 1
            self._again.append(worker.task)
        elif worker.task is not None:
            self._finish(worker, Outcome.failure(error, seconds))

    def _finish(self, worker: _Worker, outcome: Outcome) -> None:
        task, worker.task, worker.started, worker.command = worker.task, None, None, None
        assert task is not None
        if outcome.failed and task.tries <= self._retries:
            self._again.append(task)
        else:
            self._done.append((task.number, outcome))
