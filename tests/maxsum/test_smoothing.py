from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import logsumexp

from dechbo.graph import FactorGraph
from dechbo.maxsum import Exact, MaxSum
from dechbo.maxsum.dual import dual_sweeps, upper_bound
from dechbo.maxsum.messages import pack
from dechbo.maxsum.smoothing import smoothed_bound, soft_marginals
from dechbo.tables import FactorTables
from maxsum_cases import linear_program, packed_of, random_pairs
from strategies import brute_force, factor_graphs, factor_tables


@settings(max_examples=40)
@given(st.lists(st.integers(1, 5), min_size=1, max_size=4), st.integers(0, 2**32 - 1), st.floats(0.05, 10.0))
def test_soft_marginals_equal_the_reference(shape: list[int], seed: int, temperature: float) -> None:
    rng = np.random.default_rng(seed)
    table, incoming = rng.normal(size=shape), [rng.normal(size=n) for n in shape]
    sizes, starts = np.array(shape), np.concatenate([[0], np.cumsum(shape)])
    packed = pack(
        table.ravel(), np.array([0]), [tuple(range(len(shape)))], sizes, np.zeros(starts[-1]), starts.astype(np.int64)
    )
    outgoing = np.empty(starts[-1])
    soft_marginals(packed, 0, np.concatenate(incoming), outgoing, temperature, np.empty(table.size))
    total = table
    for axis, message in enumerate(incoming):
        total = total + message.reshape([-1 if a == axis else 1 for a in range(len(shape))])
    for axis in range(len(shape)):
        others = tuple(a for a in range(len(shape)) if a != axis)
        expected = temperature * logsumexp(total / temperature, axis=others)
        np.testing.assert_allclose(outgoing[starts[axis] : starts[axis + 1]], expected, rtol=1e-10, atol=1e-10)


@settings(max_examples=40)
@given(factor_tables(factor_graphs(max_dim=4), forbidden=True))
def test_smoothed_messages_give_an_upper_bound(tables: FactorTables) -> None:
    packed, beside = packed_of(tables)
    dual, choice = packed.zero_messages(), np.zeros(tables.graph.dim, dtype=np.int64)
    bound, _ = smoothed_bound(packed, dual, choice, -np.inf, 5.0, 40, 0.0)
    optimum = brute_force(tables)
    assert bound == upper_bound(packed, dual)
    assert optimum == -np.inf or bound + beside >= optimum - 1e-15 * abs(optimum) - 1e-12


def test_the_bound_never_rises_and_comes_near_the_linear_program() -> None:
    tables = random_pairs(9, pairs=45)
    packed, _ = packed_of(tables)
    choice = np.zeros(tables.graph.dim, dtype=np.int64)
    dual = packed.zero_messages()
    bounds = []
    for _ in range(6):
        score = dual_sweeps(packed, dual, choice, -np.inf, 20, 0.0)
        bounds.append(upper_bound(packed, dual))
    stuck = bounds[-1]
    for _ in range(3):
        bounds.append(smoothed_bound(packed, dual, choice, score, 6.0, 200, 0.0)[0])
    optimum, relaxed = Exact().maximize(tables).value, linear_program(tables)
    assert np.all(np.diff(bounds) <= 1e-9)
    assert relaxed <= bounds[-1] + 1e-6
    assert bounds[-1] - optimum <= 1.05 * (relaxed - optimum)
    assert stuck - optimum > 1.05 * (relaxed - optimum)  # hard sweeps alone stop before


def test_a_closed_gap_costs_nothing() -> None:
    packed, _ = packed_of(random_pairs(1))
    dual = packed.zero_messages()
    bound, score = smoothed_bound(packed, dual, np.zeros(20, dtype=np.int64), np.inf, 6.0, 100, 0.0)
    assert score == np.inf
    assert not dual.any()
    assert bound == pytest.approx(upper_bound(packed, dual))


@pytest.mark.parametrize("size", [5e-324, 1e-322, 1e-310])
def test_a_temperature_that_underflows_ends_the_smoothing(size: float) -> None:
    rng = np.random.default_rng(0)
    values = tuple(np.where(rng.random((3, 3)) < 0.2, -np.inf, size * rng.integers(-3, 4, (3, 3))) for _ in range(6))
    tables = FactorTables(FactorGraph(4, tuple(itertools.combinations(range(4), 2))), values)
    answer = MaxSum().maximize(tables)
    assert answer.value <= brute_force(tables) <= answer.upper_bound
