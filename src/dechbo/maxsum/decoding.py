"""Decode beliefs to a choice, one variable after another. Tested by tests/maxsum/test_local_search.py."""

from __future__ import annotations

import numpy as np

from dechbo.compiled import compiled
from dechbo.maxsum.fast_max import fast_max
from dechbo.maxsum.messages import Array, Flags, Indices, Packed, argmax, beliefs


@compiled
def decode_sequentially(packed: Packed, messages: Array, choice: Indices) -> None:
    """x_i = argmax_h b_i(h), where factors that see decided variables recompute their messages given those.

    Variables whose beliefs tie, or that are strongly coupled, are thus decided consistently.
    """
    belief = beliefs(packed, messages)
    decided = np.zeros(len(choice), dtype=np.bool_)
    scores, index = np.empty(len(packed.unary)), np.empty(len(packed.members), dtype=np.int64)
    for i in packed.variables:
        base = packed.unary_starts[i]
        length = packed.unary_starts[i + 1] - base
        scores[:length] = packed.unary[base : base + length]
        for edge in packed.edges[packed.edge_starts[i] : packed.edge_starts[i + 1]]:
            k = packed.owners[edge]
            undecided = True
            for e in range(packed.scopes[k], packed.scopes[k + 1]):
                undecided = undecided and not decided[packed.members[e]]
            for h in range(length):
                if undecided:
                    scores[h] += messages[packed.message_starts[edge] + h]
                else:
                    scores[h] += conditioned_message(packed, edge, h, belief, messages, decided, choice, index)
        choice[i] = argmax(scores[:length])
        decided[i] = True


@compiled
def conditioned_message(
    packed: Packed,
    edge: int,
    h: int,
    belief: Array,
    messages: Array,
    decided: Flags,
    choice: Indices,
    index: Indices,
) -> float:
    """m_{I->i}(h) = max over undecided x_j of phi_I(x_I) + sum_j q_{j->I}(x_j), the decided ones at ``choice``."""
    k = packed.owners[edge]
    first, end = packed.scopes[k], packed.scopes[k + 1]
    cell = packed.tables[k] + h * packed.strides[edge]
    for e in range(first, end):
        index[e - first] = 0
        if decided[packed.members[e]]:
            cell += packed.strides[e] * choice[packed.members[e]]
    best = -np.inf
    axis = 0
    while axis >= 0:
        total = packed.flat[cell]
        for e in range(first, end):
            j, x = packed.members[e], index[e - first]
            if e != edge and not decided[j]:
                total += belief[packed.unary_starts[j] + x] - messages[packed.message_starts[e] + x]
        best = fast_max(best, total)
        axis = end - first - 1
        while axis >= 0:  # the next cell, last axis fastest
            e = first + axis
            if e != edge and not decided[packed.members[e]]:
                if index[axis] + 1 < packed.lengths[e]:
                    index[axis] += 1
                    cell += packed.strides[e]
                    break
                cell -= index[axis] * packed.strides[e]
                index[axis] = 0
            axis -= 1
    return best
