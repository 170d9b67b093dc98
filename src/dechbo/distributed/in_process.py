"""All parts in this process, one after the other: the transport of tests and of ``SynchronousMaxSum``."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

from dechbo.distributed.exchange import Exchange, Payload, Program
from dechbo.errors import ExecutionError
from dechbo.threads import one_blas_thread

T = TypeVar("T")


@dataclass(frozen=True)
class Sent:
    """One array that has travelled."""

    kind: str
    sender: int
    receiver: int
    bytes: int


@dataclass(eq=False)
class Traffic:
    """Everything that has travelled, in the order of sending."""

    sent: list[Sent] = field(default_factory=list)

    def bytes(self, *kinds: str) -> int:
        """The bytes of these kinds of messages; of all, if none is named."""
        return sum(one.bytes for one in self.sent if not kinds or one.kind in kinds)

    def count(self, *kinds: str) -> int:
        """The number of messages of these kinds."""
        return sum(not kinds or one.kind in kinds for one in self.sent)


@one_blas_thread
def run_in_process(programs: Sequence[Program[T]], traffic: Traffic | None = None) -> list[T]:
    """Run one program for each part, each as far as what it has received lets it; returns their results."""
    mail: dict[tuple[int, int], deque[Payload]] = {}
    results: dict[int, T] = {}
    waiting: dict[int, Exchange] = {}

    def step(part: int, inbox: Any) -> None:
        try:
            waiting[part] = programs[part].send(inbox)
        except StopIteration as end:
            results[part] = end.value
            return
        for receiver, payload in waiting[part].outbox.items():
            # a copy, as every other transport makes one: the sender may go on writing to its array
            mail.setdefault((part, receiver), deque()).append(payload.copy())
            if traffic is not None:
                traffic.sent.append(Sent(waiting[part].kind, part, receiver, payload.nbytes))

    for part in range(len(programs)):
        step(part, None)
    while waiting:
        ready = [p for p, exchange in waiting.items() if all(mail.get((q, p)) for q in exchange.senders)]
        if not ready:
            raise ExecutionError(f"parts {sorted(waiting)} wait for messages that nobody sends")
        for part in ready:
            inbox = {q: mail[q, part].popleft() for q in waiting.pop(part).senders}
            step(part, inbox)
    return [results[part] for part in range(len(programs))]
