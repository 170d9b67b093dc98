"""RayWorkers: evaluations as tasks on a Ray cluster."""

from __future__ import annotations

import inspect
import logging
import os
import socket
import threading
import time
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import ModuleType
from typing import Any

from dechbo.errors import OptionError, StudyError

NOT_SENT = ("*.db", "*.db-wal", "*.db-shm", "*.lock", "*.log", ".git", "__pycache__", ".venv")
GRACE = 5.0  # seconds: a command keeps its own time limit, and is given a moment more to tell how it ended


@dataclass(frozen=True)
class Lost:
    """The outcome of an evaluation whose process or machine died; it reads like any other."""

    error: str
    seconds: float
    value: None = None
    constraints: dict[str, float] = field(default_factory=dict)
    failed: bool = True


@dataclass(frozen=True)
class _Task:
    number: int
    params: dict[str, Any]
    began: float
    tries: int = 1


class RayWorkers:
    """Evaluates on a Ray cluster, one task per evaluation.

    Parameters
    ----------
    objective
        Called with a dict of parameters, in the cluster's processes, for an outcome: anything with ``value``,
        ``constraints``, ``error`` and ``seconds``. What it needs has to be installed there, dechbo too. Its ``folder``,
        if it has one, is sent along unless the cluster starts here; its ``timeout`` and ``retries`` are kept.
    address
        "auto" for the cluster that runs here, "host:port" or "ray://host:10001"; None or "local" starts one on this
        machine, which ends with ``close``.
    capacity
        How many evaluations side by side; as many as the cluster has CPUs for.
    cpus, gpus
        What one evaluation takes.
    failure
        Makes the outcome of an evaluation that was lost out of a text and the seconds it took.
    """

    def __init__(
        self,
        objective: Callable[[Mapping[str, Any]], Any],
        address: str | None = None,
        *,
        capacity: int | None = None,
        cpus: float = 1,
        gpus: float = 0,
        failure: Callable[[str, float], Any] = Lost,
    ) -> None:
        if not callable(objective):
            raise OptionError(f"expected an objective to call with parameters, got {objective!r:.80}")
        if capacity is not None and (isinstance(capacity, bool) or not isinstance(capacity, int) or capacity < 1):
            raise OptionError(f"capacity is a whole number at least 1, got {capacity!r}")
        self._ray = _import_ray()
        self._failure = failure
        self._timeout: float | None = getattr(objective, "timeout", None)
        self._retries: int = getattr(objective, "retries", 0)
        self._running: dict[Any, _Task] = {}
        self._again: deque[_Task] = deque()
        self._ours = not self._ray.is_initialized()
        if self._ours:
            _connect(self._ray, address, getattr(objective, "folder", None))
        room = self._ray.cluster_resources().get("CPU", 1.0)
        self.capacity = max(1, int(room // cpus) if cpus > 0 else 1) if capacity is None else capacity
        self._objective = self._ray.put(objective)
        # a crash is the evaluation's own failure: Ray's tacit second try would hide it
        self._evaluate = self._ray.remote(num_cpus=cpus, num_gpus=gpus, max_retries=0)(_evaluate)

    def submit(self, number: int, params: dict[str, Any]) -> None:
        """Start the evaluation of trial ``number``."""
        if len(self._running) >= self.capacity:
            raise OptionError(f"all {self.capacity} workers are busy: wait for one first")
        self._start(_Task(number, dict(params), time.monotonic()))

    def wait(self, timeout: float) -> list[tuple[int, Any]]:
        """The evaluations that finished, within ``timeout`` seconds; maybe none."""
        deadline = time.monotonic() + timeout
        while True:
            remaining = max(0.0, deadline - time.monotonic())
            if not self._running:
                time.sleep(remaining)
                return []
            self._ray.wait(list(self._running), timeout=remaining)
            ready, _ = self._ray.wait(list(self._running), num_returns=len(self._running), timeout=0)
            done = [(task.number, outcome) for task, outcome in map(self._collect, ready) if outcome is not None]
            if done or not ready:
                return done

    def close(self, *, kill: bool = False) -> None:
        """Let go of the cluster, and end it if it was started here; without ``kill`` evaluations may finish first."""
        if not self._ray.is_initialized():
            return
        while self._running and not kill:
            self.wait(1.0)
        for reference in self._running:
            self._ray.cancel(reference, force=True)
        self._running.clear()
        if self._ours:
            self._ray.shutdown()

    def __enter__(self) -> RayWorkers:
        return self

    def __exit__(self, *_: object) -> None:
        self.close(kill=True)

    def _start(self, task: _Task) -> None:
        reference = self._evaluate.remote(self._objective, task.params, task.number, self._timeout)
        self._running[reference] = task

    def _collect(self, reference: Any) -> tuple[_Task, Any]:
        """The outcome of a task that ended; None where it is tried again."""
        task = self._running.pop(reference)
        seconds = time.monotonic() - task.began
        try:
            outcome = self._ray.get(reference)
        except self._ray.exceptions.RayTaskError as error:  # raised by the objective, or by loading it
            outcome = self._failure(str(error), seconds)
        except self._ray.exceptions.RayError as error:
            overdue = self._timeout is not None and seconds > self._timeout
            why = f"stopped after {self._timeout:g} s (timeout)" if overdue else f"the evaluation was lost: {error}"
            outcome = self._failure(why, seconds)
        if outcome.value is None and task.tries <= self._retries:
            self._start(replace(task, tries=task.tries + 1, began=time.monotonic()))
            return task, None
        return task, outcome


def _evaluate(objective: Any, params: dict[str, Any], number: int, timeout: float | None) -> Any:
    """Evaluate, in a process of the cluster; whoever takes too long takes the process along."""
    folder = getattr(objective, "folder", None)
    if folder is not None and not Path(folder).is_dir():
        objective = replace(objective, folder=Path.cwd())  # another machine: what was sent lies here
    once = getattr(objective, "once", objective)  # the workers try again, not the objective
    watch = threading.Timer(GRACE + (timeout or 0.0), os._exit, [1])
    watch.daemon = True
    if timeout is not None:
        watch.start()
    try:
        return once(params, number) if len(inspect.signature(once).parameters) > 1 else once(params)
    finally:
        watch.cancel()


def _import_ray() -> ModuleType:
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    os.environ.setdefault("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")  # Ray warns unless somebody decides
    try:
        import ray
        import ray.exceptions
    except ModuleNotFoundError as missing:
        raise StudyError("evaluations on a Ray cluster need Ray: pip install 'dechbo[ray]'") from missing
    module: ModuleType = ray
    return module


def _connect(ray: ModuleType, address: str | None, folder: Path | None) -> None:
    if address is not None and (not isinstance(address, str) or not address):
        raise OptionError(f'address is "auto", "local", "host:port" or "ray://host:port", got {address!r}')
    options: dict[str, Any] = {"log_to_driver": False, "logging_level": logging.ERROR}
    here = address in (None, "local")
    if here:
        options["include_dashboard"] = False
    elif folder is not None:
        options["runtime_env"] = {"working_dir": str(folder), "excludes": list(NOT_SENT)}
    try:
        if address is not None and ":" in address:  # Ray itself would try for minutes
            host, _, port = address.removeprefix("ray://").rpartition(":")
            socket.create_connection((host, int(port)), timeout=10).close()
        ray.init("local" if here else address, **options)
    except (OSError, ValueError, RuntimeError) as error:
        raise StudyError(f"no Ray cluster answers at {address!r} ({error}): start one with ray start --head") from error
