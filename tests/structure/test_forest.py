from __future__ import annotations

from collections import Counter
from itertools import combinations
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import chisquare

from dechbo.errors import OptionError
from dechbo.graph import FactorGraph
from dechbo.structure import random_forest


def pairs_of(graph: FactorGraph) -> list[tuple[int, int]]:
    return [scope for scope in graph.scopes if len(scope) == 2]


def components(dim: int, pairs: list[tuple[int, int]]) -> int:
    """How many connected components remain, by repeated relabelling."""
    label = list(range(dim))
    for i, j in pairs:
        label = [label[i] if mark == label[j] else mark for mark in label]
    return len(set(label))


@settings(max_examples=100)
@given(st.integers(1, 40), st.integers(0, 2**32 - 1), st.data())
def test_a_forest_with_all_singletons(dim: int, seed: int, data: st.DataObject) -> None:
    edges = data.draw(st.one_of(st.none(), st.integers(0, dim - 1)))
    graph = random_forest(np.random.default_rng(seed), dim, edges)
    pairs = pairs_of(graph)
    wanted = dim - 1 if edges is None else edges
    assert graph.dim == dim
    assert len(pairs) == len(set(pairs)) == wanted
    assert components(dim, pairs) == dim - wanted  # every edge joined two components: no cycle
    assert all(i < j for i, j in pairs)
    assert {scope for scope in graph.scopes if len(scope) == 1} == {(i,) for i in range(dim)}
    assert len(graph.scopes) == dim + wanted


@pytest.mark.parametrize("edges", [1, 2, 4])
def test_every_pair_is_equally_likely(edges: int) -> None:
    """One pair at random of each of 3000 forests: independent draws, chi-square on 10 pairs at 1e-4.

    Right code on fresh seeds would raise a false alarm with probability 1e-4 for each of the three cases.
    """
    counts: Counter[tuple[int, ...]] = Counter()
    for seed in range(3000):
        rng = np.random.default_rng(seed)
        pairs = pairs_of(random_forest(rng, 5, edges))
        counts[pairs[np.random.default_rng((seed, 1)).integers(edges)]] += 1
    observed = [counts[pair] for pair in combinations(range(5), 2)]
    assert sum(observed) == 3000
    assert chisquare(observed).pvalue > 1e-4


def test_the_generator_decides() -> None:
    first, second = (random_forest(np.random.default_rng(7), 30, 12) for _ in range(2))
    assert first == second
    assert random_forest(np.random.default_rng(8), 30, 12) != first
    rng = np.random.default_rng(7)
    assert random_forest(rng, 30, 12) == first
    assert random_forest(rng, 30, 12) != first


def test_thousands_of_variables() -> None:
    graph = random_forest(np.random.default_rng(0), 2000)
    assert components(2000, pairs_of(graph)) == 1


@pytest.mark.parametrize("edges", [-1, 5, 100, 1.5, float("nan"), True, "2"])
def test_bad_edges_are_refused(edges: Any) -> None:
    with pytest.raises(OptionError, match="edges"):
        random_forest(np.random.default_rng(0), 5, edges)
