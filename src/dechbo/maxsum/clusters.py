"""Join graphs: clusters of variables whose tables stay below a limit, made by eliminating variables (mini-buckets).

Eliminating a variable would join all tables that see it. Here they are joined in groups whose tables have at most
``max_cells`` cells. Each group is a cluster, linked to the others of the same variable and to the cluster that takes up
the rest of its variables. With ``max_cells`` large enough this is a junction tree.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from dechbo.graph import Scope
from dechbo.maxsum.messages import Indices
from dechbo.maxsum.reduction import aligned
from dechbo.maxsum.shifting import ClusterTables
from dechbo.tables import FactorTables

Link = tuple[int, int]


@dataclass(frozen=True)
class JoinGraph:
    """Clusters of variables, the cluster that holds each factor's table, and pairs of clusters that share variables."""

    clusters: tuple[Scope, ...]
    homes: tuple[int, ...]
    links: tuple[Link, ...]


def join_graph(scopes: Sequence[Scope], sizes: Indices, order: Sequence[int], max_cells: int) -> JoinGraph:
    """Eliminate in this ``order``; a single scope may have a larger table than ``max_cells``."""
    turn = {i: n for n, i in enumerate(order)}

    def cells(scope: frozenset[int]) -> int:
        return math.prod(int(sizes[i]) for i in scope)

    # what each variable's elimination has to join: the variables, and the factor (first) or cluster that they come from
    buckets: list[list[tuple[frozenset[int], bool, int]]] = [[] for _ in order]
    for k, scope in enumerate(scopes):
        buckets[min(turn[i] for i in scope)].append((frozenset(scope), True, k))
    clusters: list[frozenset[int]] = []
    homes, links = [0] * len(scopes), []
    for n, i in enumerate(order):
        groups: list[tuple[frozenset[int], list[tuple[bool, int]]]] = []
        for part, factor, origin in sorted(buckets[n], key=lambda item: (-cells(item[0]), not item[1], item[2])):
            limit = max(max_cells, cells(part))
            growths = [(cells(group | part) / cells(group), g) for g, (group, _) in enumerate(groups)]
            fitting = [(growth, g) for growth, g in growths if growth * cells(groups[g][0]) <= limit]
            if fitting:
                g = min(fitting)[1]
                groups[g] = (groups[g][0] | part, [*groups[g][1], (factor, origin)])
            else:
                groups.append((part, [(factor, origin)]))
        for g, (group, members) in enumerate(groups):
            cluster = len(clusters)
            clusters.append(group)
            if g:
                links.append((cluster - 1, cluster))
            for factor, origin in members:
                if factor:
                    homes[origin] = cluster
                else:
                    links.append((origin, cluster))
            if rest := group - {i}:
                buckets[min(turn[j] for j in rest)].append((rest, False, cluster))
    return _without_subsets(clusters, homes, links, turn)


def _without_subsets(
    clusters: list[frozenset[int]], homes: list[int], links: list[Link], turn: dict[int, int]
) -> JoinGraph:
    """Clusters within a linked one are joined to it; axes are sorted so that early eliminated variables come last."""
    into = list(range(len(clusters)))

    def root(c: int) -> int:
        while into[c] != c:
            c = into[c]
        return c

    joined = True
    while joined:
        joined = False
        for link in links:
            a, b = map(root, link)
            small, large = (a, b) if clusters[a] <= clusters[b] else (b, a)
            if small != large and clusters[small] <= clusters[large]:
                into[small] = large
                joined = True
    left = [c for c in range(len(clusters)) if into[c] == c]
    new = {c: n for n, c in enumerate(left)}
    pairs = dict.fromkeys((new[root(a)], new[root(b)]) for a, b in links if root(a) != root(b))
    scopes = tuple(tuple(sorted(clusters[c], key=lambda i: -turn[i])) for c in left)
    return JoinGraph(scopes, tuple(new[root(c)] for c in homes), tuple(pairs))


def cluster_tables(graph: JoinGraph, tables: FactorTables) -> ClusterTables:
    """The tables of the clusters, each the sum of its factors' tables, and what the links share."""
    sizes = tables.sizes
    shapes = [[int(sizes[i]) for i in cluster] for cluster in graph.clusters]
    starts = np.cumsum([0, *(math.prod(shape) for shape in shapes)])
    flat = np.zeros(starts[-1])
    for k, c in enumerate(graph.homes):
        view = flat[starts[c] : starts[c + 1]].reshape(shapes[c])
        view += aligned(tables.values[k], tables.graph.scopes[k], graph.clusters[c])
    separators, step_starts = [], []
    steps: list[int] = []
    for pair in graph.links:
        shared = [i for i in graph.clusters[pair[0]] if i in graph.clusters[pair[1]]]
        step = dict(zip(reversed(shared), np.cumprod([1, *(sizes[i] for i in reversed(shared))]), strict=False))
        separators.append(math.prod(int(sizes[i]) for i in shared))
        for c in pair:
            step_starts.append(len(steps))
            steps += [int(step.get(i, 0)) for i in graph.clusters[c]]
    return ClusterTables(
        flat=flat,
        starts=starts,
        axes=np.cumsum([0, *map(len, shapes)]),
        lengths=np.array([length for shape in shapes for length in shape], dtype=np.int64),
        links=np.array(graph.links, dtype=np.int64).reshape(-1, 2),
        separators=np.array(separators, dtype=np.int64),
        step_starts=np.array(step_starts, dtype=np.int64).reshape(-1, 2),
        steps=np.array(steps, dtype=np.int64),
    )
