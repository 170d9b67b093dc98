"""Scores: expected improvement against quadrature, mixtures written out, gradients against differences."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.stats import norm

from dechbo.acquisition.score import (
    MIN_DEVIATION,
    ConfidenceBound,
    LogExpectedImprovement,
    Score,
    Sum,
    log_improvement,
)
from dechbo.gp.posterior import WeightedPosterior
from posterior_cases import CATEGORIES, mixture, points_of

Array = NDArray[np.float64]


NODES, WEIGHTS = np.polynomial.legendre.leggauss(400)


def log_h(z: float) -> float:
    """log(phi(z) + z Phi(z)) by quadrature: phi(z) times the integral of s exp(s z - s^2 / 2) over s > 0.

    The largest exponent is taken out, so that nothing under- or overflows.
    """
    peak = max(z, 0.0)
    top, end = peak * z - peak**2 / 2, peak + 40 / max(1.0, -z)
    s = end * (NODES + 1) / 2
    found = float(end / 2 * WEIGHTS @ (s * np.exp(s * z - s * s / 2 - top)))
    return float(norm.logpdf(z)) + top + math.log(found)


def improvement(mean: float, deviation: float, threshold: float) -> tuple[float, float, float]:
    parts = log_improvement(np.array([mean]), np.array([deviation]), threshold)
    return float(parts[0][0]), float(parts[1][0]), float(parts[2][0])


@pytest.mark.parametrize("deviation", [0.01, 1.0, 5.0])
def test_the_logarithm_of_the_improvement_is_that_of_quadrature(deviation: float) -> None:
    z = np.concatenate([np.linspace(-30, 8, 200), [-1.0 - 1e-9, -1.0, -1.0 + 1e-9]])
    found = log_improvement(2.0 + z * deviation, np.full(len(z), deviation), 2.0)[0]
    expected = [math.log(deviation) + log_h(value) for value in z.tolist()]
    np.testing.assert_allclose(found, expected, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("z", [-29.5, -12.0, -3.0, -1.2, -0.8, 0.0, 0.5, 3.0, 8.0])
@pytest.mark.parametrize("deviation", [0.02, 1.0, 3.0])
def test_the_derivatives_of_the_improvement_are_those_of_differences(z: float, deviation: float) -> None:
    mean, step = 0.3 + z * deviation, 1e-5 * deviation
    _, by_mean, by_deviation = improvement(mean, deviation, 0.3)
    moved = [improvement(mean + s, deviation, 0.3)[0] for s in (step, -step)]
    assert by_mean == pytest.approx((moved[0] - moved[1]) / (2 * step), rel=1e-6)
    moved = [improvement(mean, deviation + s, 0.3)[0] for s in (step, -step)]
    assert by_deviation == pytest.approx((moved[0] - moved[1]) / (2 * step), rel=1e-6, abs=1e-9)


@pytest.mark.parametrize("z", [-1e2, -9.9e3, -1.01e4, -1e6, -1e9, -1e14])
def test_far_below_the_threshold_the_improvement_has_its_asymptotic_form(z: float) -> None:
    """h(z) = phi(z) / z^2 (1 - 3 / z^2 + …), Phi(z) = phi(z) / -z (1 - 1 / z^2 + …): derivatives -z and z^2."""
    value, by_mean, by_deviation = improvement(z, 1.0, 0.0)
    assert value == pytest.approx(float(norm.logpdf(z)) - 2 * math.log(-z) + math.log1p(-3 / z**2), rel=1e-9)
    assert by_mean == pytest.approx(-z * (1 + 2 / z**2), rel=1e-6)
    assert by_deviation == pytest.approx(z**2 * (1 + 3 / z**2), rel=1e-6)


def test_without_a_deviation_the_improvement_is_the_plain_one_and_stays_finite() -> None:
    value, by_mean, by_deviation = improvement(3.0, 0.0, 1.0)
    assert value == pytest.approx(math.log(2.0))
    assert by_mean == pytest.approx(0.5)
    assert by_deviation == pytest.approx(0.0, abs=1e-12)
    assert np.isfinite(improvement(-3.0, 0.0, 1.0)).all()
    assert improvement(1.0, 0.0, 1.0)[0] == pytest.approx(math.log(MIN_DEVIATION * norm.pdf(0)))


@pytest.mark.parametrize(("seed", "threshold", "pending"), [(0, -1.0, 0), (1, 0.5, 2), (2, 1.5, 0), (3, 3.0, 1)])
def test_a_mixtures_improvement_is_the_weighted_sum_by_quadrature(seed: int, threshold: float, pending: int) -> None:
    members, points = mixture(seed, pending=pending), points_of(np.random.default_rng(seed + 1), 5)
    f = threshold + 12 * (NODES + 1) / 2
    total = np.zeros(5)
    for weight, member in members:
        mean, deviation = member.joint(points)
        densities = norm.pdf(f[:, None], mean, deviation)
        total += weight * 6 * WEIGHTS @ ((f - threshold)[:, None] * densities)
    np.testing.assert_allclose(LogExpectedImprovement(members, threshold).values(points), np.log(total), atol=1e-7)


SCORES: dict[str, Callable[[list[WeightedPosterior]], Score]] = {
    "improvement": lambda members: LogExpectedImprovement(members, 0.7),
    "far improvement": lambda members: LogExpectedImprovement(members, 9.0),
    "bound": lambda members: ConfidenceBound(members, 1.7),
    "sum": lambda members: Sum([LogExpectedImprovement(members, 0.7), ConfidenceBound(members[:1], 0.5)]),
}


@pytest.mark.parametrize("name", SCORES)
@pytest.mark.parametrize(("seed", "pending"), list(itertools.product(range(3), (0, 2))))
def test_gradients_are_those_of_differences(name: str, seed: int, pending: int) -> None:
    score = SCORES[name](mixture(seed, pending=pending))
    points = points_of(np.random.default_rng(seed + 10), 6)
    values, slopes = score.gradients(points)
    np.testing.assert_allclose(values, score.values(points), rtol=1e-8, atol=1e-9)
    for i, many in enumerate(CATEGORIES):
        if many:
            assert (slopes[:, i] == 0).all()
            continue
        step = np.zeros(3)
        step[i] = 1e-5
        differences = (score.values(points + step) - score.values(points - step)) / 2e-5
        np.testing.assert_allclose(slopes[:, i], differences, rtol=1e-4, atol=1e-4)


def test_the_bound_and_the_sum_are_what_they_say() -> None:
    members, points = mixture(0), points_of(np.random.default_rng(1), 5)
    expected = sum(w * (member.joint(points)[0] + 2 * member.joint(points)[1]) for w, member in members)
    bound = ConfidenceBound(members, 4.0)
    np.testing.assert_allclose(bound.values(points), expected, rtol=1e-12)
    other = LogExpectedImprovement(members, 0.0)
    np.testing.assert_allclose(Sum([bound, other]).values(points), expected + other.values(points), rtol=1e-12)


def test_a_member_that_sees_an_improvement_is_heard() -> None:
    """log sum, not sum of logs: a member that is sure that nothing is gained cannot veto a point."""
    members, points = mixture(3), points_of(np.random.default_rng(4), 4)
    alone = LogExpectedImprovement([(1.0, members[0][1])], 0.5).values(points)
    together = LogExpectedImprovement(members, 0.5).values(points)
    assert (together >= alone + math.log(members[0][0]) - 1e-12).all()
