"""Messages in parts: damped max-sum rounds, and dual sweeps that tighten the bound.

A factor's messages are computed where its table lies, a variable's belief where the variable is owned: in each round
m_{I->i} and b_i travel once over each cut edge. The arithmetic and the order of every sum are those of
``maxsum.messages`` and ``maxsum.dual``, so messages are the same bit for bit. A dual sweep visits the factors colour by
colour; factors of one colour share no variable, so they change at once what one after the other would change.

Tested by tests/distributed/test_maximize.py.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dechbo.compiled import compiled
from dechbo.distributed.exchange import Exchange, Program, all_reduce, exact_sums
from dechbo.distributed.layout import Layout
from dechbo.maxsum.dual import dual_update
from dechbo.maxsum.messages import Packed, argmax, update_messages

Array = NDArray[np.float64]
Ints = NDArray[np.int64]

ROUNDS_PER_CHECK = 5  # after so many rounds their scores and residuals are added up


@dataclass(frozen=True, eq=False)
class LocalFactors:
    """A layout, and the tables of its factors."""

    layout: Layout
    packed: Packed

    def beliefs(self, messages: Array) -> Array:
        """b_i = unary_i + sum of messages for the part's own variables; 0 for the others."""
        here, belief = self.layout, np.zeros(self.layout.variable_starts[-1])
        sum_messages(
            self.packed.unary, here.variable_starts, here.order, here.order_starts, here.edge_starts, messages, belief
        )
        return belief

    def decoded(self, belief: Array) -> Ints:
        """The argmax of every local belief."""
        choice = np.zeros(len(self.layout.sizes), dtype=np.int64)
        decode_all(self.layout.variable_starts, belief, choice)
        return choice

    def terms(self, choice: Ints) -> Array:
        """What ``choice`` scores: the cells of own factors, the unary terms of own variables that a factor sees."""
        here = self.layout
        seen = np.flatnonzero(np.diff(here.order_starts))
        unary = self.packed.unary[here.variable_starts[seen] + choice[seen]]
        return np.concatenate([chosen_cells(self.packed, choice), unary])

    def score(self, choice: Ints) -> Program[float]:
        """The score of ``choice`` over all parts."""
        total = yield from exact_sums(self.layout.place, self.terms(choice)[None])
        return float(total[0])


@dataclass(frozen=True, eq=False)
class RoundsResult:
    """Messages after the last round, the best choice decoded in any round, and how the rounds ended."""

    messages: Array
    choice: Ints
    score: float
    rounds: int
    residual: float


def max_sum_rounds(local: LocalFactors, rounds: int, damping: float, tolerance: float) -> Program[RoundsResult]:
    """At most ``rounds`` synchronous damped rounds, until no message changes by more than ``tolerance``."""
    layout, packed = local.layout, local.packed
    messages = np.zeros(layout.edge_starts[-1])
    belief = local.beliefs(messages)
    yield from layout.send_beliefs(belief)
    incoming, outgoing, work = work_space(packed)
    best, best_choice, done, residual = -np.inf, np.zeros(len(layout.sizes), dtype=np.int64), 0, np.inf
    while done < rounds and residual > tolerance:
        choices, residuals, terms = [], [], []
        for _ in range(min(ROUNDS_PER_CHECK, rounds - done)):
            residuals.append(update_messages(packed, belief, messages, damping, incoming, outgoing, work))
            yield from layout.send_messages(messages)
            belief = local.beliefs(messages)
            yield from layout.send_beliefs(belief)
            choices.append(local.decoded(belief))
            terms.append(local.terms(choices[-1]))
        largest = yield from all_reduce(layout.place, np.array(residuals), np.maximum)
        scores = yield from exact_sums(layout.place, np.array(terms))
        for choice, score, change in zip(choices, scores.tolist(), largest.tolist(), strict=True):
            done, residual = done + 1, change
            if score > best:
                best, best_choice = score, choice
            if residual <= tolerance:
                break
    return RoundsResult(messages, best_choice, best, done, residual)


def dual_sweeps(
    local: LocalFactors, choice: Ints, best: float, sweeps: int, tolerance: float
) -> Program[tuple[Array, Ints, float]]:
    """MPLP sweeps, colour by colour, from m = 0; returns (messages, best choice, its score).

    Each sweep's beliefs are decoded. Stops when a sweep gains no more than ``tolerance``.
    """
    layout, packed = local.layout, local.packed
    messages = np.zeros(layout.edge_starts[-1])
    belief = local.beliefs(messages)
    incoming, outgoing, work = work_space(packed)
    highest = yield from all_reduce(layout.place, np.array([layout.factor_colours.max(initial=-1)]), np.maximum)
    steps = [_ColourStep.of(layout, colour) for colour in range(int(highest[0]) + 1)]
    bound = np.inf
    for _ in range(sweeps):
        for step in steps:
            yield from step.fetch(belief)
            update_factors(packed, step.factors, belief, messages, incoming, outgoing, work)
            yield from step.give_back(belief)
        decoded = local.decoded(belief)
        yield from layout.send_choices(decoded)
        scored = local.terms(decoded)
        tops = np.zeros(len(scored))
        own = np.flatnonzero(np.diff(layout.order_starts))
        tops[: len(own)] = belief[layout.variable_starts[own] + decoded[own]]
        totals = yield from exact_sums(layout.place, np.array([tops, scored]))
        before, bound = bound, float(totals[0])
        if totals[1] > best:
            best, choice = float(totals[1]), decoded
        if before - bound <= tolerance or bound - best <= tolerance:
            break
    return messages, choice, best


@dataclass(frozen=True, eq=False)
class _ColourStep:
    """The factors of one colour, and which beliefs travel for their update: one for each cut edge, there and back."""

    factors: Ints
    lent: dict[int, Ints]  # belief entries of own variables that a neighbour's factor of this colour updates
    borrowed: dict[int, Ints]  # belief entries of a neighbour's variables that own factors update

    @classmethod
    def of(cls, layout: Layout, colour: int) -> _ColourStep:
        """The step of ``colour``."""

        def entries(edges: Ints) -> Ints:
            return layout.belief_entries(layout.edge_variables[edges[layout.edge_colours[edges] == colour]])

        links = layout.links.items()
        lent = {q: entries(link.received_edges) for q, link in links}
        borrowed = {q: entries(link.sent_edges) for q, link in links}
        return cls(
            np.flatnonzero(layout.factor_colours == colour),
            {q: there for q, there in lent.items() if len(there)},
            {q: there for q, there in borrowed.items() if len(there)},
        )

    def fetch(self, belief: Array) -> Program[None]:
        """Bring the beliefs to the factors."""
        inbox = yield Exchange({q: belief[there] for q, there in self.lent.items()}, tuple(self.borrowed), "dual")
        for q, there in self.borrowed.items():
            belief[there] = inbox[q]

    def give_back(self, belief: Array) -> Program[None]:
        """Bring the new beliefs to the owners."""
        inbox = yield Exchange({q: belief[there] for q, there in self.borrowed.items()}, tuple(self.lent), "dual")
        for q, there in self.lent.items():
            belief[there] = inbox[q]


def work_space(packed: Packed) -> tuple[Array, Array, Array]:
    """``incoming``, ``outgoing`` and ``work`` of the compiled loops."""
    entries = packed.max_message_entries
    return np.empty(entries), np.empty(entries), np.empty(2 * packed.max_partial_cells)


@compiled
def update_factors(
    packed: Packed, factors: Ints, belief: Array, messages: Array, incoming: Array, outgoing: Array, work: Array
) -> None:
    """``dual_update`` of some factors."""
    for k in factors:
        dual_update(packed, k, belief, messages, incoming, outgoing, work)


@compiled
def sum_messages(
    unary: Array, starts: Ints, order: Ints, order_starts: Ints, edge_starts: Ints, messages: Array, belief: Array
) -> None:
    """b_i = unary_i + messages of its edges, in the order of the whole graph, for every own variable."""
    for i in range(len(order_starts) - 1):
        base = starts[i]
        length = starts[i + 1] - base
        for h in range(length):
            belief[base + h] = unary[base + h]
        for n in range(order_starts[i], order_starts[i + 1]):
            first = edge_starts[order[n]]
            for h in range(length):
                belief[base + h] += messages[first + h]


@compiled
def decode_all(starts: Ints, belief: Array, choice: Ints) -> None:
    """x_i = argmax_h b_i(h) of every local variable."""
    for i in range(len(choice)):
        choice[i] = argmax(belief[starts[i] : starts[i + 1]])


@compiled
def chosen_cells(packed: Packed, choice: Ints) -> Array:
    """phi_I(x_I) of every factor."""
    answer = np.empty(len(packed.tables))
    for k in range(len(packed.tables)):
        cell = packed.tables[k]
        for e in range(packed.scopes[k], packed.scopes[k + 1]):
            cell += packed.strides[e] * choice[packed.members[e]]
        answer[k] = packed.flat[cell]
    return answer
