"""Smoothed dual messages: MPLP with T log sum exp(. / T) in place of max, at falling temperatures T.

Hard sweeps stop where no single factor can lower the bound, which may be far above the least bound. The smoothed
problem has no such points, and its least bound approaches the hard one as T falls.
"""

from __future__ import annotations

import math

import numpy as np

from dechbo.compiled import compiled
from dechbo.maxsum.dual import dual_sweeps, upper_bound
from dechbo.maxsum.messages import Array, Indices, Packed, beliefs, incoming_messages, next_row

FIRST_TEMPERATURE = 0.05  # of the largest range of a table
LEVELS = 8  # each has half the temperature of the one before
HARD_SWEEPS = 10  # after each level
SMALLEST_SUM = 1e-300  # of exponentials: below it a marginal counts as 690 temperatures under the largest


def smoothed_bound(
    packed: Packed, dual: Array, choice: Indices, score: float, scale: float, sweeps: int, closed: float
) -> tuple[float, float]:
    """Lower the bound of the ``dual`` messages in place by at most ``sweeps`` smoothed sweeps; (bound, best score).

    Every level ends with hard sweeps on a copy of the messages; ``dual`` becomes the best of them, so that more sweeps
    never raise the bound. ``choice`` becomes the best choice decoded. Stops where bound - score <= ``closed``.
    """
    best = upper_bound(packed, dual)
    messages = dual.copy()
    for level in range(LEVELS):
        temperature = FIRST_TEMPERATURE * scale * 0.5**level
        if best - score <= closed or temperature <= 0:  # also where it underflows
            break
        smooth_sweeps(packed, messages, -(-sweeps // LEVELS), temperature)
        hard = messages.copy()
        score = dual_sweeps(packed, hard, choice, score, HARD_SWEEPS, 0.0)
        bound = upper_bound(packed, hard)
        if bound < best:
            best = bound
            dual[:] = hard
    return best, score


@compiled
def smooth_sweeps(packed: Packed, messages: Array, sweeps: int, temperature: float) -> None:
    """The sweeps of ``dual_sweeps`` with soft maxima, in place."""
    incoming, outgoing = np.empty(packed.max_message_entries), np.empty(packed.max_message_entries)
    most = 1
    for k in range(len(packed.tables)):
        most = max(most, packed.lengths[packed.scopes[k]] * packed.strides[packed.scopes[k]])
    cells = np.empty(most)
    belief = beliefs(packed, messages)
    for _ in range(sweeps):
        for k in range(len(packed.tables)):
            origin = packed.message_starts[packed.scopes[k]]
            incoming_messages(packed, k, belief, messages, incoming)
            soft_marginals(packed, k, incoming, outgoing, temperature, cells)
            share = 1.0 / (packed.scopes[k + 1] - packed.scopes[k])
            for e in range(packed.scopes[k], packed.scopes[k + 1]):
                base, first = packed.unary_starts[packed.members[e]], packed.message_starts[e]
                for h in range(packed.lengths[e]):
                    belief[base + h] = share * outgoing[first - origin + h]
                    messages[first + h] = belief[base + h] - incoming[first - origin + h]


@compiled
def soft_marginals(packed: Packed, k: int, incoming: Array, outgoing: Array, temperature: float, cells: Array) -> None:
    """outgoing_i(h) = T log sum over x_I with x_i = h of exp((phi_I(x_I) + sum_j incoming_j(x_j)) / T)."""
    first, end = packed.scopes[k], packed.scopes[k + 1]
    origin, order = packed.message_starts[first], end - first
    entries = packed.message_starts[end] - origin
    length = packed.lengths[end - 1]
    rows = packed.lengths[first] * packed.strides[first] // length
    last = entries - length
    index = np.zeros(order, dtype=np.int64)
    top = -np.inf
    for row in range(rows):
        here, given = row * length, 0.0
        for axis in range(order - 1):
            given += incoming[packed.message_starts[first + axis] - origin + index[axis]]
        for h in range(length):
            cells[here + h] = packed.flat[packed.tables[k] + here + h] + given + incoming[last + h]
            top = max(top, cells[here + h])
        next_row(index, packed.lengths[first:end])
    outgoing[:entries] = 0.0
    index[:] = 0
    for row in range(rows):
        here, total = row * length, 0.0
        for h in range(length):
            weight = math.exp((cells[here + h] - top) / temperature)
            total += weight
            outgoing[last + h] += weight
        for axis in range(order - 1):
            outgoing[packed.message_starts[first + axis] - origin + index[axis]] += total
        next_row(index, packed.lengths[first:end])
    for entry in range(entries):
        outgoing[entry] = top + temperature * math.log(max(outgoing[entry], SMALLEST_SUM))
