"""Random additive Gaussian processes with data, and the oracle: scikit-learn with the kernel written out."""

from __future__ import annotations

from dataclasses import dataclass
from functools import reduce
from operator import add, mul

import numpy as np
from hypothesis import strategies as st
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import RBF, ConstantKernel, Kernel, Matern

from dechbo.data.observations import Observations
from dechbo.gp import AdditiveGP, Hyperparameters
from dechbo.graph import FactorGraph
from strategies import factor_graphs, relabelled_graph

CATEGORIES = 3


@dataclass(frozen=True)
class Case:
    """A model, data for it, and the generator that made them."""

    gp: AdditiveGP
    data: Observations
    rng: np.random.Generator

    def points(self, n: int) -> np.ndarray:
        return draw_points(self.rng, self.gp.kernels, n)


def draw_points(rng, kernels, n):
    """Points of the unit cube, with category numbers where the kernel is categorical."""
    X = rng.random((n, len(kernels)))
    for i, name in enumerate(kernels):
        if name == "categorical":
            X[:, i] = rng.integers(0, CATEGORIES, n)
    return X


def make_case(rng, graph: FactorGraph, kernels, n: int, noise: float) -> Case:
    theta = Hyperparameters(
        np.exp(rng.uniform(np.log(0.1), np.log(2.0), graph.dim)), rng.uniform(0.1, 2.0, len(graph.scopes)), noise
    )
    data = Observations(draw_points(rng, kernels, n), rng.normal(size=n), rng.uniform(0, 0.1, n))
    return Case(AdditiveGP(graph, theta, kernel=kernels), data, rng)


@st.composite
def cases(draw, max_dim=6, max_size=4, max_observations=25, kernels=("matern52", "se", "categorical")):
    """Any graph (overlapping scopes, nested ones, sizes 1 to max_size), any mixture of kernels, any small data."""
    graph = draw(factor_graphs(max_dim=max_dim, max_size=max_size))
    names = draw(st.lists(st.sampled_from(kernels), min_size=graph.dim, max_size=graph.dim))
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    return make_case(rng, graph, names, draw(st.integers(1, max_observations)), draw(st.sampled_from([0.3, 0.1, 0.01])))


def relabelled(gp: AdditiveGP, random) -> tuple[AdditiveGP, np.ndarray]:
    """The same model with its variables shuffled, and where each of them was before."""
    new = list(range(gp.graph.dim))
    random.shuffle(new)
    old = np.argsort(new)
    theta = gp.hyperparameters
    shuffled = Hyperparameters(theta.lengthscales[old], theta.variances, theta.noise)
    return AdditiveGP(relabelled_graph(gp.graph, new), shuffled, kernel=[gp.kernels[i] for i in old]), old


class OnColumn(Kernel):
    """A scikit-learn kernel applied to one column, which is one-hot encoded if ``categories`` is above 0."""

    def __init__(self, base, column, categories=0):
        self.base = base
        self.column = column
        self.categories = categories

    def _seen(self, X):
        if X is None:
            return None
        if self.categories:
            return np.eye(self.categories)[X[:, self.column].astype(int)]
        return X[:, [self.column]]

    def __call__(self, X, Y=None, eval_gradient=False):
        assert not eval_gradient
        return self.base(self._seen(X), self._seen(Y))

    def diag(self, X):
        return self.base.diag(self._seen(X))

    def is_stationary(self):
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


def dense_moments(k_star, prior, K, noise, y):
    """Equation (1) in plain NumPy: k^T (K + noise)^-1 y and s - k^T (K + noise)^-1 k, one column per point."""
    A = K + np.diag(np.broadcast_to(noise, len(K)))
    return k_star.T @ np.linalg.solve(A, y), prior - np.sum(k_star * np.linalg.solve(A, k_star), axis=0)


def draw_factor(rng, gp: AdditiveGP, k: int, X) -> np.ndarray:
    """One draw of f_I from its prior at the points X, by the eigenvalues of its Gram matrix."""
    values, vectors = np.linalg.eigh(factor_kernel(gp, k)(X))
    return vectors @ (np.sqrt(np.maximum(values, 0.0)) * rng.normal(size=len(X)))
