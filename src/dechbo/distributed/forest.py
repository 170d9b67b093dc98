"""Acyclic components in parts: one pass up to the roots and one down again, exact, ties included.

The arithmetic is that of ``maxsum.forest``. A path from a leaf to its root may cross the cut several times; the passes
are repeated once for each crossing, so that what has come over the cut is taken further.

Tested by tests/distributed/test_maximize.py.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dechbo.compiled import compiled
from dechbo.distributed.exchange import Exchange, Program
from dechbo.distributed.layout import Layout
from dechbo.distributed.rounds import work_space
from dechbo.maxsum.forest import choose_children
from dechbo.maxsum.messages import Packed, argmax, outgoing_messages

Array = NDArray[np.float64]
Ints = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class ForestLayout:
    """The acyclic components' factors of a part, each after its parent."""

    layout: Layout
    parents: Ints  # the axis of each factor that leads to its root
    roots: Ints  # own variables that are roots
    passes: int  # one more than a path to a root crosses the cut, over all parts


def solve_forest(forest: ForestLayout, packed: Packed, choice: Ints) -> Program[None]:
    """Write the exact maximum of the acyclic components to ``choice``, for all local variables."""
    layout = forest.layout
    messages, belief = np.zeros(layout.edge_starts[-1]), np.zeros(layout.variable_starts[-1])
    incoming, outgoing, work = work_space(packed)
    order = (layout.order, layout.order_starts, layout.edge_starts)
    for _ in range(forest.passes):
        pass_up(packed, forest.parents, *order, belief, messages, incoming, outgoing, work)
        yield from layout.send_messages(messages)
        sum_descending(packed.unary, layout.variable_starts, *order, messages, belief)
        yield from layout.send_beliefs(belief)
    for root in forest.roots:
        choice[root] = argmax(belief[layout.variable_starts[root] : layout.variable_starts[root + 1]])
    child = np.ones(layout.edges, dtype=np.bool_)
    child[packed.scopes[:-1] + forest.parents] = False
    yield from layout.send_choices(choice)
    for _ in range(forest.passes):
        for k, parent in enumerate(forest.parents):
            choose_children(packed, k, parent, belief, choice)
        yield from _tell_owners(layout, child, choice)
        yield from layout.send_choices(choice)


def _tell_owners(layout: Layout, child: NDArray[np.bool_], choice: Ints) -> Program[None]:
    """Tell the owners of other variables what their parent factors chose; -1 where a factor is not the parent."""
    out = {
        q: np.where(child[link.sent_edges], choice[layout.edge_variables[link.sent_edges]], -1)
        for q, link in layout.links.items()
        if len(link.sent_edges)
    }
    senders = tuple(q for q, link in layout.links.items() if len(link.received_edges))
    inbox = yield Exchange(out, senders, "choices")
    for q in senders:
        chosen, variables = inbox[q], layout.edge_variables[layout.links[q].received_edges]
        choice[variables[chosen >= 0]] = chosen[chosen >= 0]


@compiled
def pass_up(
    packed: Packed,
    parents: Ints,
    order: Ints,
    order_starts: Ints,
    edge_starts: Ints,
    belief: Array,
    messages: Array,
    incoming: Array,
    outgoing: Array,
    work: Array,
) -> None:
    """The message of each factor to its parent, from the last factor to the first; only these are not 0."""
    sums, spare = work[: packed.max_partial_cells], work[packed.max_partial_cells :]
    for k in range(len(packed.tables) - 1, -1, -1):
        origin = packed.message_starts[packed.scopes[k]]
        up = packed.scopes[k] + parents[k]
        for e in range(packed.scopes[k], packed.scopes[k + 1]):
            i = packed.members[e]
            if e != up and i < len(order_starts) - 1:
                sum_one(packed.unary, packed.unary_starts, order, order_starts, edge_starts, messages, i, belief)
            base, first = packed.unary_starts[i], packed.message_starts[e] - origin
            incoming[first : first + packed.lengths[e]] = belief[base : base + packed.lengths[e]]
        outgoing_messages(packed, k, incoming, outgoing, sums, spare)
        message = outgoing[packed.message_starts[up] - origin : packed.message_starts[up + 1] - origin]
        top = message[argmax(message)]
        for h in range(len(message)):
            messages[packed.message_starts[up] + h] = message[h] - top


@compiled
def sum_one(
    unary: Array,
    starts: Ints,
    order: Ints,
    order_starts: Ints,
    edge_starts: Ints,
    messages: Array,
    i: int,
    belief: Array,
) -> None:
    """b_i = unary_i + messages of its edges, the last factor first."""
    base = starts[i]
    length = starts[i + 1] - base
    for h in range(length):
        belief[base + h] = unary[base + h]
    for n in range(order_starts[i + 1] - 1, order_starts[i] - 1, -1):
        first = edge_starts[order[n]]
        for h in range(length):
            belief[base + h] += messages[first + h]


@compiled
def sum_descending(
    unary: Array, starts: Ints, order: Ints, order_starts: Ints, edge_starts: Ints, messages: Array, belief: Array
) -> None:
    """``sum_one`` of every own variable."""
    for i in range(len(order_starts) - 1):
        sum_one(unary, starts, order, order_starts, edge_starts, messages, i, belief)
