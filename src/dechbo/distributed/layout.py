"""What one part knows of the graph: its factors, its variables, and what crosses the cut between it and its neighbours.

Local numbers: variables are numbered with the part's own first, then those of others that its factors see; edges are
numbered with those of its own factors first, then *ghost edges*, from factors of other parts to its own variables.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from dechbo.distributed.exchange import Exchange, Place, Program
from dechbo.graph import Scope

Array = NDArray[np.float64]
Ints = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class View:
    """What has to be known to lay out one part: the factors that it holds, and those that see one of its variables.

    Nothing else of the graph is in here.
    """

    place: Place
    numbers: Ints  # (n,) of the factors in the whole graph, ascending
    scopes: tuple[Scope, ...]  # (n,) in the variables' own numbers
    holders: Ints  # (n,) the part of each factor
    colours: Ints  # (n,) factors of equal colour share no variable
    owners: dict[int, int]  # the part of each variable of these scopes
    sizes: dict[int, int]  # candidates of each variable
    variable_colours: dict[int, int]  # variables of equal colour share no factor


@dataclass(frozen=True, eq=False)
class Link:
    """What passes between this part and a neighbour; both ends list it in the same order."""

    sent_edges: Ints  # own edges to the neighbour's variables
    received_edges: Ints  # ghost edges from the neighbour's factors
    sent_variables: Ints  # own variables that the neighbour's factors see
    received_variables: Ints  # the neighbour's variables that own factors see


@dataclass(frozen=True, eq=False)
class Layout:
    """A part's factors in local numbers, and its links."""

    place: Place
    variables: Ints  # the number of each local variable in the whole graph
    own: int  # how many of them are its own: the first ones
    sizes: Ints  # candidates of each local variable
    colours: Ints  # of the local variables
    numbers: Ints  # of its factors in the whole graph
    scopes: tuple[Scope, ...]  # of its factors, in local variables
    factor_colours: Ints
    edge_variables: Ints  # (edges,) the local variable of each edge, ghost edges last
    edge_colours: Ints  # (edges,) the colour of its factor
    edge_starts: Ints  # (edges + 1,) where the message of each edge lies in a buffer of all messages
    variable_starts: Ints  # (variables + 1,) where the belief of each variable lies
    order: Ints  # the edges of all own variables, variable by variable, in the order of the whole graph
    order_starts: Ints  # (own + 1,)
    links: dict[int, Link]

    @property
    def edges(self) -> int:
        """How many edges its own factors have."""
        return sum(map(len, self.scopes))

    def entries(self, edges: Ints) -> Ints:
        """Where the message entries of ``edges`` lie in the buffer, one edge after the other."""
        return stretches(self.edge_starts, edges)

    def belief_entries(self, variables: Ints) -> Ints:
        """Where the belief entries of ``variables`` lie."""
        return stretches(self.variable_starts, variables)

    def send_messages(self, messages: Array) -> Program[None]:
        """Send the messages of own factors to the owners of their variables, and fill in those of the ghost edges."""
        inbox = yield Exchange(
            {q: messages[there] for q, there in self._edges_out.items()}, tuple(self._edges_in), "messages"
        )
        for q, here in self._edges_in.items():
            messages[here] = inbox[q]

    def send_beliefs(self, belief: Array, kind: str = "beliefs") -> Program[None]:
        """Send the beliefs of own variables to the parts whose factors see them, and fill in those of the others."""
        inbox = yield Exchange(
            {q: belief[there] for q, there in self._beliefs_out.items()}, tuple(self._beliefs_in), kind
        )
        for q, here in self._beliefs_in.items():
            belief[here] = inbox[q]

    def send_choices(self, choice: Ints, colour: int | None = None) -> Program[None]:
        """The same with the choices of own variables, or of those of one ``colour``."""
        out, into = {}, {}
        for q, link in self.links.items():
            there, here = link.sent_variables, link.received_variables
            if colour is not None:
                there, here = there[self.colours[there] == colour], here[self.colours[here] == colour]
            if len(there):
                out[q] = choice[there]
            if len(here):
                into[q] = here
        inbox = yield Exchange(out, tuple(into), "choices")
        for q, here in into.items():
            choice[here] = inbox[q]

    @cached_property
    def _edges_out(self) -> dict[int, Ints]:
        return {q: self.entries(link.sent_edges) for q, link in self.links.items() if len(link.sent_edges)}

    @cached_property
    def _edges_in(self) -> dict[int, Ints]:
        return {q: self.entries(link.received_edges) for q, link in self.links.items() if len(link.received_edges)}

    @cached_property
    def _beliefs_out(self) -> dict[int, Ints]:
        pairs = ((q, link.sent_variables) for q, link in self.links.items())
        return {q: self.belief_entries(variables) for q, variables in pairs if len(variables)}

    @cached_property
    def _beliefs_in(self) -> dict[int, Ints]:
        pairs = ((q, link.received_variables) for q, link in self.links.items())
        return {q: self.belief_entries(variables) for q, variables in pairs if len(variables)}


def lay_out(view: View, variables: Ints | None = None) -> Layout:
    """The layout of the part that ``view`` describes; ``variables`` are its local ones in another order, or more."""
    me = view.place.part
    members = np.array([i for scope in view.scopes for i in scope], dtype=np.int64)
    counts = np.array([len(scope) for scope in view.scopes], dtype=np.int64)
    holders = np.repeat(view.holders, counts)
    known = np.array(sorted(view.owners), dtype=np.int64)
    owner_of = np.array([view.owners[i] for i in known.tolist()], dtype=np.int64)
    owners = owner_of[np.searchsorted(known, members)]
    is_mine, is_ghost = holders == me, (holders != me) & (owners == me)
    own = known[owner_of == me]
    if variables is None:
        variables = np.concatenate([own, np.setdiff1d(members[is_mine], own)])
    local = np.full(int(known.max(initial=-1)) + 1, -1, dtype=np.int64)
    local[variables] = np.arange(len(variables))
    sizes = np.array([view.sizes[i] for i in variables.tolist()], dtype=np.int64)
    mine = np.flatnonzero(view.holders == me)
    edges = np.concatenate([np.flatnonzero(is_mine), np.flatnonzero(is_ghost)])
    edge_variables = local[members[edges]]
    number = np.full(len(members), -1, dtype=np.int64)  # local numbers of the view's edges
    number[edges] = np.arange(len(edges))
    at_mine = np.flatnonzero(owners == me)  # in the order of the whole graph, because ``numbers`` ascend
    at_mine = at_mine[np.argsort(local[members[at_mine]], kind="stable")]
    links = {
        q: Link(
            number[is_mine & (owners == q)],
            number[is_ghost & (holders == q)],
            local[np.unique(members[is_ghost & (holders == q)])],
            local[np.unique(members[is_mine & (owners == q)])],
        )
        for q in sorted(({*holders[is_ghost].tolist()} | {*owners[is_mine].tolist()}) - {me})
    }
    return Layout(
        place=view.place,
        variables=variables,
        own=len(own),
        sizes=sizes,
        colours=np.array([view.variable_colours[i] for i in variables.tolist()], dtype=np.int64),
        numbers=view.numbers[mine],
        scopes=tuple(tuple(local[list(view.scopes[k])].tolist()) for k in mine.tolist()),
        factor_colours=view.colours[mine],
        edge_variables=edge_variables,
        edge_colours=np.repeat(view.colours, counts)[edges],
        edge_starts=_starts(sizes[edge_variables]),
        variable_starts=_starts(sizes),
        order=number[at_mine],
        order_starts=_starts(np.bincount(local[members[at_mine]], minlength=len(own))),
        links=links,
    )


def greedy_colours(groups: Sequence[Sequence[int]], count: int) -> Ints:
    """A colour for each of ``count`` items, in turn the least one that no item of a common group has."""
    of: list[list[int]] = [[] for _ in range(count)]
    for g, group in enumerate(groups):
        for item in group:
            of[item].append(g)
    taken: list[set[int]] = [set() for _ in groups]
    colours = np.zeros(count, dtype=np.int64)
    for item, mine in enumerate(of):
        colour = 0
        while any(colour in taken[g] for g in mine):
            colour += 1
        for g in mine:
            taken[g].add(colour)
        colours[item] = colour
    return colours


def stretches(starts: Ints, chosen: Ints) -> Ints:
    """All positions from starts[c] to starts[c + 1] - 1, one chosen c after the other."""
    lengths = starts[chosen + 1] - starts[chosen]
    ends = np.cumsum(lengths)
    positions: Ints = np.arange(ends[-1] if len(ends) else 0) + np.repeat(starts[chosen] - ends + lengths, lengths)
    return positions


def _starts(lengths: Ints) -> Ints:
    return np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
