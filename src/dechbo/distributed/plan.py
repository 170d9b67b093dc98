"""From a graph and its partition to what each part is told. Tested by tests/distributed/test_maximize.py."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dechbo.distributed.exchange import Place
from dechbo.distributed.forest import ForestLayout
from dechbo.distributed.layout import Layout, View, greedy_colours, lay_out
from dechbo.distributed.maximize import PartGraph
from dechbo.distributed.partition import Partition
from dechbo.graph import FactorGraph, Scope
from dechbo.maxsum.forest import ConnectedComponents, connected_components
from dechbo.maxsum.reduction import merge_plan

Ints = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class PartPlan:
    """A part of the graph, and which factors' tables it needs, in its local variables."""

    graph: PartGraph
    factors: Ints  # the numbers of its factors in the whole graph
    local: FactorGraph  # their scopes, then a singleton for every own variable that none of them sees
    sizes: Ints  # candidates of each local variable

    @property
    def scopes(self) -> tuple[Scope, ...]:
        """The scopes of its factors, in local variables."""
        return self.local.scopes[: len(self.factors)]


@dataclass(frozen=True, eq=False)
class _Edges:
    """Some factors of the graph in a certain order, edge by edge."""

    factors: Ints  # the numbers of the factors
    scopes: tuple[Scope, ...]
    positions: Ints  # (edges,) the position of the factor of each edge
    members: Ints  # (edges,) the variable
    colours: Ints  # (factors,)

    @classmethod
    def of(cls, graph: FactorGraph, factors: tuple[int, ...], *, coloured: bool) -> _Edges:
        scopes = tuple(graph.scopes[k] for k in factors)
        members = np.array([i for scope in scopes for i in scope], dtype=np.int64)
        positions = np.repeat(np.arange(len(scopes)), [len(scope) for scope in scopes]).astype(np.int64)
        seen: list[list[int]] = [[] for _ in range(graph.dim)]
        for position, i in zip(positions.tolist(), members.tolist(), strict=True):
            seen[i].append(position)
        colours = greedy_colours(seen, len(scopes)) if coloured else np.zeros(len(scopes), dtype=np.int64)
        return cls(np.array(factors, dtype=np.int64), scopes, positions, members, colours)

    def layout(self, place: Place, cut: Partition, sizes: Ints, colours: Ints, variables: Ints) -> Layout:
        """The layout of one part, from the factors that it holds or that see its variables."""
        near = (cut.factors[self.factors[self.positions]] == place.part) | (cut.variables[self.members] == place.part)
        chosen = np.unique(self.positions[near])
        seen = {i for k in chosen.tolist() for i in self.scopes[k]} | set(variables.tolist())
        view = View(
            place,
            chosen,
            tuple(self.scopes[k] for k in chosen.tolist()),
            cut.factors[self.factors[chosen]],
            self.colours[chosen],
            {i: int(cut.variables[i]) for i in seen},
            {i: int(sizes[i]) for i in seen},
            {i: int(colours[i]) for i in seen},
        )
        return lay_out(view, variables)


def plan_parts(graph: FactorGraph, sizes: Ints, cut: Partition, *, as_cyclic: bool = False) -> list[PartPlan]:
    """The plan of every part; ``as_cyclic`` treats acyclic components as cyclic ones, by messages only."""
    components = connected_components(graph)
    if as_cyclic:
        nothing = np.zeros(0, dtype=np.int64)
        everything = tuple(sorted(components.forest + components.cyclic))
        components = ConnectedComponents((), nothing, nothing, everything)
    cyclic = _Edges.of(graph, components.cyclic, coloured=True)
    forest = _Edges.of(graph, components.forest, coloured=False)
    colours = greedy_colours(cyclic.scopes, graph.dim)
    passes = _crossings(graph, components, cut) + 1
    is_remaining = np.zeros(len(graph.scopes), dtype=np.bool_)
    is_remaining[list(merge_plan(graph).remaining)] = True
    plans = []
    for part in range(cut.parts):
        place = Place(part, cut.parts)
        factors = np.flatnonzero(cut.factors == part)
        own = np.flatnonzero(cut.variables == part)
        seen = {i for k in factors.tolist() for i in graph.scopes[k]}
        variables = np.concatenate([own, np.setdiff1d(np.array(sorted(seen), dtype=np.int64), own)])
        local = {int(i): n for n, i in enumerate(variables)}
        scopes = tuple(tuple(local[i] for i in graph.scopes[k]) for k in factors.tolist())
        at = {int(k): n for n, k in enumerate(factors)}
        cyclic_layout = cyclic.layout(place, cut, sizes, colours, variables)
        forest_layout = forest.layout(place, cut, sizes, colours, variables)
        here = PartGraph(
            place,
            variables,
            len(own),
            np.array([at[k] for k in factors[is_remaining[factors]].tolist()], dtype=np.int64),
            np.array([at[k] for k in cyclic.factors[cyclic_layout.numbers].tolist()], dtype=np.int64),
            cyclic_layout,
            len(components.cyclic) > 0,
            np.array([at[k] for k in forest.factors[forest_layout.numbers].tolist()], dtype=np.int64),
            ForestLayout(
                forest_layout,
                components.parents[forest_layout.numbers],
                np.array([local[i] for i in components.roots.tolist() if cut.variables[i] == part], dtype=np.int64),
                passes,
            )
            if len(components.forest)
            else None,
        )
        plans.append(PartPlan(here, factors, FactorGraph.covering(len(variables), scopes), sizes[variables]))
    return plans


def _crossings(graph: FactorGraph, components: ConnectedComponents, cut: Partition) -> int:
    """How often the path from a root to a leaf crosses the cut, at most."""
    depth = np.zeros(graph.dim, dtype=np.int64)
    for k, axis in zip(components.forest, components.parents.tolist(), strict=True):
        scope, holder = graph.scopes[k], cut.factors[k]
        here = depth[scope[axis]] + (cut.variables[scope[axis]] != holder)
        for n, i in enumerate(scope):
            if n != axis:
                depth[i] = here + (cut.variables[i] != holder)
    return int(depth.max(initial=0))
