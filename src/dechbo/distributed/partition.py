"""Cut a factor graph into parts of about equal work, with few edges between them.

The graph that is cut has a vertex for each variable and for each factor, weighted by the cells of its table, and an
edge wherever a factor sees a variable, weighted by the candidates: what a message on that edge weighs. METIS cuts it
(``pymetis``, in the extras ``parts`` and ``ray``); without it, stretches of a breadth-first order are the parts. The
partition decides who works and what travels, never the answer.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array
from scipy.sparse.csgraph import reverse_cuthill_mckee

from dechbo.graph import FactorGraph
from dechbo.maxsum.reduction import merge_plan

Ints = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Partition:
    """Which part holds each factor's table, and which one decides each variable."""

    factors: Ints  # (|U|,)
    variables: Ints  # (d,)

    @classmethod
    def of(cls, graph: FactorGraph, factors: Ints, variables: Ints) -> Partition:
        """The partition with these parts of factors and variables, numbered without gaps.

        A singleton goes with its variable, and a factor whose scope lies in another one with that factor.
        """
        plan, held = merge_plan(graph), factors.copy()
        for k, i in plan.singletons:
            held[k] = variables[i]
        for k, j in plan.merged:
            held[k] = held[j]
        numbers = np.unique(np.concatenate([held, variables]), return_inverse=True)[1].astype(np.int64)
        return cls(numbers[: len(held)], numbers[len(held) :])

    @property
    def parts(self) -> int:
        """How many parts there are; each has a variable or a factor."""
        return int(max(self.factors.max(), self.variables.max())) + 1


def partition(graph: FactorGraph, sizes: Ints, parts: int) -> Partition:
    """Cut ``graph``, whose variables have ``sizes`` candidates, into at most ``parts`` parts."""
    plan = merge_plan(graph)
    edges = np.array([(k, i) for k, j in enumerate(plan.remaining) for i in graph.scopes[j]], dtype=np.int64)
    edges = edges.reshape(-1, 2)
    cells = np.ones(len(plan.remaining))
    np.multiply.at(cells, edges[:, 0], sizes[edges[:, 1]].astype(np.float64))
    work = np.concatenate([sizes.astype(np.float64), cells])
    labels = _cut(edges + np.array([graph.dim, 0]), sizes[edges[:, 1]], work, parts)
    held = labels[graph.dim :]
    variables = _owners(labels[: graph.dim], edges, held)
    factors = np.zeros(len(graph.scopes), dtype=np.int64)
    factors[list(plan.remaining)] = held
    return Partition.of(graph, factors, variables)


def cut_weight(graph: FactorGraph, sizes: Ints, cut: Partition) -> int:
    """The sum of |D_i| over the edges between factors and variables of different parts; merged factors have none."""
    plan = merge_plan(graph)
    return sum(int(sizes[i]) for k in plan.remaining for i in graph.scopes[k] if cut.factors[k] != cut.variables[i])


def _owners(labels: Ints, edges: Ints, held: Ints) -> Ints:
    """Each variable goes where most of its factors are; of equals, where it was."""
    many, there = len(labels), held[edges[:, 0]]
    parts = int(max(labels.max(), held.max(initial=0))) + 1
    ballots = np.concatenate([edges[:, 1] * parts + there] * 2 + [np.arange(many) * parts + labels])
    pairs, votes = np.unique(ballots, return_counts=True)  # two votes of each factor, one for where it was
    variables, chosen = np.divmod(pairs, parts)
    order = np.lexsort([-chosen, votes, variables])  # of each variable the most votes last; of equals the lowest part
    owners: Ints = chosen[order[np.cumsum(np.bincount(variables, minlength=many)) - 1]]
    return owners


def _cut(edges: Ints, weights: Ints, work: NDArray[np.float64], parts: int) -> Ints:
    """A part for each vertex of the graph with these ``edges`` (n, 2)."""
    many = len(work)
    if parts == 1:
        return np.zeros(many, dtype=np.int64)
    ends = np.concatenate([edges, edges[:, ::-1]])
    graph = csr_array((np.tile(weights, 2), (ends[:, 0], ends[:, 1])), shape=(many, many))
    graph.sort_indices()
    if many <= 4 * parts:  # METIS prints complaints about parts without a vertex
        return breadth_first_parts(graph, work, parts)
    try:
        import pymetis
    except ModuleNotFoundError:
        return breadth_first_parts(graph, work, parts)
    shares = np.maximum(1, np.rint(work * min(1.0, 2.0**30 / work.sum()))).astype(np.int64)
    csr = pymetis.CSRAdjacency(graph.indptr.tolist(), graph.indices.tolist())
    _, labels = pymetis.part_graph(parts, adjacency=csr, vweights=shares.tolist(), eweights=graph.data.tolist())
    return np.array(labels, dtype=np.int64)


def breadth_first_parts(graph: csr_array, work: NDArray[np.float64], parts: int) -> Ints:
    """Stretches of equal work of the Cuthill-McKee order, a breadth-first one."""
    order = reverse_cuthill_mckee(graph, symmetric_mode=True)
    before = np.cumsum(work[order]) - 0.5 * work[order]
    labels = np.empty(len(work), dtype=np.int64)
    labels[order] = np.minimum(parts - 1, before * parts / work.sum()).astype(np.int64)
    return labels
