"""RayExecutor: evaluations as tasks on a Ray cluster."""

from __future__ import annotations

import logging
import os
import socket
import threading
import time
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from types import ModuleType
from typing import Any

import psutil

from dechbo.errors import ExecutionError, OptionError, WorkerDied
from dechbo.execution.executor import Evaluate, Executor, Params, Task
from dechbo.execution.outcome import Outcome, evaluate
from dechbo.execution.process import TIMEOUT_GRACE

NOT_SENT = ("*.db", "*.db-wal", "*.db-shm", "*.lock", "*.log", ".git", "__pycache__", ".venv")


class RayExecutor(Executor):
    """Evaluates on a Ray cluster, one Ray task per evaluation.

    Parameters
    ----------
    objective
        Called with a dict of parameters in the cluster's processes, where dechbo and all that it needs are installed.
        Optional attributes: ``timeout``, ``enforces_timeout`` and ``retries`` as for ``ProcessExecutor``; ``folder``,
        whose files are sent to the cluster unless it starts here.
    address
        "auto" for the cluster that runs here, "host:port" or "ray://host:10001"; None or "local" starts one on this
        machine, which ends with ``close``.
    capacity
        How many evaluations at a time; by default as many as the cluster has CPUs for.
    cpus, gpus
        What one evaluation takes.
    """

    def __init__(
        self,
        objective: Evaluate | None,
        address: str | None = None,
        *,
        capacity: int | None = None,
        cpus: float = 1,
        gpus: float = 0,
    ) -> None:
        super().__init__(objective, 1 if capacity is None else capacity)
        self._ray = import_ray("evaluations")
        self._owns_cluster = not self._ray.is_initialized()
        if self._owns_cluster:
            connect(self._ray, address, getattr(objective, "folder", None))
        if capacity is None and cpus > 0:
            self.capacity = max(1, int(self._ray.cluster_resources().get("CPU", 1.0) // cpus))
        self._references: dict[Any, tuple[Task, float]] = {}  # Ray's reference: the task, and when it was sent
        self._sent_objective = self._ray.put(objective)
        # a crash is a failed evaluation: Ray must not hide it by trying again
        self._remote = self._ray.remote(num_cpus=cpus, num_gpus=gpus, max_retries=0)(_evaluate)

    def _start(self, task: Task) -> None:
        reference = self._remote.remote(self._sent_objective, task.params, task.number)
        self._references[reference] = task, time.monotonic()

    def _poll(self, timeout: float) -> None:
        if not self._references:
            time.sleep(timeout)
            return
        if not self._ray.is_initialized():  # Ray itself would start another cluster to wait on
            self._report_lost()
            return
        self._ray.wait(list(self._references), timeout=timeout)
        ready, _ = self._ray.wait(list(self._references), num_returns=len(self._references), timeout=0)
        for reference in ready:
            task, sent = self._references.pop(reference)
            self._finish(task, self._outcome(reference, time.monotonic() - sent))

    def _report_lost(self) -> None:
        for task, sent in self._references.values():
            text = "the evaluation was lost: Ray was shut down"
            self._report(task, Outcome.failure(text, time.monotonic() - sent, WorkerDied(text)))
        self._references.clear()

    def _outcome(self, reference: Any, seconds: float) -> Outcome:
        try:
            outcome: Outcome = self._ray.get(reference)
            return outcome
        except self._ray.exceptions.RayTaskError as error:  # the objective cannot be loaded
            return Outcome.failure(str(error), seconds, error)
        except self._ray.exceptions.RayError as error:
            if self._timeout is not None and seconds > self._timeout:
                text = f"stopped after {self._timeout:g} s (timeout)"
                return Outcome.failure(text, seconds, TimeoutError(text))
            text = f"the evaluation was lost: {error}"
            return Outcome.failure(text, seconds, WorkerDied(text))

    def _end(self, task: Task) -> None:
        for reference in [reference for reference, (other, _) in self._references.items() if other is task]:
            del self._references[reference]
            if self._ray.is_initialized():
                self._ray.cancel(reference, force=True)

    def _release(self) -> None:
        if self._owns_cluster and self._ray.is_initialized():
            self._ray.shutdown()


def _evaluate(objective: Any, params: Params, number: int) -> Outcome:
    """Evaluate in a process of the cluster, which ends if the evaluation takes too long."""
    folder = getattr(objective, "folder", None)
    if folder is not None and not Path(folder).is_dir():
        objective = replace(objective, folder=Path.cwd())  # another machine, where Ray puts the files that were sent
    os.environ["DECHBO_TRIAL"] = str(number)
    if hasattr(objective, "load"):
        with suppress(Exception):  # the evaluation reports it
            objective.load()  # does not count towards the time limit
    grace = TIMEOUT_GRACE if getattr(objective, "enforces_timeout", False) else 0.0
    timeout = getattr(objective, "timeout", None)
    if timeout is None:
        return evaluate(objective, params).portable()
    timer = threading.Timer(timeout + grace, _exit_with_children)
    timer.daemon = True
    timer.start()
    try:
        return evaluate(objective, params).portable()
    finally:
        timer.cancel()
        timer.join()  # if the time is over, until this process ends: its children may have ended first


def _exit_with_children() -> None:
    """End this process and what it started."""
    try:
        for process in psutil.Process().children(recursive=True):
            with suppress(psutil.Error):
                process.kill()
    finally:
        os._exit(1)


def import_ray(what: str) -> ModuleType:
    """The module; ``what`` needs it is for the error if it is missing."""
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    os.environ.setdefault("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")  # Ray warns if it is not set
    try:
        import ray
        import ray.exceptions
    except ModuleNotFoundError as missing:
        raise ExecutionError(f"{what} on a Ray cluster need Ray: pip install 'dechbo[ray]'") from missing
    module: ModuleType = ray
    return module


def connect(ray: ModuleType, address: str | None, folder: Path | None = None) -> None:
    """Connect to the cluster at ``address``, or start one here, and send it the files of ``folder``."""
    if address is not None and (not isinstance(address, str) or not address):
        raise OptionError(f'address must be "auto", "local", "host:port" or "ray://host:port", got {address!r}')
    options: dict[str, Any] = {"log_to_driver": False, "logging_level": logging.ERROR}
    starts_here = address in (None, "local")
    if starts_here:
        options["include_dashboard"] = False
    elif folder is not None:
        options["runtime_env"] = {"working_dir": str(folder), "excludes": list(NOT_SENT)}
    try:
        if address is not None and ":" in address:  # Ray itself would try for minutes
            host, _, port = address.removeprefix("ray://").rpartition(":")
            socket.create_connection((host, int(port)), timeout=10).close()
        ray.init("local" if starts_here else address, **options)
    except (OSError, ValueError, RuntimeError) as error:
        raise ExecutionError(
            f"no Ray cluster answers at {address!r} ({error}): start one with ray start --head"
        ) from error
