from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings

from dechbo.maxsum import Exact, MaxSum
from dechbo.maxsum.decimation import decimate, sequential_rounds
from dechbo.maxsum.messages import beliefs, score
from dechbo.tables import FactorTables
from maxsum_cases import PLAIN, packed_of, random_pairs
from strategies import acyclic_graphs, brute_force, factor_tables


@settings(max_examples=40)
@given(factor_tables(acyclic_graphs(max_dim=6)))
def test_acyclic_graphs_are_decided_exactly(tables: FactorTables) -> None:
    packed, beside = packed_of(tables)
    choice, unary = np.zeros(tables.graph.dim, dtype=np.int64), packed.unary.copy()
    decimate(packed, 0.0, 10.0, choice)
    optimum = brute_force(tables)
    # ties may be decided apart within one stage
    assert score(packed, choice) + beside <= optimum + 1e-9 * abs(optimum) + 1e-12
    np.testing.assert_array_equal(packed.unary, unary)


def test_a_chain_without_ties_is_solved() -> None:
    rng = np.random.default_rng(0)
    tables = random_pairs(0, dim=12, pairs=12)
    chain = FactorTables(tables.graph, (*(rng.normal(size=(4, 4)) for _ in range(11)), np.zeros((4, 4))))
    packed, choice = packed_of(chain)[0], np.zeros(12, dtype=np.int64)
    decimate(packed, 0.0, 10.0, choice)
    assert chain.value(choice) == pytest.approx(Exact().maximize(chain).value)


def test_sequential_rounds_use_the_newest_messages() -> None:
    """One round along a chain carries the first table's messages to its end."""
    tables = random_pairs(1, dim=6, pairs=6)
    packed = packed_of(tables)[0]
    once, twice = packed.zero_messages(), packed.zero_messages()
    sequential_rounds(packed, once, 1, 0.0)
    sequential_rounds(packed, twice, 2, 0.0)
    assert np.abs(once - twice).max() > 0  # a ring: the second round still changes something
    assert max(np.abs(np.maximum.reduceat(m, packed.message_starts[:-1])).max() for m in (once, twice)) == 0
    assert len(beliefs(packed, once)) == 24


def test_large_graphs_gain_over_synchronous_rounds() -> None:
    tables = random_pairs(2, dim=300, pairs=600, candidates=5)
    packed, choice = packed_of(tables)[0], np.zeros(300, dtype=np.int64)
    plain = MaxSum(**PLAIN).maximize(tables).value
    decimate(packed, 0.2, 6.0, choice)
    assert tables.value(choice) > plain
