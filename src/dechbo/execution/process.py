"""ProcessExecutor: evaluations in child processes."""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from multiprocessing.connection import Connection, wait
from pathlib import Path
from typing import Any

from dechbo.errors import ExecutionError, OptionError, WorkerDied
from dechbo.execution import child
from dechbo.execution.executor import Evaluate, Executor, Task
from dechbo.execution.outcome import Outcome

THREAD_VARIABLES = (
    "OMP_NUM_THREADS",
    "OPENBLAS_NUM_THREADS",
    "MKL_NUM_THREADS",
    "BLIS_NUM_THREADS",
    "VECLIB_MAXIMUM_THREADS",
    "NUMBA_NUM_THREADS",
)
DEATH_CHECK_SECONDS = 0.2  # between two checks for workers that died without closing their connection
MAX_READ_SECONDS = 0.2  # how long the messages of one worker are read before the next worker's
STOP_SECONDS = 2.0  # for idle workers to end by themselves at a close
TIMEOUT_GRACE = 5.0  # seconds more for an objective that enforces its time limit itself, to say how it ended


def usable_cores() -> int:
    """How many cores this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


@dataclass(eq=False)
class _WorkerProcess:
    """A child process, as its parent sees it, and its task."""

    process: subprocess.Popen[bytes]
    connection: Connection
    task: Task | None = None
    ready: bool = False  # has loaded the objective
    started: float | None = None  # when the evaluation began

    def kill(self) -> None:
        """End the process and what it started."""
        self.connection.close()
        child.kill_session(self.process.pid)
        self.process.wait()


class ProcessExecutor(Executor):
    """Evaluates in up to ``workers`` child processes, which start when needed and evaluate one task after the other.

    A child that dies is a failed evaluation, and another takes its place. All end with this process, however it ends.
    ``close`` lets idle children run their exit handlers.

    Parameters
    ----------
    objective
        Called with a dict of parameters. Optional attributes: ``load()``, called once in each child, whose error
        ``wait`` raises; ``timeout`` in seconds and ``enforces_timeout`` (True if it ends itself in time); ``retries``;
        ``folder``, where the children run; ``log``, the file that their output goes to instead of this process's own.
    workers
        How many children.
    environment
        Variables for the children on top of this process's own. Unless some variable says otherwise, the children
        share the cores: each may use cores / workers threads.
    """

    def __init__(
        self,
        objective: Evaluate | None,
        workers: int = 1,
        *,
        environment: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(objective, workers, "workers")
        if child.importing_script:
            raise OptionError(
                "a worker process imports the script that its objective is defined in, and the script starts workers "
                'again: put what it runs under if __name__ == "__main__":'
            )
        if not hasattr(os, "setsid"):
            raise OptionError("worker processes need Linux or macOS: use one worker, or threads instead of processes")
        threads = dict.fromkeys(THREAD_VARIABLES, str(max(1, usable_cores() // workers)))
        self._environment = {**threads, **os.environ, **(environment or {})}
        self._pickled = child.pickled(objective)
        self._folder: Path | None = getattr(objective, "folder", None)
        self._log: Path | None = getattr(objective, "log", None)
        self._progress: list[tuple[int, Any]] = []
        self._grace = TIMEOUT_GRACE if getattr(objective, "enforces_timeout", False) else 0.0
        self._workers: list[_WorkerProcess] = []

    def progress(self) -> list[tuple[int, Any]]:
        """What ``wait`` has read of the tasks' progress since the last call: their numbers, and what they sent."""
        progress, self._progress = self._progress, []
        return progress

    def _start(self, task: Task) -> None:
        worker = next((worker for worker in self._workers if worker.task is None), None)
        if worker is None:
            worker = _WorkerProcess(*child.start(self._pickled, self._environment, self._folder, self._log))
            self._workers.append(worker)
        worker.task, worker.started = task, None
        with suppress(OSError):  # it died while idle: the next poll finds out
            worker.connection.send((task.number, task.params))

    def _poll(self, timeout: float) -> None:
        if not self._workers:
            time.sleep(timeout)
        wait([worker.connection for worker in self._workers], min(timeout, DEATH_CHECK_SECONDS))
        for worker in list(self._workers):
            dead = worker.process.poll() is not None  # before reading: a last message is not lost
            if not self._read_messages(worker):
                continue
            if dead and not worker.connection.poll():
                self._died(worker)
            elif self._is_overdue(worker):
                self._remove(worker)
                error = f"stopped after {self._timeout:g} s (timeout)"
                self._fail(worker, error, TimeoutError(error))

    def _is_overdue(self, worker: _WorkerProcess) -> bool:
        if self._timeout is None or worker.started is None:
            return False
        return time.monotonic() - worker.started > self._timeout + self._grace

    def _read_messages(self, worker: _WorkerProcess) -> bool:
        """Read what the worker has sent so far; False if it died."""
        deadline = time.monotonic() + MAX_READ_SECONDS  # a task may report progress faster than it is read
        while worker.connection.poll():
            try:
                kind, content = worker.connection.recv()
            except (EOFError, OSError):
                with suppress(subprocess.TimeoutExpired):
                    worker.process.wait(5.0)  # for its exit code
                self._died(worker)
                return False
            self._handle_message(worker, kind, content)
            if time.monotonic() > deadline:
                break
        return True

    def _handle_message(self, worker: _WorkerProcess, kind: str, content: Any) -> None:
        if kind == "broken":
            error = content.exception
            if not isinstance(error, Exception):  # SystemExit would end this process
                error = ExecutionError(f"a worker process cannot start: {type(error).__name__}: {error}")
            raise error from RuntimeError(content.error)
        if kind == "ready":
            worker.ready = True
        elif kind == "started":
            worker.started = time.monotonic()
        elif kind == "progress" and worker.task is not None:
            self._progress.append((worker.task.number, content))
        elif kind == "finished" and worker.task is not None:
            task, worker.task, worker.started = worker.task, None, None
            self._finish(task, content)

    def _died(self, worker: _WorkerProcess) -> None:
        self._remove(worker)
        if worker.task is not None and worker.ready and worker.started is None:  # while idle: nothing was tried
            self._start(worker.task)
            return
        error = f"the process {child.exit_reason(worker.process.returncode)}"
        self._fail(worker, error, WorkerDied(error))

    def _fail(self, worker: _WorkerProcess, error: str, exception: Exception) -> None:
        seconds = 0.0 if worker.started is None else time.monotonic() - worker.started
        if worker.task is not None:
            self._finish(worker.task, Outcome.failure(error, seconds, exception))

    def _remove(self, worker: _WorkerProcess) -> None:
        worker.kill()
        self._workers.remove(worker)

    def _end(self, task: Task) -> None:
        for worker in [worker for worker in self._workers if worker.task is task]:
            self._remove(worker)

    def _release(self) -> None:
        deadline = time.monotonic() + STOP_SECONDS
        try:
            for worker in self._workers:
                with suppress(OSError):  # it is dead already
                    worker.connection.send(child.STOP)
            for worker in self._workers:
                with suppress(subprocess.TimeoutExpired):
                    worker.process.wait(max(0.0, deadline - time.monotonic()))
        finally:
            for worker in list(self._workers):
                self._remove(worker)
