"""Options of an optimiser: checked when given, plain data when saved."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, is_dataclass
from typing import Any

from dechbo.errors import OptionError, ScopeError, format_list
from dechbo.graph import FactorGraph
from dechbo.maxsum import Exact, MaxSum
from dechbo.search.grids import Granularity
from dechbo.space import Space
from dechbo.structure import StructureOptions

CUSTOM = "custom"  # stands in a saved run for what plain JSON cannot hold
_MAXIMIZERS = {"MaxSum": MaxSum, "Exact": Exact}


def given_graph(graph: object, space: Space) -> FactorGraph | str:
    """A factor graph over the parameters of ``space``, or the word that says where it comes from."""
    if graph is None:
        return "learned"
    if isinstance(graph, str) and graph in ("random", "learned"):
        return graph
    if not isinstance(graph, FactorGraph):
        raise OptionError(f'graph is a FactorGraph, "random" or "learned", got {graph!r}')
    if graph.dim != space.dim:
        names = format_list(list(space.names))
        raise ScopeError(f"the graph has {graph.dim} variables, the space has {space.dim}: {names}")
    return graph


def to_json(options: Mapping[str, Any]) -> dict[str, Any]:
    """Options as plain data."""
    saved = dict(options)
    graph, maximizer = saved["graph"], saved["maximizer"]
    saved["graph"] = graph if isinstance(graph, str) else [list(scope) for scope in graph.scopes]
    saved["effort"] = asdict(saved["effort"])
    name = type(maximizer).__name__
    known = name in _MAXIMIZERS and is_dataclass(maximizer) and not isinstance(maximizer, type)
    saved["maximizer"] = {"name": name, **asdict(maximizer)} if known else CUSTOM
    saved["beta"] = CUSTOM if callable(saved["beta"]) else saved["beta"]
    saved["granularity"] = asdict(saved["granularity"])
    return saved


def from_json(space: Space, saved: Mapping[str, Any]) -> dict[str, Any]:
    """The way back; what is CUSTOM has to be given anew."""
    options = dict(saved)
    if not isinstance(options["graph"], str):
        options["graph"] = FactorGraph(space.dim, tuple(tuple(scope) for scope in options["graph"]))
    if options["maximizer"] != CUSTOM:
        maximizer = dict(options["maximizer"])
        options["maximizer"] = _MAXIMIZERS[maximizer.pop("name")](**maximizer)
    options["granularity"] = Granularity(**options["granularity"])
    options["effort"] = StructureOptions(**options["effort"])
    return options
