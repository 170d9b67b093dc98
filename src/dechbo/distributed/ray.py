"""RayEngine: parts as actors on a Ray cluster, each on a machine that has a processor to spare.

An actor builds the tables of its part and sends messages straight to the actors it shares variables with. If one dies,
the others are told to give the ask up; a new actor takes its place, on any machine, and the ask is run again from the
same data, with the same answer.
"""

from __future__ import annotations

import math
import threading
from collections.abc import Sequence
from contextlib import suppress
from typing import Any

from dechbo.distributed.engine import PartsEngine
from dechbo.distributed.exchange import Assignment, Payload, drive
from dechbo.distributed.processes import MAX_ATTEMPTS, added
from dechbo.distributed.synchronous import SynchronousMaxSum
from dechbo.errors import ExecutionError, OptionError
from dechbo.execution.ray import connect, import_ray
from dechbo.threads import one_blas_thread

START_SECONDS = 120.0  # for all actors to find a processor


class RayEngine(PartsEngine):
    """Tables and max-sum in parts of the factor graph, each an actor on a Ray cluster.

    Parameters
    ----------
    address
        "auto" for the cluster that runs here, "host:port" or "ray://host:10001"; None or "local" starts one on this
        machine, which ends with ``close``. dechbo has to be installed on every machine.
    parts
        Into how many parts the graph is cut; by default as many as the cluster has processors.
    cpus
        What one part takes.
    """

    def __init__(
        self,
        address: str | None = None,
        *,
        parts: int | None = None,
        cpus: float = 1,
        maximizer: SynchronousMaxSum | None = None,
    ) -> None:
        super().__init__(RayTransport(address, cpus=cpus), parts=parts, maximizer=maximizer)


class RayTransport:
    """Runs each part in an actor; connection and actors start with the first ask and end with ``close``.

    ``traffic`` holds the number and the bytes of the arrays that the last ask sent, by kind.
    """

    def __init__(self, address: str | None = None, *, cpus: float = 1) -> None:
        if not (address is None or isinstance(address, str)):
            raise OptionError(f"address must be None or text such as 'auto' or 'ray://host:10001', got {address!r}")
        if isinstance(cpus, bool) or not isinstance(cpus, (int, float)) or not 0 < cpus < math.inf:
            raise OptionError(f"cpus must be a number above 0, got {cpus!r}")
        self._ray = import_ray("parts")
        self._arguments = address, cpus
        self._owns_cluster = self._closed = False
        self.traffic: dict[str, tuple[int, int]] = {}
        self.actors: list[Any] = []
        self._runs = 0

    @property
    def capacity(self) -> int:
        """How many parts the cluster has processors for."""
        self._connect()
        return max(1, int(self._ray.cluster_resources().get("CPU", 1.0) // self._arguments[1]))

    def _connect(self) -> None:
        if self._closed:
            raise ExecutionError("this transport is closed: make a new engine")
        if not self._ray.is_initialized():
            connect(self._ray, self._arguments[0])
            self._owns_cluster, self.actors = True, []

    def _new_actor(self) -> Any:
        # messages are delivered while ``run`` waits for them
        options = {"num_cpus": self._arguments[1], "max_restarts": 0, "max_concurrency": 8}
        return self._ray.remote(**options)(PartActor).remote()

    def __reduce__(self) -> tuple[Any, ...]:
        return _transport, self._arguments  # another process starts actors of its own

    def run(self, tasks: Sequence[Assignment]) -> list[Any]:
        """Run the program of every task; again if an actor died meanwhile."""
        self._connect()
        sent = [self._ray.put(task) for task in tasks]
        for _ in range(MAX_ATTEMPTS):
            answers = self._attempt(sent)
            if all(answer is not None for answer in answers):
                self.traffic = added(answer[1] for answer in answers if answer is not None)
                return [answer[0] for answer in answers if answer is not None]
        raise ExecutionError(f"actors of parts died in each of {MAX_ATTEMPTS} attempts: see the logs of Ray")

    def close(self) -> None:
        """End the actors, and the cluster if it was started here."""
        if self._ray.is_initialized():
            for actor in self.actors:
                self._ray.kill(actor)
            if self._owns_cluster:
                self._ray.shutdown()
        self.actors, self._closed = [], True

    def _wait_for_room(self, actors: Sequence[Any]) -> None:
        """Ray lets actors without a processor wait for ever."""
        calls = [actor.ready.remote() for actor in actors]
        ready, _ = self._ray.wait(calls, num_returns=len(calls), timeout=START_SECONDS)
        if len(ready) < len(calls):
            raise ExecutionError(
                f"{len(calls)} parts of {self._arguments[1]:g} processors each found no room on the Ray cluster within "
                f"{START_SECONDS:g} s: lower parts or cpus, or add machines"
            )

    def _attempt(self, tasks: Sequence[Any]) -> list[tuple[Any, dict[str, tuple[int, int]]] | None]:
        """The answer of every part; None for one that died or gave up."""
        while len(self.actors) < len(tasks):
            self.actors.append(self._new_actor())
        self._wait_for_room(self.actors[: len(tasks)])
        self._runs += 1
        actors = self.actors[: len(tasks)]
        running = {
            actor.run.remote(self._runs, part, task, actors): part
            for part, (actor, task) in enumerate(zip(actors, tasks, strict=True))
        }
        answers: list[tuple[Any, dict[str, tuple[int, int]]] | None] = [None] * len(tasks)
        while running:
            ready, _ = self._ray.wait(list(running))
            part = running.pop(ready[0])
            try:
                answers[part] = self._ray.get(ready[0])
            except self._ray.exceptions.RayTaskError as error:
                self._end_run(actors)
                raise error.as_instanceof_cause() from None
            except self._ray.exceptions.RayError:  # the actor or its machine is gone
                while len(self.actors) > len(tasks):  # those that are not needed make room
                    self._ray.kill(self.actors.pop())
                self.actors[part] = self._new_actor()
                self._end_run(actors)
        return answers

    def _end_run(self, actors: Sequence[Any]) -> None:
        """Others may wait for messages that will never be sent."""
        for actor in actors:
            actor.give_up.remote(self._runs)


def _transport(address: str | None, cpus: float) -> RayTransport:
    return RayTransport(address, cpus=cpus)


class PartActor:
    """One part; Ray makes it an actor. Messages carry the run and their number: actors run calls in any order."""

    def __init__(self) -> None:
        self._mail: dict[tuple[int, int, int], Payload] = {}  # by run, sender and number
        self._given_up = 0  # runs up to this one are over
        self._arrived = threading.Condition()

    def ready(self) -> None:
        """Return as soon as the actor has a processor."""

    def deliver(self, run: int, sender: int, number: int, payload: Payload) -> None:
        """Take a message in."""
        with self._arrived:
            self._mail[run, sender, number] = payload
            self._arrived.notify_all()

    def give_up(self, run: int) -> None:
        """Another part died: end ``run``."""
        with self._arrived:
            self._given_up = max(self._given_up, run)
            self._arrived.notify_all()

    @one_blas_thread
    def run(
        self, run: int, part: int, task: Assignment, actors: Sequence[Any]
    ) -> tuple[Any, dict[str, tuple[int, int]]] | None:
        """The result of the part's program and what it has sent; None if another part died."""
        sent: dict[int, int] = {}
        received: dict[int, int] = {}
        account: dict[str, tuple[int, int]] = {}

        def post(receiver: int, payload: Payload) -> None:
            number = sent[receiver] = sent.get(receiver, 0) + 1
            actors[receiver].deliver.remote(run, part, number, payload)

        def fetch(sender: int) -> Payload:
            number = received[sender] = received.get(sender, 0) + 1
            with self._arrived:
                self._arrived.wait_for(lambda: (run, sender, number) in self._mail or self._given_up >= run)
                if self._given_up >= run:
                    raise InterruptedError
                return self._mail.pop((run, sender, number))

        with self._arrived:  # what a run that was given up has left
            self._mail = {key: payload for key, payload in self._mail.items() if key[0] >= run}
        with suppress(InterruptedError):
            return drive(task.program(), post, fetch, account), account
        return None
