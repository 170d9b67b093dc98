"""A real Ray cluster on this machine."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from dechbo import Float, Optimizer, RayEngine, Space
from dechbo.data.observations import Observations
from dechbo.distributed.engine import PartsEngine
from dechbo.distributed.ray import PartActor, RayTransport
from dechbo.errors import DataError, ExecutionError, OptionError
from dechbo.gp import AdditiveGP
from distributed_cases import Swap, random_data, random_gp


@pytest.fixture
def engine() -> Iterator[RayEngine]:
    pytest.importorskip("ray")
    with RayEngine(parts=3, cpus=0.3) as engine:
        assert isinstance(engine, RayEngine)
        yield engine


def case() -> tuple[AdditiveGP, Observations, float, list[np.ndarray]]:
    rng = np.random.default_rng(2)
    return random_gp(rng, 60, centred=True), random_data(rng, 60, 80), 1.0, [np.linspace(0, 1, 5)] * 60


@pytest.mark.system
@pytest.mark.filterwarnings("ignore")
def test_actors_suggest_what_one_process_suggests_even_if_they_are_killed(engine: RayEngine) -> None:
    import ray

    one = PartsEngine(parts=1).suggest(*case())
    assert isinstance(engine.transport, RayTransport)
    assert (engine.suggest(*case()).choice == one.choice).all()
    assert len(engine.reports) == 3
    assert set(engine.transport.traffic) >= {"gram", "messages", "beliefs", "dual"}
    for n, delay in enumerate((0.0, 0.1, 0.3, 0.5)):
        victim = engine.transport.actors[n % 3]
        threading.Timer(delay, ray.kill, (victim,)).start()
        answer = engine.suggest(*case())
        assert (answer.choice == one.choice).all()
        assert answer.value == one.value
    smaller = RayEngine("auto", parts=2, cpus=0.3)  # a machine has left: another partition, on the same cluster
    assert (smaller.suggest(*case()).choice == one.choice).all()


@pytest.mark.system
@pytest.mark.filterwarnings("ignore")
def test_an_optimizer_on_ray(engine: RayEngine) -> None:
    space = Space({f"x{i}": Float(0, 1) for i in range(8)})
    points = []
    for chosen in (engine, PartsEngine(parts=1)):
        optimizer = Optimizer.paper(space, engine=chosen, graph="random", seed=1, n_initial=5)
        for _ in range(8):
            point = optimizer.ask()
            optimizer.tell(point, sum((value - 0.3) ** 2 for value in point.values()))
            points.append(point)
    assert points[:8] == points[8:]


def test_an_actor_sorts_what_arrives_in_any_order() -> None:
    from dechbo.distributed.exchange import Exchange, Program

    class Listener:
        def program(self) -> Program[list[float]]:
            heard = []
            for _ in range(3):
                inbox = yield Exchange({}, (1,), "numbers")
                heard.append(float(inbox[1][0]))
            return heard

    actor = PartActor()
    for number in (3, 1, 2):
        actor.deliver(7, 1, number, np.array([float(number)]))
    actor.deliver(6, 1, 1, np.array([99.0]))  # of a run that was given up
    assert actor.run(7, 0, Listener(), []) == ([1.0, 2.0, 3.0], {})
    actor.give_up(8)
    assert actor.run(8, 0, Listener(), []) is None


def test_ray_is_named_where_it_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(ExecutionError, match="pip install"):
        RayEngine(parts=2)


@pytest.mark.parametrize("options", [{"cpus": 0}, {"cpus": -1.0}, {"cpus": True}, {"address": 6379}])
def test_bad_options_are_refused(options: dict[str, Any]) -> None:
    with pytest.raises(OptionError, match=next(iter(options))):
        RayEngine(**options)


@pytest.mark.system
def test_a_closed_engine_starts_no_other_cluster() -> None:
    ray = pytest.importorskip("ray")
    engine = RayEngine(parts=2)
    engine.close()
    engine.close()
    with pytest.raises(ExecutionError, match="closed"):
        engine.suggest(*case())
    assert not ray.is_initialized()


class Actor:
    """Records who was told to give up; ``run`` returns the actor itself as Ray's reference."""

    def __init__(self, told: list[tuple[Any, ...]]) -> None:
        self.told = told

    def __getattr__(self, method: str) -> Any:
        def remote(*arguments: Any) -> Any:
            if method == "give_up":
                self.told.append(arguments)
            return self if method == "run" else object()

        return SimpleNamespace(remote=remote)


class TaskError(Exception):
    def as_instanceof_cause(self) -> Exception:
        return DataError("no such luck")


def fake_ray(get: Callable[[Any], Any], killed: list[Any]) -> SimpleNamespace:
    return SimpleNamespace(
        exceptions=SimpleNamespace(RayTaskError=TaskError, RayError=OSError),
        is_initialized=lambda: True,
        put=lambda task: task,
        get=get,
        kill=killed.append,
        wait=lambda calls, num_returns=1, timeout=None: (calls[:num_returns], calls[num_returns:]),
    )


@pytest.mark.system
def test_an_error_in_one_part_ends_the_others(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("ray")

    def fail(_: object) -> None:
        raise TaskError

    transport, told = RayTransport(), []  # type: ignore[var-annotated]
    monkeypatch.setattr(transport, "_ray", fake_ray(fail, []))
    transport.actors = [Actor(told), Actor(told)]
    with pytest.raises(DataError, match="no such luck"):
        transport.run([Swap(0), Swap(1)])
    assert told == [(1,), (1,)]


@pytest.mark.system
def test_actors_that_are_not_needed_make_room_for_one_that_is_rebuilt(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("ray")
    first, second, surplus, new = (Actor([]) for _ in range(4))
    killed: list[Any] = []

    def get(reference: Any) -> tuple[Any, dict[str, tuple[int, int]]]:
        if reference is first:
            raise OSError
        return "done", {}

    transport = RayTransport()
    monkeypatch.setattr(transport, "_ray", fake_ray(get, killed))
    monkeypatch.setattr(transport, "_new_actor", lambda: new)
    transport.actors = [first, second, surplus]
    assert transport.run([Swap(0), Swap(1)]) == ["done", "done"]
    assert transport.actors == [new, second]
    assert killed == [surplus]
