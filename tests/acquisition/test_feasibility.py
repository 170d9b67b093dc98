"""Feasibility: log probabilities against SciPy, gradients against differences."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.stats import norm

from dechbo.acquisition.feasibility import LearnedConstraint, LogFeasibility
from dechbo.data.observations import Observations
from dechbo.gp.radial import ColumnEmbedding, RadialGP
from dechbo.models.committee import Committee, Member
from dechbo.models.warp import ValueScale
from posterior_cases import CATEGORIES, mixture, points_of

Array = NDArray[np.float64]


def constraints(pending: int) -> list[LearnedConstraint]:
    """Two learned constraints: a mixture of three models, and a single one."""
    return [LearnedConstraint(mixture(0, pending=pending), 0.3), LearnedConstraint([(1.0, mixture(1)[1][1])], -0.2)]


def committee(values: Array) -> Committee:
    X = np.linspace(0, 1, len(values))[:, None]
    scale = ValueScale.of(values)
    member = Member("whole", RadialGP(ColumnEmbedding((0,)), np.array([20.0]), 1.0, 1e-4))
    return Committee((member,), scale.observations(Observations(X, values)), scale)


def test_the_threshold_is_where_the_constraint_is_zero() -> None:
    limit = LearnedConstraint.of(committee(np.array([7.0, 1.0, -2.0, -3.0, 5.0])))
    assert committee(np.array([7.0, 1.0, -2.0, -3.0, 5.0])).scale.original(limit.threshold) == pytest.approx(0.0)


def test_observed_points_are_feasible_where_their_values_say_so() -> None:
    """g = -c is told; g >= 0 is feasible. A pending point makes its neighbourhood surer, not better."""
    g = np.array([7.0, 1.0, -2.0, -3.0, 5.0])
    told = committee(g)
    probability = np.exp(LogFeasibility([LearnedConstraint.of(told)]).values(told.data.X))
    assert (probability[g > 0] > 0.99).all()
    assert (probability[g < 0] < 0.01).all()
    pending = np.array([[0.35]])
    plain, sure = LearnedConstraint.of(told), LearnedConstraint.of(told, pending)
    assert sure.members[0][1].joint(pending)[1][0] < plain.members[0][1].joint(pending)[1][0]
    np.testing.assert_allclose(sure.members[0][1].joint(pending)[0], plain.members[0][1].joint(pending)[0], rtol=1e-9)


@pytest.mark.parametrize("pending", [0, 2])
def test_the_probability_is_scipys_and_its_gradient_that_of_differences(pending: int) -> None:
    limits = constraints(pending)
    feasibility = LogFeasibility(limits)
    points = points_of(np.random.default_rng(1), 6)
    expected = np.zeros(6)
    for limit in limits:
        parts = [(weight, *member.joint(points)) for weight, member in limit.members]
        expected += np.log(sum(weight * norm.sf(limit.threshold, mu, sigma) for weight, mu, sigma in parts))
    np.testing.assert_allclose(feasibility.values(points), expected, rtol=1e-8)
    values, slopes = feasibility.gradients(points)
    np.testing.assert_allclose(values, feasibility.values(points), rtol=1e-8, atol=1e-10)
    for i, many in enumerate(CATEGORIES):
        if many:
            assert (slopes[:, i] == 0).all()
            continue
        step = np.zeros(3)
        step[i] = 1e-5
        differences = (feasibility.values(points + step) - feasibility.values(points - step)) / 2e-5
        np.testing.assert_allclose(slopes[:, i], differences, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("threshold", [-40.0, 40.0, 4000.0])
def test_far_from_the_threshold_values_and_gradients_stay_finite(threshold: float) -> None:
    limits = [LearnedConstraint(limit.members, threshold) for limit in constraints(0)]
    points = points_of(np.random.default_rng(2), 5)
    values, slopes = LogFeasibility(limits).gradients(points)
    assert np.isfinite(values).all()
    assert np.isfinite(slopes).all()
    if threshold < 0:
        np.testing.assert_allclose(values, 0.0, atol=1e-12)


def test_without_constraints_everything_is_feasible() -> None:
    points = points_of(np.random.default_rng(0), 4)
    assert (LogFeasibility([]).values(points) == 0).all()
    assert (LogFeasibility([]).gradients(points)[1] == 0).all()
