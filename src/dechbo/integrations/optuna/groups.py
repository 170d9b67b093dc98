"""A given factor graph by the names of its parameters: studies know names, not an order."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from dechbo.errors import OptionError, ScopeError, format_list
from dechbo.graph import FactorGraph
from dechbo.space import Space

Groups = tuple[tuple[str, ...], ...]


def named_graph(graph: Any, names: Sequence[str] | None) -> Groups | str | None:
    """What a user gives as a graph, checked: a word, or groups of names. ``names`` are those of the search space."""
    if graph is None or (isinstance(graph, str) and graph in ("learned", "random")):
        return graph
    if isinstance(graph, FactorGraph):
        if names is None:
            raise OptionError("a FactorGraph counts the parameters of search_space: pass search_space={name: …} too")
        if graph.dim != len(names):
            raise ScopeError(
                f"the graph has {graph.dim} variables, search_space has {len(names)}: {format_list(names)}"
            )
        return tuple(tuple(names[i] for i in scope) for scope in graph.scopes)
    if isinstance(graph, str) or not isinstance(graph, Iterable):
        raise OptionError(f'graph is "learned", "random", a FactorGraph or groups of names, got {graph!r:.80}')
    groups: Groups = tuple(_group(group) for group in graph)
    if names is not None:
        unknown = [name for group in groups for name in group if name not in names]
        if unknown:
            raise OptionError(f"graph names {format_list(unknown)}, which are not among {format_list(names)}")
    return groups


def graph_over(graph: Groups | str | None, space: Space) -> FactorGraph | str | None:
    """The groups as far as the space has their parameters; parameters in none act on their own."""
    if graph is None or isinstance(graph, str):
        return graph
    index = {name: i for i, name in enumerate(space.names)}
    scopes = dict.fromkeys(tuple(sorted({index[name] for name in group if name in index})) for group in graph)
    return FactorGraph.covering(space.dim, [scope for scope in scopes if scope])


def _group(group: Any) -> tuple[str, ...]:
    names = (group,) if isinstance(group, str) else tuple(group) if isinstance(group, Iterable) else ()
    if not names or not all(isinstance(name, str) for name in names):
        raise OptionError(f'a group of parameters is names such as ("lr", "layers"), got {group!r:.80}')
    return names
