"""Feasibility: log probabilities against SciPy, gradients against differences."""

from __future__ import annotations

import math

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.optimize import check_grad
from scipy.stats import norm

from dechbo.acquisition import JointConfidenceBound
from dechbo.acquisition.feasibility import ConstraintMargin, LearnedConstraint, LogFeasibility
from dechbo.data.observations import Observations, Standardisation
from dechbo.gp import AdditiveGP, Ensemble, Hyperparameters, Surrogate
from dechbo.graph import FactorGraph
from dechbo.models.model import Model

Array = NDArray[np.float64]


def constraints(pending: Array) -> list[LearnedConstraint]:
    """Two learned constraints of two variables, one modelled by one GP and one by an ensemble."""
    rng = np.random.default_rng(0)
    X = rng.random((9, 2))
    graphs = [FactorGraph.singletons(2), FactorGraph(2, ((0, 1),))]
    first, second = (AdditiveGP(g, Hyperparameters(np.array([0.3, 0.4]), np.ones(len(g.scopes)), 1e-3)) for g in graphs)
    values = (X[:, 1] - np.sin(5 * X[:, 0]), 0.3 - X[:, 0] * X[:, 1])
    surrogates: list[Surrogate] = [first, Ensemble((first, second), (0.4, 0.6))]
    found = []
    for gp, g in zip(surrogates, values, strict=True):
        data, scaling = Observations(X, g).standardised()
        found.append(LearnedConstraint.of(Model(gp, data, scaling, len(data), refitted=True), pending))
    return found


def test_the_threshold_is_where_the_constraint_is_zero() -> None:
    gp = AdditiveGP(FactorGraph.singletons(1), Hyperparameters(np.ones(1), np.ones(1), 1e-3))
    model = Model(gp, Observations(np.zeros((1, 1)), np.zeros(1)), Standardisation(3.0, 2.0), 1, refitted=True)
    limit = LearnedConstraint.of(model, np.empty((0, 1)))
    assert model.scaling.original(limit.threshold) == 0.0


def test_a_margin_is_a_bound_beyond_its_threshold() -> None:
    limit = constraints(np.empty((0, 2)))[0]
    points = np.random.default_rng(2).random((4, 2))
    mean, deviation = limit.posterior.joint(points)
    margin = ConstraintMargin(JointConfidenceBound(limit.posterior, 4.0), limit.threshold)
    np.testing.assert_allclose(margin.values(points), mean + 2 * deviation - limit.threshold, rtol=1e-9)
    value, slope = margin.value_and_gradient(points[0])
    assert value == pytest.approx(margin.values(points[:1])[0], rel=1e-9)
    np.testing.assert_array_equal(slope, margin.bound.value_and_gradient(points[0])[1])


def test_the_probability_is_scipys_and_its_gradient_that_of_differences() -> None:
    limits = constraints(np.array([[0.3, 0.3]]))
    feasibility = LogFeasibility(limits)
    points = np.random.default_rng(1).random((5, 2))
    expected = np.zeros(5)
    for limit in limits:
        mean, deviation = limit.posterior.joint(points)
        expected += norm.logsf(limit.threshold, mean, deviation)
    assert feasibility.values(points) == pytest.approx(expected, rel=1e-6)
    lower = JointConfidenceBound(limits[0].posterior, 2.0, lower=True)
    for point in points:
        value, _ = feasibility.value_and_gradient(point)
        assert value == pytest.approx(float(feasibility.values(point[None])[0]), rel=1e-6)
        error = check_grad(
            lambda x: feasibility.value_and_gradient(x)[0], lambda x: feasibility.value_and_gradient(x)[1], point
        )
        assert error < 1e-3 * (1 + np.abs(feasibility.value_and_gradient(point)[1]).max())
        error = check_grad(lambda x: lower.value_and_gradient(x)[0], lambda x: lower.value_and_gradient(x)[1], point)
        assert error < 1e-4
        mean, deviation = limits[0].posterior.joint(point[None])
        assert lower.values(point[None])[0] == pytest.approx(float(mean[0] - math.sqrt(2) * deviation[0]))


def test_an_ensemble_counts_as_one_mixture() -> None:
    rng = np.random.default_rng(0)
    data = Observations(rng.random((8, 2)), rng.standard_normal(8))
    graphs = [FactorGraph.singletons(2), FactorGraph(2, ((0, 1),))]
    members = [AdditiveGP(g, Hyperparameters(np.array([0.3, 0.4]), np.ones(len(g.scopes)), 1e-3)) for g in graphs]
    feasibility = LogFeasibility([LearnedConstraint(Ensemble(tuple(members), (0.4, 0.6)), data, np.empty((0, 2)), 0.2)])
    for point in rng.random((5, 2)):
        value, slope = feasibility.value_and_gradient(point)
        assert value == pytest.approx(float(feasibility.values(point[None])[0]), rel=1e-9)
        step = 1e-5 * np.eye(2)
        differences = (feasibility.values(point + step) - feasibility.values(point - step)) / 2e-5
        np.testing.assert_allclose(slope, differences, rtol=1e-4, atol=1e-5)
