from __future__ import annotations

import random

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from dechbo.gp.correlation import Correlation
from dechbo.gp.gram import contraction, cross_gram, gram
from dechbo.gp.kernels import correlations, kernel_codes
from dechbo.graph import FactorGraph
from gp_strategies import Case, cases, relabelled, summed_kernel

Array = NDArray[np.float64]

LOOPY = FactorGraph(5, ((0,), (3, 1), (0, 2, 4), (4, 3, 2, 1), (0, 1, 2, 3, 4)))


def product_gram(
    graph: FactorGraph, X: Array, codes: NDArray[np.int64], lengthscales: Array, variances: Array
) -> Array:
    """sum_I s_I prod_i k_i, with NumPy and one matrix at a time."""
    total = np.zeros((len(X), len(X)))
    for scope, variance in zip(graph.scopes, variances, strict=True):
        part = np.full_like(total, variance)
        for i in scope:
            part *= correlations(codes[i], X[:, i], X[:, i], lengthscales[i])
        total += part
    return total


@settings(max_examples=60)
@given(cases(max_size=5, max_observations=40))
def test_gram_equals_scikit_learn(case: Case) -> None:
    found = case.gp.gram(case.data.X)
    np.testing.assert_allclose(found, summed_kernel(case.gp)(case.data.X), rtol=1e-11, atol=1e-12)
    np.testing.assert_array_equal(found, found.T)


@settings(max_examples=40)
@given(cases(max_size=5, max_observations=40), st.integers(0, 70))
def test_the_cross_gram_is_a_block_of_the_gram(case: Case, others: int) -> None:
    gp, X = case.gp, np.vstack([case.data.X, case.points(others)])
    pairs, first = gp.correlation.pairs(X), len(case.data)
    found = cross_gram(gp.graph, pairs, gp.hyperparameters.variances, first)
    whole = gram(gp.graph, pairs, gp.hyperparameters.variances)
    np.testing.assert_allclose(found, whole[:first, first:], rtol=1e-12, atol=1e-14)


@pytest.mark.parametrize("n", range(1, 41))
def test_every_number_of_points(n: int) -> None:
    """Blocks of pairs are padded: n runs over several of them."""
    rng = np.random.default_rng(n)
    codes = kernel_codes(["matern52", "se", "matern52", "categorical", "matern52"], 5)
    X = rng.random((n, 5))
    X[:, 3] = rng.integers(0, 3, n)
    lengthscales, variances = rng.uniform(0.1, 1, 5), rng.uniform(0.1, 1, 5)
    expected = product_gram(LOOPY, X, codes, lengthscales, variances)
    found = gram(LOOPY, Correlation(codes, lengthscales).pairs(X), variances)
    np.testing.assert_allclose(found, expected, rtol=1e-12, atol=1e-14)
    M = rng.normal(size=(n, n))
    _, by_variance = contraction(LOOPY, Correlation(codes, lengthscales).pairs(X), variances, M + M.T)
    for k in range(5):
        alone = product_gram(LOOPY, X, codes, lengthscales, np.eye(5)[k])
        assert by_variance[k] == pytest.approx(0.5 * np.sum((M + M.T) * alone), rel=1e-11, abs=1e-11)


@pytest.mark.parametrize("lengthscale", [1e-8, 1e-4, 1e-3, 0.00186, 0.00187, 0.01, 1.0, 1e4])
@pytest.mark.parametrize("spread", [1.0, 1e3, 1e6])
@pytest.mark.parametrize("shift", [0.0, -1e6])
@pytest.mark.parametrize("kernel", ["matern52", "se"])
def test_far_points_and_tiny_lengthscales(lengthscale: float, spread: float, shift: float, kernel: str) -> None:
    """exp(z) alone would overflow in many of these; some lie on either side of the switch."""
    rng = np.random.default_rng(0)
    x = shift + spread * np.concatenate([[0.0, 1.0], rng.random(15), 0.5 + lengthscale / spread * rng.random(8)])
    graph, codes = FactorGraph(1, ((0,),)), kernel_codes(kernel, 1)
    found = gram(graph, Correlation(codes, np.array([lengthscale])).pairs(x[:, None]), np.array([2.0]))
    np.testing.assert_allclose(found, 2 * correlations(codes[0], x, x, lengthscale), rtol=0, atol=2e-12)


def test_one_variable_may_overflow_while_others_do_not() -> None:
    rng = np.random.default_rng(1)
    X = rng.random((20, 5)) * [1, 1e5, 1, 1, 1e-5]
    codes = kernel_codes("matern52", 5)
    lengthscales, variances = np.array([1e-4, 0.1, 0.3, 50.0, 0.2]), np.ones(5)
    expected = product_gram(LOOPY, X, codes, lengthscales, variances)
    np.testing.assert_allclose(
        gram(LOOPY, Correlation(codes, lengthscales).pairs(X), variances), expected, rtol=0, atol=5e-12
    )


@settings(max_examples=30)
@given(cases(max_size=5), st.randoms(use_true_random=False))
def test_relabelling_commutes(case: Case, random: random.Random) -> None:
    gp = case.gp
    other, old = relabelled(gp, random)
    np.testing.assert_allclose(other.gram(case.data.X[:, old]), gp.gram(case.data.X), rtol=1e-10)
