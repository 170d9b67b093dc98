from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from dechbo.maxsum.dual import dual_sweeps, upper_bound
from dechbo.maxsum.messages import Packed
from dechbo.maxsum.reduction import merge_plan, reduce_tables
from dechbo.tables import FactorTables
from maxsum_cases import packed_of
from strategies import brute_force, factor_graphs, factor_tables, loopy_tables

Array = NDArray[np.float64]


def sweep(packed: Packed, messages: Array, sweeps: int) -> None:
    choice = np.zeros(len(packed.unary_starts) - 1, dtype=np.int64)
    dual_sweeps(packed, messages, choice, -np.inf, sweeps, 0.0)


@settings(max_examples=40)
@given(factor_tables(factor_graphs(max_dim=4)), st.integers(0, 2**32 - 1))
def test_any_messages_give_an_upper_bound(tables: FactorTables, seed: int) -> None:
    packed, beside = packed_of(tables)
    messages = np.random.default_rng(seed).normal(size=packed.message_starts[-1])
    assert upper_bound(packed, messages) + beside >= brute_force(tables) * (1 - 1e-15) - 1e-12


@settings(max_examples=40)
@given(factor_tables(factor_graphs(max_dim=4), forbidden=True))
def test_dual_messages_give_an_upper_bound(tables: FactorTables) -> None:
    packed, beside = packed_of(tables)
    messages = packed.zero_messages()
    sweep(packed, messages, 5)
    assert np.isfinite(messages).all()
    bound, optimum = upper_bound(packed, messages) + beside, brute_force(tables)
    assert optimum == -np.inf or bound >= optimum - 1e-15 * abs(optimum)


def test_the_bound_falls_with_every_sweep() -> None:
    packed, beside = packed_of(loopy_tables(np.random.default_rng(1)))
    messages = packed.zero_messages()
    bounds = [upper_bound(packed, messages)]
    for _ in range(8):
        sweep(packed, messages, 1)
        bounds.append(upper_bound(packed, messages))
    assert beside == 0
    assert np.all(np.diff(bounds) <= 1e-9)
    assert bounds[-1] < bounds[0] - 1


def test_after_a_sweep_each_factor_adds_nothing() -> None:
    packed, _ = packed_of(loopy_tables(np.random.default_rng(2)))
    messages = packed.zero_messages()
    sweep(packed, messages, 1)
    belief = packed.unary.copy()
    for e, i in enumerate(packed.members):
        belief[packed.unary_starts[i] : packed.unary_starts[i + 1]] += messages[
            packed.message_starts[e] : packed.message_starts[e + 1]
        ]
    maxima = np.maximum.reduceat(belief, packed.unary_starts[:-1])
    assert upper_bound(packed, messages) == pytest.approx(maxima.sum(), abs=1e-9)


def test_without_messages_the_bound_is_the_sum_of_maxima() -> None:
    tables = loopy_tables(np.random.default_rng(3))
    reduced = reduce_tables(tables)
    remaining = merge_plan(tables.graph).remaining
    maxima = [reduced.flat[reduced.starts[k] : reduced.starts[k + 1]].max() for k in remaining]
    maxima += [part.max() for part in np.split(reduced.unary, reduced.unary_starts[1:-1])]
    packed, _ = packed_of(tables)
    bound = upper_bound(packed, packed.zero_messages())
    assert bound == pytest.approx(sum(maxima), rel=1e-12)
    assert bound >= sum(maxima) * (1 - 1e-15)
