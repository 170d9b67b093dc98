from __future__ import annotations

import random

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy.stats import multivariate_normal, norm

from dechbo.data.observations import Observations
from dechbo.gp import AdditiveGP, Hyperparameters
from dechbo.graph import FactorGraph
from gp_strategies import Case, cases, dense_regressor, make_case, relabelled, summed_kernel

Array = NDArray[np.float64]


@settings(max_examples=50)
@given(cases(max_size=5))
def test_evidence_is_the_undivided_marginal_likelihood(case: Case) -> None:
    """Against scikit-learn, and against SciPy's density of the whole vector y."""
    found = case.gp.log_evidence(case.data)
    assert found == pytest.approx(dense_regressor(case.gp, case.data).log_marginal_likelihood(), rel=1e-8, abs=1e-8)
    covariance = summed_kernel(case.gp)(case.data.X) + np.diag(case.gp.hyperparameters.noise + case.data.noise)
    density = multivariate_normal.logpdf(case.data.y, np.zeros(len(case.data)), covariance)
    assert found == pytest.approx(density, rel=1e-8, abs=1e-8)


def with_logarithms(gp: AdditiveGP, logs: Array) -> AdditiveGP:
    d = gp.graph.dim
    theta = Hyperparameters(np.exp(logs[:d]), np.exp(logs[d:-1]), float(np.exp(logs[-1])))
    return AdditiveGP(gp.graph, theta, kernel=gp.kernels)


def assert_gradient_is_a_difference(gp: AdditiveGP, data: Observations) -> None:
    theta = gp.hyperparameters
    logs = np.log(np.concatenate([theta.lengthscales, theta.variances, [theta.noise]]))
    value, gradient = gp.log_evidence_gradient(data)
    assert value == pytest.approx(gp.log_evidence(data), rel=1e-12, abs=1e-12)
    step = 1e-4
    differences = [
        (
            with_logarithms(gp, logs + step * e).log_evidence(data)
            - with_logarithms(gp, logs - step * e).log_evidence(data)
        )
        / (2 * step)
        for e in np.eye(len(logs))
    ]
    np.testing.assert_allclose(gradient, differences, rtol=1e-6, atol=1e-6 * max(1.0, np.abs(gradient).max()))


@settings(max_examples=40)
@given(cases(max_size=5))
def test_gradient_equals_differences(case: Case) -> None:
    """Mixed kernels, factor sizes 1 to 5."""
    assert_gradient_is_a_difference(case.gp, case.data)


@pytest.mark.parametrize("size", range(1, 6))
@pytest.mark.parametrize("kernel", ["matern52", "se", "categorical"])
@pytest.mark.parametrize("noise", [0.5, 1e-3])
def test_gradient_of_one_factor_of_each_size(size: int, kernel: str, noise: float) -> None:
    scope = tuple(reversed(range(size)))
    graph = FactorGraph(size, (scope,)) if size == 1 else FactorGraph(size, (scope, (0,)))
    case = make_case(np.random.default_rng(size), graph, [kernel] * size, 19, noise)
    assert_gradient_is_a_difference(case.gp, case.data)


def test_gradient_where_exponentials_are_taken_per_pair() -> None:
    rng = np.random.default_rng(0)
    graph = FactorGraph(2, ((0,), (1, 0)))
    X = np.vstack([[0.0, 0.0], 0.5 + 1e-3 * rng.random((17, 2)), [1.0, 1.0]])
    gp = AdditiveGP(graph, Hyperparameters([1e-3, 2e-3], [1.0, 2.0], 0.1))
    assert_gradient_is_a_difference(gp, Observations(X, rng.normal(size=19)))


def test_gradient_where_categories_share_nothing() -> None:
    """exp(-1 / l) underflows below l = 1/745: the evidence is then flat in l."""
    graph = FactorGraph(2, ((0,), (0, 1)))
    gp = AdditiveGP(graph, Hyperparameters([1e-3, 0.4], [1.0, 0.5], 0.1), kernel=["categorical", "se"])
    data = Observations(np.array([[0, 0.1], [1, 0.3], [0, 0.5]]), np.array([1.0, 2.0, 3.0]))
    _, gradient = gp.log_evidence_gradient(data)
    assert gradient[0] == 0
    assert np.isfinite(gradient).all()


@settings(max_examples=30)
@given(cases(max_size=5), st.randoms(use_true_random=False))
def test_relabelling_commutes(case: Case, random: random.Random) -> None:
    gp, data = case.gp, case.data
    d = gp.graph.dim
    other, old = relabelled(gp, random)
    value, gradient = gp.log_evidence_gradient(data)
    there, slopes = other.log_evidence_gradient(Observations(data.X[:, old], data.y, data.noise))
    assert there == pytest.approx(value, rel=1e-10)
    scale = np.abs(gradient).max()
    np.testing.assert_allclose(slopes[:d], gradient[:d][old], rtol=1e-10, atol=1e-10 * scale)
    np.testing.assert_allclose(slopes[d:], gradient[d:], rtol=1e-10, atol=1e-10 * scale)


def test_chain_rule_of_probability() -> None:
    """log p(y) = sum_t log p(y_t | y_1 … y_{t-1}), each from the posterior before it."""
    graph = FactorGraph(3, ((0, 1), (1, 2), (2,)))
    case = make_case(np.random.default_rng(1), graph, ["matern52", "se", "categorical"], 8, 0.2)
    X, y, noise = case.data.X, case.data.y, case.data.noise
    theta = case.gp.hyperparameters
    total = 0.0
    for t in range(8):
        mean, deviation = 0.0, np.sqrt(theta.variances.sum())
        if t:
            before = Observations(X[:t], y[:t], noise[:t])
            mean, deviation = (part[0] for part in case.gp.condition(before).joint(X[t : t + 1]))
        variance = deviation**2 + theta.noise + noise[t]
        total += -0.5 * (y[t] - mean) ** 2 / variance - 0.5 * np.log(2 * np.pi * variance)
    assert case.gp.log_evidence(case.data) == pytest.approx(total, rel=1e-10)


@settings(max_examples=20)
@given(cases(max_dim=3))
def test_each_value_is_predicted_from_the_others(case: Case) -> None:
    """Against models conditioned on all observations but one."""
    data, noise = case.data, case.gp.hyperparameters.noise
    assume(len(data) > 1 and noise > 1e-3)
    total = 0.0
    for p in range(len(data)):
        rest = np.arange(len(data)) != p
        others = Observations(data.X[rest], data.y[rest], data.noise[rest])
        mean, deviation = case.gp.condition(others).joint(data.X[p : p + 1])
        total += norm.logpdf(data.y[p], mean[0], np.sqrt(deviation[0] ** 2 + noise + data.noise[p]))
    assert case.gp.log_predictive(data) == pytest.approx(total, rel=1e-6, abs=1e-6)
