"""The arithmetic of messages (Eq. 3), for one factor and for all factors of a graph at once.

Notation: phi_I the table of factor I; m_{I->i} the message of factor I to variable i; q_{i->I} = b_i - m_{I->i} the
message of variable i to factor I, where b_i = unary_i + sum_{I: i in I} m_{I->i} is the belief. An *edge* is a pair
(factor, axis); edges are numbered factor by factor, axis by axis.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from dechbo.compiled import compiled
from dechbo.maxsum.fast_max import fast_max

Array = NDArray[np.float64]
Indices = NDArray[np.int64]
Flags = NDArray[np.bool_]


class Packed(NamedTuple):
    """The factors of a maximisation problem in flat arrays, for the compiled loops."""

    flat: Array  # the tables, finite, in C order
    tables: Indices  # (factors,) table k starts at flat[tables[k]]
    scopes: Indices  # (factors + 1,) the edges of factor k are scopes[k] .. scopes[k + 1] - 1
    members: Indices  # (edges,) the variable of each edge
    lengths: Indices  # (edges,) how many candidates that variable has
    strides: Indices  # (edges,) cells between two neighbours along that axis
    owners: Indices  # (edges,) the factor of each edge
    message_starts: Indices  # (edges + 1,) the message of edge e is messages[message_starts[e]:message_starts[e + 1]]
    unary: Array  # unary terms of all variables
    unary_starts: Indices  # (dim + 1,) those of variable i are unary[unary_starts[i]:unary_starts[i + 1]]
    variables: Indices  # the variables in order of first appearance, so that relabelling changes no order
    edges: Indices  # edges sorted by variable
    edge_starts: Indices  # (dim + 1,) the edges of variable i are edges[edge_starts[i]:edge_starts[i + 1]]
    max_partial_cells: int  # in the partial tables of one factor: the sum of its strides
    max_message_entries: int  # of one factor

    def zero_messages(self) -> Array:
        """m = 0 on every edge."""
        return np.zeros(self.message_starts[-1])


def pack(
    flat: Array, tables: Indices, scopes: Sequence[tuple[int, ...]], sizes: Indices, unary: Array, unary_starts: Indices
) -> Packed:
    """Pack the factors with these scopes, whose tables start at ``flat[tables]``."""
    starts = np.cumsum([0, *map(len, scopes)])
    members = np.array([i for scope in scopes for i in scope], dtype=np.int64)
    owners = np.repeat(np.arange(len(scopes)), np.diff(starts))
    lengths = sizes[members]
    strides = np.ones_like(lengths)
    after = starts[owners + 1] - 1 - np.arange(len(members))  # axes of the same factor that come later
    for n in range(1, after.max(initial=0) + 1):
        here = np.flatnonzero(after == n)
        strides[here] = strides[here + 1] * lengths[here + 1]
    message_starts = np.concatenate([[0], np.cumsum(lengths)])
    degrees = np.bincount(members, minlength=len(sizes))
    return Packed(
        flat=flat,
        tables=tables,
        scopes=starts,
        members=members,
        lengths=lengths,
        strides=strides,
        owners=owners,
        message_starts=message_starts,
        unary=unary,
        unary_starts=unary_starts,
        variables=members[np.sort(np.unique(members, return_index=True)[1])],
        edges=np.argsort(members, kind="stable"),
        edge_starts=np.concatenate([[0], np.cumsum(degrees)]),
        max_partial_cells=int(np.bincount(owners, strides).max(initial=1)),
        max_message_entries=int(np.diff(message_starts[starts]).max(initial=1)),
    )


@compiled
def eliminate_first_axis(table: Array, later: Array, message: Array, outgoing: Array, rest: Array) -> None:
    """Maximise out the first axis of a table T (n x R), given S_r = ``later`` and m = ``message`` (q of that axis).

    outgoing[a] = max_r T[a, r] + S_r;  rest[r] = max_a T[a, r] + m[a].
    """
    cells = len(later)
    for a in range(len(message)):
        row = table[a * cells : (a + 1) * cells]
        here = message[a]
        best = -np.inf
        if a == 0:
            for r in range(cells):
                best = fast_max(best, row[r] + later[r])
                rest[r] = row[r] + here
        else:
            for r in range(cells):
                best = fast_max(best, row[r] + later[r])
                rest[r] = fast_max(rest[r], row[r] + here)
        outgoing[a] = best


@compiled
def factor_messages(table: Array, shape: Indices, incoming: Array, outgoing: Array, sums: Array, spare: Array) -> None:
    """All messages of one factor, reading its table once.

    m_{I->i}(h) = max over x_I with x_i = h of phi_I(x_I) + sum_{j in I, j != i} q_{j->I}(x_j)  (Eq. 3). The message to
    the first axis needs only S, the outer sum of the later axes' incoming messages; then ``eliminate_first_axis``
    leaves a smaller table. ``sums`` and ``spare`` are work space.
    """
    order = len(shape)
    if order == 1:
        outgoing[:] = table
        return
    cells = shape[order - 1]
    start, first = 0, len(incoming) - cells
    last = outgoing[first:]
    sums[:cells] = incoming[first:]
    for axis in range(order - 2, 0, -1):  # S of each level, from the one below it
        first -= shape[axis]
        inner = sums[start : start + cells]
        start += cells
        for a in range(shape[axis]):
            outer = sums[start + a * cells : start + (a + 1) * cells]
            for r in range(cells):
                outer[r] = incoming[first + a] + inner[r]
        cells *= shape[axis]
    end, used = shape[0], cells
    rest = spare[:cells] if order > 2 else last
    eliminate_first_axis(table, sums[start : start + cells], incoming[:end], outgoing[:end], rest)
    for axis in range(1, order - 1):
        first, end = end, end + shape[axis]
        cells //= shape[axis]
        start -= cells
        # a separate buffer: LLVM vectorises only what does not overlap; after the last step it is a message
        smaller = spare[used : used + cells] if axis < order - 2 else last
        eliminate_first_axis(rest, sums[start : start + cells], incoming[first:end], outgoing[first:end], smaller)
        rest = smaller
        used += cells


@compiled
def argmax(entries: Array) -> int:
    """The first index of the maximum; Numba's own checks for NaN, which ``compiled`` rules out."""
    best = 0
    for h in range(1, len(entries)):
        if entries[h] > entries[best]:
            best = h
    return best


@compiled
def beliefs(packed: Packed, messages: Array) -> Array:
    """b_i = unary_i + sum_{I: i in I} m_{I->i}."""
    belief = packed.unary.copy()
    for e in range(len(packed.members)):
        base, first = packed.unary_starts[packed.members[e]], packed.message_starts[e]
        for h in range(packed.lengths[e]):
            belief[base + h] += messages[first + h]
    return belief


@compiled
def decode(packed: Packed, belief: Array, choice: Indices) -> float:
    """x_i = argmax_h b_i(h) (Eq. 4, with all factors' messages) into ``choice``; returns its score."""
    for i in packed.variables:
        choice[i] = argmax(belief[packed.unary_starts[i] : packed.unary_starts[i + 1]])
    return score(packed, choice)


@compiled
def score(packed: Packed, choice: Indices) -> float:
    """sum_i unary_i(x_i) + sum_I phi_I(x_I) over the packed variables and factors."""
    total = 0.0
    for i in packed.variables:
        total += packed.unary[packed.unary_starts[i] + choice[i]]
    for k in range(len(packed.tables)):
        cell = packed.tables[k]
        for e in range(packed.scopes[k], packed.scopes[k + 1]):
            cell += packed.strides[e] * choice[packed.members[e]]
        total += packed.flat[cell]
    return total


@compiled
def outgoing_messages(packed: Packed, k: int, incoming: Array, outgoing: Array, sums: Array, spare: Array) -> None:
    """The messages of factor k given its ``incoming`` ones, both laid out axis by axis."""
    first, end = packed.scopes[k], packed.scopes[k + 1]
    entries = packed.message_starts[end] - packed.message_starts[first]
    start = packed.tables[k]
    table = packed.flat[start : start + packed.lengths[first] * packed.strides[first]]
    factor_messages(table, packed.lengths[first:end], incoming[:entries], outgoing[:entries], sums, spare)


@compiled
def next_row(index: Indices, lengths: Indices) -> None:
    """Move ``index`` to the next row of a table in C order: all axes but the last; after the last row, to the first."""
    axis = len(lengths) - 2
    while axis >= 0:
        index[axis] += 1
        if index[axis] < lengths[axis]:
            return
        index[axis] = 0
        axis -= 1


@compiled
def incoming_messages(packed: Packed, k: int, belief: Array, messages: Array, incoming: Array) -> None:
    """m_{i->I} = b_i - m_{I->i} of factor k, written to ``incoming``, one variable of its scope after the other."""
    origin = packed.message_starts[packed.scopes[k]]
    for e in range(packed.scopes[k], packed.scopes[k + 1]):
        base, first = packed.unary_starts[packed.members[e]], packed.message_starts[e]
        for h in range(packed.lengths[e]):
            incoming[first - origin + h] = belief[base + h] - messages[first + h]


@compiled
def update_messages(
    packed: Packed, belief: Array, messages: Array, damping: float, incoming: Array, outgoing: Array, work: Array
) -> float:
    """One round m <- damping m + (1 - damping) m_new of all factors, in place, from the ``belief`` before it.

    Returns the largest change of a message entry. Messages are shifted to maximum 0: they drift without bound on
    cycles. ``incoming``, ``outgoing`` and ``work`` are work space.
    """
    sums, spare = work[: packed.max_partial_cells], work[packed.max_partial_cells :]
    residual = 0.0
    for k in range(len(packed.tables)):
        origin = packed.message_starts[packed.scopes[k]]
        incoming_messages(packed, k, belief, messages, incoming)
        outgoing_messages(packed, k, incoming, outgoing, sums, spare)
        for e in range(packed.scopes[k], packed.scopes[k + 1]):
            new = outgoing[packed.message_starts[e] - origin : packed.message_starts[e + 1] - origin]
            old = messages[packed.message_starts[e] : packed.message_starts[e + 1]]
            top = -np.inf
            for h in range(len(old)):
                new[h] = damping * old[h] + (1.0 - damping) * new[h]
                top = max(top, new[h])
            for h in range(len(old)):
                residual = max(residual, abs(new[h] - top - old[h]))
                old[h] = new[h] - top
    return residual


@compiled
def max_sum_rounds(
    packed: Packed, messages: Array, best_choice: Indices, rounds: int, damping: float, tolerance: float
) -> tuple[float, int, float]:
    """Synchronous rounds m <- damping m + (1 - damping) m_new (Eq. 3), in place; returns (score, rounds run, residual).

    ``best_choice`` becomes the best choice decoded in any round. Stops when no message entry changes by more than
    ``tolerance``.
    """
    work = np.empty(2 * packed.max_partial_cells)
    incoming, outgoing = np.empty(packed.max_message_entries), np.empty(packed.max_message_entries)
    choice = best_choice.copy()
    belief = beliefs(packed, messages)
    best, residual, done = -np.inf, np.inf, 0
    while done < rounds and residual > tolerance:
        done += 1
        residual = update_messages(packed, belief, messages, damping, incoming, outgoing, work)
        belief = beliefs(packed, messages)
        found = decode(packed, belief, choice)
        if found > best:
            best = found
            best_choice[:] = choice
    return best, done, residual
