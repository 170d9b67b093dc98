"""The base grid: its fineness and its budget, and which factors can have tables."""

from __future__ import annotations

import numpy as np

from dechbo import Categorical, Exact, FactorGraph, FactorTables, Float, Int, Space
from dechbo.gp import AdditiveGP, Ensemble, Hyperparameters
from dechbo.search.grids import (
    MAX_CANDIDATES,
    MAX_TABLE_SIZE,
    MIN_CANDIDATES,
    OVERHEAD,
    Granularity,
    base_candidates,
    grid_graph,
    gridded,
)

SPACE = Space({"a": Float(0, 1), "b": Float(0, 1), "k": Int(0, 6), "c": Categorical(["p", "q", "r"])})
GRAPH = FactorGraph(4, ((0, 1), (1, 2), (2, 3), (0,)))


def test_granularity_grows_with_the_evaluations_and_stays_within_its_budget() -> None:
    levels = [Granularity().levels(t) for t in (1, 10, 100, 1000, 5000)]
    assert levels == sorted(levels)
    assert levels[-1] > levels[0]
    for t in (10, 1000, 5000):
        grid = base_candidates(SPACE, GRAPH, t, {}, Granularity(work=1e8))
        sizes = [len(values) for values in grid]
        assert MIN_CANDIDATES <= sizes[0] <= MAX_CANDIDATES
        cells = sum(np.prod([sizes[i] for i in scope]) for scope in GRAPH.scopes)
        assert cells * (t + OVERHEAD) ** 2 <= 1e8 or sizes[0] == MIN_CANDIDATES
        assert sizes[2:] == [min(7, sizes[2]), 3]
    assert len(base_candidates(SPACE, GRAPH, 10, {0: 0.25}, Granularity())[0]) == 1


def model(graph: FactorGraph) -> AdditiveGP:
    return AdditiveGP(graph, Hyperparameters(np.ones(graph.dim), np.ones(len(graph.scopes)), 1e-2))


def test_members_with_a_factor_too_large_for_a_table_are_left_out_and_the_others_share_their_weight() -> None:
    dim = MAX_TABLE_SIZE + 1
    space = Space({f"x{i}": Float(0, 1) for i in range(dim)})
    singles, pairs = FactorGraph.singletons(dim), FactorGraph(dim, tuple((i, i + 1) for i in range(dim - 1)))
    whole = FactorGraph(dim, (tuple(range(dim)),))
    ensemble = Ensemble((model(singles), model(whole), model(pairs)), (0.2, 0.5, 0.3))
    on_grid = gridded(ensemble, space)
    assert isinstance(on_grid, Ensemble)
    assert [member.graph for member in on_grid.members] == [singles, pairs]
    np.testing.assert_allclose(on_grid.weights, (0.4, 0.6))
    assert gridded(model(whole), space) is None
    assert grid_graph(model(whole), space) == singles


def test_members_that_cannot_have_tables_are_left_out_of_the_grids() -> None:
    small = model(FactorGraph.singletons(4))
    nine = FactorGraph(9, (tuple(range(9)),))
    large = AdditiveGP(nine, Hyperparameters(np.ones(9), np.ones(1), 1e-3))
    nines = Space({f"x{i}": Float(0, 1) for i in range(9)})
    assert gridded(large, nines) is None
    assert gridded(small, SPACE) is small
    both = Ensemble(
        (AdditiveGP(FactorGraph.singletons(9), Hyperparameters(np.ones(9), np.ones(9), 1e-3)), large), (0.25, 0.75)
    )
    part = gridded(both, nines)
    assert isinstance(part, Ensemble)
    assert part.members == both.members[:1]
    assert part.weights == (1.0,)
    assert gridded(Ensemble((large,), (1.0,)), nines) is None


def test_a_factor_over_many_categories_has_no_table() -> None:
    space = Space({f"c{i}": Categorical([str(k) for k in range(20)]) for i in range(6)})
    six = AdditiveGP(
        FactorGraph(6, (tuple(range(6)),)), Hyperparameters(np.ones(6), np.ones(1), 1e-3), kernel="categorical"
    )
    assert gridded(six, space) is None
    small = Space({f"c{i}": Categorical(["a", "b"]) for i in range(6)})
    assert gridded(six, small) is six


def test_every_grid_has_an_allowed_cell() -> None:
    space = Space({name: Float(0, 1) for name in "wxyz"}, ["w + x + y + z <= 0.0301", "w >= 0.0101"])
    slices: list[dict[int, float]] = [{}, {0: 0.0201}]
    for fixed in slices:
        grid = base_candidates(space, FactorGraph.singletons(4), 10, fixed, Granularity())
        assert max(len(values) for values in grid) <= 17
        assert sum(cells.size for _, cells in space.region.tables(grid)) < 2**17
        total = FactorTables(FactorGraph.singletons(4), tuple(np.zeros(len(v)) for v in grid))
        assert Exact().maximize(total.plus(space.region.tables(grid))).value == 0.0
