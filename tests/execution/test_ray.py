"""Evaluations on a real Ray cluster."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import CancelledError
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from dechbo.errors import ExecutionError, OptionError, WorkerDied
from dechbo.execution import Outcome, RayExecutor
from dechbo.studies import PythonObjective
from process_cases import gone

JOB = """
import os, signal, time
from pathlib import Path
from typing import Any

def run(x, act="none", beside=None):
    if beside is not None:
        here = Path(beside)
        (here / f"{os.getpid()}-{x}").touch()
        deadline = time.time() + 60
        while len(list(here.iterdir())) < 2 and time.time() < deadline:
            time.sleep(0.02)
        return len(list(here.iterdir()))
    if act == "raise":
        raise ValueError("a bad value")
    if act == "crash":
        os.kill(os.getpid(), signal.SIGKILL)
    if act == "hang":
        time.sleep(600)
    if act == "where":
        return {"value": os.getpid(), "constraints": {"c": -1.0}}
    return x * x
"""


Job = Callable[..., PythonObjective]


@pytest.fixture
def job(tmp_path: Path) -> Job:
    (tmp_path / "ray_job.py").write_text(JOB)

    def objective(**options: Any) -> PythonObjective:
        return PythonObjective(tmp_path, target="ray_job:run", **options)

    return objective


def collected(executor: RayExecutor, count: int, seconds: float = 90.0) -> dict[int, Outcome]:
    """``count`` outcomes by number, or as many as came."""
    found: dict[int, Outcome] = {}
    deadline = time.monotonic() + seconds
    while len(found) < count and time.monotonic() < deadline:
        found.update(executor.wait(1.0))
    return found


@contextmanager
def ray_cluster(nodes: int) -> Iterator[tuple[Any, list[Any]]]:
    """A cluster of several nodes on this machine."""
    pytest.importorskip("ray")
    os.environ["RAY_USAGE_STATS_ENABLED"] = "0"
    from ray.cluster_utils import Cluster

    cluster: Any = Cluster(initialize_head=True, head_node_args={"num_cpus": 0, "include_dashboard": False})
    try:
        added = [cluster.add_node(num_cpus=1) for _ in range(nodes)]
        yield cluster, added
    finally:
        cluster.shutdown()


@pytest.mark.system
def test_a_local_cluster_evaluates_in_other_processes_and_survives_crashes(job: Job, tmp_path: Path) -> None:
    ray = pytest.importorskip("ray")
    beside = tmp_path / "beside"
    beside.mkdir()
    with RayExecutor(job(), capacity=2) as executor:
        executor.submit(0, {"x": 3.0})
        executor.submit(1, {"x": 1, "act": "raise"})
        with pytest.raises(OptionError, match="busy"):
            executor.submit(9, {"x": 1})
        found = collected(executor, 2)
        assert (found[0].value, found[0].error, found[0].failed) == (9.0, None, False)
        assert found[1].failed
        assert "ValueError: a bad value" in str(found[1].error)

        executor.submit(2, {"x": 1, "act": "crash"})
        executor.submit(3, {"x": 1, "act": "where"})
        found = collected(executor, 2)
        assert isinstance(found[2].exception, WorkerDied)
        assert found[2].value is None
        assert found[2].failed
        assert "lost" in str(found[2].error)
        assert found[3].value != os.getpid()
        assert found[3].constraints == {"c": -1.0}

        for number in (4, 5):  # each waits for the other: they run side by side
            executor.submit(number, {"x": number, "beside": str(beside)})
        assert [outcome.value for outcome in collected(executor, 2).values()] == [2.0, 2.0]
        assert executor.wait(0.01) == []
    assert not ray.is_initialized()


@pytest.mark.system
def test_time_limit_retries_and_closing_with_running_evaluations(job: Job, monkeypatch: pytest.MonkeyPatch) -> None:
    ray = pytest.importorskip("ray")
    monkeypatch.setenv("RAY_USAGE_STATS_ENABLED", "0")
    ray.init("local", num_cpus=2, log_to_driver=False, include_dashboard=False)
    try:
        limited = RayExecutor(job(timeout=0.5))
        assert limited.capacity == 2
        limited.submit(0, {"x": 1, "act": "hang"})
        outcome = collected(limited, 1)[0]
        assert outcome.error == "stopped after 0.5 s (timeout)"
        assert outcome.seconds >= 0.5
        limited.close()
        assert ray.is_initialized()  # it was there before

        tried = RayExecutor(job(retries=1))
        tried.submit(1, {"x": 1, "act": "crash"})
        assert str(collected(tried, 1)[1].error).startswith("the evaluation was lost")
        tried.submit(2, {"x": 1, "act": "hang"})
        tried.submit(3, {"x": 2})
        assert collected(tried, 1)[3].value == 4.0
        tried.cancel(2)
        assert isinstance(collected(tried, 1)[2].exception, CancelledError)
        tried.submit(2, {"x": 1, "act": "hang"})
        tried.close(kill=True)
        assert ray.is_initialized()

        waited = RayExecutor(lambda params: params["x"], cpus=2)
        assert waited.capacity == 1
        waited.submit(4, {"x": 5})
        assert collected(waited, 1)[4].value == 5.0
        waited.submit(5, {"x": 5})
        waited.close()
        assert waited.wait(0) == []
    finally:
        ray.shutdown()


@pytest.mark.system
def test_a_running_cluster_gets_the_folder_and_may_lose_a_node(job: Job, tmp_path: Path) -> None:
    ray = pytest.importorskip("ray")
    with ray_cluster(2) as (cluster, nodes):
        with RayExecutor(job(), cluster.address) as executor:
            assert executor.capacity == 2
            sent = tmp_path.rename(tmp_path.with_name("moved"))  # as on a machine that has no such folder
            executor.submit(0, {"x": 2})
            assert collected(executor, 1)[0].value == 4.0
            sent.rename(tmp_path)
            executor.submit(1, {"x": 1, "act": "hang"})
            executor.submit(2, {"x": 1, "act": "hang"})
            assert executor.wait(2.0) == []
            cluster.remove_node(nodes[0], allow_graceful=False)
            (lost,) = collected(executor, 1).values()
            assert lost.failed
            assert "lost" in str(lost.error)
        assert not ray.is_initialized()
        assert len(cluster.list_all_nodes()) == 2  # the head and the other one: they are not ours


@pytest.mark.system
@pytest.mark.parametrize("address", ["127.0.0.1:1", "ray://127.0.0.1:1", "nowhere:port", "auto"])
def test_no_cluster_there(job: Job, address: str, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("ray")
    monkeypatch.delenv("RAY_ADDRESS", raising=False)
    with pytest.raises(ExecutionError, match=f"no Ray cluster answers at '{address}'"):
        RayExecutor(job(), address)


@pytest.mark.system
def test_an_address_is_a_text(job: Job) -> None:
    pytest.importorskip("ray")
    with pytest.raises(OptionError, match="address"):
        RayExecutor(job(), 6379)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"objective": None}, "objective"),
        ({"capacity": 0}, "capacity"),
        ({"capacity": 1.5}, "capacity"),
        ({"capacity": True}, "capacity"),
    ],
)
def test_bad_arguments_are_refused(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(OptionError, match=message):
        RayExecutor(**{"objective": abs, **arguments})


def test_ray_is_named_where_it_is_missing() -> None:
    code = textwrap.dedent(
        """
        import sys
        class Absent:
            def find_spec(self, name, *_):
                if name.split(".")[0] == "ray":
                    raise ModuleNotFoundError(name)
        sys.meta_path.insert(0, Absent())
        from dechbo.execution import RayExecutor
        try:
            RayExecutor(abs)
        except Exception as error:
            print(type(error).__name__, error)
        """
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.startswith("ExecutionError")
    assert "dechbo[ray]" in done.stdout


def test_the_folder_of_another_machine_is_the_one_that_was_sent(
    job: Job, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from dechbo.execution.ray import _evaluate

    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("DECHBO_TRIAL", raising=False)
    monkeypatch.delenv("DECHBO_PARAMS", raising=False)
    job()
    monkeypatch.syspath_prepend(str(tmp_path))
    elsewhere = PythonObjective(Path("/no/such/folder"), target="ray_job:run")
    assert _evaluate(elsewhere, {"x": 3}, 0).value == 9.0
    limited = PythonObjective(tmp_path, target="ray_job:run", timeout=60.0)
    assert _evaluate(limited, {"x": 3}, 0).value == 9.0
    assert _evaluate(lambda params: params["x"], {"x": 3}, 0).value == 3


WITH_CHILDREN = """
import subprocess, sys
from dechbo.execution.ray import _evaluate

class Objective:
    timeout = 0.1

    def load(self):  # without time limit, so that both processes are there when the time is over
        tree = "import subprocess; p = subprocess.Popen(['sleep', '600']); print(p.pid, flush=True); p.wait()"
        self.child = subprocess.Popen([sys.executable, "-c", tree], stdout=subprocess.PIPE, text=True)
        print(self.child.pid, self.child.stdout.readline(), flush=True)

    def __call__(self, params):
        self.child.wait()

_evaluate(Objective(), {}, 0)
"""


def test_what_an_evaluation_has_started_ends_with_its_time() -> None:
    done = subprocess.run([sys.executable, "-c", WITH_CHILDREN], capture_output=True, text=True, timeout=60)
    assert done.returncode == 1, done.stderr
    pids = [int(line) for line in done.stdout.split()]
    assert len(pids) == 2
    assert all(map(gone, pids))


def test_no_timer_without_a_time_limit() -> None:
    from dechbo.execution.ray import _evaluate

    before = set(threading.enumerate())
    assert _evaluate(lambda params: len(set(threading.enumerate()) - before), {}, 0).value == 0


class FakeRay:
    """A cluster whose tasks never finish."""

    initialized = True

    def is_initialized(self) -> bool:
        return self.initialized

    def put(self, objective: object) -> object:
        return objective

    def remote(self, **_: object) -> Callable[..., Any]:
        assert self.initialized
        return lambda function: SimpleNamespace(remote=lambda *arguments: object())

    def wait(self, references: list[object], **_: object) -> tuple[list[object], list[object]]:
        assert self.initialized, "would start another cluster"
        return [], references


def test_closing_after_ray_was_shut_down(job: Job, monkeypatch: pytest.MonkeyPatch) -> None:
    fake = FakeRay()
    monkeypatch.setattr("dechbo.execution.ray.import_ray", lambda what: fake)
    executor = RayExecutor(job(retries=3), capacity=2)
    executor.submit(0, {"x": 1})
    assert executor.wait(0.0) == []
    fake.initialized = False
    ((number, outcome),) = executor.wait(0.0)
    assert number == 0
    assert isinstance(outcome.exception, WorkerDied)
    assert "Ray was shut down" in str(outcome.error)
    fake.initialized = True
    executor.submit(1, {"x": 1})
    fake.initialized = False
    executor.close()
