"""Local search from a choice: change one variable, or all variables of one factor, as long as the value improves."""

from __future__ import annotations

import numpy as np

from dechbo.compiled import compiled
from dechbo.maxsum.messages import Array, Flags, Indices, Packed, argmax, outgoing_messages

# smaller relative gains are rounding error: accepting them could cycle forever
ROUNDING = 1e-14


@compiled
def ascend(packed: Packed, choice: Indices, sweeps: int) -> None:
    """Alternate coordinate ascent and at most ``sweeps`` sweeps of factor ascent, in place, until neither improves."""
    coordinate_ascent(packed, choice)
    for _ in range(sweeps):
        if not factor_ascent(packed, choice):
            break
        coordinate_ascent(packed, choice)


@compiled
def coordinate_ascent(packed: Packed, choice: Indices) -> None:
    """x_i <- argmax_h phi(h, x_others), variable by variable, in place, until no variable improves."""
    scores = np.empty(len(packed.unary))
    alone = np.zeros(len(choice), dtype=np.bool_)
    for _ in range(1000):  # far more than needed
        moved = False
        for i in packed.variables:
            here = scores[: packed.unary_starts[i + 1] - packed.unary_starts[i]]
            size = scores_given(packed, i, alone, choice, here)
            best = argmax(here)
            if here[best] - here[choice[i]] > ROUNDING * size:
                choice[i] = best
                moved = True
        if not moved:
            break


@compiled
def scores_given(packed: Packed, i: int, free: Flags, choice: Indices, scores: Array) -> float:
    """scores[h] = unary_i(h) + sum of phi_I(h, x_others) over factors that see i and no other ``free`` variable.

    Returns the sum of the magnitudes of the numbers added at the current x_i.
    """
    base = packed.unary_starts[i]
    for h in range(len(scores)):
        scores[h] = packed.unary[base + h]
    size: float = abs(scores[choice[i]])
    for edge in packed.edges[packed.edge_starts[i] : packed.edge_starts[i + 1]]:
        k = packed.owners[edge]
        cell = packed.tables[k]
        separate = True
        for e in range(packed.scopes[k], packed.scopes[k + 1]):
            if e != edge:
                cell += packed.strides[e] * choice[packed.members[e]]
                separate = separate and not free[packed.members[e]]
        if separate:
            size += abs(packed.flat[cell + choice[i] * packed.strides[edge]])
            for h in range(len(scores)):
                scores[h] += packed.flat[cell + h * packed.strides[edge]]
    return size


@compiled
def factor_ascent(packed: Packed, choice: Indices) -> bool:
    """x_I <- argmax phi(x_I, x_others), factor by factor, in place; returns whether any of them improved."""
    sums, spare = np.empty(packed.max_partial_cells), np.empty(packed.max_partial_cells)
    scores, outgoing = np.empty(packed.max_message_entries), np.empty(packed.max_message_entries)
    free = np.zeros(len(choice), dtype=np.bool_)
    # upper limits: all factors may share variables with one, and an axis has at least one message entry
    bases = np.empty(len(packed.tables), np.int64)
    steps = np.empty((len(packed.tables), packed.max_message_entries), np.int64)
    moved = False
    for k in range(len(packed.tables)):
        first, end = packed.scopes[k], packed.scopes[k + 1]
        origin = packed.message_starts[first]
        free[packed.members[first:end]] = True
        size = 0.0
        for e in range(first, end):
            here = scores[packed.message_starts[e] - origin : packed.message_starts[e + 1] - origin]
            size += scores_given(packed, packed.members[e], free, choice, here)
        shared = shared_factors(packed, k, free, choice, bases, steps)
        improvable = shared > 1
        if not improvable:
            outgoing_messages(packed, k, scores, outgoing, sums, spare)
            cell = packed.tables[k]
            for e in range(first, end):
                cell += packed.strides[e] * choice[packed.members[e]]
            now = packed.flat[cell]
            for e in range(first, end):
                now += scores[packed.message_starts[e] - origin + choice[packed.members[e]]]
            size += abs(packed.flat[cell])
            for h in range(packed.lengths[first]):
                improvable = improvable or outgoing[h] + scores[h] > now + ROUNDING * size
        if improvable and choose_jointly(packed, k, scores, bases[:shared], steps, size, choice):
            moved = True
        free[packed.members[first:end]] = False
    return moved


@compiled
def shared_factors(packed: Packed, k: int, free: Flags, choice: Indices, bases: Indices, steps: Indices) -> int:
    """Factor k first, then those that share two or more variables with it; returns how many.

    Their cells for x_I (the others at ``choice``) are bases[n] + sum_axis steps[n, axis] x_axis.
    """
    first, end = packed.scopes[k], packed.scopes[k + 1]
    bases[0] = packed.tables[k]
    steps[0, : end - first] = packed.strides[first:end]
    count = 1
    for start in range(first, end):
        i = packed.members[start]
        for edge in packed.edges[packed.edge_starts[i] : packed.edge_starts[i + 1]]:
            j = packed.owners[edge]
            seen, earlier = 0, False
            for e in range(packed.scopes[j], packed.scopes[j + 1]):
                if free[packed.members[e]]:
                    seen += 1
                    earlier = earlier or (seen == 1 and e != edge)
            if j == k or seen < 2 or earlier:  # count each factor once, at the first variable that it shares
                continue
            bases[count] = packed.tables[j]
            steps[count, : end - first] = 0
            for e in range(packed.scopes[j], packed.scopes[j + 1]):
                if not free[packed.members[e]]:
                    bases[count] += packed.strides[e] * choice[packed.members[e]]
                for axis in range(end - first):
                    if packed.members[first + axis] == packed.members[e]:
                        steps[count, axis] = packed.strides[e]
            count += 1
    return count


@compiled
def choose_jointly(
    packed: Packed, k: int, scores: Array, bases: Indices, steps: Indices, size: float, choice: Indices
) -> bool:
    """x_I = argmax of sum_n flat[bases[n] + steps[n] x_I] + sum_axis scores(x_axis) if that improves on ``choice``."""
    first, end = packed.scopes[k], packed.scopes[k + 1]
    origin, order = packed.message_starts[first], end - first
    index = choice[packed.members[first:end]]
    cells = bases.copy()
    for axis in range(order):
        cells += steps[: len(bases), axis] * index[axis]
    chosen = index.copy()
    best, step = -np.inf, 0
    total_cells = packed.lengths[first] * packed.strides[first]
    while step <= total_cells:  # once around from the current cell, last axis fastest
        total = 0.0
        for n in range(len(cells)):
            total += packed.flat[cells[n]]
            size += abs(packed.flat[cells[n]]) if step == 0 else 0.0
        for axis in range(order):
            total += scores[packed.message_starts[first + axis] - origin + index[axis]]
        if step == 0:
            best = total + ROUNDING * size
        elif total > best:
            best = total
            chosen[:] = index
        axis = order - 1
        while axis >= 0:
            forward = 1 if index[axis] + 1 < packed.lengths[first + axis] else -index[axis]
            index[axis] += forward
            for n in range(len(cells)):
                cells[n] += steps[n, axis] * forward
            axis = -1 if forward > 0 else axis - 1
        step += 1
    moved = False
    for axis in range(order):
        moved = moved or choice[packed.members[first + axis]] != chosen[axis]
        choice[packed.members[first + axis]] = chosen[axis]
    return moved
