"""A given factor graph as scopes of parameter names: an Optuna study has names, but no order.

Covered by tests/integrations/optuna/test_sampler.py.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from dechbo.errors import OptionError, ScopeError, format_list
from dechbo.graph import FactorGraph
from dechbo.space import Space

NamedScopes = tuple[tuple[str, ...], ...]


def checked_named_graph(graph: Any, names: Sequence[str] | None) -> NamedScopes | str | None:
    """The user's graph, checked: None, "learned", "random" or scopes of names. ``names`` is the search space."""
    if graph is None or (isinstance(graph, str) and graph in ("learned", "random")):
        return graph
    if isinstance(graph, FactorGraph):
        if names is None:
            raise OptionError("a FactorGraph numbers the parameters of search_space: pass search_space={name: …} too")
        if graph.dim != len(names):
            raise ScopeError(
                f"the graph has {graph.dim} variables, search_space has {len(names)}: {format_list(names)}"
            )
        return tuple(tuple(names[i] for i in scope) for scope in graph.scopes)
    if isinstance(graph, str) or not isinstance(graph, Iterable):
        raise OptionError(f'graph must be "learned", "random", a FactorGraph or scopes of names, got {graph!r:.80}')
    scopes: NamedScopes = tuple(_checked_scope(scope) for scope in graph)
    if names is not None:
        unknown = [name for scope in scopes for name in scope if name not in names]
        if unknown:
            raise OptionError(f"graph names {format_list(unknown)}, which are not among {format_list(names)}")
    return scopes


def graph_over(graph: NamedScopes | str | None, space: Space) -> FactorGraph | str | None:
    """The graph over a space: without names that the space lacks, with singletons for parameters in no scope."""
    if graph is None or isinstance(graph, str):
        return graph
    index = {name: i for i, name in enumerate(space.names)}
    scopes = dict.fromkeys(tuple(sorted({index[name] for name in scope if name in index})) for scope in graph)
    return FactorGraph.covering(space.dim, [scope for scope in scopes if scope])


def _checked_scope(scope: Any) -> tuple[str, ...]:
    names = (scope,) if isinstance(scope, str) else tuple(scope) if isinstance(scope, Iterable) else ()
    if not names or not all(isinstance(name, str) for name in names):
        raise OptionError(f'a scope must be a tuple of parameter names such as ("lr", "layers"), got {scope!r:.80}')
    return names
