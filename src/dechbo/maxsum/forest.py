"""Connected components, and the exact maximum of the acyclic ones by one leaf-root-leaf pass with traceback.

Tested by tests/maxsum/test_maxsum.py.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from dechbo.compiled import compiled
from dechbo.graph import FactorGraph
from dechbo.maxsum.messages import Array, Indices, Packed, argmax, outgoing_messages
from dechbo.maxsum.reduction import merge_plan


@dataclass(frozen=True, eq=False)
class ConnectedComponents:
    """The factors that remain after reduction, split into a forest and the cyclic components."""

    forest: tuple[int, ...]  # factors of acyclic components, each after its parent
    parents: Indices  # the axis of each forest factor that leads to its root
    roots: Indices  # one variable per acyclic component
    cyclic: tuple[int, ...]  # factors of components with a cycle


@lru_cache(maxsize=8)
def connected_components(graph: FactorGraph) -> ConnectedComponents:
    """Breadth-first search from one variable per component of the bipartite graph of variables and factors.

    A component is acyclic exactly when its edges number one less than its variables and factors together.
    """
    remaining = merge_plan(graph).remaining
    factors_of: list[list[int]] = [[] for _ in range(graph.dim)]
    for k in remaining:
        for i in graph.scopes[k]:
            factors_of[i].append(k)
    forest, parents, roots, cyclic = [], [], [], []
    seen_variable, seen_factor = [False] * graph.dim, [False] * len(graph.scopes)
    for root in range(graph.dim):
        if seen_variable[root]:
            continue
        seen_variable[root] = True
        queue, found, axes = [root], [], []
        for i in queue:  # grows during the loop
            for k in factors_of[i]:
                if seen_factor[k]:
                    continue
                seen_factor[k] = True
                found.append(k)
                axes.append(graph.scopes[k].index(i))
                new = [j for j in graph.scopes[k] if not seen_variable[j]]
                queue.extend(new)
                for j in new:
                    seen_variable[j] = True
        if sum(len(graph.scopes[k]) for k in found) == len(queue) + len(found) - 1:
            forest += found
            parents += axes
            roots.append(root)
        else:
            cyclic += found
    return ConnectedComponents(
        tuple(forest), np.array(parents, dtype=np.int64), np.array(roots, dtype=np.int64), tuple(sorted(cyclic))
    )


@compiled
def solve_forest(packed: Packed, parents: Indices, roots: Indices, choice: Indices) -> None:
    """Write the exact maximum of acyclic factors, each packed after its parent, to ``choice``; ties are handled.

    Up: b_p += max over x_I with x_p = h of phi_I + sum_{j != p} b_j. Down: x_root = argmax b_root, and each factor
    chooses its children jointly, given x_p.
    """
    sums, spare = np.empty(packed.max_partial_cells), np.empty(packed.max_partial_cells)
    incoming, outgoing = np.empty(packed.max_message_entries), np.empty(packed.max_message_entries)
    belief = packed.unary.copy()
    for k in range(len(packed.tables) - 1, -1, -1):
        origin = packed.message_starts[packed.scopes[k]]
        for e in range(packed.scopes[k], packed.scopes[k + 1]):
            base, first = packed.unary_starts[packed.members[e]], packed.message_starts[e] - origin
            incoming[first : first + packed.lengths[e]] = belief[base : base + packed.lengths[e]]
        outgoing_messages(packed, k, incoming, outgoing, sums, spare)
        up = packed.scopes[k] + parents[k]
        message = outgoing[packed.message_starts[up] - origin : packed.message_starts[up + 1] - origin]
        base, top = packed.unary_starts[packed.members[up]], message[argmax(message)]
        for h in range(len(message)):
            belief[base + h] += message[h] - top
    for root in roots:
        choice[root] = argmax(belief[packed.unary_starts[root] : packed.unary_starts[root + 1]])
    for k in range(len(packed.tables)):
        choose_children(packed, k, parents[k], belief, choice)


@compiled
def choose_children(packed: Packed, k: int, parent: int, belief: Array, choice: Indices) -> None:
    """x_{I without p} = argmax phi_I(x_I) + sum_{j != p} b_j(x_j), given x_p."""
    first, end = packed.scopes[k], packed.scopes[k + 1]
    up = first + parent
    index = np.zeros(end - first, dtype=np.int64)
    chosen = index.copy()
    cell = packed.tables[k] + packed.strides[up] * choice[packed.members[up]]
    best = -np.inf
    axis = 0
    while axis >= 0:
        total = packed.flat[cell]
        for e in range(first, end):
            if e != up:
                total += belief[packed.unary_starts[packed.members[e]] + index[e - first]]
        if total > best:
            best = total
            chosen[:] = index
        axis = end - first - 1
        while axis >= 0:  # the next cell, last axis fastest
            e = first + axis
            if axis != parent:
                if index[axis] + 1 < packed.lengths[e]:
                    index[axis] += 1
                    cell += packed.strides[e]
                    break
                cell -= index[axis] * packed.strides[e]
                index[axis] = 0
            axis -= 1
    for e in range(first, end):
        if e != up:
            choice[packed.members[e]] = chosen[e - first]
