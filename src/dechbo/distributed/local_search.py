"""Decoding and local search in parts: variables choose colour by colour.

Variables of one colour share no factor, so they choose at once what one after the other would choose. The factors that
see such a variable tell its owner what each of its candidates is worth to them; the owner adds that up, in the order of
the whole graph, and tells them its choice.

Tested by tests/distributed/test_maximize.py.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from dechbo.compiled import compiled
from dechbo.distributed.exchange import Exchange, Program, all_reduce
from dechbo.distributed.layout import Layout
from dechbo.distributed.rounds import LocalFactors, sum_messages
from dechbo.maxsum.decoding import conditioned_message
from dechbo.maxsum.local_search import ROUNDING
from dechbo.maxsum.messages import Packed, argmax

Array = NDArray[np.float64]
Flags = NDArray[np.bool_]
Ints = NDArray[np.int64]

MAX_SWEEPS = 100  # of coordinate ascent; it usually ends after three to six


def colour_count(layout: Layout) -> Program[int]:
    """How many colours the variables of all parts have."""
    highest = yield from all_reduce(layout.place, np.array([layout.colours.max(initial=-1)]), np.maximum)
    return int(highest[0]) + 1


def decode_by_colour(local: LocalFactors, messages: Array, belief: Array, colours: int) -> Program[Ints]:
    """x_i = argmax_h b_i(h), where factors that see decided variables recompute their messages given those."""
    layout, packed = local.layout, local.packed
    choice = np.zeros(len(layout.sizes), dtype=np.int64)
    decided = np.zeros(len(layout.sizes), dtype=np.bool_)
    worth = np.zeros(layout.edge_starts[-1])
    for colour in range(colours):
        edges = _edges_of(layout, colour)
        conditioned_worth(packed, edges, belief, messages, decided, choice, worth)
        scores = yield from _summed(local, colour, worth)
        _choose(layout, colour, scores, choice)
        yield from layout.send_choices(choice, colour)
        decided |= layout.colours == colour
    return choice


def coordinate_ascent(local: LocalFactors, choice: Ints, colours: int) -> Program[Ints]:
    """x_i <- argmax_h phi(h, x_others), colour by colour, until no variable improves."""
    layout, packed = local.layout, local.packed
    choice = choice.copy()
    worth = np.zeros(layout.edge_starts[-1])
    for _ in range(MAX_SWEEPS):
        moved = 0
        for colour in range(colours):
            edge_worth(packed, _edges_of(layout, colour), choice, worth)
            scores = yield from _summed(local, colour, worth)
            moved += _choose(layout, colour, scores, choice, only_better=True)
            yield from layout.send_choices(choice, colour)
        total = yield from all_reduce(layout.place, np.array([moved]))
        if total[0] == 0:
            break
    return choice


def _edges_of(layout: Layout, colour: int) -> Ints:
    own = layout.edge_variables[: layout.edges]
    return np.flatnonzero(layout.colours[own] == colour)


def _summed(local: LocalFactors, colour: int, worth: Array) -> Program[Array]:
    """unary_i + the worth that all factors see in each candidate, for own variables of ``colour``."""
    layout = local.layout
    out, into = {}, {}
    for q, link in layout.links.items():
        there, here = (
            edges[layout.colours[layout.edge_variables[edges]] == colour]
            for edges in (link.sent_edges, link.received_edges)
        )
        if len(there):
            out[q] = worth[layout.entries(there)]
        if len(here):
            into[q] = layout.entries(here)
    inbox = yield Exchange(out, tuple(into), "worth")
    for q, here in into.items():
        worth[here] = inbox[q]
    scores = np.zeros(layout.variable_starts[-1])
    sum_messages(
        local.packed.unary,
        layout.variable_starts,
        layout.order,
        layout.order_starts,
        layout.edge_starts,
        worth,
        scores,
    )
    return scores


def _choose(layout: Layout, colour: int, scores: Array, choice: Ints, *, only_better: bool = False) -> int:
    """The best candidates of own variables of ``colour``, into ``choice``; returns how many moved."""
    seen = np.diff(layout.order_starts) > 0
    chosen = np.flatnonzero(seen & (layout.colours[: layout.own] == colour))
    return choose_best(chosen, layout.variable_starts, scores, choice, ROUNDING if only_better else -1.0)


@compiled
def choose_best(chosen: Ints, starts: Ints, scores: Array, choice: Ints, margin: float) -> int:
    """x_i = argmax of its scores where that gains more than ``margin`` times their size."""
    moved = 0
    for i in chosen:
        here = scores[starts[i] : starts[i + 1]]
        best, size = argmax(here), 0.0
        for h in range(len(here)):
            size = max(size, abs(here[h]))
        if here[best] - here[choice[i]] > margin * size and best != choice[i]:
            choice[i] = best
            moved += 1
    return moved


@compiled
def edge_worth(packed: Packed, edges: Ints, choice: Ints, worth: Array) -> None:
    """worth_e(h) = phi_I(h, x_others) for the variable of each edge."""
    for edge in edges:
        k = packed.owners[edge]
        cell = packed.tables[k]
        for e in range(packed.scopes[k], packed.scopes[k + 1]):
            if e != edge:
                cell += packed.strides[e] * choice[packed.members[e]]
        for h in range(packed.lengths[edge]):
            worth[packed.message_starts[edge] + h] = packed.flat[cell + h * packed.strides[edge]]


@compiled
def conditioned_worth(
    packed: Packed, edges: Ints, belief: Array, messages: Array, decided: Flags, choice: Ints, worth: Array
) -> None:
    """worth_e = m_{I->i}, recomputed where another variable of the factor is decided."""
    index = np.empty(len(packed.members), dtype=np.int64)
    for edge in edges:
        k = packed.owners[edge]
        undecided = True
        for e in range(packed.scopes[k], packed.scopes[k + 1]):
            undecided = undecided and not decided[packed.members[e]]
        first = packed.message_starts[edge]
        for h in range(packed.lengths[edge]):
            if undecided:
                worth[first + h] = messages[first + h]
            else:
                worth[first + h] = conditioned_message(packed, edge, h, belief, messages, decided, choice, index)
