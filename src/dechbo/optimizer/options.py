"""Options of an optimizer: what unknown ones should be, and all of them as plain data for saved runs."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from dataclasses import asdict, fields, is_dataclass
from difflib import get_close_matches
from functools import wraps
from typing import Any, ParamSpec

from dechbo.errors import OptionError, ScopeError, format_list
from dechbo.graph import FactorGraph
from dechbo.maxsum import Auto, BoundedMaxSum, Exact, MaxSum, Toulbar2
from dechbo.models.options import ModelOptions
from dechbo.search.grids import Granularity
from dechbo.search.options import SearchOptions
from dechbo.space import Space
from dechbo.structure import StructureOptions
from dechbo.theory import TheoryOptions

P = ParamSpec("P")

CUSTOM = "custom"  # stands in a saved run for what plain JSON cannot hold
_MAXIMIZERS = {kind.__name__: kind for kind in (Auto, BoundedMaxSum, Exact, MaxSum, Toulbar2)}

GROUPED = {  # options that a newcomer may look for in the constructor itself
    **{field.name: f"model=ModelOptions({field.name}=…)" for field in fields(ModelOptions)},
    **{field.name: f"search=SearchOptions({field.name}=…)" for field in fields(SearchOptions)},
    **{field.name: f"theory=TheoryOptions({field.name}=…)" for field in fields(TheoryOptions)},
    "random_state": "seed=…",
    "rng": "seed=…",
    "n_startup_trials": "n_initial=…",
}


def known_options(owner: str, grouped: Mapping[str, str]) -> Callable[[Callable[P, None]], Callable[P, None]]:
    """Decorate a constructor: an unknown option raises OptionError and says what to write instead.

    ``grouped`` says where other options are: {"beta": "theory=TheoryOptions(beta=…)"}.
    """

    def decorated(init: Callable[P, None]) -> Callable[P, None]:
        names = list(inspect.signature(init).parameters)[1:]

        @wraps(init)
        def checked(*args: P.args, **kwargs: P.kwargs) -> None:
            for name in (name for name in kwargs if name not in names):
                close = get_close_matches(name, [*names, *grouped], n=1)
                hint = grouped.get(name) or (grouped.get(close[0], f"{close[0]}=…") if close else None)
                advice = f"write {hint}" if hint else f"known are {', '.join(names)}"
                raise OptionError(f"{owner} has no option {name!r}: {advice}")
            init(*args, **kwargs)

        return checked

    return decorated


def checked_graph(graph: object, space: Space) -> FactorGraph | str:
    """A factor graph over the parameters of ``space``, or "learned" or "random"."""
    if graph is None:
        return "learned"
    if isinstance(graph, str) and graph in ("random", "learned"):
        return graph
    if not isinstance(graph, FactorGraph):
        raise OptionError(
            'graph must be a FactorGraph, "random" or "learned" (write FactorGraph.from_names(space, [("a", "b"), …]) '
            f"for scopes of names), got {graph!r}"
        )
    if graph.dim != space.dim:
        names = format_list(list(space.names))
        raise ScopeError(f"the graph has {graph.dim} variables, the space has {space.dim}: {names}")
    return graph


def to_json(options: Mapping[str, Any]) -> dict[str, Any]:
    """Options of an optimizer as plain data."""
    saved = dict(options)
    graph, maximizer, theory = saved["graph"], saved["maximizer"], saved["theory"]
    saved["graph"] = graph if isinstance(graph, str) else [list(scope) for scope in graph.scopes]
    name = type(maximizer).__name__
    known = name in _MAXIMIZERS and is_dataclass(maximizer) and not isinstance(maximizer, type)
    saved["maximizer"] = {"name": name, **asdict(maximizer)} if known else CUSTOM
    saved["model"] = asdict(saved["model"])
    saved["search"] = asdict(saved["search"])
    saved["theory"] = {"beta": CUSTOM if callable(theory.beta) else theory.beta, "delta": theory.delta}
    return saved


def from_json(space: Space, saved: Mapping[str, Any]) -> dict[str, Any]:
    """The inverse of ``to_json``; what is CUSTOM stays so."""
    options = dict(saved)
    if not isinstance(options["graph"], str):
        options["graph"] = FactorGraph(space.dim, tuple(tuple(scope) for scope in options["graph"]))
    if options["maximizer"] != CUSTOM:
        maximizer = dict(options["maximizer"])
        options["maximizer"] = _MAXIMIZERS[maximizer.pop("name")](**maximizer)
    model, search = dict(options["model"]), dict(options["search"])
    structure = StructureOptions(**model["structure"])
    options["model"] = ModelOptions(**{**model, "members": tuple(model["members"]), "structure": structure})
    options["search"] = SearchOptions(**{**search, "granularity": Granularity(**search["granularity"])})
    if options["theory"]["beta"] == CUSTOM:
        options["theory"] = CUSTOM
    else:
        options["theory"] = TheoryOptions(**options["theory"])
    return options
