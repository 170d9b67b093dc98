"""Max-sum without a barrier over a network that loses, delays, doubles and reorders messages: a seeded simulation.

Every part wakes up at moments of its own, takes what has arrived, updates the messages of its factors once (Eq. 3, with
damping) and sends its neighbours what crosses the cut: factors' messages to the owners of variables, beliefs back. A
message that is lost is made up for by the next one. Each carries a number, and an older one than the last is ignored,
so that a neighbour may be stale but never goes back in time. Nobody waits for anybody.

What follows needs agreement between neighbours: scores, decoding, the dual bound and the local search. These run over
the same network with acknowledgements: a message is sent again until its receipt arrives, and a part waits for the
neighbours whose message it needs, for no one else.
"""

from __future__ import annotations

import heapq
import itertools
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from dechbo.distributed.exchange import Exchange, Payload, Program
from dechbo.distributed.maximize import PartMaximum, Schedule, local_factors, maximize_tables
from dechbo.distributed.partition import Partition
from dechbo.distributed.plan import PartPlan, plan_parts
from dechbo.distributed.rounds import LocalFactors, RoundsResult, work_space
from dechbo.distributed.synchronous import joined, local_tables
from dechbo.errors import OptionError
from dechbo.maxsum.maximum import Maximum
from dechbo.maxsum.messages import update_messages
from dechbo.tables import FactorTables

Array = NDArray[np.float64]
Ints = NDArray[np.int64]
T = TypeVar("T")

WAKES_PER_DECODING = 3
RESEND = 4.0  # mean delays after which an unacknowledged message is sent again


@dataclass(frozen=True, kw_only=True)
class Network:
    """How unreliable the network is; the mean time between two wake-ups of a part is 1."""

    loss: float = 0.2
    duplication: float = 0.1
    delay: float = 0.5  # mean of exponential delays: messages overtake each other
    seed: int = 0

    def __post_init__(self) -> None:
        for name in ("loss", "duplication"):
            if not 0 <= getattr(self, name) < 1:
                raise OptionError(f"{name} is a probability below 1, got {getattr(self, name)!r}")
        if not self.delay > 0:
            raise OptionError(f"delay must be positive, got {self.delay!r}")


@dataclass(eq=False)
class Wire:
    """The network in time: a queue of events, and a count of what happened to messages."""

    network: Network
    rng: np.random.Generator = field(init=False)
    now: float = 0.0
    sent: int = 0
    lost: int = 0
    bytes: int = 0
    _events: list[tuple[float, int, Any]] = field(default_factory=list)
    _numbers: itertools.count[int] = field(default_factory=itertools.count)

    def __post_init__(self) -> None:
        self.rng = np.random.default_rng(self.network.seed)

    def later(self, delay: float, event: Any) -> None:
        """Put an event of this process's own, which is not lost."""
        heapq.heappush(self._events, (self.now + delay, next(self._numbers), event))

    def send(self, event: Any, size: int) -> None:
        """Put a message, lost or doubled as it happens, each copy with a delay of its own."""
        self.sent += 1
        self.bytes += size
        if self.rng.random() < self.network.loss:
            self.lost += 1
            return
        for _ in range(2 if self.rng.random() < self.network.duplication else 1):
            self.later(self.rng.exponential(self.network.delay), event)

    def next(self) -> Any:
        """The next event; the clock moves to it."""
        self.now, _, event = heapq.heappop(self._events)
        return event

    def clear(self) -> None:
        """Forget all events to come."""
        self._events.clear()

    def __bool__(self) -> bool:
        return bool(self._events)


@dataclass(eq=False)
class AsynchronousPart:
    """A part between two wake-ups: its messages, what it last heard, and how old that is."""

    local: LocalFactors
    damping: float
    messages: Array = field(init=False)
    belief: Array = field(init=False)
    wakes: int = 0
    heard: dict[tuple[int, str], int] = field(default_factory=dict)
    decoded: list[Ints] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.messages = np.zeros(self.local.layout.edge_starts[-1])
        self.belief = np.zeros(self.local.layout.variable_starts[-1])
        self._own_beliefs()
        self._work = work_space(self.local.packed)

    def wake(self) -> list[tuple[int, str, int, Payload]]:
        """One local round; returns (receiver, kind, number, payload) of what is sent."""
        layout = self.local.layout
        self.wakes += 1
        update_messages(self.local.packed, self.belief, self.messages, self.damping, *self._work)
        self._own_beliefs()
        if self.wakes % WAKES_PER_DECODING == 0:
            self.decoded.append(self.local.decoded(self.belief))
        out: list[tuple[int, str, int, Payload]] = []
        for q, link in layout.links.items():
            if len(link.sent_edges):
                out.append((q, "messages", self.wakes, self.messages[layout.entries(link.sent_edges)]))
            if len(link.sent_variables):
                out.append((q, "beliefs", self.wakes, self.belief[layout.belief_entries(link.sent_variables)]))
        return out

    def receive(self, sender: int, kind: str, number: int, payload: Payload) -> bool:
        """Take a message in, unless it is older than the last one; returns whether it was taken."""
        if number <= self.heard.get((sender, kind), 0):
            return False
        self.heard[sender, kind] = number
        link, layout = self.local.layout.links[sender], self.local.layout
        if kind == "messages":
            self.messages[layout.entries(link.received_edges)] = payload
            self._own_beliefs()
        else:
            self.belief[layout.belief_entries(link.received_variables)] = payload
        return True

    def _own_beliefs(self) -> None:
        own = self.local.layout.variable_starts[self.local.layout.own]
        self.belief[:own] = self.local.beliefs(self.messages)[:own]


def run_asynchronously(parts: Sequence[AsynchronousPart], wire: Wire, wakes: int) -> None:
    """Let every part wake up ``wakes`` times, at moments of its own."""
    for p in range(len(parts)):
        wire.later(wire.rng.exponential(1.0), (p, None))
    while wire:
        p, message = wire.next()
        if message is not None:
            parts[p].receive(*message)
            continue
        for receiver, kind, number, payload in parts[p].wake():
            wire.send((receiver, (p, kind, number, payload.copy())), payload.nbytes)
        if parts[p].wakes < wakes:
            wire.later(wire.rng.exponential(1.0), (p, None))


def run_reliably(programs: Sequence[Program[T]], wire: Wire) -> list[T]:
    """Run programs over the lossy network: every message is repeated until it is acknowledged."""
    mail: dict[tuple[int, int], dict[int, Payload]] = {}
    taken: dict[tuple[int, int], int] = {}
    numbers: dict[tuple[int, int], int] = {}
    open_messages: dict[tuple[int, int, int], Payload] = {}
    waiting: dict[int, Exchange] = {}
    results: dict[int, T] = {}

    def transmit(key: tuple[int, int, int]) -> None:
        wire.send(("data", key), open_messages[key].nbytes)
        wire.later(RESEND * wire.network.delay, ("again", key))

    def step(part: int, inbox: Any) -> None:
        try:
            waiting[part] = programs[part].send(inbox)
        except StopIteration as end:
            results[part] = end.value
            return
        for receiver, payload in waiting[part].outbox.items():
            number = numbers[part, receiver] = numbers.get((part, receiver), 0) + 1
            open_messages[part, receiver, number] = payload.copy()
            transmit((part, receiver, number))

    def advance(ready: deque[int]) -> None:
        while ready:
            part = ready.popleft()
            pairs = [(q, part) for q in waiting[part].senders] if part in waiting else None
            if pairs is None or not all(taken.get(pair, 0) + 1 in mail.get(pair, {}) for pair in pairs):
                continue
            inbox = {}
            for pair in pairs:
                taken[pair] = taken.get(pair, 0) + 1
                inbox[pair[0]] = mail[pair].pop(taken[pair])
            del waiting[part]
            step(part, inbox)
            ready.append(part)

    for part in range(len(programs)):
        step(part, None)
    advance(deque(range(len(programs))))
    while len(results) < len(programs):
        kind, key = wire.next()
        sender, receiver, number = key
        if kind == "again" and key in open_messages:
            transmit(key)
        elif kind == "receipt":
            open_messages.pop(key, None)
        elif kind == "data":
            wire.send(("receipt", key), 8)
            if number > taken.get((sender, receiver), 0) and key in open_messages:
                mail.setdefault((sender, receiver), {})[number] = open_messages[key]
                advance(deque([receiver]))
    wire.clear()  # late receipts
    return [results[part] for part in range(len(programs))]


def maximize_asynchronously(
    tables: FactorTables, cut: Partition, network: Network, *, wakes: int = 150, schedule: Schedule | None = None
) -> tuple[Maximum, Wire]:
    """The maximum by asynchronous messages, acyclic components included; and what the network saw.

    ``schedule`` gives the damping and the dual sweeps.
    """
    schedule = Schedule() if schedule is None else schedule
    plans = plan_parts(tables.graph, tables.sizes, cut, as_cyclic=True)
    own = [local_tables(plan, tables) for plan in plans]
    wire = Wire(network)
    factors = run_reliably([local_factors(plan.graph, mine) for plan, mine in zip(plans, own, strict=True)], wire)
    parts = [AsynchronousPart(local, schedule.damping) for local in factors]
    run_asynchronously(parts, wire, wakes)
    programs = [_finish(plan, mine, part, schedule) for plan, mine, part in zip(plans, own, parts, strict=True)]
    return joined(run_reliably(programs, wire)), wire


def _finish(plan: PartPlan, tables: FactorTables, part: AsynchronousPart, schedule: Schedule) -> Program[PartMaximum]:
    """The best of what the parts decoded on the way, then all that follows the rounds of the synchronous runtime."""
    layout = part.local.layout
    best, best_score = np.zeros(len(layout.sizes), dtype=np.int64), -np.inf
    for choice in part.decoded:
        yield from layout.send_choices(choice)
        score = yield from part.local.score(choice)
        if score > best_score:
            best, best_score = choice, score
    found = RoundsResult(part.messages, best, best_score, part.wakes, np.inf)
    answer = yield from maximize_tables(plan.graph, tables, schedule, found)
    return answer
