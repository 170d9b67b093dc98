from __future__ import annotations

import itertools
import random

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import ArrayLike, NDArray
from scipy.stats import chi2, kstest

from dechbo.data.observations import Observations
from dechbo.errors import DataError
from dechbo.gp import AdditiveGP, Hyperparameters
from dechbo.gp.additive import AdditivePosterior
from dechbo.graph import FactorGraph
from gp_strategies import (
    CATEGORIES,
    Case,
    cases,
    dense_moments,
    dense_regressor,
    draw_factor,
    factor_kernel,
    make_case,
    relabelled,
    summed_kernel,
)

Array = NDArray[np.float64]

GRAPH = FactorGraph(3, ((0,), (0, 1), (1, 2)))


def moments_of_factors(posterior: AdditivePosterior, points: Array) -> tuple[Array, Array]:
    scopes = posterior.gp.graph.scopes
    answers = [posterior.factor(k, points[:, scope]) for k, scope in enumerate(scopes)]
    return np.array([mean for mean, _ in answers]), np.array([deviation for _, deviation in answers])


@settings(max_examples=60)
@given(cases())
def test_factors_sum_to_the_joint(case: Case) -> None:
    """At new points and at observed ones."""
    points = np.vstack([case.points(6), case.data.X[:3]])
    posterior = case.gp.condition(case.data)
    means, deviations = moments_of_factors(posterior, points)
    joint_mean, joint_deviation = posterior.joint(points)
    np.testing.assert_allclose(means.sum(axis=0), joint_mean, rtol=1e-9, atol=1e-10)
    assert (deviations.sum(axis=0) >= joint_deviation - 1e-9).all()
    assert (deviations <= np.sqrt(case.gp.hyperparameters.variances)[:, None] * (1 + 1e-12)).all()


@settings(max_examples=40)
@given(cases())
def test_joint_posterior_equals_the_dense_gp_of_scikit_learn(case: Case) -> None:
    points = np.vstack([case.points(5), case.data.X[:2]])
    mean, deviation = case.gp.condition(case.data).joint(points)
    expected_mean, expected_deviation = dense_regressor(case.gp, case.data).predict(points, return_std=True)
    np.testing.assert_allclose(mean, expected_mean, rtol=1e-8, atol=1e-8)
    np.testing.assert_allclose(deviation, expected_deviation, rtol=1e-8, atol=1e-8)


@settings(max_examples=40)
@given(cases())
def test_factor_posterior_equals_equation_1(case: Case) -> None:
    gp, data = case.gp, case.data
    points = np.vstack([case.points(5), data.X[:2]])
    K = summed_kernel(gp)(data.X)
    posterior = gp.condition(data)
    for k, scope in enumerate(gp.graph.scopes):
        k_star, prior = factor_kernel(gp, k)(data.X, points), gp.hyperparameters.variances[k]
        expected_mean, variance = dense_moments(k_star, prior, K, gp.hyperparameters.noise + data.noise, data.y)
        mean, deviation = posterior.factor(k, points[:, scope])
        np.testing.assert_allclose(mean, expected_mean, rtol=1e-8, atol=1e-8)
        np.testing.assert_allclose(deviation**2, variance, rtol=1e-8, atol=1e-8)


@settings(max_examples=30)
@given(cases(), st.randoms(use_true_random=False))
def test_relabelling_commutes(case: Case, random: random.Random) -> None:
    gp, data = case.gp, case.data
    shuffled, old = relabelled(gp, random)
    other = shuffled.condition(Observations(data.X[:, old], data.y, data.noise))
    posterior, points = gp.condition(data), case.points(4)
    np.testing.assert_allclose(other.joint(points[:, old]), posterior.joint(points), rtol=1e-10, atol=1e-11)
    for k, scope in enumerate(gp.graph.scopes):
        here, there = posterior.factor(k, points[:, scope]), other.factor(k, points[:, scope])
        np.testing.assert_allclose(there, here, rtol=1e-10, atol=1e-11)


@settings(max_examples=40)
@given(cases(max_observations=12), st.integers(1, 4))
def test_pending_points_keep_means_and_condition_deviations(case: Case, pending: int) -> None:
    """GP-BUCB; the extended data are told no noise beyond the model's at the pending points."""
    gp, data = case.gp, case.data
    at, points = case.points(pending), case.points(6)
    plain = gp.condition(data)
    extended = gp.condition(
        Observations(
            np.vstack([data.X, at]),
            np.append(data.y, case.rng.normal(size=pending)),
            np.append(data.noise, np.zeros(pending)),
        )
    )
    found = plain.with_pending(at)
    assert found.pending == pending
    assert plain.pending == 0
    means, deviations = moments_of_factors(found, points)
    np.testing.assert_allclose(means, moments_of_factors(plain, points)[0], rtol=1e-10, atol=1e-11)
    np.testing.assert_allclose(deviations**2, moments_of_factors(extended, points)[1] ** 2, rtol=1e-8, atol=1e-10)
    np.testing.assert_allclose(found.joint(points)[0], plain.joint(points)[0], rtol=1e-10, atol=1e-11)
    np.testing.assert_allclose(found.joint(points)[1] ** 2, extended.joint(points)[1] ** 2, rtol=1e-8, atol=1e-10)
    # one after the other is the same as all at once
    in_turn = plain
    for point in at:
        in_turn = in_turn.with_pending(point[None])
    np.testing.assert_allclose(in_turn.joint(points)[1] ** 2, found.joint(points)[1] ** 2, rtol=1e-8, atol=1e-10)


def test_no_pending_points_change_nothing() -> None:
    case = make_case(np.random.default_rng(0), GRAPH, ["matern52"] * 3, 5, 0.1)
    posterior = case.gp.condition(case.data)
    assert posterior.with_pending(np.empty((0, 3))) is posterior


@pytest.mark.parametrize("where", ["observed", "twice at once", "twice in turn"])
def test_a_pending_point_that_says_nothing_new_changes_no_deviation(where: str) -> None:
    """Without noise, a pending point on top of another one is worth nothing, and must not divide by zero."""
    rng = np.random.default_rng(3)
    gp = AdditiveGP(GRAPH, Hyperparameters([0.3, 0.5, 0.4], [1.0, 2.0, 0.5], 0.0))
    plain = gp.condition(Observations(rng.random((6, 3)), rng.normal(size=6)))
    new, points = rng.random((1, 3)), rng.random((9, 3))
    if where == "observed":
        found, expected = plain.with_pending(plain.X[2:4]), plain
    else:
        expected = plain.with_pending(new)
        found = expected.with_pending(new) if where == "twice in turn" else plain.with_pending(np.vstack([new, new]))
    assert found.jitter > 0
    assert expected.jitter == 0
    np.testing.assert_allclose(found.joint(points), expected.joint(points), rtol=1e-6)
    means, deviations = moments_of_factors(found, points)
    expected_means, expected_deviations = moments_of_factors(expected, points)
    np.testing.assert_allclose(means, expected_means, rtol=1e-9)
    np.testing.assert_allclose(deviations, expected_deviations, rtol=1e-6)


@pytest.mark.parametrize("seed", range(40))
def test_jitter_is_reported_for_duplicates_and_only_there(seed: int) -> None:
    rng = np.random.default_rng(seed)
    n = int(rng.integers(2, 40))
    X, theta = rng.random((n, 3)), Hyperparameters(rng.uniform(0.1, 0.8, 3), rng.uniform(0.1, 2, 3), 0.0)
    gp = AdditiveGP(GRAPH, theta)
    clean = gp.condition(Observations(X, rng.normal(size=n)))
    assert clean.jitter == 0
    doubled = gp.condition(Observations(np.vstack([X, X[rng.integers(n)]]), np.zeros(n + 1)))
    assert 0 < doubled.jitter <= 1e-8 * theta.variances.sum()
    noisy = AdditiveGP(GRAPH, Hyperparameters(theta.lengthscales, theta.variances, 1e-4))
    assert noisy.condition(Observations(np.vstack([X, X]), np.zeros(2 * n))).jitter == 0


def test_noise_free_data_are_interpolated() -> None:
    rng = np.random.default_rng(4)
    data = Observations(rng.random((12, 3)), rng.normal(size=12))
    posterior = AdditiveGP(GRAPH, Hyperparameters([0.2, 0.3, 0.4], [1.0, 1.0, 1.0], 0.0)).condition(data)
    mean, deviation = posterior.joint(data.X)
    np.testing.assert_allclose(mean, data.y, atol=1e-8)
    np.testing.assert_allclose(deviation, 0, atol=1e-6)
    # what each factor contributed stays unknown: this is why repeats need explicit exclusion
    assert (moments_of_factors(posterior, data.X)[1].sum(axis=0) > 0.01).all()


def test_far_from_all_data_the_prior_is_left() -> None:
    case = make_case(np.random.default_rng(5), GRAPH, ["matern52", "se", "matern52"], 6, 0.1)
    far = np.full((1, 3), 1e4)
    posterior = case.gp.condition(case.data)
    means, deviations = moments_of_factors(posterior, far)
    np.testing.assert_allclose(means, 0, atol=1e-300)
    np.testing.assert_allclose(deviations[:, 0] ** 2, case.gp.hyperparameters.variances)
    assert posterior.joint(far)[1][0] ** 2 == pytest.approx(case.gp.hyperparameters.variances.sum())


def test_standardised_residuals_are_standard_normal() -> None:
    """500 functions from the prior, one fresh point each.

    Each of the 3 factors is tested by Kolmogorov and Smirnov (shape), and the sum of its squares, chi-square with 500
    degrees of freedom, on both sides (scale), each test at 1e-4: right code on fresh seeds would raise a false alarm
    with probability below 6e-4. A deviation wrong by a factor of 1.25 is found with probability above 0.99.
    """
    rng = np.random.default_rng(6)
    theta = Hyperparameters([0.3, 0.5, 0.2], [1.0, 0.5, 2.0], 0.05)
    gp = AdditiveGP(GRAPH, theta, kernel=["matern52", "se", "matern52"])
    residuals = np.empty((500, 3))
    for draw in range(500):
        X = rng.random((9, 3))  # eight observed, one to predict
        parts = [draw_factor(rng, gp, k, X) for k in range(3)]
        y = np.sum(parts, axis=0)[:8] + np.sqrt(theta.noise) * rng.normal(size=8)
        posterior = gp.condition(Observations(X[:8], y))
        for k, scope in enumerate(GRAPH.scopes):
            mean, deviation = posterior.factor(k, X[8:, scope])
            residuals[draw, k] = (parts[k][8] - mean[0]) / deviation[0]
    for k in range(3):
        assert kstest(residuals[:, k], "norm").pvalue > 1e-4
        assert 0.5e-4 < chi2.cdf(np.sum(residuals[:, k] ** 2), 500) < 1 - 0.5e-4


def test_covariances_are_those_of_the_factors() -> None:
    case = make_case(np.random.default_rng(7), GRAPH, ["matern52", "se", "categorical"], 6, 0.1)
    point = case.points(1)
    rows, _, _ = case.gp.condition(case.data).covariances(point[0])
    for k in range(3):
        np.testing.assert_allclose(rows[k], factor_kernel(case.gp, k)(point, case.data.X)[0], rtol=1e-11)


@pytest.mark.parametrize("centred", [False, True])
@settings(max_examples=25)
@given(case=cases(max_observations=12), pending=st.integers(0, 2))
def test_the_gradients_of_the_joint_moments_are_those_of_differences(centred: bool, case: Case, pending: int) -> None:
    gp = case.gp
    if centred:
        domains = [np.arange(float(CATEGORIES)) if name == "categorical" else None for name in gp.kernels]
        gp = AdditiveGP(gp.graph, gp.hyperparameters, kernel=gp.kernels, domains=domains)
    posterior, points = gp.condition(case.data).with_pending(case.points(pending)), case.points(4)
    mean, deviation, mean_change, deviation_change = posterior.joint_gradient(points)
    np.testing.assert_allclose([mean, deviation], posterior.joint(points), rtol=1e-9, atol=1e-9)
    for i, name in enumerate(gp.kernels):
        if name == "categorical":
            assert (mean_change[:, i] == 0).all()
            assert (deviation_change[:, i] == 0).all()
            continue
        step = np.zeros(points.shape[1])
        step[i] = 1e-5
        above, below = posterior.joint(points + step), posterior.joint(points - step)
        np.testing.assert_allclose(mean_change[:, i], (above[0] - below[0]) / 2e-5, rtol=1e-4, atol=1e-5)
        np.testing.assert_allclose(deviation_change[:, i], (above[1] - below[1]) / 2e-5, rtol=1e-4, atol=1e-5)


@settings(max_examples=20)
@given(cases(max_observations=12))
def test_many_points_have_the_moments_of_few(case: Case) -> None:
    """Few points are solved one by one, many by one matrix."""
    posterior, points = case.gp.condition(case.data), case.points(40)
    one_by_one = np.array([posterior.joint(point[None]) for point in points])[:, :, 0].T
    np.testing.assert_allclose(posterior.joint(points), one_by_one, rtol=1e-8, atol=1e-9)


def test_the_same_data_object_is_conditioned_once() -> None:
    case = make_case(np.random.default_rng(8), GRAPH, ["se"] * 3, 4, 0.1)
    posterior = case.gp.condition(case.data)
    assert case.gp.condition(case.data) is posterior
    longer = case.data.append(case.points(1)[0], 1.0)
    assert len(case.gp.condition(longer).X) == 5


def test_no_points_give_no_moments() -> None:
    case = make_case(np.random.default_rng(9), GRAPH, ["se"] * 3, 4, 0.1)
    posterior = case.gp.condition(case.data)
    assert [part.shape for part in posterior.joint(np.empty((0, 3)))] == [(0,), (0,)]
    assert [part.shape for part in posterior.factor(1, np.empty((0, 2)))] == [(0,), (0,)]


@pytest.mark.parametrize(
    ("lengthscales", "variances", "noise"),
    [
        *itertools.product([[0.0], [-1.0], [np.inf], [np.nan]], [[1.0]], [0.1]),
        *itertools.product([[1.0]], [[-1.0], [np.inf], [np.nan]], [0.1]),
        *itertools.product([[1.0]], [[1.0]], [-0.1, np.nan, np.inf]),
        ([[1.0]], [1.0], 0.1),
        (1.0, [1.0], 0.1),
    ],
)
def test_bad_hyperparameters_are_refused(lengthscales: ArrayLike, variances: ArrayLike, noise: float) -> None:
    with pytest.raises(DataError):
        Hyperparameters(lengthscales, variances, noise)


def test_shapes_that_do_not_fit_are_refused() -> None:
    with pytest.raises(DataError, match="3 variables and 3 factors"):
        AdditiveGP(GRAPH, Hyperparameters([1.0, 1.0], [1.0, 1.0, 1.0], 0.1))
    with pytest.raises(DataError, match="3 variables and 3 factors"):
        AdditiveGP(GRAPH, Hyperparameters([1.0, 1.0, 1.0], [1.0], 0.1))
    gp = AdditiveGP(GRAPH, Hyperparameters([1.0, 1.0, 1.0], [1.0, 1.0, 1.0], 0.1))
    with pytest.raises(DataError, match="3 variables"):
        gp.condition(Observations(np.array([[0.1, 0.2]]), np.array([1.0])))
    with pytest.raises(DataError, match="at least one observation"):
        gp.condition(Observations(np.empty((0, 3)), np.empty(0)))
    posterior = gp.condition(Observations(np.array([[0.1, 0.2, 0.3]]), np.array([1.0])))
    with pytest.raises(DataError, match="scope"):
        posterior.factor(1, [[0.1]])
    with pytest.raises(DataError, match="shape"):
        posterior.joint([[0.1, 0.2]])
