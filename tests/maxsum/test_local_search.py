from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dechbo.graph import FactorGraph
from dechbo.maxsum import MaxSum
from dechbo.maxsum.decoding import decode_sequentially
from dechbo.maxsum.local_search import ascend, coordinate_ascent
from dechbo.maxsum.messages import Packed, decode, score
from dechbo.maxsum.reduction import merge_plan, reduce_tables
from dechbo.tables import FactorTables
from strategies import factor_graphs, factor_tables


def packed_of(tables: FactorTables) -> Packed:
    return reduce_tables(tables).packed(merge_plan(tables.graph).remaining)


def shifts() -> FactorTables:
    """Three variables in a ring; each wants to be one more (modulo 3) than the one before: every belief ties."""
    table = np.roll(np.eye(3), 1, axis=1)
    return FactorTables(FactorGraph(3, ((0, 1), (1, 2), (2, 0))), (table,) * 3)


def test_conditioned_decoding_breaks_ties_in_agreement() -> None:
    packed, choice = packed_of(shifts()), np.zeros(3, dtype=np.int64)
    assert decode(packed, packed.unary, choice) == 0.0
    decode_sequentially(packed, packed.zero_messages(), choice)
    assert score(packed, choice) == 3.0
    assert MaxSum().maximize(shifts()).value == 3.0


@settings(max_examples=40)
@given(factor_tables(factor_graphs(max_dim=5, max_factors=8, max_size=3)), st.integers(0, 2**32 - 1))
def test_no_change_within_one_factor_gains(tables: FactorTables, seed: int) -> None:
    packed = packed_of(tables)
    choice = np.random.default_rng(seed).integers(tables.sizes)
    before = score(packed, choice)
    coordinate_ascent(packed, choice)
    between = score(packed, choice)
    ascend(packed, choice, 1000)
    after = score(packed, choice)
    slack = 1e-12 * max(1.0, abs(after))
    assert before <= between + slack
    assert between <= after + slack
    for k in merge_plan(tables.graph).remaining:
        scope = list(tables.graph.scopes[k])
        for cells in itertools.product(*(range(tables.sizes[i]) for i in scope)):
            other = choice.copy()
            other[scope] = cells
            assert score(packed, other) <= after + slack


def test_factors_that_share_two_variables_move_together() -> None:
    scopes = ((0, 1, 2), (2, 1, 3), (3, 0))
    first, second = np.zeros((2, 2, 2)), np.zeros((2, 2, 2))
    first[0, 0, 0], first[1, 1, 1], second[0, 0, 0], second[1, 1, 0] = 1.0, 3.0, 1.0, 3.0
    tables = FactorTables(FactorGraph(4, scopes), (first, second, np.zeros((2, 2))))
    choice = np.zeros(4, dtype=np.int64)
    packed = packed_of(tables)
    coordinate_ascent(packed, choice)
    assert score(packed, choice) == 2.0
    ascend(packed, choice, 1)
    assert score(packed, choice) == pytest.approx(6.0)
