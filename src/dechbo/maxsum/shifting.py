"""Cost shifting between clusters of variables that share some of them, until they agree on those.

Each cluster has a table; the sum of the clusters' maxima bounds the maximum of the sum. For two linked clusters A and B
with common variables S, theta_A += (gamma_B - gamma_A) / 2 and theta_B += (gamma_A - gamma_B) / 2, where gamma(x_S) is
the maximum of a table given x_S: no sum changes, and the bound never rises.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from dechbo.compiled import compiled
from dechbo.maxsum.fast_max import fast_max
from dechbo.maxsum.messages import Array, Indices, next_row


class ClusterTables(NamedTuple):
    """Tables of clusters in flat arrays, and the links between them, for the compiled loops."""

    flat: Array
    starts: Indices  # (clusters + 1,) the table of cluster c is flat[starts[c]:starts[c + 1]], in C order
    axes: Indices  # (clusters + 1,) its axes are axes[c] .. axes[c + 1] - 1
    lengths: Indices  # (all axes,)
    links: Indices  # (links, 2) two clusters
    separators: Indices  # (links,) cells over the variables that they share
    # steps[s + axis] cells of the separator for one step along an axis of a cluster, 0 where the variable is not shared
    step_starts: Indices  # (links, 2) s of each side
    steps: Indices


@compiled
def shift_costs(clusters: ClusterTables) -> float:
    """Shift along every link, forwards and then backwards, in place; returns the bound."""
    most = 1
    for cells in clusters.separators:
        most = max(most, cells)
    first, second = np.empty(most), np.empty(most)
    many = len(clusters.links)
    for turn in range(2 * many):
        link = turn if turn < many else 2 * many - 1 - turn
        cells = clusters.separators[link]
        mine, other = first[:cells], second[:cells]
        maximise_onto(clusters, link, 0, mine)
        maximise_onto(clusters, link, 1, other)
        for s in range(cells):
            mine[s] = 0.5 * (other[s] - mine[s])
            other[s] = -mine[s]
        add_to(clusters, link, 0, mine)
        add_to(clusters, link, 1, other)
    bound = 0.0
    for c in range(len(clusters.starts) - 1):
        top = -np.inf
        for cell in range(clusters.starts[c], clusters.starts[c + 1]):
            top = fast_max(top, clusters.flat[cell])
        bound += top
    return bound


@compiled
def maximise_onto(clusters: ClusterTables, link: int, side: int, out: Array) -> None:
    """out(x_S) = max of one linked cluster's table given x_S."""
    c = clusters.links[link, side]
    lengths = clusters.lengths[clusters.axes[c] : clusters.axes[c + 1]]
    start = clusters.step_starts[link, side]
    maximise(clusters.flat[clusters.starts[c] : clusters.starts[c + 1]], lengths, clusters.steps[start:], out)


@compiled
def maximise(table: Array, lengths: Indices, steps: Indices, out: Array) -> None:
    """out[s] = the maximum of the cells whose steps along the axes add up to s."""
    last = len(lengths) - 1
    length, step, at = lengths[last], steps[last], 0
    index = np.zeros(len(lengths), dtype=np.int64)
    out[:] = -np.inf
    for start in range(0, len(table), length):  # no slices and no calls in here: rows are short
        if step == 0:
            top = out[at]
            for h in range(length):
                top = max(top, table[start + h])
            out[at] = top
        else:
            for h in range(length):
                out[at + h * step] = max(out[at + h * step], table[start + h])
        next_row(index, lengths)
        at = 0
        for axis in range(last):
            at += index[axis] * steps[axis]


@compiled
def add_to(clusters: ClusterTables, link: int, side: int, change: Array) -> None:
    """theta += change(x_S) for one linked cluster."""
    c = clusters.links[link, side]
    table = clusters.flat[clusters.starts[c] : clusters.starts[c + 1]]
    lengths = clusters.lengths[clusters.axes[c] : clusters.axes[c + 1]]
    steps = clusters.steps[clusters.step_starts[link, side] :]
    last = len(lengths) - 1
    length, step, at = lengths[last], steps[last], 0
    index = np.zeros(len(lengths), dtype=np.int64)
    for start in range(0, len(table), length):
        if step == 0:
            for h in range(length):
                table[start + h] += change[at]
        else:
            for h in range(length):
                table[start + h] += change[at + h * step]
        next_row(index, lengths)
        at = 0
        for axis in range(last):
            at += index[axis] * steps[axis]
