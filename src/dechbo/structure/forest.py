"""Random forests: all singletons, and pairs that form no cycle."""

from __future__ import annotations

import numpy as np

from dechbo.errors import OptionError
from dechbo.graph import FactorGraph


def random_forest(rng: np.random.Generator, dim: int, edges: int | None = None) -> FactorGraph:
    """All singletons, and ``edges`` pairs that form a random forest (default: a spanning tree, d - 1).

    Every pair of variables has the same probability; max-sum is exact on the result.
    """
    max_edges = dim - 1
    edges = max_edges if edges is None else edges
    if isinstance(edges, bool) or not isinstance(edges, (int, np.integer)) or not 0 <= edges <= max_edges:
        raise OptionError(f"a forest over {dim} variables has 0 to {max_edges} edges, got {edges}")
    root = list(range(dim))

    def find(i: int) -> int:
        while root[i] != i:
            root[i] = root[root[i]]
            i = root[i]
        return i

    pairs: list[tuple[int, int]] = []
    while len(pairs) < edges:
        i, j = (int(k) for k in rng.integers(0, dim, size=2))
        if find(i) != find(j):
            root[find(i)] = find(j)
            pairs.append((min(i, j), max(i, j)))
    return FactorGraph(dim, tuple((i,) for i in range(dim)) + tuple(sorted(pairs)))
