"""Graphs, functions, points and models of known sizes, for the speed benchmarks."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from dechbo import FactorGraph
from dechbo.data.observations import Observations
from dechbo.gp import AdditiveGP, Hyperparameters

Array = NDArray[np.float64]


def ring(dim: int, size: int = 3, seed: int | None = None) -> FactorGraph:
    """``dim`` factors of ``size`` neighbours each on a ring of the variables, in random order if there is a seed."""
    order = np.arange(dim) if seed is None else np.random.default_rng(seed).permutation(dim)
    return FactorGraph(dim, tuple(tuple(int(order[(k + j) % dim]) for j in range(size)) for k in range(dim)))


def chain(dim: int) -> FactorGraph:
    return FactorGraph(dim, tuple((i, i + 1) for i in range(dim - 1)))


def rosenbrock(X: Array) -> Array:
    """Rosenbrock's function, a chain of pairs, on [-2, 2]^d."""
    Z = 4 * X - 2
    total: Array = (100 * (Z[:, 1:] - Z[:, :-1] ** 2) ** 2 + (1 - Z[:, :-1]) ** 2).sum(axis=1)
    return total


def styblinski_tang(X: Array) -> Array:
    """A sum over the variables, on [-5, 5]^d."""
    Z = 10 * X - 5
    total: Array = 0.5 * (Z**4 - 16 * Z**2 + 5 * Z).sum(axis=1)
    return total


def uniform_points(function: Callable[[Array], Array], dim: int, t: int, seed: int) -> Array:
    return np.random.default_rng(seed).random((t, dim))


def run_points(function: Callable[[Array], Array], dim: int, t: int, seed: int) -> Array:
    """Points as in a run: one half uniform, the other within about 0.05 of the best of those."""
    rng = np.random.default_rng(seed)
    X = rng.random((t, dim))
    half = t // 2
    best = X[function(X[:half]).argmin()]
    X[half:] = np.clip(best + 0.05 * rng.normal(size=(t - half, dim)), 0.0, 1.0)
    return X


def model(graph: FactorGraph, *, kernel: str = "matern52") -> AdditiveGP:
    rng = np.random.default_rng(1)
    factors = len(graph.scopes)
    lengths = rng.uniform(0.2, 0.6, graph.dim)
    return AdditiveGP(graph, Hyperparameters(lengths, np.full(factors, 1.0 / factors), 1e-3), kernel=kernel)


def observations(dim: int, t: int) -> Observations:
    X = np.random.default_rng(2).random((t, dim))
    return Observations(X, rosenbrock(X)).standardised()[0]
