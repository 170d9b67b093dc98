"""The same choice for any partition, bit for bit; messages, bounds and values as in one process."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dechbo.distributed.exchange import Program
from dechbo.distributed.in_process import Traffic, run_in_process
from dechbo.distributed.layout import greedy_colours
from dechbo.distributed.local_search import colour_count, coordinate_ascent
from dechbo.distributed.maximize import _pack, _reduce
from dechbo.distributed.partition import cut_weight, partition
from dechbo.distributed.plan import PartPlan, plan_parts
from dechbo.distributed.rounds import LocalFactors, dual_sweeps, max_sum_rounds
from dechbo.distributed.synchronous import SynchronousMaxSum, local_tables
from dechbo.graph import FactorGraph
from dechbo.maxsum import Exact, MaxSum, messages
from dechbo.maxsum import dual as central_dual
from dechbo.maxsum.forest import connected_components
from dechbo.maxsum.reduction import reduce_tables
from dechbo.tables import FactorTables
from distributed_cases import random_partition
from maxsum_cases import PLAIN
from strategies import acyclic_graphs, brute_force, factor_tables, loopy_tables


@settings(max_examples=60)
@given(factor_tables(forbidden=True), st.integers(2, 4), st.integers(0, 99))
def test_any_partition_gives_the_choice_of_one_part(tables: FactorTables, parts: int, seed: int) -> None:
    one, optimum = SynchronousMaxSum().maximize(tables), brute_force(tables)
    cut = random_partition(np.random.default_rng(seed), tables.graph, parts)
    answer = SynchronousMaxSum().maximize_in(tables, cut)
    assert (answer.choice == one.choice).all()
    assert (answer.value, answer.rounds, answer.converged) == (one.value, one.rounds, one.converged)
    assert answer.upper_bound == pytest.approx(one.upper_bound, rel=1e-13, abs=1e-12)
    assert answer.value == pytest.approx(tables.value(answer.choice), rel=1e-13, abs=1e-12)
    assert answer.mean == pytest.approx(tables.mean, rel=1e-12, abs=1e-12)
    assert answer.value <= optimum + 1e-13 * abs(optimum) or answer.value == optimum
    assert answer.upper_bound >= optimum - 1e-13 * abs(optimum) or answer.upper_bound == optimum


def test_value_mean_and_bound_are_the_same_bits_for_any_partition() -> None:
    for seed in range(60):
        rng = np.random.default_rng(seed)
        triples = [tuple(rng.permutation(6)[: rng.integers(1, 4)].tolist()) for _ in range(7)]
        graph = FactorGraph.covering(6, list({frozenset(scope): scope for scope in triples}.values()))
        sizes, size = rng.integers(1, 4, 6), 10.0 ** rng.integers(-9, 9)
        tables = FactorTables(graph, tuple(size * rng.normal(size=sizes[list(scope)]) for scope in graph.scopes))
        one = SynchronousMaxSum().maximize(tables)
        for parts in (2, 3, 5):
            answer = SynchronousMaxSum().maximize_in(tables, random_partition(rng, graph, parts))
            found, expected = ((a.value, a.mean, a.upper_bound) for a in (answer, one))
            assert found == expected, seed


@pytest.mark.parametrize("size", [1.0, 1e25, 1e300])
def test_that_nothing_is_allowed_is_seen_beside_large_values(size: float) -> None:
    forbidden = np.array([[-np.inf, size], [-np.inf, -np.inf]])
    ring = FactorGraph(3, ((0, 1), (1, 2), (2, 0)))
    for graph, values in (
        (ring, (forbidden, forbidden, np.full((2, 2), size))),
        (FactorGraph(2, ((0, 1), (1,))), (forbidden, np.array([size, -np.inf]))),
    ):
        tables = FactorTables(graph, values)
        for parts in (1, 2):
            answer = SynchronousMaxSum(parts=parts).maximize(tables)
            assert answer.value == tables.value(answer.choice) == -np.inf


@settings(max_examples=60)
@given(factor_tables(acyclic_graphs(), max_candidates=3, forbidden=True), st.integers(1, 4), st.integers(0, 99))
def test_forests_are_exact_ties_included_and_choose_as_max_sum_does(
    tables: FactorTables, parts: int, seed: int
) -> None:
    cut = random_partition(np.random.default_rng(seed), tables.graph, parts)
    answer, central = SynchronousMaxSum().maximize_in(tables, cut), MaxSum().maximize(tables)
    assert answer.value == pytest.approx(brute_force(tables), rel=1e-13, abs=1e-12)
    assert answer.upper_bound == answer.value
    if np.isfinite(tables.flat).all():  # forbidden cells are replaced by sums that one process rounds differently
        assert (answer.choice == central.choice).all()


@pytest.mark.parametrize("seed", range(4))
def test_values_and_bounds_are_close_to_those_of_max_sum(seed: int) -> None:
    tables = loopy_tables(np.random.default_rng(seed), dim=24, factors=34)
    answer, central = SynchronousMaxSum(parts=3).maximize(tables), MaxSum(**PLAIN).maximize(tables)
    optimum = Exact().maximize(tables).value
    scale = optimum - tables.mean
    assert answer.value - 1e-12 <= optimum <= answer.upper_bound + 1e-12
    assert optimum - answer.value <= 0.02 * scale
    assert answer.upper_bound - central.upper_bound <= 0.02 * scale


def local_factors(tables: FactorTables, plans: list[PartPlan]) -> list[LocalFactors]:
    """The cyclic factors of every part, packed as ``maximize_tables`` packs them."""
    own = [local_tables(plan, tables) for plan in plans]
    reduced = run_in_process([_reduce(plan.graph, mine) for plan, mine in zip(plans, own, strict=True)])
    return [
        LocalFactors(plan.graph.cyclic, _pack(plan.graph.cyclic, mine, plan.graph.cyclic_tables, less))
        for plan, mine, less in zip(plans, own, reduced, strict=True)
    ]


def gathered(plans: list[PartPlan], starts: np.ndarray, per_part: list[np.ndarray]) -> np.ndarray:
    """The messages of all parts in the order of the whole graph; ``starts`` are those of its cyclic factors."""
    answer = np.full(starts[-1], np.nan)
    for plan, mine in zip(plans, per_part, strict=True):
        layout = plan.graph.cyclic
        at = 0
        for position, scope in zip(layout.numbers, layout.scopes, strict=True):
            length = int(layout.sizes[list(scope)].sum())
            answer[starts[position] : starts[position] + length] = mine[at : at + length]
            at += length
    return answer


@pytest.mark.parametrize("seed", range(3))
def test_messages_are_those_of_one_process_bit_for_bit(seed: int) -> None:
    rng = np.random.default_rng(seed)
    tables = loopy_tables(rng, dim=30, factors=50)
    plans = plan_parts(tables.graph, tables.sizes, random_partition(rng, tables.graph, 4))
    parts = local_factors(tables, plans)
    factors = connected_components(tables.graph).cyclic
    packed = reduce_tables(tables).packed(factors)
    rounds = run_in_process([max_sum_rounds(part, 10, 0.5, 0.0) for part in parts])
    expected, choice = packed.zero_messages(), np.zeros(30, dtype=np.int64)
    best, _, residual = messages.max_sum_rounds(packed, expected, choice, 10, 0.5, 0.0)
    starts = packed.message_starts[packed.scopes]
    assert (gathered(plans, starts, [result.messages for result in rounds]) == expected).all()
    assert {result.residual for result in rounds} == {residual}
    assert {result.score for result in rounds} == {rounds[0].score}
    assert rounds[0].score == pytest.approx(best, rel=1e-14)

    # dual sweeps colour by colour are sequential sweeps over the factors in the order of their colours
    colours = greedy_colours(
        [[n for n, k in enumerate(factors) if i in tables.graph.scopes[k]] for i in range(30)], len(factors)
    )
    order = np.argsort(colours, kind="stable")
    by_colour = reduce_tables(tables).packed(tuple(factors[n] for n in order))
    dual = by_colour.zero_messages()
    central_dual.dual_sweeps(by_colour, dual, choice, -np.inf, 5, 0.0)
    found = run_in_process(
        [dual_sweeps(part, r.choice, -np.inf, 5, 0.0) for part, r in zip(parts, rounds, strict=True)]
    )
    coloured_starts = by_colour.message_starts[by_colour.scopes]
    inverse = np.empty(len(order) + 1, dtype=np.int64)
    inverse[order], inverse[-1] = coloured_starts[:-1], coloured_starts[-1]
    assert (gathered(plans, inverse, [mine for mine, _, _ in found]) == dual).all()


def test_coordinate_ascent_ends_where_no_single_change_improves() -> None:
    rng = np.random.default_rng(5)
    tables = loopy_tables(rng, dim=30, factors=50)
    plans = plan_parts(tables.graph, tables.sizes, random_partition(rng, tables.graph, 3))

    def ascent(part: LocalFactors) -> Program[np.ndarray]:
        colours = yield from colour_count(part.layout)
        choice = yield from coordinate_ascent(part, np.zeros(len(part.layout.sizes), dtype=np.int64), colours)
        return choice

    parts = local_factors(tables, plans)
    choice = np.zeros(30, dtype=np.int64)
    for plan, mine in zip(plans, run_in_process([ascent(part) for part in parts]), strict=True):
        choice[plan.graph.variables[: plan.graph.own]] = mine[: plan.graph.own]
    here = tables.value(choice)
    for i in range(30):
        for h in range(tables.sizes[i]):
            assert tables.value([*choice[:i], h, *choice[i + 1 :]]) <= here + 1e-12


@pytest.mark.parametrize("parts", [2, 4])
def test_a_round_carries_at_most_two_messages_over_each_cut_edge(parts: int) -> None:
    tables = loopy_tables(np.random.default_rng(7), dim=60, factors=100)
    cut, traffic = partition(tables.graph, tables.sizes, parts), Traffic()
    limit = 2 * 8 * cut_weight(tables.graph, tables.sizes, cut)
    answer = SynchronousMaxSum(dual_sweeps=3).maximize_in(tables, cut, traffic)
    assert answer.rounds == 30
    assert 0 < traffic.bytes("messages", "beliefs") <= (answer.rounds + 3) * limit  # the last three feed decoding
    assert 0 < traffic.bytes("dual") <= 3 * limit
    rounds = [
        max_sum_rounds(part, 1, 0.5, 0.0) for part in local_factors(tables, plan_parts(tables.graph, tables.sizes, cut))
    ]
    one = Traffic()
    run_in_process(rounds, one)
    sent = [item for item in one.sent if item.kind in ("messages", "beliefs")]
    first_beliefs = sum(item.bytes for item in sent if item.kind == "beliefs") // 2  # before the first round
    assert one.bytes("messages", "beliefs") - first_beliefs <= limit


def test_a_part_holds_its_share_of_tables_and_messages() -> None:
    tables = loopy_tables(np.random.default_rng(8), dim=400, factors=700, candidates=(4, 4))
    plans = plan_parts(tables.graph, tables.sizes, partition(tables.graph, tables.sizes, 4))
    cells = np.array([local_tables(plan, tables).flat.size for plan in plans])
    assert (np.abs(cells / tables.flat.size * 4 - 1) < 0.2).all()
    entries = np.array([plan.graph.cyclic.entries(np.arange(plan.graph.cyclic.edges)).size for plan in plans])
    assert (np.abs(entries / entries.sum() * 4 - 1) < 0.2).all()
