"""Polishing: gradient ascent in the continuous coordinates, free and within limits."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.optimize import LinearConstraint, minimize

from dechbo import Categorical, FactorGraph, Float, Int, Space
from dechbo.acquisition import AdditiveUCB
from dechbo.data.observations import Observations
from dechbo.gp import AdditiveGP, Hyperparameters
from dechbo.search.polish import LIMIT_TOLERANCE, MAX_SLSQP_DIM, edges, polish, polish_within, within

Array = NDArray[np.float64]

SPACE = Space({"a": Float(0, 1), "b": Float(0, 1), "k": Int(0, 6), "c": Categorical(["p", "q", "r"])})
GRAPH = FactorGraph(4, ((0, 1), (1, 2), (2, 3), (0,)))


def bound(seed: int) -> AdditiveUCB:
    rng = np.random.default_rng(seed)
    X = np.array([SPACE.from_uniform(u) for u in rng.random((25, 4))])
    theta = Hyperparameters(np.array([0.3, 0.2, 0.4, 1.0]), np.array([0.5, 0.4, 0.3, 0.2]), 1e-3)
    gp = AdditiveGP(GRAPH, theta, kernel=("matern52", "matern52", "matern52", "categorical"))
    return AdditiveUCB(gp.condition(Observations(X, rng.standard_normal(25))), 2.0)


def test_polishing_never_goes_down_and_stops_at_a_stationary_point() -> None:
    acquisition = bound(1)
    for seed in range(5):
        start = SPACE.from_uniform(np.random.default_rng(seed).random(4))
        value, point = polish(acquisition, start, np.array([0, 1]), 200)
        assert value >= acquisition.values(start[None])[0] - 1e-12
        assert np.array_equal(point[2:], start[2:])
        _, gradient = acquisition.value_and_gradient(point)
        inside = (point > 0) & (point < 1)
        inside[2:] = False
        assert np.abs(gradient[inside]).max(initial=0.0) < 1e-2


class Bowl:
    """-(x - target)^T Q (x - target)."""

    def __init__(self, Q: Array, target: Array) -> None:
        self.Q, self.target = Q, target

    def value_and_gradient(self, point: Array) -> tuple[float, Array]:
        step = point - self.target
        return float(-step @ self.Q @ step), -2 * self.Q @ step


@pytest.mark.parametrize("seed", range(5))
def test_polishing_slides_along_the_edge_as_far_as_scipy_does(seed: int) -> None:
    rng = np.random.default_rng(seed)
    root = rng.normal(size=(3, 3))
    bowl = Bowl(root @ root.T + 0.5 * np.eye(3), 0.5 + rng.random(3))
    space = Space({name: Float(0, 1) for name in "xyz"}, ["x + 2*y + z <= 1.2", "y - x <= 0.1"])
    start = np.array([0.1, 0.1, 0.1])
    moving = np.arange(3)
    reached, point = polish(bowl, start, moving, 40, space.region)
    assert space.allows(point)
    oracle = minimize(
        lambda x: -bowl.value_and_gradient(x)[0],
        start,
        method="trust-constr",
        bounds=[(0, 1)] * 3,
        constraints=LinearConstraint([[1, 2, 1], [-1, 1, 0]], -np.inf, [1.2, 0.1]),
        options={"gtol": 1e-10, "xtol": 1e-10, "maxiter": 2000},
    )
    assert reached == pytest.approx(-oracle.fun, abs=2e-3)


@pytest.mark.parametrize("dim", [3, MAX_SLSQP_DIM + 2])
def test_limits_hold_at_the_end_and_the_maximum_on_their_edge_is_found(dim: int) -> None:
    """The nearest point of a half-space to the target has a closed form; quadratic programmes and multipliers agree."""
    normal, level = np.linspace(1.0, 2.0, dim), 0.3 * np.linspace(1.0, 2.0, dim).sum()
    target = np.full(dim, 0.5)

    class Plane:
        """normal . x <= level."""

        def value_and_gradient(self, point: Array) -> tuple[float, Array]:
            return float(level - normal @ point), -normal

    end = polish_within(Bowl(np.eye(dim), target), [Plane()], np.full(dim, 0.1), np.arange(dim), 100)
    expected = target - (normal @ target - level) / (normal @ normal) * normal
    assert level - normal @ end >= -10 * LIMIT_TOLERANCE
    np.testing.assert_allclose(end, expected, atol=1e-3)


@pytest.mark.parametrize("seed", range(3))
def test_an_end_beyond_an_edge_is_moved_back_into_the_region(seed: int) -> None:
    space = Space({name: Float(0, 1) for name in "xyz"}, ["x + 2*y + z <= 1.2", "y - x <= 0.1"])
    rng = np.random.default_rng(seed)
    start, end = np.array([0.1, 0.1, 0.3]), np.append(rng.uniform(0.5, 1.0, 2), 0.3)
    moved = within(space.region, start, end, np.array([0, 1]))
    assert not space.allows(end)
    assert space.allows(moved)
    assert moved[2] == start[2]
    assert all(edge.value_and_gradient(start)[0] > 0 for edge in edges(space.region))
    np.testing.assert_array_equal(within(space.region, start, start, np.array([0, 1])), start)


def test_without_constraints_the_end_stays() -> None:
    end = np.array([0.2, 0.9])
    free = Space({"x": Float(0, 1), "y": Float(0, 1)}).region
    assert edges(free) == []
    np.testing.assert_array_equal(within(free, np.zeros(2), end, np.arange(2)), end)
