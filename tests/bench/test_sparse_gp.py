"""The sparse GP against dense algebra, scikit-learn's exact GP and FITC."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from dechbo.bench.problems.sparse_gp import (
    JITTER,
    TRAINING,
    BlockedData,
    PICHyperparameters,
    bisected,
    left_out_errors,
    rmse,
)

Array = NDArray[np.float64]
Indices = NDArray[np.int64]


def hyperparameters(rng: np.random.Generator, inducing: int, dim: int) -> PICHyperparameters:
    return PICHyperparameters(
        float(rng.uniform(0.5, 3)),
        float(rng.uniform(0.02, 0.5)),
        rng.uniform(0.3, 2, dim),
        rng.normal(size=(inducing, dim)),
    )


def rows(rng: np.random.Generator, n: int, dim: int) -> tuple[Array, Array]:
    X = rng.normal(size=(n, dim))
    return X, np.sin(2 * X).sum(axis=1) + 0.1 * rng.normal(size=n)


def kernel(h: PICHyperparameters, a: Array, b: Array) -> Array:
    """Written out, one pair at a time."""
    values = [[h.signal * np.exp(-0.5 * (((x - z) / h.lengthscales) ** 2).sum()) for z in b] for x in a]
    return np.array(values).reshape(len(a), len(b))


def dense_errors(X: Array, y: Array, block: Indices, fold: Indices, h: PICHyperparameters) -> Array:
    """By the whole covariance matrix, fold by fold."""
    K_uu = kernel(h, h.inducing, h.inducing) + JITTER * h.signal * np.eye(len(h.inducing))
    K_fu = kernel(h, X, h.inducing)
    covariance = K_fu @ np.linalg.solve(K_uu, K_fu.T)
    same = block[:, None] == block
    covariance[same] = kernel(h, X, X)[same]
    errors = np.full(len(y), np.nan)
    for k in set(fold.tolist()) - {TRAINING}:
        held, kept = fold == k, fold != k
        K = covariance[np.ix_(kept, kept)] + h.noise * np.eye(kept.sum())
        errors[held] = y[held] - covariance[np.ix_(held, kept)] @ np.linalg.solve(K, y[kept])
    return errors


@settings(max_examples=40, deadline=None)
@given(seed=st.integers(0, 10_000), n=st.integers(2, 30), blocks=st.integers(1, 6), folds=st.integers(1, 4))
def test_errors_are_those_of_the_dense_covariance(seed: int, n: int, blocks: int, folds: int) -> None:
    rng = np.random.default_rng(seed)
    X, y = rows(rng, n, 2)
    block, fold = rng.integers(0, blocks, n), rng.integers(TRAINING, folds, n)
    h = hyperparameters(rng, int(rng.integers(1, 8)), 2)
    found = left_out_errors(BlockedData.of(X, y, block, fold), h)
    np.testing.assert_allclose(found, dense_errors(X, y, block, fold, h), rtol=1e-6, atol=1e-7)


def test_one_block_is_scikit_learns_exact_process() -> None:
    from sklearn.gaussian_process import GaussianProcessRegressor
    from sklearn.gaussian_process.kernels import RBF, ConstantKernel

    rng = np.random.default_rng(0)
    X, y = rows(rng, 60, 3)
    fold = np.arange(60) % 5
    h = hyperparameters(rng, 7, 3)
    found = left_out_errors(BlockedData.of(X, y, np.zeros(60, dtype=np.int64), fold), h)
    exact = ConstantKernel(h.signal) * RBF(h.lengthscales)
    for k in range(5):
        model = GaussianProcessRegressor(exact, alpha=h.noise, optimizer=None).fit(X[fold != k], y[fold != k])
        np.testing.assert_allclose(found[fold == k], y[fold == k] - model.predict(X[fold == k]), atol=1e-8)


def test_as_many_inducing_inputs_as_points_are_the_exact_process() -> None:
    rng = np.random.default_rng(1)
    X, y = rows(rng, 40, 2)
    fold = np.arange(40) % 4
    h = hyperparameters(rng, 1, 2)
    h = PICHyperparameters(h.signal, h.noise, np.full(2, 0.4), X)
    exact = left_out_errors(BlockedData.of(X, y, np.zeros(40, dtype=np.int64), fold), h)
    sparse = left_out_errors(BlockedData.of(X, y, rng.integers(0, 8, 40), fold), h)
    np.testing.assert_allclose(sparse, exact, atol=1e-4)  # the jitter on K_uu


def test_blocks_of_one_point_are_fitc() -> None:
    rng = np.random.default_rng(2)
    X, y = rows(rng, 50, 2)
    fold = np.arange(50) % 5
    h = hyperparameters(rng, 6, 2)
    found = left_out_errors(BlockedData.of(X, y, np.arange(50), fold), h)
    K_uu = kernel(h, h.inducing, h.inducing) + JITTER * h.signal * np.eye(6)
    for k in range(5):
        train, test = fold != k, fold == k
        K_uf, K_tu = kernel(h, h.inducing, X[train]), kernel(h, X[test], h.inducing)
        # Snelson & Ghahramani 2006: K_*u (K_uu + K_uf G^{-1} K_fu)^{-1} K_uf G^{-1} y, G = diag(K - Q) + noise I
        G = h.signal - (K_uf * np.linalg.solve(K_uu, K_uf)).sum(axis=0) + h.noise
        mean = K_tu @ np.linalg.solve(K_uu + (K_uf / G) @ K_uf.T, (K_uf / G) @ y[train])
        np.testing.assert_allclose(found[test], y[test] - mean, atol=1e-7)


def test_the_order_of_the_rows_does_not_matter() -> None:
    rng = np.random.default_rng(3)
    X, y = rows(rng, 45, 2)
    block, fold = rng.integers(0, 5, 45), rng.integers(TRAINING, 3, 45)
    h = hyperparameters(rng, 5, 2)
    order = rng.permutation(45)
    whole = left_out_errors(BlockedData.of(X, y, block, fold), h)
    turned = left_out_errors(BlockedData.of(X[order], y[order], block[order], fold[order]), h)
    np.testing.assert_allclose(turned, whole[order], rtol=1e-10)
    assert np.isnan(whole[fold == TRAINING]).all()


def test_a_covariance_that_is_not_positive_definite_is_an_error() -> None:
    rng = np.random.default_rng(4)
    X, y = rows(rng, 10, 2)
    h = hyperparameters(rng, 3, 2)
    broken = PICHyperparameters(h.signal, -10.0, h.lengthscales, h.inducing)
    with pytest.raises(np.linalg.LinAlgError, match="not positive definite"):
        left_out_errors(BlockedData.of(X, y, np.zeros(10, dtype=np.int64), np.arange(10) % 2), broken)


@settings(max_examples=30, deadline=None)
@given(seed=st.integers(0, 1000), n=st.integers(1, 200), most=st.integers(1, 50))
def test_blocks_are_small_of_equal_size_and_cover_all_rows(seed: int, n: int, most: int) -> None:
    X = np.random.default_rng(seed).normal(size=(n, 3))
    sizes = np.bincount(bisected(X, most))
    assert sizes.sum() == n
    assert sizes.max() <= most
    assert len(sizes) == -(-n // most)
    assert sizes.max() - sizes.min() <= max(1, most // 4) or most < 4


def test_blocks_hold_near_points() -> None:
    X = np.random.default_rng(5).uniform(size=(400, 2))
    block = bisected(X, 50)
    within = np.mean([X[block == b].var(axis=0).sum() for b in range(8)])
    assert within < 0.25 * X.var(axis=0).sum()


def test_rmse() -> None:
    assert rmse([3.0, 4.0, 0.0, 0.0]) == pytest.approx(2.5)
