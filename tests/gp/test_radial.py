"""One factor over all variables: moments and evidence against scikit-learn, gradients against differences."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import RBF, ConstantKernel, Kernel, Matern

from dechbo.data.observations import Observations
from dechbo.gp.radial import ColumnEmbedding, RadialGP, shape
from gp_strategies import CATEGORIES, dense_moments

Array = NDArray[np.float64]


@dataclass(frozen=True)
class RadialCase:
    """A model, data for it, and the generator that made them."""

    gp: RadialGP
    data: Observations
    rng: np.random.Generator

    def points(self, n: int) -> Array:
        return draw(self.rng, self.gp.embedding, n)


def draw(rng: np.random.Generator, embedding: ColumnEmbedding, n: int) -> Array:
    X = rng.random((n, embedding.dim))
    for i, many in enumerate(embedding.categories):
        if many:
            X[:, i] = rng.integers(0, many, n)
    return X


@st.composite
def radial_cases(draw_from: st.DrawFn, max_observations: int = 20) -> RadialCase:
    """One to six variables, numeric or categorical, both kernels."""
    kinds = draw_from(st.lists(st.sampled_from([0, 0, CATEGORIES]), min_size=1, max_size=6))
    rng = np.random.default_rng(draw_from(st.integers(0, 2**32 - 1)))
    embedding, n = ColumnEmbedding(tuple(kinds)), draw_from(st.integers(1, max_observations))
    gp = RadialGP(
        embedding,
        np.exp(rng.uniform(-3, 3, len(kinds))),
        float(rng.uniform(0.2, 3.0)),
        draw_from(st.sampled_from([0.3, 0.1, 0.01])),
        draw_from(st.sampled_from(["se", "matern52"])),
    )
    return RadialCase(gp, Observations(draw(rng, embedding, n), rng.normal(size=n), rng.uniform(0, 0.1, n)), rng)


class OneHot(Kernel):  # type: ignore[misc]  # scikit-learn is untyped
    """A scikit-learn kernel of coordinates of which the categorical ones are one-hot encoded."""

    def __init__(self, base: Kernel, categories: tuple[int, ...]) -> None:
        self.base = base
        self.categories = categories

    def _seen(self, X: Array | None) -> Array | None:
        if X is None:
            return None
        parts = [np.eye(m)[X[:, i].astype(int)] if m else X[:, [i]] for i, m in enumerate(self.categories)]
        return np.hstack(parts)

    def __call__(self, X: Array, Y: Array | None = None, eval_gradient: bool = False) -> Array:
        assert not eval_gradient
        answer: Array = self.base(self._seen(X), self._seen(Y))
        return answer

    def diag(self, X: Array) -> Array:
        answer: Array = self.base.diag(self._seen(X))
        return answer

    def is_stationary(self) -> bool:
        return True


def written_out(gp: RadialGP) -> Kernel:
    """The kernel of scikit-learn's own parts: two one-hot vectors are sqrt(2) apart, two categories count as 1."""
    lengths = [
        length
        for rho, many in zip(gp.relevances, gp.embedding.categories, strict=True)
        for length in [np.sqrt(2 / rho)] * many or [np.sqrt(1 / rho)]
    ]
    base = RBF(lengths, "fixed") if gp.kernel == "se" else Matern(lengths, "fixed", nu=2.5)
    radial = ConstantKernel(gp.variance, "fixed") * OneHot(base, gp.embedding.categories)
    return ConstantKernel(gp.constant_variance, "fixed") + radial


def dense(case: RadialCase) -> GaussianProcessRegressor:
    gp, data = case.gp, case.data
    return GaussianProcessRegressor(written_out(gp), alpha=gp.noise + data.noise, optimizer=None).fit(data.X, data.y)


@settings(max_examples=50)
@given(radial_cases())
def test_moments_and_evidence_are_those_of_scikit_learn(case: RadialCase) -> None:
    points = np.vstack([case.points(5), case.data.X[:2]])
    regressor = dense(case)
    mean, deviation = regressor.predict(points, return_std=True)
    found = case.gp.condition(case.data).joint(points)
    np.testing.assert_allclose(found[0], mean, rtol=1e-8, atol=1e-8)
    np.testing.assert_allclose(found[1], deviation, rtol=1e-8, atol=1e-8)
    assert case.gp.log_evidence(case.data) == pytest.approx(regressor.log_marginal_likelihood_value_, rel=1e-8)
    np.testing.assert_allclose(case.gp.gram(case.data.X), written_out(case.gp)(case.data.X), rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize("kernel", ["se", "matern52"])
def test_the_slope_of_the_kernel_is_that_of_differences(kernel: str) -> None:
    u = np.array([1e-3, 0.1, 1.0, 5.0, 40.0])
    step = 1e-6 * u
    differences = (shape(kernel, u + step)[0] - shape(kernel, u - step)[0]) / (2 * step)
    np.testing.assert_allclose(shape(kernel, u)[1], differences, rtol=1e-6)
    assert shape(kernel, np.zeros(1))[0] == 1.0
    assert np.isfinite(shape(kernel, np.zeros(1))[1]).all()


@settings(max_examples=40)
@given(radial_cases())
def test_the_gradient_of_the_evidence_is_that_of_differences(case: RadialCase) -> None:
    gp, data = case.gp, case.data
    theta = np.log([*gp.relevances, gp.variance, gp.noise])

    def evidence(theta: Array) -> float:
        *rho, variance, noise = np.exp(theta)
        return RadialGP(gp.embedding, np.array(rho), float(variance), float(noise), gp.kernel).log_evidence(data)

    value, gradient = gp.log_evidence_gradient(data)
    assert value == pytest.approx(gp.log_evidence(data), rel=1e-12)
    steps = 1e-5 * np.eye(len(theta))
    differences = [(evidence(theta + step) - evidence(theta - step)) / 2e-5 for step in steps]
    np.testing.assert_allclose(gradient, differences, rtol=1e-5, atol=1e-5)


@settings(max_examples=40)
@given(radial_cases(), st.integers(0, 3))
def test_the_gradients_of_the_moments_are_those_of_differences(case: RadialCase, pending: int) -> None:
    posterior, points = case.gp.condition(case.data).with_pending(case.points(pending)), case.points(4)
    mean, deviation, mean_change, deviation_change = posterior.joint_gradient(points)
    np.testing.assert_allclose([mean, deviation], posterior.joint(points), rtol=1e-9, atol=1e-10)
    for i, many in enumerate(case.gp.embedding.categories):
        if many:
            assert (mean_change[:, i] == 0).all()
            assert (deviation_change[:, i] == 0).all()
            continue
        step = np.zeros(points.shape[1])
        step[i] = 1e-5
        above, below = posterior.joint(points + step), posterior.joint(points - step)
        np.testing.assert_allclose(mean_change[:, i], (above[0] - below[0]) / 2e-5, rtol=1e-4, atol=1e-5)
        np.testing.assert_allclose(deviation_change[:, i], (above[1] - below[1]) / 2e-5, rtol=1e-4, atol=1e-5)


@settings(max_examples=30)
@given(radial_cases(max_observations=10), st.integers(1, 4))
def test_pending_points_keep_means_and_condition_deviations(case: RadialCase, pending: int) -> None:
    gp, data, at, points = case.gp, case.data, case.points(pending), case.points(6)
    X = np.vstack([data.X, at])
    noise = gp.noise + np.append(data.noise, np.zeros(pending))
    kernel = written_out(gp)
    _, variance = dense_moments(kernel(X, points), gp.prior_variance, kernel(X), noise, np.zeros(len(X)))
    mean, deviation = gp.condition(data).with_pending(at).joint(points)
    np.testing.assert_allclose(mean, gp.condition(data).joint(points)[0], rtol=1e-10, atol=1e-11)
    np.testing.assert_allclose(deviation**2, variance, rtol=1e-8, atol=1e-9)


def test_far_from_the_data_the_mean_is_that_of_places_and_not_of_values() -> None:
    crowd = 0.3 + 1e-4 * np.arange(8)[:, None]
    X = np.vstack([crowd, [[0.6], [0.9]]])
    y = np.append(np.full(8, 1.0), [-1.0, -1.0])
    gp = RadialGP(ColumnEmbedding((0,)), np.array([400.0]), 1.0, 1e-4, constant_variance=100.0)
    far = gp.condition(Observations(X, y)).joint(np.array([[0.0]]))[0][0]
    assert far == pytest.approx(-1 / 3, abs=0.02)  # of three places; the average of the ten values is 0.6


def test_a_pending_point_next_to_an_observed_one_needs_no_more_than_jitter() -> None:
    gp = RadialGP(ColumnEmbedding((0, 0)), np.ones(2), 1.0, 0.0)
    data = Observations(np.array([[0.2, 0.3], [0.7, 0.1]]), np.array([1.0, -1.0]))
    posterior = gp.condition(data)
    assert posterior.with_pending(np.empty((0, 2))) is posterior
    again = posterior.with_pending(data.X[:1])
    np.testing.assert_allclose(again.joint(data.X)[0], data.y, atol=1e-6)
    assert again.joint(data.X)[1].max() < 1e-3


def test_categories_are_one_apart_and_owned_by_their_variable() -> None:
    embedding = ColumnEmbedding((0, 3, 0, 2))
    assert embedding.owner.tolist() == [0, 1, 1, 1, 2, 3, 3]
    columns = embedding(np.array([[0.5, 0, 0.25, 1], [0.5, 2, 0.25, 1], [0.5, 2, 0.25, 0]]))
    distances = ((columns[:, None] - columns[None]) ** 2).sum(axis=2)
    np.testing.assert_allclose(distances, [[0, 1, 2], [1, 0, 1], [2, 1, 0]], atol=1e-15)
