"""How parts talk: a program yields what it sends, and is sent what it receives.

A *program* is a generator, one for each part. It yields an ``Exchange``: arrays for other parts, and the parts from
which one array each is awaited; the transport resumes it with these arrays. Between two parts messages arrive in the
order in which they were sent. So programs are pure arithmetic, and every transport runs the same ones.

Sums over all parts are taken in 64-bit fixed point: whole numbers add exactly, in any order, so that no result depends
on how the graph is cut.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

Payload = NDArray[Any]  # of floats or whole numbers
Array = NDArray[np.float64]
T = TypeVar("T")

_BITS = 62  # of a sum; one more is its sign


@dataclass(frozen=True, eq=False)
class Exchange:
    """Send ``outbox``, then wait for one array from each of ``senders``."""

    outbox: Mapping[int, Payload]
    senders: tuple[int, ...]
    kind: str  # what travels, for the account of the traffic


Inbox = Mapping[int, Payload]
Program = Generator[Exchange, Inbox, T]


class Assignment(Protocol):
    """The work of one part as data, which can travel to another process."""

    def program(self) -> Program[Any]:
        """The part's program."""
        ...


def drive(
    program: Program[T],
    post: Callable[[int, Payload], None],
    fetch: Callable[[int], Payload],
    account: dict[str, tuple[int, int]],
) -> T:
    """Run one part's program to its end: ``post`` an array to a part, ``fetch`` the next one from a part.

    ``account`` becomes the number and the bytes of the arrays sent, by kind.
    """
    inbox: Any = None
    while True:
        try:
            exchange = program.send(inbox)
        except StopIteration as end:
            result: T = end.value
            return result
        for receiver, payload in exchange.outbox.items():
            post(receiver, payload)
            count, size = account.get(exchange.kind, (0, 0))
            account[exchange.kind] = count + 1, size + payload.nbytes
        inbox = {sender: fetch(sender) for sender in exchange.senders}


@dataclass(frozen=True)
class Place:
    """Which part this is, of how many."""

    part: int
    parts: int


def all_reduce(
    place: Place, value: Payload, combine: Callable[[Payload, Payload], Payload] = np.add, kind: str = "all-reduce"
) -> Program[Payload]:
    """``value`` combined over all parts: up a binary tree and down again, the same array for every part."""
    children = tuple(child for child in (2 * place.part + 1, 2 * place.part + 2) if child < place.parts)
    total = value
    if children:
        inbox = yield Exchange({}, children, kind)
        for child in children:
            total = combine(total, inbox[child])
    if place.part > 0:
        parent = (place.part - 1) // 2
        inbox = yield Exchange({parent: total}, (parent,), kind)
        total = inbox[parent]
    if children:
        yield Exchange(dict.fromkeys(children, total), (), kind)
    return total


def fixed_point_exponent(largest: float, count: float) -> int:
    """e such that the sum of ``count`` numbers of at most ``largest``, times 2^e, fits into 64 bits."""
    if largest == 0.0 or count == 0.0:
        return 0
    return _BITS - int(np.ceil(np.log2(largest) + np.log2(count))) - 1


def exact_sums(
    place: Place, terms: Array, rounding: Callable[[Array], Array] = np.rint, kind: str = "all-reduce"
) -> Program[Array]:
    """The sums over all parts of each row of ``terms`` (rows, n), the same bits for any partition.

    With ``rounding=np.ceil`` no sum is below the true one.
    """
    largest, count = float(np.abs(terms).max(initial=0.0)), float(terms.shape[1])
    bounds = yield from all_reduce(place, np.array([largest, count]), largest_and_count, kind)
    exponent = fixed_point_exponent(float(bounds[0]), float(bounds[1]))
    whole = rounding(np.ldexp(terms, exponent)).astype(np.int64).sum(axis=1)
    total = yield from all_reduce(place, whole, kind=kind)
    answer: Array = np.ldexp(total.astype(np.float64), -exponent)
    return answer


def largest_and_count(a: Payload, b: Payload) -> Payload:
    """(largest, count) of both."""
    return np.array([max(a[0], b[0]), a[1] + b[1]])
