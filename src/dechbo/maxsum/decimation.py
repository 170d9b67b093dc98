"""Decimation: sequential max-sum, where the most certain variables are fixed again and again until none is left."""

from __future__ import annotations

import numpy as np

from dechbo.compiled import compiled
from dechbo.maxsum.messages import Array, Flags, Indices, Packed, argmax, beliefs, incoming_messages, outgoing_messages

STAGES = 12  # how often variables are fixed
ROUNDS = 4  # sequential rounds before each
READS = STAGES * ROUNDS  # of every table


def decimate(packed: Packed, damping: float, scale: float, choice: Indices) -> None:
    """Write a choice to ``choice``: x_i = argmax b_i where b_i is most certain, then messages given those, and on."""
    unary, messages = packed.unary.copy(), packed.zero_messages()
    given = packed._replace(unary=unary)
    fixed = np.zeros(len(choice), dtype=np.bool_)
    many = len(packed.variables)
    for stage in range(1, STAGES + 1):
        sequential_rounds(given, messages, ROUNDS, damping)
        fix_most_certain(given, messages, fixed, -(-many * stage // STAGES), 1e6 * (1.0 + scale), choice)


@compiled
def sequential_rounds(packed: Packed, messages: Array, rounds: int, damping: float) -> None:
    """m <- damping m + (1 - damping) m_new (Eq. 3), factor by factor, each with the newest messages of the others."""
    sums, spare = np.empty(packed.max_partial_cells), np.empty(packed.max_partial_cells)
    incoming, outgoing = np.empty(packed.max_message_entries), np.empty(packed.max_message_entries)
    belief = beliefs(packed, messages)
    for _ in range(rounds):
        for k in range(len(packed.tables)):
            origin = packed.message_starts[packed.scopes[k]]
            incoming_messages(packed, k, belief, messages, incoming)
            outgoing_messages(packed, k, incoming, outgoing, sums, spare)
            for e in range(packed.scopes[k], packed.scopes[k + 1]):
                base, first = packed.unary_starts[packed.members[e]], packed.message_starts[e]
                new = outgoing[first - origin : first - origin + packed.lengths[e]]
                for h in range(len(new)):
                    new[h] = damping * messages[first + h] + (1.0 - damping) * new[h]
                top = new[argmax(new)]
                for h in range(len(new)):
                    messages[first + h] = new[h] - top
                    belief[base + h] = incoming[first - origin + h] + messages[first + h]


@compiled
def fix_most_certain(packed: Packed, messages: Array, fixed: Flags, wanted: int, depth: float, choice: Indices) -> None:
    """Fix variables by the margin between their best two beliefs, until ``wanted`` are: other values lose ``depth``."""
    belief = beliefs(packed, messages)
    margins = np.full(len(packed.variables), -np.inf)
    have = 0
    for n, i in enumerate(packed.variables):
        if fixed[i]:
            have += 1
            continue
        here = belief[packed.unary_starts[i] : packed.unary_starts[i + 1]]
        choice[i] = argmax(here)
        second = -np.inf
        for h in range(len(here)):
            if h != choice[i]:
                second = max(second, here[h])
        margins[n] = here[choice[i]] - second
    for n in np.argsort(-margins, kind="mergesort")[: max(wanted - have, 0)]:
        i = packed.variables[n]
        fixed[i] = True
        base = packed.unary_starts[i]
        for h in range(packed.unary_starts[i + 1] - base):
            if h != choice[i]:
                packed.unary[base + h] -= depth
