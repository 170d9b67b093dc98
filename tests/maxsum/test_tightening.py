from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings

from dechbo.maxsum import Exact
from dechbo.maxsum.dual import dual_sweeps, upper_bound
from dechbo.maxsum.messages import score
from dechbo.maxsum.tightening import Tightening
from dechbo.tables import FactorTables
from maxsum_cases import linear_program, packed_of, random_pairs
from strategies import brute_force, factor_graphs, factor_tables


@settings(max_examples=60)
@given(factor_tables(factor_graphs(max_dim=5, max_factors=8)))
def test_the_bound_stays_one_and_the_choice_gets_no_worse(tables: FactorTables) -> None:
    packed, beside = packed_of(tables)
    optimum = brute_force(tables)
    for max_cells in (1, 16, 10**6):
        choice, dual = np.zeros(tables.graph.dim, dtype=np.int64), packed.zero_messages()
        before = score(packed, choice)
        work = Tightening(packed, choice, upper_bound(packed, dual), max_cells, 10**6, 0.0)
        work.run(dual)
        assert score(packed, choice) >= before
        assert work.bound + beside >= optimum - 1e-15 * abs(optimum) - 1e-15
        if max_cells == 10**6:  # what is left is eliminated
            assert work.bound + beside == pytest.approx(optimum, rel=1e-9, abs=1e-9)


def test_clusters_halve_the_gap_of_the_linear_program() -> None:
    tables = random_pairs(9, dim=20, pairs=45)
    packed, _ = packed_of(tables)
    best, relaxed = Exact().maximize(tables), linear_program(tables)
    dual, choice = packed.zero_messages(), best.choice.copy()
    dual_sweeps(packed, dual, choice, best.value, 50, 0.0)
    bound = upper_bound(packed, dual)
    bounds = [bound]
    for max_cells in (4**3, 4**4, 4**5):
        work = Tightening(packed, choice, bound, max_cells, 10**8, 0.0)
        work.run(dual)
        bounds.append(work.bound)
    assert relaxed > best.value + 1.0
    assert bounds[-1] - best.value < 0.5 * (relaxed - best.value)
    assert min(bounds) >= best.value - 1e-12


def test_no_work_leaves_the_bound() -> None:
    packed, _ = packed_of(random_pairs(6, dim=20, pairs=45))
    dual = packed.zero_messages()
    work = Tightening(packed, np.zeros(20, dtype=np.int64), upper_bound(packed, dual), 4, 0, 0.0)
    work.run(dual)
    assert work.bound == upper_bound(packed, dual)
