from __future__ import annotations

import itertools

import numpy as np
from hypothesis import given, settings
from numpy.typing import NDArray

from dechbo.graph import FactorGraph
from dechbo.maxsum.messages import Packed, decode
from dechbo.maxsum.reduction import ReducedTables, aligned, merge_plan, reduce_tables
from dechbo.tables import FactorTables
from strategies import factor_tables


def reduced_value(reduced: ReducedTables, packed: Packed, choice: NDArray[np.int64]) -> float:
    """The reduced problem at ``choice``, through beliefs that decode to it, and the unary terms of unseen variables."""
    belief = np.zeros_like(reduced.unary)
    belief[reduced.unary_starts[:-1] + choice] = 1.0
    outside = np.setdiff1d(np.arange(len(choice)), packed.variables)
    unseen = reduced.unary[reduced.unary_starts[outside] + choice[outside]]
    return decode(packed, belief, np.array(choice)) + float(unseen.sum())


@settings(max_examples=40)
@given(factor_tables())
def test_reducing_changes_no_value(tables: FactorTables) -> None:
    reduced = reduce_tables(tables)
    packed = reduced.packed(merge_plan(tables.graph).remaining)
    for choice in itertools.islice(itertools.product(*map(range, tables.sizes)), 50):
        np.testing.assert_allclose(reduced_value(reduced, packed, np.array(choice)), tables.value(choice), rtol=1e-12)


@settings(max_examples=40)
@given(factor_tables(forbidden=True))
def test_any_allowed_choice_beats_any_forbidden_one(tables: FactorTables) -> None:
    reduced = reduce_tables(tables)
    packed = reduced.packed(merge_plan(tables.graph).remaining)
    allowed: list[float] = []
    forbidden: list[float] = []
    for choice in itertools.islice(itertools.product(*map(range, tables.sizes)), 200):
        value = reduced_value(reduced, packed, np.array(choice))
        (allowed if tables.value(choice) > -np.inf else forbidden).append(value)
    assert np.isfinite(allowed + forbidden).all()
    assert max(forbidden, default=-np.inf) < min(allowed, default=np.inf)
    assert min(allowed, default=np.inf) >= reduced.floor * (1 + np.sign(-reduced.floor) * 1e-9)


def test_nested_scopes_go_into_the_largest_superset() -> None:
    graph = FactorGraph(4, ((1,), (2, 0), (0, 1, 2), (3, 2, 0, 1), (3, 1)))
    plan = merge_plan(graph)
    assert plan.singletons == ((0, 1),)
    assert plan.merged == ((1, 3), (2, 3), (4, 3))
    assert plan.remaining == (3,)


def test_aligned_permutes_and_stretches() -> None:
    table = np.arange(6.0).reshape(2, 3)  # scope (2, 0)
    wide = aligned(table, (2, 0), (0, 1, 2))
    assert wide.shape == (3, 1, 2)
    np.testing.assert_array_equal(wide[:, 0, :], table.T)


def test_memory_is_shared_unless_cells_change_and_never_written() -> None:
    rng = np.random.default_rng(0)
    plain = FactorTables(
        FactorGraph(3, ((0, 1), (1, 2), (2,))), (rng.normal(size=(2, 3)),) * 1 + (np.eye(3), np.ones(3))
    )
    assert reduce_tables(plain).flat is plain.flat
    nested = FactorTables(FactorGraph(2, ((0, 1), (1,))), (np.array([[0.0, -np.inf], [1.0, 2.0]]), np.zeros(2)))
    before = nested.flat.copy()
    assert reduce_tables(nested).flat is not nested.flat
    np.testing.assert_array_equal(nested.flat, before)
