"""Max-value entropy against quadrature, max-values against exact distributions, random features against kernels."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.integrate import quad
from scipy.stats import norm

from baseline_cases import CUBE, quadratic, run
from dechbo.baselines import AddMES
from dechbo.baselines.component import Component, ComponentAcquisition
from dechbo.baselines.entropy import (
    MaxValueEntropy,
    entropy_gain,
    entropy_slope,
    gumbel,
    gumbel_samples,
    max_quantiles,
)
from dechbo.baselines.features import Features, SampledFunction, posterior_weights
from dechbo.data.observations import Observations
from dechbo.gp import AdditiveGP, Hyperparameters
from dechbo.graph import FactorGraph
from dechbo.space import Float, Space

GRAPH = FactorGraph(4, ((0, 1), (2, 3)))
KERNELS = ("matern52", "se", "matern52", "categorical")
SIZES = (np.inf, np.inf, np.inf, 3.0)


def model(noise: float = 1e-2) -> AdditiveGP:
    return AdditiveGP(
        GRAPH, Hyperparameters(np.array([0.4, 0.5, 0.3, 1.5]), np.array([0.8, 0.5]), noise), kernel=KERNELS
    )


def points(n: int, seed: int = 0) -> np.ndarray:
    rng = np.random.default_rng(seed)
    return np.column_stack([rng.random((n, 3)), rng.integers(0, 3, n)])


def truncated_entropy(mean: float, deviation: float, top: float) -> float:
    """-int p log p of a normal cut off above ``top``, by quadrature."""
    mass = norm.cdf(top, mean, deviation)

    def integrand(y: float) -> float:
        p = norm.pdf(y, mean, deviation) / mass
        return -p * np.log(p) if p > 0 else 0.0

    low = min(mean, top) - 12 * deviation
    return float(quad(integrand, low, top, points=[mean] if low < mean < top else None, limit=200)[0])


@pytest.mark.parametrize(("mean", "deviation"), [(0.0, 1.0), (1.3, 0.2), (-2.0, 3.0)])
@pytest.mark.parametrize("gamma", [-3.0, -1.0, 0.0, 0.5, 2.0, 4.0])
def test_the_gain_is_the_entropy_lost_by_truncation(mean: float, deviation: float, gamma: float) -> None:
    before = 0.5 * np.log(2 * np.pi * np.e * deviation**2)
    lost = before - truncated_entropy(mean, deviation, mean + gamma * deviation)
    assert entropy_gain(np.array([gamma]))[0] == pytest.approx(lost, rel=1e-6, abs=1e-8)


def test_the_acquisition_in_one_dimension_is_the_expected_reduction_by_quadrature() -> None:
    """mean over y* of H[f(x)] - H[f(x) | f(x) < y*], along a line, from a GP with explicit matrices."""
    X, y = np.array([0.1, 0.45, 0.8]), np.array([-0.5, 0.9, 0.2])
    gp = AdditiveGP(FactorGraph.singletons(1), Hyperparameters(np.array([0.3]), np.array([1.2]), 1e-4))
    tops = np.array([1.1, 1.6, 2.5])
    component = Component(gp.condition(Observations(X[:, None], y)), 0)
    acquisition = ComponentAcquisition(component, MaxValueEntropy(tops, min_deviation=1e-2))

    def kernel(a: np.ndarray, b: np.ndarray) -> np.ndarray:
        s = np.sqrt(5) * np.abs(a[:, None] - b) / 0.3
        return np.asarray(1.2 * (1 + s + s**2 / 3) * np.exp(-s))

    K = kernel(X, X) + 1e-4 * np.eye(3)
    for at in np.linspace(0.02, 0.98, 9):
        k = kernel(np.array([at]), X)[0]
        mean, deviation = k @ np.linalg.solve(K, y), np.sqrt(1.2 - k @ np.linalg.solve(K, k))
        before = 0.5 * np.log(2 * np.pi * np.e * deviation**2)
        expected = np.mean([before - truncated_entropy(mean, deviation, top) for top in tops])
        assert acquisition.values(np.array([[at]]))[0] == pytest.approx(expected, rel=1e-5, abs=1e-7)


@given(st.floats(-1e150, 1e150))
def test_gains_are_finite_nonnegative_and_never_rise(gamma: float) -> None:
    gains = entropy_gain(np.array([gamma, gamma + 1e-3 * max(1.0, abs(gamma))]))
    assert np.isfinite(gains).all()
    assert (gains >= 0).all()
    assert gains[1] <= gains[0] + 1e-9
    assert entropy_slope(np.array([gamma]))[0] <= 1e-12


def test_the_expansion_meets_the_formula_and_slopes_are_slopes() -> None:
    gamma = np.array([-1e6, -3000.0, -300.001, -299.999, -299.0, -40.0, -3.0, 0.0, 1.0, 5.0])
    step = 1e-4 * np.maximum(1, np.abs(gamma) / 10)
    differences = (entropy_gain(gamma + step) - entropy_gain(gamma - step)) / (2 * step)
    np.testing.assert_allclose(entropy_slope(gamma), differences, rtol=2e-4, atol=1e-7)
    left, right = entropy_gain(np.array([-300.0 - 1e-9, -300.0 + 1e-9]))
    assert left == pytest.approx(right, abs=1e-8)


def test_scores_have_the_slopes_they_say_and_stand_still_where_all_is_known() -> None:
    score = MaxValueEntropy(np.array([0.5, 1.5, 3.0]), min_deviation=0.01)
    for mean, deviation in [(0.2, 0.7), (2.0, 0.3), (-1.0, 2.0), (0.4, 0.02)]:
        value, by_mean, by_deviation = score.slopes(mean, deviation)
        assert value == pytest.approx(score.values(np.array([mean]), np.array([deviation]))[0])
        for slope, shift in ((by_mean, (1e-6, 0)), (by_deviation, (0, 1e-6))):
            ends = score.values(mean + shift[0] * np.array([-1, 1]), deviation + shift[1] * np.array([-1, 1]))
            assert slope == pytest.approx(np.diff(ends)[0] / 2e-6, rel=1e-4, abs=1e-6)
    value, _, by_deviation = score.slopes(0.2, 0.0)
    assert np.isfinite(value)
    assert by_deviation == 0.0


def test_quantiles_of_the_maximum_solve_their_equation() -> None:
    rng = np.random.default_rng(0)
    mean, deviation = rng.standard_normal(80), rng.uniform(0.01, 2, 80)
    levels = np.array([0.01, 0.25, 0.5, 0.75, 0.999])
    found = max_quantiles(mean, deviation, levels)
    exact = [np.prod(norm.cdf((y - mean) / deviation)) for y in found]
    np.testing.assert_allclose(exact, levels, rtol=1e-6)


def test_the_gumbel_fit_follows_the_exact_distribution() -> None:
    rng = np.random.default_rng(1)
    mean, deviation = 0.3 * rng.standard_normal(300), rng.uniform(0.3, 0.6, 300)
    location, scale = gumbel(mean, deviation)
    y = np.linspace(location - 3 * scale, location + 8 * scale, 200)
    exact = np.array([np.prod(norm.cdf((value - mean) / deviation)) for value in y])
    fitted = np.exp(-np.exp(-(y - location) / scale))
    assert np.abs(exact - fitted).max() < 0.03
    drawn = np.sort(gumbel_samples(rng, mean, deviation, 20_000))
    assert np.abs(np.exp(-np.exp(-(drawn - location) / scale)) - (np.arange(20_000) + 0.5) / 20_000).max() < 0.015


def test_features_have_the_kernel_as_their_covariance() -> None:
    gp, at = model(), points(12)
    rng = np.random.default_rng(0)
    for k, scope in enumerate(GRAPH.scopes):
        alone = AdditiveGP(
            FactorGraph(2, ((0, 1),)),
            Hyperparameters(gp.hyperparameters.lengthscales[list(scope)], gp.hyperparameters.variances[k : k + 1], 0.0),
            kernel=[KERNELS[i] for i in scope],
        )
        phi = Features.draw(rng, gp, k, SIZES, 200_000)(at[:, scope])
        np.testing.assert_allclose(phi @ phi.T, alone.gram(at[:, scope]), atol=0.01)


def test_functions_drawn_have_the_posterior_of_each_component() -> None:
    """Mean and deviation over 4000 draws with 4000 features, against equation (1)."""
    gp = model()
    data = Observations(points(10), np.random.default_rng(2).standard_normal(10))
    rng = np.random.default_rng(3)
    features = [Features.draw(rng, gp, k, SIZES, 4000) for k in range(2)]
    weights = posterior_weights(rng, gp, data, features, 4000)
    at = points(8, 5)
    posterior = gp.condition(data)
    for k, scope in enumerate(GRAPH.scopes):
        mean, deviation = posterior.factor(k, at[:, scope])
        drawn = features[k](at[:, scope]) @ weights[k]
        np.testing.assert_allclose(drawn.mean(axis=1), mean, atol=0.12)
        np.testing.assert_allclose(drawn.std(axis=1), deviation, rtol=0.12)


def test_drawn_functions_have_the_slopes_they_say() -> None:
    rng = np.random.default_rng(0)
    function = SampledFunction(Features.draw(rng, model(), 0, SIZES, 50), rng.standard_normal(50))
    point = rng.random(2)
    value, gradient = function.value_and_gradient(point)
    assert value == pytest.approx(function.values(point[None])[0])
    for i, step in enumerate(1e-6 * np.eye(2)):
        difference = np.diff(function.values(np.array([point - step, point + step])))[0] / 2e-6
        assert gradient[i] == pytest.approx(difference, rel=1e-5, abs=1e-6)


@pytest.mark.parametrize("samples", ["gumbel", "functions"])
def test_max_values_agree_with_the_maxima_of_exact_draws(samples: str) -> None:
    """One component on a line: the median max-value against maxima of functions drawn by Cholesky on the same grid.

    Gumbel takes the points for independent, and so lies above; drawn functions need no such excuse.
    """
    method = AddMES(Space({"x": Float(0, 1)}), samples=samples, seed=0, n_initial=5, max_values=400, features=2000)
    run(method, lambda p: np.sin(9 * p["x"]), 7)
    posterior = method.posterior()
    parts, rng = method._components(posterior), np.random.default_rng(0)
    floor = float(np.sqrt(posterior.gp.hyperparameters.noise))
    (drawn,) = method._by_gumbel(parts, rng, floor) if samples == "gumbel" else method._by_functions(parts, rng)
    grid = np.linspace(0, 1, 200)[:, None]
    gp, data = posterior.gp, method._fit().data
    K = gp.gram(np.vstack([data.X, grid]))
    n, noise = len(data), gp.hyperparameters.noise
    solved = np.linalg.solve(K[:n, :n] + noise * np.eye(n), K[:n, n:])
    covariance = K[n:, n:] - K[n:, :n] @ solved
    root = np.linalg.cholesky(covariance + 1e-9 * np.eye(200))
    draws = (solved.T @ data.y)[:, None] + root @ np.random.default_rng(1).standard_normal((200, 4000))
    exact, found = np.median(draws.max(axis=0)), np.median(drawn)
    spread = draws.max(axis=0).std()
    assert abs(found - exact) < (0.3 if samples == "functions" else 1.5) * spread
    if samples == "gumbel":
        assert found > exact


@pytest.mark.parametrize("samples", ["gumbel", "functions"])
def test_each_group_is_asked_for_the_maximum_of_its_own_acquisition(samples: str) -> None:
    method = AddMES(CUBE, samples=samples, seed=4, features=200)
    run(method, quadratic, 18)
    parts = method._components(method.posterior())
    scores = method._scores(parts)
    asked = CUBE.encode(method.ask())
    for part, score in zip(parts, scores, strict=True):
        assert isinstance(score, MaxValueEntropy)
        assert (score.max_values > part.mean.max()).all()
        acquisition = ComponentAcquisition(part.component, score)
        grid = acquisition.values(np.linspace(0, 1, 1001)[:, None])
        assert acquisition.values(asked[None, part.component.scope])[0] > grid.max() - 1e-4 * np.ptp(grid)
