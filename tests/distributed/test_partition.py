from __future__ import annotations

import sys
import tracemalloc

import numpy as np
import pytest

from dechbo.distributed.partition import Partition, _owners, cut_weight, partition
from dechbo.graph import FactorGraph
from distributed_cases import random_partition, random_triples


def work(graph: FactorGraph, sizes: np.ndarray, cut: Partition) -> np.ndarray:
    cells = np.array([np.prod(sizes[list(scope)]) for scope in graph.scopes])
    return np.bincount(cut.factors, cells, minlength=cut.parts)


@pytest.mark.parametrize("parts", [2, 4])
@pytest.mark.parametrize("metis", [True, False])
def test_parts_are_balanced_and_the_cut_is_far_below_that_of_chance(
    parts: int, metis: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not metis:
        monkeypatch.setitem(sys.modules, "pymetis", None)
    rng = np.random.default_rng(0)
    band = [tuple(sorted({i, (i + 1) % 400, (i + int(rng.integers(2, 9))) % 400})) for i in range(400)]
    graph, sizes = FactorGraph.covering(400, sorted(set(band))), np.full(400, 5)
    cut = partition(graph, sizes, parts)
    assert cut.parts == parts
    shares = work(graph, sizes, cut) / work(graph, sizes, cut).sum()
    assert (np.abs(shares * parts - 1) < 0.2).all()
    assert cut_weight(graph, sizes, cut) < 0.15 * cut_weight(graph, sizes, random_partition(rng, graph, parts))


def test_what_is_merged_stays_together_and_a_variable_is_where_its_factors_are() -> None:
    rng = np.random.default_rng(1)
    graph = random_triples(rng, 60, 50).with_subsets()
    cut = partition(graph, np.full(60, 4), 3)
    for k, scope in enumerate(graph.scopes):
        if len(scope) == 1:
            assert cut.factors[k] == cut.variables[scope[0]]
        if len(scope) == 2:
            around = [j for j, other in enumerate(graph.scopes) if set(scope) < set(other)]
            assert cut.factors[k] in cut.factors[around]
    for i in range(60):
        assert cut.variables[i] in cut.factors[list(graph.factors_of[i])]


def test_a_small_graph_has_fewer_parts_than_asked_for() -> None:
    cut = partition(FactorGraph(2, ((0, 1),)), np.array([3, 3]), 8)
    assert cut.parts <= 3
    assert set(cut.factors) | set(cut.variables) == set(range(cut.parts))


@pytest.mark.parametrize("parts", [3, 8, 20])
def test_more_parts_than_vertices_are_no_complaint(parts: int, capfd: pytest.CaptureFixture[str]) -> None:
    for dim in (1, 2, 5):
        graph = FactorGraph.covering(dim, [(i, i + 1) for i in range(dim - 1)])
        cut = partition(graph, np.full(dim, 3), parts)
        assert 1 <= cut.parts <= min(parts, 2 * dim)
    assert capfd.readouterr() == ("", "")


def test_owners_need_no_table_of_all_variables_and_parts() -> None:
    rng = np.random.default_rng(2)
    labels, held = rng.integers(0, 4, 30), rng.integers(0, 4, 40)
    edges = np.stack([np.repeat(np.arange(40), 2), rng.integers(0, 30, 80)], axis=1)
    votes = np.zeros((30, 4))
    np.add.at(votes, (edges[:, 1], held[edges[:, 0]]), 1.0)
    votes[np.arange(30), labels] += 0.5
    assert (_owners(labels, edges, held) == votes.argmax(axis=1)).all()

    tracemalloc.start()
    _owners(labels * 10**9, edges, held * 10**9)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 10**6
