"""Partitions, models and data for the tests of parts."""

from __future__ import annotations

import os
import signal
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from dechbo.data.observations import Observations
from dechbo.distributed.exchange import Exchange, Program
from dechbo.distributed.partition import Partition
from dechbo.errors import DataError
from dechbo.gp import AdditiveGP, Ensemble, Surrogate
from dechbo.gp.additive import Hyperparameters
from dechbo.graph import FactorGraph

Array = NDArray[np.float64]


def random_partition(rng: np.random.Generator, graph: FactorGraph, parts: int) -> Partition:
    """Every factor and every variable anywhere: nothing of the graph's shape is kept."""
    return Partition.of(graph, rng.integers(0, parts, len(graph.scopes)), rng.integers(0, parts, graph.dim))


def random_triples(rng: np.random.Generator, dim: int, count: int) -> FactorGraph:
    scopes = {tuple(sorted(rng.choice(dim, 3, replace=False).tolist())) for _ in range(count)}
    return FactorGraph.covering(dim, sorted(scopes))


def random_gp(rng: np.random.Generator, dim: int, *, centred: bool = False) -> AdditiveGP:
    graph = random_triples(rng, dim, dim)
    graph = graph.with_subsets() if centred else graph
    many = len(graph.scopes)
    theta = Hyperparameters(rng.uniform(0.2, 1.0, dim), rng.uniform(0.5, 1.0, many) / many, 1e-4)
    return AdditiveGP(graph, theta, domains=[None] * dim if centred else None)


def random_ensemble(rng: np.random.Generator, dim: int) -> Surrogate:
    return Ensemble((random_gp(rng, dim), random_gp(rng, dim)), (0.3, 0.7))


def random_data(rng: np.random.Generator, dim: int, n: int) -> Observations:
    X = rng.random((n, dim))
    y = np.sin(5 * X).sum(axis=1)
    return Observations(X, (y - y.mean()) / y.std(), rng.uniform(0, 0.01, n))


@dataclass(frozen=True)
class Swap:
    """Two parts that send each other more than a socket holds, at once; a part with a ``marker`` is killed once."""

    part: int
    marker: str = ""
    wrong: bool = False

    def program(self) -> Program[tuple[int, float]]:
        if self.wrong:
            raise DataError("no such luck")
        inbox = yield Exchange({1 - self.part: np.full(10**6, float(self.part))}, (1 - self.part,), "swap")
        if self.marker and not Path(self.marker).exists():
            Path(self.marker).touch()
            os.kill(os.getpid(), signal.SIGKILL)
        total = float(inbox[1 - self.part].sum())
        yield Exchange({1 - self.part: np.zeros(1)}, (1 - self.part,), "end")
        return os.getpid(), total
