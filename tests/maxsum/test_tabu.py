from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dechbo.maxsum.messages import score
from dechbo.maxsum.tabu import best_change, change, conditional_scores, tabu_search
from dechbo.tables import FactorTables
from maxsum_cases import packed_of
from strategies import brute_force, factor_graphs, factor_tables, loopy_tables


@settings(max_examples=40)
@given(factor_tables(factor_graphs(max_dim=5, max_factors=8)), st.integers(0, 2**32 - 1))
def test_scores_follow_every_change(tables: FactorTables, seed: int) -> None:
    packed, rng = packed_of(tables)[0], np.random.default_rng(seed)
    choice = rng.integers(tables.sizes)
    scores, fresh = np.zeros_like(packed.unary), np.zeros_like(packed.unary)
    conditional_scores(packed, choice, scores)
    best = np.full(len(choice), -1)
    for i in rng.choice(packed.variables, 5) if len(packed.variables) else ():
        change(packed, i, int(rng.integers(tables.sizes[i])), choice, scores, best)
        conditional_scores(packed, choice, fresh)
        np.testing.assert_allclose(scores, fresh, rtol=1e-12, atol=1e-9)
        here = fresh[packed.unary_starts[i] : packed.unary_starts[i + 1]].copy()
        here[choice[i]] = -np.inf
        assert best[i] == (-1 if len(here) == 1 else best_change(here, choice[i]))


@pytest.mark.parametrize("seed", range(8))
def test_the_maximum_of_a_small_problem_is_found_from_anywhere(seed: int) -> None:
    rng = np.random.default_rng(seed)
    tables = loopy_tables(rng, dim=7, factors=12, candidates=(2, 4))
    packed, beside = packed_of(tables)
    choice = rng.integers(tables.sizes)
    tabu_search(packed, choice, 5, np.inf)
    assert score(packed, choice) + beside == pytest.approx(brute_force(tables))


def test_the_choice_never_gets_worse_and_repeats_are_the_same() -> None:
    tables = loopy_tables(np.random.default_rng(3), dim=30, factors=50)
    packed, start = packed_of(tables)[0], np.zeros(30, dtype=np.int64)
    first, second = start.copy(), start.copy()
    tabu_search(packed, first, 3, np.inf)
    tabu_search(packed, second, 3, np.inf)
    assert score(packed, first) > score(packed, start)
    np.testing.assert_array_equal(first, second)


def test_it_stops_at_the_target() -> None:
    tables = loopy_tables(np.random.default_rng(4))
    packed, choice = packed_of(tables)[0], np.zeros(20, dtype=np.int64)
    start = score(packed, choice)
    tabu_search(packed, choice, 20, start + 1.0)
    stopped = score(packed, choice)
    tabu_search(packed, choice, 20, np.inf)
    assert start + 1.0 <= stopped < score(packed, choice)
