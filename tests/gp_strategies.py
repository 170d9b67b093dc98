"""Random additive Gaussian processes with data, and the oracle: scikit-learn with the kernel written out."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce
from operator import add, mul
from random import Random
from typing import Any

import numpy as np
from hypothesis import strategies as st
from numpy.typing import ArrayLike, NDArray
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import RBF, ConstantKernel, Kernel, Matern

from dechbo.data.observations import Observations
from dechbo.gp import AdditiveGP, Hyperparameters
from dechbo.graph import FactorGraph
from strategies import factor_graphs, relabelled_graph

Array = NDArray[np.float64]

CATEGORIES = 3


@dataclass(frozen=True)
class Case:
    """A model, data for it, and the generator that made them."""

    gp: AdditiveGP
    data: Observations
    rng: np.random.Generator

    def points(self, n: int) -> Array:
        return draw_points(self.rng, self.gp.kernels, n)


def draw_points(rng: np.random.Generator, kernels: Sequence[str], n: int) -> Array:
    """Points of the unit cube, with category numbers where the kernel is categorical."""
    X = rng.random((n, len(kernels)))
    for i, name in enumerate(kernels):
        if name == "categorical":
            X[:, i] = rng.integers(0, CATEGORIES, n)
    return X


def make_case(rng: np.random.Generator, graph: FactorGraph, kernels: Sequence[str], n: int, noise: float) -> Case:
    theta = Hyperparameters(
        np.exp(rng.uniform(np.log(0.1), np.log(2.0), graph.dim)), rng.uniform(0.1, 2.0, len(graph.scopes)), noise
    )
    data = Observations(draw_points(rng, kernels, n), rng.normal(size=n), rng.uniform(0, 0.1, n))
    return Case(AdditiveGP(graph, theta, kernel=kernels), data, rng)


@st.composite
def cases(
    draw: st.DrawFn,
    max_dim: int = 6,
    max_size: int = 4,
    max_observations: int = 25,
    kernels: Sequence[str] = ("matern52", "se", "categorical"),
) -> Case:
    """Any graph (overlapping scopes, nested ones, sizes 1 to max_size), any mixture of kernels, any small data."""
    graph = draw(factor_graphs(max_dim=max_dim, max_size=max_size))
    names = draw(st.lists(st.sampled_from(kernels), min_size=graph.dim, max_size=graph.dim))
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    return make_case(rng, graph, names, draw(st.integers(1, max_observations)), draw(st.sampled_from([0.3, 0.1, 0.01])))


def relabelled(gp: AdditiveGP, random: Random) -> tuple[AdditiveGP, NDArray[np.int64]]:
    """The same model with its variables shuffled, and where each of them was before."""
    new = list(range(gp.graph.dim))
    random.shuffle(new)
    old = np.argsort(new)
    theta = gp.hyperparameters
    shuffled = Hyperparameters(theta.lengthscales[old], theta.variances, theta.noise)
    return AdditiveGP(relabelled_graph(gp.graph, new), shuffled, kernel=[gp.kernels[i] for i in old]), old


class OnColumn(Kernel):  # type: ignore[misc]  # scikit-learn is untyped
    """A scikit-learn kernel applied to one column, which is one-hot encoded if ``categories`` is above 0."""

    def __init__(self, base: Kernel, column: int, categories: int = 0) -> None:
        self.base = base
        self.column = column
        self.categories = categories

    def _seen(self, X: Array | None) -> Array | None:
        if X is None:
            return None
        if self.categories:
            one_hot: Array = np.eye(self.categories)[X[:, self.column].astype(int)]
            return one_hot
        return X[:, [self.column]]

    def __call__(self, X: Array, Y: Array | None = None, eval_gradient: bool = False) -> Any:
        assert not eval_gradient
        return self.base(self._seen(X), self._seen(Y))

    def diag(self, X: Array) -> Any:
        return self.base.diag(self._seen(X))

    def is_stationary(self) -> bool:
        return True


def one_dimensional(name: str, column: int, lengthscale: float) -> Kernel:
    if name == "matern52":
        return OnColumn(Matern(lengthscale, "fixed", nu=2.5), column)
    if name == "se":
        return OnColumn(RBF(lengthscale, "fixed"), column)
    # two one-hot vectors are 0 or sqrt(2) apart: exp(-2 / (2 l')) with l' = sqrt(l) squared is exp(-1 / l)
    return OnColumn(RBF(np.sqrt(lengthscale), "fixed"), column, CATEGORIES)


def factor_kernel(gp: AdditiveGP, k: int) -> Kernel:
    """s_I prod_{i in I} k_i, of scikit-learn's own parts."""
    theta = gp.hyperparameters
    parts = [one_dimensional(gp.kernels[i], i, float(theta.lengthscales[i])) for i in gp.graph.scopes[k]]
    return reduce(mul, parts, ConstantKernel(float(theta.variances[k]), "fixed"))


def summed_kernel(gp: AdditiveGP) -> Kernel:
    return reduce(add, [factor_kernel(gp, k) for k in range(len(gp.graph.scopes))])


def dense_regressor(gp: AdditiveGP, data: Observations) -> GaussianProcessRegressor:
    """The dense GP with the summed kernel, at the same fixed hyperparameters."""
    alpha = gp.hyperparameters.noise + data.noise
    return GaussianProcessRegressor(summed_kernel(gp), alpha=alpha, optimizer=None).fit(data.X, data.y)


def dense_moments(k_star: Array, prior: ArrayLike, K: Array, noise: ArrayLike, y: Array) -> tuple[Array, Array]:
    """Equation (1) in plain NumPy: k^T (K + noise)^-1 y and s - k^T (K + noise)^-1 k, one column per point."""
    A = K + np.diag(np.broadcast_to(noise, len(K)))
    return k_star.T @ np.linalg.solve(A, y), prior - np.sum(k_star * np.linalg.solve(A, k_star), axis=0)


def draw_factor(rng: np.random.Generator, gp: AdditiveGP, k: int, X: Array) -> Array:
    """One draw of f_I from its prior at the points X, by the eigenvalues of its Gram matrix."""
    values, vectors = np.linalg.eigh(factor_kernel(gp, k)(X))
    drawn: Array = vectors @ (np.sqrt(np.maximum(values, 0.0)) * rng.normal(size=len(X)))
    return drawn
