"""The maximum of the tables of all parts: rounds, decoding, dual bound and local search, none of which gathers.

``maximize_tables`` is what ``SynchronousMaxSum`` runs: with one part it is an ordinary maximiser of one process, and
with any partition it gives the same choice bit for bit.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dechbo.distributed.exchange import Place, Program, all_reduce, exact_sums
from dechbo.distributed.forest import ForestLayout, solve_forest
from dechbo.distributed.layout import Layout
from dechbo.distributed.local_search import colour_count, coordinate_ascent, decode_by_colour
from dechbo.distributed.rounds import LocalFactors, RoundsResult, dual_sweeps, max_sum_rounds
from dechbo.maxsum.dual import factor_bounds
from dechbo.maxsum.messages import Packed, pack
from dechbo.maxsum.reduction import extremes, fill_forbidden, forbidden_depth, merged_tables
from dechbo.tables import FactorTables

Array = NDArray[np.float64]
Ints = NDArray[np.int64]

EPS = float(np.finfo(np.float64).eps)


@dataclass(frozen=True, kw_only=True)
class Schedule:
    """How long the messages run; see ``SynchronousMaxSum``."""

    rounds: int = 30
    damping: float = 0.5
    tolerance: float = 1e-9
    dual_sweeps: int = 10


@dataclass(frozen=True, eq=False)
class PartGraph:
    """A part of the graph: local numbers of its variables, and which of its tables are in acyclic components."""

    place: Place
    variables: Ints  # the number of each local variable in the whole graph, own ones first
    own: int
    remaining: Ints  # the tables into which no other contains: those that send messages
    cyclic_tables: Ints  # of ``cyclic``
    cyclic: Layout
    any_cyclic: bool  # in any part
    forest_tables: Ints  # of ``forest``
    forest: ForestLayout | None  # None if no part has one


@dataclass(frozen=True, eq=False)
class PartMaximum:
    """A part's share of the maximum: the choice of its own variables; the rest is the same in every part."""

    variables: Ints
    choice: Ints
    value: float
    upper_bound: float
    rounds: int
    converged: bool
    residual: float
    mean: float


@dataclass(frozen=True, eq=False)
class _Reduced:
    flat: Array
    unary: Array
    unary_starts: Ints
    scale: float
    floor: float


def maximize_tables(
    graph: PartGraph, tables: FactorTables, schedule: Schedule, rounds_run: RoundsResult | None = None
) -> Program[PartMaximum]:
    """Maximise the sum of all parts' tables; ``tables`` are this part's, over its local variables.

    ``rounds_run`` is what rounds on the cyclic components have led to already.
    """
    reduced = yield from _reduce(graph, tables)
    choice = np.zeros(len(graph.variables), dtype=np.int64)
    bounds = np.zeros(0)
    rounds, residual, converged = 0, 0.0, True
    if graph.forest is not None:
        packed = _pack(graph.forest.layout, tables, graph.forest_tables, reduced)
        yield from solve_forest(graph.forest, packed, choice)
        bounds = LocalFactors(graph.forest.layout, packed).terms(choice)
    bounds = np.concatenate([bounds, _alone(graph, reduced, choice)])
    sizes = np.abs(bounds)
    if graph.any_cyclic:
        local = LocalFactors(graph.cyclic, _pack(graph.cyclic, tables, graph.cyclic_tables, reduced))
        tolerance = schedule.tolerance * reduced.scale
        found = rounds_run
        if found is None:
            found = yield from max_sum_rounds(local, int(schedule.rounds), float(schedule.damping), tolerance)
        rounds, residual, converged = found.rounds, found.residual, found.residual <= tolerance
        dual, best, score = yield from dual_sweeps(
            local, found.choice, found.score, int(schedule.dual_sweeps), tolerance
        )
        best = yield from _improved(local, (found.messages, dual), best, score)
        seen = np.unique(graph.cyclic.edge_variables)
        choice[seen] = best[seen]
        yield from graph.cyclic.send_messages(dual)
        more, more_sizes = _dual_bounds(local, dual)
        bounds, sizes = np.concatenate([bounds, more]), np.concatenate([sizes, more_sizes])
    value, mean = yield from _value(graph, tables, choice)
    bound = value
    if graph.any_cyclic:
        totals = yield from exact_sums(graph.place, np.array([bounds, sizes]), np.ceil)
        bound = float(totals[0] + 16.0 * EPS * totals[1])
        bound = -math.inf if bound < reduced.floor and value == -math.inf else max(bound, value)
    own = slice(0, graph.own)
    return PartMaximum(graph.variables[own], choice[own], value, bound, rounds, converged, residual, mean)


def local_factors(graph: PartGraph, tables: FactorTables) -> Program[LocalFactors]:
    """The part's factors of cyclic components, as the rounds want them."""
    reduced = yield from _reduce(graph, tables)
    return LocalFactors(graph.cyclic, _pack(graph.cyclic, tables, graph.cyclic_tables, reduced))


def _reduce(graph: PartGraph, tables: FactorTables) -> Program[_Reduced]:
    """``maxsum.reduction.reduce_tables`` of all parts together."""
    flat, unary, unary_starts = merged_tables(tables)
    starts, ends = tables.starts[graph.remaining], tables.starts[graph.remaining + 1]
    low, high = extremes(flat, starts, ends)
    unary_low, unary_high = extremes(unary, unary_starts[: graph.own], unary_starts[1 : graph.own + 1])
    ranges = np.concatenate([high[0] - low[0], unary_high[0] - unary_low[0]])
    forbids = not (np.isfinite(low[1]).all() and np.isfinite(unary_low[1]).all())
    known = yield from all_reduce(graph.place, np.array([ranges.max(initial=0.0), float(forbids)]), np.maximum)
    floor = -np.inf
    if known[1]:
        lows = np.concatenate([low[0], unary_low[0]])
        sums = yield from exact_sums(graph.place, np.array([lows, ranges, np.abs(lows)]))
        floor = float(sums[0])
        flat = flat.copy() if flat is tables.flat else flat
        depth = forbidden_depth(float(sums[1]), float(sums[2]))
        fill_forbidden(flat, starts, ends, low[0] - depth)
        fill_forbidden(unary, unary_starts[: graph.own], unary_starts[1 : graph.own + 1], unary_low[0] - depth)
    return _Reduced(flat, unary, unary_starts, float(known[0]), floor)


def _pack(layout: Layout, tables: FactorTables, chosen: Ints, reduced: _Reduced) -> Packed:
    return pack(reduced.flat, tables.starts[chosen], layout.scopes, tables.sizes, reduced.unary, reduced.unary_starts)


def _alone(graph: PartGraph, reduced: _Reduced, choice: Ints) -> Array:
    """Decide own variables that no remaining factor of any part sees, and give their unary terms."""
    seen = np.diff(graph.cyclic.order_starts) > 0
    if graph.forest is not None:
        seen |= np.diff(graph.forest.layout.order_starts) > 0
    alone, starts = np.flatnonzero(~seen), reduced.unary_starts
    for i in alone:
        choice[i] = reduced.unary[starts[i] : starts[i + 1]].argmax()
    answer: Array = reduced.unary[starts[alone] + choice[alone]]
    return answer


def _improved(local: LocalFactors, sources: tuple[Array, Array], choice: Ints, score: float) -> Program[Ints]:
    """The best local maximum reached from ``choice`` and from each source of messages."""
    layout = local.layout
    colours = yield from colour_count(layout)
    starts = [choice]
    for messages in sources:
        yield from layout.send_messages(messages)
        belief = local.beliefs(messages)
        yield from layout.send_beliefs(belief)
        starts.append((yield from decode_by_colour(local, messages, belief, colours)))
    best, best_score = choice, score
    for start in starts:
        end = yield from coordinate_ascent(local, start, colours)
        found = yield from local.score(end)
        if found > best_score:
            best, best_score = end, found
    return best


def _dual_bounds(local: LocalFactors, messages: Array) -> tuple[Array, Array]:
    """The maxima that the upper bound adds, of own factors and variables, and the size of the numbers in each."""
    layout = local.layout
    factors, sizes = np.empty((2, len(layout.scopes)))
    factor_bounds(local.packed, messages, factors, sizes)
    belief = local.beliefs(messages)
    seen = np.flatnonzero(np.diff(layout.order_starts))
    tops = belief[layout.variable_starts[seen] + local.decoded(belief)[seen]]
    return np.concatenate([factors, tops]), np.concatenate([sizes, np.abs(tops)])


def _value(graph: PartGraph, tables: FactorTables, choice: Ints) -> Program[tuple[float, float]]:
    """The tables' own value at ``choice``, and the value of a random choice."""
    scopes = tables.graph.scopes
    cells = np.array([table[tuple(choice[list(scope)])] for scope, table in zip(scopes, tables.values, strict=True)])
    means = np.array([_mean(table) for table in tables.values])
    terms = np.array([cells, means])
    finite = np.where(terms == -np.inf, 0.0, terms)
    # how many terms there are must not depend on the partition: the zeros for variables that a part does not see go
    sums = yield from exact_sums(graph.place, finite[:, finite.any(axis=0)])
    # by itself: beside large values a count would be rounded away
    forbidden = yield from all_reduce(graph.place, (terms == -np.inf).sum(axis=1))
    value, mean = np.where(forbidden > 0, -np.inf, sums).tolist()
    return value, mean


def _mean(table: Array) -> float:
    """Over the allowed cells."""
    if np.isfinite(table.min()):
        return float(table.mean())
    allowed = table[table > -np.inf]
    return float(allowed.mean()) if allowed.size else -math.inf
