from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from dechbo.graph import FactorGraph
from dechbo.maxsum.messages import Packed, score
from dechbo.maxsum.subproblem import Subproblem, subproblem
from dechbo.tables import FactorTables
from maxsum_cases import packed_of
from strategies import factor_graphs, factor_tables


def all_choices(left: Subproblem) -> list[dict[int, int]]:
    variables = sorted(left.unary)
    values = itertools.product(*(range(len(left.unary[i])) for i in variables))
    return [dict(zip(variables, chosen, strict=True)) for chosen in values]


def value_of(left: Subproblem, chosen: dict[int, int]) -> float:
    unary = sum(values[chosen[i]] for i, values in left.unary.items())
    return float(left.constant + unary + sum(t[tuple(chosen[i] for i in s)] for s, t in left.factors.items()))


def packed_score(packed: Packed, choice: NDArray[np.int64]) -> float:
    full = np.zeros(len(packed.unary_starts) - 1, dtype=np.int64)
    full[packed.variables] = choice
    return score(packed, full)


@settings(max_examples=40)
@given(factor_tables(factor_graphs(max_dim=4)), st.integers(0, 2**32 - 1))
def test_messages_change_no_value(tables: FactorTables, seed: int) -> None:
    packed, _ = packed_of(tables)
    left = subproblem(packed, np.random.default_rng(seed).normal(size=packed.message_starts[-1]))
    for chosen in all_choices(left)[:40]:
        expected = packed_score(packed, left.choice(chosen))
        assert value_of(left, chosen) == pytest.approx(expected, rel=1e-9, abs=1e-9)


@settings(max_examples=60)
@given(factor_tables(factor_graphs(max_dim=4, max_factors=8)), st.integers(0, 2**32 - 1), st.floats(0.0, 1.0))
def test_no_better_choice_is_lost(tables: FactorTables, seed: int, share: float) -> None:
    """Whatever scores at least v can still be chosen, with its value; v is anywhere between the worst and the best."""
    packed, _ = packed_of(tables)
    left = subproblem(packed, np.random.default_rng(seed).normal(size=packed.message_starts[-1]))
    scores = {tuple(left.choice(c)): packed_score(packed, left.choice(c)) for c in all_choices(left)}
    value = min(scores.values()) + share * (max(scores.values()) - min(scores.values()))
    left.prune(left.bound - value + 1e-9 * (1 + abs(value)))
    after = {tuple(left.choice(chosen)): value_of(left, chosen) for chosen in all_choices(left)}
    for choice, found in scores.items():
        if found >= value:
            assert after[choice] == pytest.approx(found, rel=1e-9, abs=1e-9)
    assert all(estimate <= scores[choice] + 1e-6 for choice, estimate in after.items())


def test_a_function_replaces_a_variable() -> None:
    """x_1 = 2 - x_0 in every choice that is good enough; then x_2 depends on x_0 alone."""
    rng = np.random.default_rng(0)
    mirror = np.where(np.fliplr(np.eye(3)) > 0, 0.0, -100.0)
    graph = FactorGraph(3, ((0, 1), (1, 2), (0, 2)))
    tables = FactorTables(graph, (mirror, rng.normal(size=(3, 3)), rng.normal(size=(3, 3))))
    packed, _ = packed_of(tables)
    left = subproblem(packed, packed.zero_messages())
    left.prune(50.0)
    assert list(left.factors) == [(0, 2)]
    for chosen in all_choices(left):
        choice = left.choice(chosen)
        assert choice[1] == 2 - choice[0]
        assert value_of(left, chosen) == pytest.approx(tables.value(choice))
