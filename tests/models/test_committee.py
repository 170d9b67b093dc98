"""Committees: leave-one-out densities against explicit refits, weights, moments of the mixture."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy.stats import norm

from dechbo.data.observations import Observations
from dechbo.gp import AdditiveGP, Hyperparameters
from dechbo.gp.additive import leave_one_out
from dechbo.gp.radial import ColumnEmbedding, RadialGP
from dechbo.graph import FactorGraph
from dechbo.models.committee import (
    MIN_FORECAST,
    MIN_WEIGHT,
    Committee,
    Member,
    mixture_moments,
    predictive_weights,
)
from dechbo.models.warp import ValueScale

Array = NDArray[np.float64]


def committee(seed: int = 0, n: int = 12, width: float | None = None, noise: float = 1e-2) -> Committee:
    """Three members: small factors, and all variables at once, smooth and rough."""
    rng = np.random.default_rng(seed)
    raw = Observations(rng.random((n, 2)), 3 + 2 * rng.standard_normal(n), rng.uniform(0, 0.1, n))
    scale = ValueScale.of(raw.y, width)
    theta = Hyperparameters(np.array([0.3, 0.5]), np.array([0.6, 0.4]), noise)
    members = (
        Member("smooth", AdditiveGP(FactorGraph.singletons(2), theta)),
        Member("whole", RadialGP(ColumnEmbedding((0, 0)), np.array([2.0, 1.0]), 1.0, noise)),
        Member("scaled", RadialGP(ColumnEmbedding((0, 0)), np.array([40.0, 90.0]), 1.0, noise, "se")),
    )
    return Committee(members, scale.observations(raw), scale)


@pytest.mark.parametrize("seed", range(3))
def test_leave_one_out_is_a_refit_without_each_value(seed: int) -> None:
    """Oracle: condition on all other values at the same hyperparameters and take the density of the one left out."""
    told = committee(seed)
    data = told.data
    for member, posterior in zip(told.members, told.posteriors, strict=True):
        gp = member.gp
        level = gp.noise if isinstance(gp, RadialGP) else gp.hyperparameters.noise
        expected = []
        for p in range(len(data)):
            others = np.arange(len(data)) != p
            rest = Observations(data.X[others], data.y[others], data.noise[others])
            mean, deviation = gp.condition(rest).joint(data.X[p : p + 1])
            spread = np.sqrt(deviation[0] ** 2 + level + data.noise[p])
            expected.append(float(norm.logpdf(data.y[p], mean[0], spread)))
        np.testing.assert_allclose(leave_one_out(posterior.L, posterior.alpha), expected, rtol=1e-8, atol=1e-8)


@settings(max_examples=60)
@given(st.integers(0, 10**6), st.integers(1, 5), st.integers(1, 60), st.floats(0.01, 300))
def test_weights_sum_to_one_and_follow_the_densities(seed: int, many: int, n: int, spread: float) -> None:
    densities = np.random.default_rng(seed).normal(0, spread, (many, n))
    weights = predictive_weights(densities)
    assert weights.sum() == pytest.approx(1.0)
    assert (weights > 0).all()  # none dies
    order = np.argsort(densities.sum(axis=1))
    assert (np.diff(weights[order]) >= -1e-12).all()
    turned = predictive_weights(densities[::-1])
    np.testing.assert_allclose(turned[::-1], weights, rtol=1e-9)
    shifted = predictive_weights(densities + np.random.default_rng(seed).normal(size=n))
    np.testing.assert_allclose(shifted, weights, rtol=1e-6)  # what all members share says nothing


def test_equal_members_share_and_a_better_one_wins_with_more_data() -> None:
    assert predictive_weights(np.zeros((4, 9))).tolist() == pytest.approx([0.25] * 4)
    shares = [predictive_weights(np.array([np.full(n, -1.0), np.full(n, -1.4)]))[0] for n in (1, 5, 20, 200)]
    assert (np.diff(shares) > 0).all()
    assert shares[0] < 0.7
    assert shares[-1] > 0.98


def test_forecasts_outweigh_a_closer_fit() -> None:
    """A member that misses every new value loses, however well it explains the values that it was fitted to."""
    left_out = np.array([np.full(60, 0.5), np.full(60, 0.0)])
    assert predictive_weights(left_out)[0] > 0.98
    missed = np.array([np.full(15, -3.0), np.full(15, 0.0)])
    assert predictive_weights(left_out, missed)[1] > 0.98
    nothing_new = np.empty((2, 0))
    np.testing.assert_array_equal(predictive_weights(left_out, nothing_new), predictive_weights(left_out))


def test_how_far_all_members_miss_says_nothing() -> None:
    left_out = np.zeros((2, 20))
    both = np.array([[-1e6], [-2 * abs(MIN_FORECAST)]])
    assert predictive_weights(left_out, both).tolist() == pytest.approx([0.5, 0.5])
    one = np.array([[-1e6], [-1.0]])
    assert predictive_weights(left_out, one)[1] > 0.98


def test_members_that_hardly_count_do_not_decide() -> None:
    told = committee(4)
    assert told.weights.sum() == pytest.approx(1.0)
    deciding = told.deciding()
    assert sum(weight for weight, _ in deciding) == pytest.approx(1.0)
    assert len(deciding) == (told.weights >= MIN_WEIGHT).sum()
    chosen = [told.posteriors[k] for k in np.flatnonzero(told.weights >= MIN_WEIGHT)]
    assert [posterior for _, posterior in deciding] == chosen


def test_pending_points_keep_means_and_shrink_deviations() -> None:
    told, points = committee(1), np.random.default_rng(5).random((6, 2))
    for (weight, plain), (same, sure) in zip(told.deciding(), told.deciding(points[:2]), strict=True):
        assert weight == same
        np.testing.assert_allclose(sure.joint(points)[0], plain.joint(points)[0], rtol=1e-9, atol=1e-12)
        assert (sure.joint(points)[1] <= plain.joint(points)[1] + 1e-12).all()
        assert (sure.joint(points[:2])[1] < plain.joint(points[:2])[1]).all()


def test_moments_of_the_mixture_are_those_of_samples() -> None:
    told, point = committee(2), np.array([[0.3, 0.8]])
    members = told.deciding()
    rng = np.random.default_rng(0)
    picked = rng.choice(len(members), 400_000, p=[weight for weight, _ in members])
    moments = np.array([[float(part[0]) for part in member.joint(point)] for _, member in members])
    drawn = rng.normal(moments[picked, 0], moments[picked, 1])
    mean, deviation = mixture_moments(members, point)
    assert mean[0] == pytest.approx(drawn.mean(), abs=0.01)
    assert deviation[0] == pytest.approx(drawn.std(), abs=0.01)


@pytest.mark.parametrize("width", [None, 1.5])
def test_predictions_are_in_the_units_of_the_values(width: float | None) -> None:
    told = committee(3, width=width, noise=1e-8)
    for x, y in zip(told.data.X, told.data.y, strict=True):
        mean, deviation = told.moments(x[None])
        predicted, spread = told.predict(x)
        assert predicted == pytest.approx(told.scale.original(float(mean[0])))
        assert spread == pytest.approx(told.scale.original_deviation(float(mean[0]), float(deviation[0])))
        assert abs(mean[0] - y) < 1.0


def test_the_jitter_reported_is_the_largest() -> None:
    told = committee(0)
    assert told.jitter == max(posterior.jitter for posterior in told.posteriors) == 0.0
