"""Executor, the abstract class of all executors, and the one that evaluates in this process."""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import Callable
from concurrent.futures import CancelledError
from dataclasses import dataclass
from typing import Any, Self

from dechbo.errors import OptionError
from dechbo.execution.outcome import Outcome, evaluate

Params = dict[str, Any]
Evaluate = Callable[[Params], Any]  # returns a number, {"value": …, "constraints": …} or an Outcome


@dataclass
class Task:
    """One evaluation, at its first try or a later one."""

    number: int
    params: Params
    tries: int = 0


class Executor(ABC):
    """Evaluates tasks, up to ``capacity`` at a time; leaving its ``with`` block kills those that run.

    ``timeout`` (seconds per try) and ``retries`` are attributes of the objective, both optional. This is an abstract
    class: a subclass starts and ends tasks and passes their outcomes to ``_finish``.
    """

    def __init__(self, objective: Evaluate | None, capacity: int, name: str = "capacity") -> None:
        from dechbo.checks import whole  # imports NumPy, which child processes do without

        if objective is None or not callable(objective):
            raise OptionError(f"no objective to run: expected a function of the parameters, got {objective!r:.80}")
        self.capacity = whole(name, capacity, 1)
        self._objective = objective
        self._timeout: float | None = getattr(objective, "timeout", None)
        self._retries: int = getattr(objective, "retries", 0)
        self._running: dict[int, Task] = {}
        self._finished: list[tuple[int, Outcome]] = []

    def submit(self, number: int, params: Params) -> None:
        """Start the evaluation of ``params`` as task ``number``; no running task may have that number."""
        if number in self._running:
            raise OptionError(f"task {number} is running already: wait for it, or choose another number")
        if len(self._running) >= self.capacity:
            raise OptionError(f"all {self.capacity} workers are busy: wait for one first")
        self._running[number] = Task(number, dict(params), tries=1)
        self._start(self._running[number])

    def wait(self, timeout: float) -> list[tuple[int, Outcome]]:
        """The tasks that finish within ``timeout`` seconds; returns at the first one, or an empty list."""
        deadline = time.monotonic() + timeout
        while not self._finished:
            self._poll(max(0.0, deadline - time.monotonic()))
            if time.monotonic() >= deadline:
                break
        finished, self._finished = self._finished, []
        return finished

    def cancel(self, number: int) -> None:
        """End a running task, which ``wait`` reports as failed; do nothing if no such task is running."""
        task = self._running.get(number)
        if task is not None:
            self._end(task)
            self._report(task, Outcome.failure("cancelled", exception=CancelledError("cancelled")))

    def close(self, *, kill: bool = False) -> None:
        """Release all workers; with ``kill`` running tasks end, without it they finish first and are dropped."""
        while self._running and not kill:
            self.wait(1.0)
        for task in self._running.values():
            self._end(task)
        self._running.clear()
        self._release()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close(kill=True)

    def _finish(self, task: Task, outcome: Outcome) -> None:
        if outcome.failed and task.tries <= self._retries:
            task.tries += 1
            self._start(task)
        else:
            self._report(task, outcome)

    def _report(self, task: Task, outcome: Outcome) -> None:
        """Return the outcome from ``wait``, without another try."""
        del self._running[task.number]
        self._finished.append((task.number, outcome))

    @abstractmethod
    def _start(self, task: Task) -> None:
        """Give the task to a worker."""

    @abstractmethod
    def _poll(self, timeout: float) -> None:
        """Wait up to ``timeout`` seconds, and pass each outcome to ``_finish``."""

    @abstractmethod
    def _end(self, task: Task) -> None:
        """Stop the worker that evaluates the task."""

    @abstractmethod
    def _release(self) -> None:
        """Release the workers; no task is running."""


class InlineExecutor(Executor):
    """Evaluates in this process, one task per ``wait`` (none if its timeout is 0). A time limit is not enforced."""

    def __init__(self, objective: Evaluate | None, capacity: int = 1) -> None:
        super().__init__(objective, capacity)
        self._queue: list[Task] = []

    def _start(self, task: Task) -> None:
        self._queue.append(task)

    def _poll(self, timeout: float) -> None:
        if not self._queue:
            time.sleep(timeout)
        elif timeout > 0:
            task = self._queue.pop(0)
            outcome = evaluate(self._objective, task.params)
            if outcome.exception is not None and not isinstance(outcome.exception, Exception):
                raise outcome.exception  # Ctrl-C or SystemExit: meant for this process, not for the objective
            self._finish(task, outcome)

    def _end(self, task: Task) -> None:
        self._queue = [other for other in self._queue if other is not task]

    def _release(self) -> None: ...
