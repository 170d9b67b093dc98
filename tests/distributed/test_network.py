from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from dechbo.distributed.exchange import Place, all_reduce
from dechbo.distributed.network import AsynchronousPart, Network, Wire, maximize_asynchronously, run_reliably
from dechbo.distributed.partition import partition
from dechbo.distributed.synchronous import SynchronousMaxSum
from dechbo.errors import OptionError
from dechbo.graph import FactorGraph
from dechbo.maxsum import Exact, MaxSum
from dechbo.tables import FactorTables
from distributed_cases import random_partition
from strategies import loopy_tables


def shortfall(seed: int) -> float:
    """How far the asynchronous value is below the synchronous one, of optimum - mean; 20 % of the messages are lost."""
    tables = loopy_tables(np.random.default_rng(seed), dim=24, factors=34)
    answer, wire = maximize_asynchronously(tables, partition(tables.graph, tables.sizes, 4), Network(seed=seed))
    assert 0.1 < wire.lost / wire.sent < 0.3
    optimum, synchronous = Exact().maximize(tables).value, SynchronousMaxSum().maximize(tables).value
    assert answer.value - 1e-9 <= optimum <= answer.upper_bound + 1e-9
    assert answer.value == pytest.approx(tables.value(answer.choice), abs=1e-9)
    return (synchronous - answer.value) / (synchronous - tables.mean)


@pytest.mark.parametrize("seed", [0, 8, 31])
def test_loopy_graphs_end_at_most_one_percent_below_the_synchronous_value(seed: int) -> None:
    assert shortfall(seed) <= 0.01


@pytest.mark.system
def test_fifty_loopy_graphs() -> None:
    assert max(shortfall(seed) for seed in range(50)) <= 0.01


@pytest.mark.parametrize("seed", range(4))
def test_forests_are_exact_in_the_end(seed: int) -> None:
    rng = np.random.default_rng(seed)
    scopes = [tuple({int(rng.integers(0, i)), i}) for i in range(1, 15)]
    graph = FactorGraph.covering(16, scopes)  # a tree and a variable alone
    sizes = rng.integers(2, 5, 16)
    tables = FactorTables(graph, tuple(rng.normal(size=[sizes[i] for i in scope]) for scope in graph.scopes))
    network = Network(loss=0.3, duplication=0.2, delay=2.0, seed=seed)
    answer, _ = maximize_asynchronously(tables, random_partition(rng, graph, 5), network, wakes=120)
    exact = MaxSum().maximize(tables)
    assert answer.value == pytest.approx(exact.value, abs=1e-12)
    assert (answer.choice == exact.choice).all()


def test_the_same_seed_is_the_same_network() -> None:
    tables = loopy_tables(np.random.default_rng(2), dim=12, factors=16)
    cut = partition(tables.graph, tables.sizes, 3)
    runs = [maximize_asynchronously(tables, cut, Network(seed=4), wakes=20) for _ in range(2)]
    assert (runs[0][1].sent, runs[0][1].now) == (runs[1][1].sent, runs[1][1].now)
    assert (runs[0][0].choice == runs[1][0].choice).all()


def test_programs_survive_a_network_that_loses_most() -> None:
    wire = Wire(Network(loss=0.7, duplication=0.5, delay=3.0, seed=1))
    results = run_reliably([all_reduce(Place(p, 6), np.array([2**p])) for p in range(6)], wire)
    assert [int(result[0]) for result in results] == [63] * 6
    assert wire.lost > 0


def test_an_older_message_is_ignored() -> None:
    tables = loopy_tables(np.random.default_rng(3), dim=12, factors=16)
    from dechbo.distributed.in_process import run_in_process
    from dechbo.distributed.maximize import local_factors
    from dechbo.distributed.plan import plan_parts
    from dechbo.distributed.synchronous import local_tables

    plans = plan_parts(tables.graph, tables.sizes, partition(tables.graph, tables.sizes, 2), as_cyclic=True)
    first, second = (
        AsynchronousPart(local, 0.5)
        for local in run_in_process([local_factors(plan.graph, local_tables(plan, tables)) for plan in plans])
    )
    early = [item for item in first.wake() if item[1] == "beliefs"]
    late = [item for item in first.wake() if item[1] == "beliefs"]
    assert early
    assert all(second.receive(0, *item[1:]) for item in late)
    known = second.belief.copy()
    assert not any(second.receive(0, *item[1:]) for item in [*early, *late])
    assert (second.belief == known).all()


@pytest.mark.parametrize("options", [{"loss": 1.0}, {"duplication": -0.1}, {"delay": 0.0}])
def test_bad_networks_are_refused(options: dict[str, Any]) -> None:
    with pytest.raises(OptionError):
        Network(**options)
