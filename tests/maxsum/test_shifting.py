from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dechbo.maxsum.clusters import cluster_tables, join_graph
from dechbo.maxsum.exact import elimination_order
from dechbo.maxsum.shifting import maximise, shift_costs
from maxsum_cases import random_pairs


@settings(max_examples=40)
@given(st.lists(st.integers(1, 5), min_size=1, max_size=4), st.integers(0, 15), st.integers(0, 2**32 - 1))
def test_maxima_equal_the_reference(shape: list[int], shared: int, seed: int) -> None:
    table = np.random.default_rng(seed).normal(size=shape)
    kept = [axis for axis in range(len(shape)) if shared >> axis & 1]
    steps, cells = np.zeros(len(shape), dtype=np.int64), 1
    for axis in reversed(kept):
        steps[axis] = cells
        cells *= shape[axis]
    out = np.empty(cells)
    maximise(table.ravel(), np.array(shape), steps, out)
    expected = table.max(axis=tuple(axis for axis in range(len(shape)) if axis not in kept))
    np.testing.assert_array_equal(out, np.ravel(expected))


@pytest.mark.parametrize("max_cells", [27, 81])
def test_no_sum_changes_and_the_bound_never_rises(max_cells: int) -> None:
    tables = random_pairs(3, dim=10, pairs=20, candidates=3)
    order, _ = elimination_order([frozenset(scope) for scope in tables.graph.scopes], tables.sizes)
    made = join_graph(tables.graph.scopes, tables.sizes, order, max_cells)
    clusters = cluster_tables(made, tables)
    before = sum(clusters.flat[a:b].max() for a, b in zip(clusters.starts, clusters.starts[1:], strict=False))
    bounds = [before, *(shift_costs(clusters) for _ in range(10))]
    assert np.all(np.diff(bounds) <= 1e-12)
    assert bounds[-1] < before - 1.0
    for choice in np.random.default_rng(4).integers(0, 3, (20, 10)):
        total = sum(
            clusters.flat[clusters.starts[c] : clusters.starts[c + 1]].reshape([3] * len(cluster))[
                tuple(choice[list(cluster)])
            ]
            for c, cluster in enumerate(made.clusters)
        )
        assert total == pytest.approx(tables.value(choice), abs=1e-10)
