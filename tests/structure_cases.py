"""Targets of chains whose law is known: plain functions of the interactions, quadrature over variances; tables."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np
from numpy.typing import NDArray
from scipy.stats import norm

from dechbo.data.observations import Observations
from dechbo.gp import AdditiveGP, Hyperparameters
from dechbo.graph import FactorGraph, Scope
from dechbo.structure import GraphPrior
from dechbo.structure.evidence import (
    MIN_NOISE,
    NOISE_MEDIAN,
    NOISE_SPREAD,
    VARIANCE_MEDIAN,
    VARIANCE_SPREAD,
    EvidenceTarget,
)
from dechbo.structure.sampler import State
from dechbo.structure.scopes import ScopeSet

Array = NDArray[np.float64]


@dataclass(frozen=True)
class FunctionTarget:
    """log p(data | U) = function(U), without a payload."""

    function: Callable[[ScopeSet], float]

    def propose(
        self, rng: np.random.Generator, current: State | None, added: tuple[Scope, ...], removed: tuple[Scope, ...]
    ) -> tuple[float, None, float]:
        before: ScopeSet = frozenset() if current is None else current.interactions
        return self.function(before.difference(removed).union(added)), None, 0.0


FLAT = FunctionTarget(lambda _: 0.0)


def table(dim: int, n: int, function: Callable[[Array], Array], *, seed: int = 0, noise: float = 0.01) -> Observations:
    """Random points of the unit cube, values of standard deviation 1, and noise on top."""
    rng = np.random.default_rng(seed)
    X = rng.random((n, dim))
    y = function(X)
    y = (y - y.mean()) / (y.std() or 1.0)
    return Observations(X, y + noise * rng.standard_normal(n))


def two_pairs(X: Array) -> Array:
    """Each term of variance 1/4 over its domain, and two slopes."""
    waves = np.sin(2 * np.pi * X[:, :4])
    total: Array = waves[:, 0] * waves[:, 1] + waves[:, 2] * np.cos(np.pi * X[:, 3]) + np.sin(3 * X[:, 4]) + X[:, 0]
    return total


def pair_and_triple(X: Array) -> Array:
    """The pair (0, 1), and the triple (2, 3, 4), which shows in none of its pairs."""
    waves = np.sin(2 * (X - 0.5))
    total: Array = waves.sum(axis=1) + 6 * waves[:, :2].prod(axis=1) + 14 * waves[:, 2:5].prod(axis=1)
    return total


def additive(X: Array) -> Array:
    total: Array = np.sin(3 * X).sum(axis=1) + X[:, 0] ** 2
    return total


def constant(X: Array) -> Array:
    return np.zeros(len(X))


def little_data(
    dim: int, *, free: bool, typical: dict[Scope, float] | None = None
) -> tuple[EvidenceTarget, GraphPrior]:
    """A target with several graphs of similar posterior, and a prior over pairs."""
    rng = np.random.default_rng(14)
    X = rng.random((14, dim))
    y = X[:, 0] + 1.5 * np.sin(6 * X[:, 0]) * np.cos(3 * X[:, 1]) + 0.5 * rng.normal(size=14)
    data = Observations(X, (y - y.mean()) / y.std(), rng.uniform(0, 0.05, 14))
    theta = Hyperparameters(rng.uniform(0.2, 1.5, dim), rng.uniform(0.05, 0.3, dim), 0.2)
    reference = AdditiveGP(FactorGraph.singletons(dim), theta, domains=(None,) * dim)
    prior = GraphPrior(dim, max_factor_size=2, expected=1.0 if dim == 2 else 2.0)
    return EvidenceTarget(reference, data, typical=typical, free_noise=free), prior


class Integrated:
    """Exact averages over p(U, s, noise | data), by quadrature over all log variances and the log noise.

    The averages are of 1{U = g}, 1{U = g} times the sum of the log variances, and 1{U = g} times the log noise, for
    each of all graphs g.
    """

    def __init__(self, target: EvidenceTarget, prior: GraphPrior, scopes: Sequence[Scope]) -> None:
        self.graphs = [frozenset(some) for n in range(len(scopes) + 1) for some in combinations(scopes, n)]
        self.evidence = {}  # log p(data | g), but for a constant
        averages = []
        for graph in self.graphs:
            self.evidence[graph], logs, noise = _integrated(target, sorted(graph))
            averages.append([1.0, logs, noise])
        log_posterior = np.array([prior.log_density(graph) + self.evidence[graph] for graph in self.graphs])
        self.probabilities = np.exp(log_posterior - np.logaddexp.reduce(log_posterior))
        self.averages = self.probabilities[:, None] * averages  # (graphs, 3)

    def statistics(self, state: State) -> Array:
        """What is averaged, of one state."""
        found = np.zeros((len(self.graphs), 3))
        logs = sum(np.log(s) for s in state.payload.variances.values())
        found[self.graphs.index(state.interactions)] = 1.0, logs, np.log(state.payload.noise)
        return found

    def largest_error(self, batches: Array) -> float:
        """Of averages over batches (n, graphs, 3), which are as good as independent: in standard errors.

        Graphs of little probability, whose averages are far from normal, are left out.
        """
        seen = self.probabilities > 0.02
        off = batches.mean(axis=0) - self.averages
        error = batches.std(axis=0, ddof=1) / np.sqrt(len(batches))
        return float(np.max(np.abs(off[seen]) / np.maximum(error[seen], 1e-12)))


def _integrated(target: EvidenceTarget, scopes: list[Scope]) -> tuple[float, float, float]:
    """The evidence of a graph, and the posterior means of the sum of log variances and of the log noise."""
    data, reference = target.data, target.reference
    offs = np.linspace(-4.5, 4.5, 28)  # standard deviations of the prior; trapezoids are exact for such densities
    logs = np.log(VARIANCE_MEDIAN) + VARIANCE_SPREAD * offs
    grids = [(logs, norm.logpdf(offs) + np.log(offs[1] - offs[0]))] * len(scopes)
    noises = np.log([reference.hyperparameters.noise])
    log_weights = np.zeros(1)
    if target.free_noise:
        edges = np.linspace(np.log(MIN_NOISE), 0.0, 81)
        noises = (edges[1:] + edges[:-1]) / 2
        log_weights = norm.logpdf(noises, np.log(NOISE_MEDIAN), NOISE_SPREAD)
    grids.append((noises, log_weights))
    theta = np.stack(np.meshgrid(*(values for values, _ in grids), indexing="ij"), axis=-1).reshape(-1, len(grids))
    weights = np.stack(np.meshgrid(*(logs for _, logs in grids), indexing="ij"), axis=-1).reshape(-1, len(grids))
    X = data.X
    parts = [np.prod([reference.correlation.matrix(i, X[:, i], X[:, i]) for i in s], axis=0) for s in scopes]
    parts.append(np.eye(len(data)))
    K = reference.gram(X) + np.diag(data.noise) + np.tensordot(np.exp(theta), np.array(parts), axes=1)
    L = np.linalg.cholesky(K)
    z = np.linalg.solve(L, np.broadcast_to(data.y[:, None], (len(L), len(data), 1)))[:, :, 0]
    log_joint = -0.5 * (z**2).sum(axis=1) - np.log(np.diagonal(L, axis1=1, axis2=2)).sum(axis=1) + weights.sum(axis=1)
    total = np.logaddexp.reduce(log_joint)
    means = np.exp(log_joint - total) @ theta
    return float(total), float(means[:-1].sum()), float(means[-1])
