"""Options of an optimiser: checked when given, plain data when saved."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, is_dataclass
from typing import Any

import numpy as np

from dechbo.errors import OptionError, ParameterError, ScopeError, shortened
from dechbo.graph import FactorGraph
from dechbo.grids import Granularity
from dechbo.maxsum import Exact, MaxSum
from dechbo.space import Space
from dechbo.structure.learner import Effort

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
        names = shortened(list(space.names))
        raise ScopeError(f"the graph has {graph.dim} variables, the space has {space.dim}: {names}")
    return graph


def held(space: Space, fixed: Mapping[str, Any] | None) -> dict[str, Any]:
    """What the user holds fixed, checked, as plain values."""
    if fixed is None:
        return {}
    if not isinstance(fixed, Mapping):
        raise ParameterError(f"fixed is a dict of parameter name to value, got {fixed!r:.80}")
    names = dict(zip(space.names, space.is_continuous, strict=True))
    unknown = [name for name in fixed if name not in names]
    if unknown:
        raise ParameterError(f"fixed names {unknown}, which are not parameters; the space has {shortened(list(names))}")
    native: dict[str, Any] = {}
    for name, value in fixed.items():
        try:
            encoded = space[name].encode(value)
        except ParameterError as error:
            raise ParameterError(f"fixed {name!r}: {error}") from None
        native[name] = float(value) if names[name] else space[name].decode(encoded)
    return native


def coordinates(space: Space, fixed: Mapping[str, Any]) -> dict[int, float]:
    """The same as coordinates, by the index of the parameter."""
    return {i: space[name].encode(fixed[name]) for i, name in enumerate(space.names) if name in fixed}


def one_of(name: str, value: str, allowed: tuple[str, ...]) -> str:
    """One of a few words."""
    if value not in allowed:
        raise OptionError(f"{name} is one of {', '.join(map(repr, allowed))}, got {value!r}")
    return value


def whole(name: str, value: object, least: int) -> int:
    """A whole number, at least ``least``."""
    if isinstance(value, bool) or not isinstance(value, (int, np.integer)) or value < least:
        raise OptionError(f"{name} is a whole number at least {least}, got {value!r}")
    return int(value)


def flag(name: str, value: object) -> bool:
    """True or False."""
    if not isinstance(value, (bool, np.bool_)):
        raise OptionError(f"{name} is True or False, got {value!r}")
    return bool(value)


def probability(name: str, value: object) -> float:
    """A number between 0 and 1, both excluded."""
    if isinstance(value, bool) or not isinstance(value, (int, float, np.floating)) or not 0 < value < 1:
        raise OptionError(f"{name} is a probability between 0 and 1, got {value!r}")
    return float(value)


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
    options["effort"] = Effort(**options["effort"])
    return options
