"""Centred kernels: zero mean over the domain, mean variance 1, orthogonal factors, exact gradients."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.integrate import quad

from dechbo.acquisition import AdditiveUCB, TableCache, ucb_tables
from dechbo.data.observations import Observations
from dechbo.gp import AdditiveGP, Hyperparameters
from dechbo.gp.correlation import Correlation
from dechbo.gp.kernels import kernel_codes
from dechbo.graph import FactorGraph

Array = NDArray[np.float64]

KERNELS = ("matern52", "se", "matern52", "categorical", "se")
DOMAINS = (None, None, np.linspace(0, 1, 7), np.arange(4.0), np.array([0.0, 0.2, 1.0]))
GRAPH = FactorGraph(5, ((0,), (1,), (2,), (3,), (4,), (0, 1), (1, 2, 3), (0, 4), (0, 1, 2, 3)))


def correlation(lengthscales: Sequence[float] = (0.3, 0.2, 0.4, 0.8, 0.5)) -> Correlation:
    return Correlation(kernel_codes(KERNELS, 5), np.array(lengthscales), DOMAINS)


def model(noise: float = 1e-2, scale: float = 1.0) -> AdditiveGP:
    lengths = scale * np.array([0.3, 0.2, 0.4, 0.8, 0.5])
    return AdditiveGP(GRAPH, Hyperparameters(lengths, np.linspace(0.2, 1.0, 9), noise), kernel=KERNELS, domains=DOMAINS)


def points(n: int, seed: int = 0) -> Array:
    rng = np.random.default_rng(seed)
    X = rng.random((n, 5))
    for i, values in enumerate(DOMAINS):
        if values is not None:
            X[:, i] = rng.choice(values, n)
    return X


@pytest.mark.parametrize("i", [0, 1])
@pytest.mark.parametrize("length", [0.05, 0.3, 2.0, 10.0])
def test_continuous_kernels_average_to_zero_with_mean_variance_one(i: int, length: float) -> None:
    """Oracle: adaptive quadrature."""
    centred = correlation([length] * 5)
    for x in (0.0, 0.3, 1.0):
        mean = quad(lambda u, x=x: centred.matrix(i, np.array([x]), np.array([u]))[0, 0], 0, 1, points=[x], limit=200)
        assert centred.centring is not None
        assert abs(mean[0]) < 1e-7 * centred.centring.inverse[i]
    variance = quad(lambda u: centred.diagonal(i, np.array([u]))[0], 0, 1, limit=200)[0]
    assert variance == pytest.approx(1.0, abs=1e-5)


@pytest.mark.parametrize("i", [2, 3, 4])
def test_discrete_kernels_average_to_zero_over_their_values(i: int) -> None:
    values = DOMAINS[i]
    assert values is not None
    K = correlation().matrix(i, values, values)
    assert np.abs(K.mean(axis=0)).max() < 1e-12
    assert np.diagonal(K).mean() == pytest.approx(1.0)
    assert np.linalg.eigvalsh(K).min() > -1e-10


def test_a_centred_categorical_kernel_does_not_depend_on_its_lengthscale() -> None:
    K = correlation().matrix(3, np.arange(4.0), np.arange(4.0))
    np.testing.assert_allclose(K, np.where(np.eye(4) == 1, 1.0, -1 / 3), atol=1e-12)


def test_the_gram_matrix_is_the_sum_of_products_and_positive_semidefinite() -> None:
    gp, X = model(), points(37)
    expected = np.full((37, 37), gp.constant_variance)
    for variance, scope in zip(gp.hyperparameters.variances, GRAPH.scopes, strict=True):
        expected += variance * np.prod([gp.correlation.matrix(i, X[:, i], X[:, i]) for i in scope], axis=0)
    K = gp.gram(X)
    np.testing.assert_allclose(K, expected, rtol=1e-10, atol=1e-12)
    assert np.linalg.eigvalsh(K).min() > -1e-9
    np.testing.assert_allclose(gp.joint_prior_variances(X), np.diagonal(K), rtol=1e-10)


@pytest.mark.parametrize("scale", [0.3, 1.0, 4.0])
def test_the_evidence_gradient_is_that_of_finite_differences(scale: float) -> None:
    gp, X = model(scale=scale), points(30, 1)
    data = Observations(X, np.random.default_rng(2).standard_normal(30))
    theta = gp.hyperparameters
    logs = np.log(np.concatenate([theta.lengthscales, theta.variances, [theta.noise]]))

    def evidence(logs: Array) -> float:
        values = np.exp(logs)
        other = Hyperparameters(values[:5], values[5:-1], values[-1])
        return AdditiveGP(GRAPH, other, kernel=KERNELS, domains=DOMAINS).log_evidence(data)

    value, gradient = gp.log_evidence_gradient(data)
    assert value == pytest.approx(evidence(logs), rel=1e-12)
    step = 1e-5
    differences = [(evidence(logs + step * e) - evidence(logs - step * e)) / (2 * step) for e in np.eye(len(logs))]
    np.testing.assert_allclose(gradient, differences, rtol=2e-5, atol=2e-6)


def test_posterior_identities() -> None:
    gp, X = model(), points(25, 3)
    posterior = gp.condition(Observations(X, np.random.default_rng(4).standard_normal(25)))
    at = points(40, 5)
    factors = [posterior.factor(k, at[:, scope]) for k, scope in enumerate(GRAPH.scopes)]
    mean, deviation = posterior.joint(at)
    constant = gp.constant_variance * posterior.alpha.sum()
    np.testing.assert_allclose(sum(m for m, _ in factors) + constant, mean, atol=1e-10)
    assert (sum(s for _, s in factors) + np.sqrt(gp.constant_variance) >= deviation - 1e-12).all()


def test_centring_brings_the_sum_of_deviations_near_the_joint_one() -> None:
    """The trap of plain kernels: the constant between factors keeps every sigma_I large for ever."""
    rng = np.random.default_rng(0)
    X, graph = rng.random((200, 8)), FactorGraph.singletons(8)
    data = Observations(X, np.sin(5 * X).sum(axis=1) - 2.0)
    ratios = {}
    for name, domains in (("plain", None), ("centred", (None,) * 8)):
        gp = AdditiveGP(graph, Hyperparameters(np.full(8, 0.3), np.full(8, 0.5), 1e-4), domains=domains)
        posterior = gp.condition(data)
        at = rng.random((100, 8))
        total = sum(posterior.factor(k, at[:, [k]])[1] for k in range(8))
        ratios[name] = float(np.median(total / posterior.joint(at)[1]))
    assert ratios["centred"] < 4
    assert ratios["plain"] > 5 * ratios["centred"]


def test_tables_cache_and_gradient_agree_with_the_posterior() -> None:
    gp, X = model(), points(30, 6)
    y = np.random.default_rng(7).standard_normal(30)
    candidates = [np.linspace(0, 1, 4) if values is None else values for values in DOMAINS]
    cache = TableCache()
    ucb_tables(gp.condition(Observations(X[:25], y[:25])), candidates, 2.0, cache=cache)
    posterior = gp.condition(Observations(X, y)).with_pending(points(2, 8))
    tables = ucb_tables(posterior, candidates, 2.0)
    np.testing.assert_allclose(ucb_tables(posterior, candidates, 2.0, cache=cache).flat, tables.flat, atol=1e-9)
    acquisition = AdditiveUCB(posterior, 2.0)
    rng = np.random.default_rng(9)
    choices = np.stack([rng.integers(0, len(values), 50) for values in candidates], axis=1)
    at = np.stack([values[choices[:, i]] for i, values in enumerate(candidates)], axis=1)
    np.testing.assert_allclose([tables.value(c) for c in choices], acquisition.values(at), atol=1e-9)
    point = points(1, 10)[0]
    value, gradient = acquisition.value_and_gradient(point)
    assert value == pytest.approx(acquisition.values(point[None])[0], rel=1e-10)
    for i in (0, 1):
        step = 1e-6 * np.eye(5)[i]
        difference = (acquisition.values((point + step)[None]) - acquisition.values((point - step)[None]))[0] / 2e-6
        assert gradient[i] == pytest.approx(difference, rel=1e-4, abs=1e-5)


def test_means_of_one_variable_are_those_of_all_to_the_last_bit() -> None:
    kernels, X = correlation(), points(50)
    together = kernels.means(X)
    centring = kernels.centring
    assert centring is not None
    for i in range(5):
        assert np.array_equal(centring.mean(i, X[:, i]), together[i])
        given = kernels.matrix(i, X[:, i], X[:7, i], together[i])
        assert np.array_equal(given, kernels.matrix(i, X[:, i], X[:7, i]))
