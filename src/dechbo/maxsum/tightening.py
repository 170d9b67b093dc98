"""Close an open gap: remove what cannot beat the best choice, then eliminate exactly or bound by clusters."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from dechbo.maxsum.clusters import JoinGraph, cluster_tables, join_graph
from dechbo.maxsum.dual import bound_terms
from dechbo.maxsum.exact import eliminate, elimination_order
from dechbo.maxsum.messages import Array, Flags, Indices, Packed, score
from dechbo.maxsum.shifting import ClusterTables, maximise, shift_costs
from dechbo.maxsum.subproblem import Subproblem, subproblem
from dechbo.tables import FactorTables

EPS = float(np.finfo(np.float64).eps)
PATIENCE = 1e-3  # of the gap that a sweep has to close, or no more sweeps follow
SHRINKAGE = 0.9  # of the table cells: pruning more than the rest is worth new clusters


@dataclass
class Tightening:
    """A bound that falls and a choice that improves, within a budget of table cells read."""

    packed: Packed
    choice: Indices
    bound: float
    max_cells: int  # of a cluster
    work: int  # cells that may be read
    closed: float  # a gap as small as this is none

    def run(self, dual: Array) -> None:
        """Prune, eliminate if the rest is small enough, else shift costs between clusters; again if that prunes."""
        self._score = score(self.packed, self.choice)
        size = bound_terms(self.packed, dual)[1]
        self._rounding = 64.0 * EPS * (size + abs(self._score))
        left = self._pruned(dual)
        while self.bound - self._score > self.closed:
            if not left.factors:
                self._settle(left, {i: int(values.argmax()) for i, values in left.unary.items()})
                return
            tables, variables = left.tables()
            scopes = [frozenset(scope) for scope in tables.graph.scopes]
            order, peak = elimination_order(scopes, tables.sizes)
            if peak <= math.log(self.max_cells) + 1e-9:
                self._settle(left, dict(zip(variables, eliminate(tables, order).tolist(), strict=True)))
                return
            graph = join_graph(tables.graph.scopes, tables.sizes, order, self.max_cells)
            keep = self._shift(left, tables, graph)
            before = left.cells
            left.restrict({variables[i]: flags for i, flags in keep.items()})
            left.prune(self._slack(left))
            if left.cells >= SHRINKAGE * before:
                return

    def _pruned(self, dual: Array) -> Subproblem:
        """What is left by the bound of the dual messages, or by that of the tables themselves if that is much less."""
        options = [subproblem(self.packed, messages) for messages in (dual, np.zeros_like(dual))]
        for option in options:
            option.prune(self._slack(option))
        return options[0] if options[1].cells > SHRINKAGE * options[0].cells else options[1]

    def _slack(self, left: Subproblem) -> float:
        return left.bound - self._score + self._rounding

    def _settle(self, left: Subproblem, chosen: dict[int, int]) -> None:
        """Take the best choice of what is left; whatever was removed is no better than the best choice before."""
        choice = self.choice.copy()
        choice[self.packed.variables] = left.choice(chosen)
        if (found := score(self.packed, choice)) > self._score:
            self.choice[:] = choice
            self._score = found
        self.bound = min(self.bound, self._score + self._rounding)

    def _shift(self, left: Subproblem, tables: FactorTables, graph: JoinGraph) -> dict[int, Flags]:
        """Lower the bound by clusters; returns which values of each variable may still beat the best choice."""
        sizes = [math.prod(int(tables.sizes[i]) for i in cluster) for cluster in graph.clusters]
        cost = sum(sizes) + 4 * sum(sizes[a] + sizes[b] for a, b in graph.links)
        if self.work < cost:
            return {}
        clusters = cluster_tables(graph, tables)
        links = np.bincount(clusters.links.ravel(), minlength=len(sizes))
        bound = previous = math.inf
        sweeps = 0
        while self.work >= cost and self.bound - self._score > self.closed:
            self.work -= cost
            sweeps += 1
            total = shift_costs(clusters) + left.constant
            largest = np.maximum.reduceat(np.abs(clusters.flat), clusters.starts[:-1])
            # every shift rounds every cell once
            rounding = EPS * float(((4.0 * sweeps * links + 4.0) * largest).sum()) + EPS * abs(left.constant)
            previous, bound = bound, total + rounding
            self.bound = min(self.bound, max(bound, self._score) + self._rounding)
            if previous - bound <= PATIENCE * max(bound - self._score, 0.0):
                break
        return survivors(clusters, graph, bound - left.constant, self._score - left.constant - self._rounding)


def survivors(clusters: ClusterTables, graph: JoinGraph, bound: float, value: float) -> dict[int, Flags]:
    """For each variable: which values have, in every cluster, cells that leave a bound of at least ``value``."""
    keep: dict[int, Flags] = {}
    for c, cluster in enumerate(graph.clusters):
        table = clusters.flat[clusters.starts[c] : clusters.starts[c + 1]]
        lengths = clusters.lengths[clusters.axes[c] : clusters.axes[c + 1]]
        top = table.max()
        for axis, i in enumerate(cluster):
            steps = np.zeros(len(lengths), dtype=np.int64)
            steps[axis] = 1
            best = np.empty(lengths[axis])
            maximise(table, lengths, steps, best)
            keep[i] = keep.get(i, np.ones(len(best), dtype=np.bool_)) & (bound - (top - best) >= value)
    return keep
