"""The joint bound: what is known is known."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest
from numpy.typing import NDArray

from dechbo.acquisition import JointConfidenceBound
from dechbo.data.observations import Observations
from dechbo.gp import AdditiveGP, Ensemble, Hyperparameters, Surrogate
from dechbo.gp.centring import Domain
from dechbo.graph import FactorGraph

Array = NDArray[np.float64]

GRAPH = FactorGraph(4, ((0,), (1,), (2,), (3,), (0, 1), (1, 2, 3)))
KERNELS = ("matern52", "se", "matern52", "categorical")
DOMAINS = (None, None, None, np.arange(3.0))


def model(domains: Sequence[Domain] | None = None, noise: float = 1e-6) -> AdditiveGP:
    theta = Hyperparameters([0.4, 0.5, 0.3, 1.0], [0.5, 0.4, 0.3, 0.2, 0.6, 0.3], noise)
    return AdditiveGP(GRAPH, theta, kernel=KERNELS, domains=domains)


def points(n: int, seed: int = 0) -> Array:
    rng = np.random.default_rng(seed)
    return np.column_stack([rng.random((n, 3)), rng.integers(0, 3, n)])


@pytest.mark.parametrize("domains", [None, DOMAINS])
def test_values_and_gradient(domains: Sequence[Domain] | None) -> None:
    data = Observations(points(25), np.random.default_rng(1).standard_normal(25))
    surrogates: list[Surrogate] = [model(domains), Ensemble((model(domains), model(domains, 0.1)), (0.3, 0.7))]
    for surrogate in surrogates:
        posterior = surrogate.condition(data).with_pending(points(2, 3))
        joint = JointConfidenceBound(posterior, 2.0)
        point = points(1, 4)[0]
        value, gradient = joint.value_and_gradient(point)
        assert value == pytest.approx(joint.values(point[None])[0], rel=1e-10)
        for i in range(3):
            step = 1e-6 * np.eye(4)[i]
            difference = (joint.values((point + step)[None]) - joint.values((point - step)[None]))[0] / 2e-6
            assert gradient[i] == pytest.approx(difference, rel=1e-4, abs=1e-5)
        assert gradient[3] == 0.0


def test_at_observed_points_nothing_is_uncertain() -> None:
    data = Observations(points(20), np.random.default_rng(1).standard_normal(20))
    posterior = model().condition(data)
    np.testing.assert_allclose(JointConfidenceBound(posterior, 4.0).values(data.X), data.y, atol=0.02)
    deviations = [posterior.factor(k, data.X[:, scope])[1] for k, scope in enumerate(GRAPH.scopes)]
    assert (np.sum(deviations, axis=0) > 0.1).all()


def test_many_points_at_once_are_the_same_as_one_by_one() -> None:
    posterior = model(DOMAINS).condition(Observations(points(15), np.arange(15.0)))
    at = points(40, 5)
    together = posterior.joint(at)
    alone = [posterior.joint(point[None]) for point in at]
    np.testing.assert_allclose(together[0], [m[0] for m, _ in alone], atol=1e-12)
    np.testing.assert_allclose(together[1], [s[0] for _, s in alone], atol=1e-9)


@pytest.mark.parametrize("domains", [None, DOMAINS])
def test_the_difference_from_a_point_is_the_difference_of_two_jointly_normal_values(
    domains: Sequence[Domain] | None,
) -> None:
    """Oracle: the full posterior covariance matrix, written out."""
    gp = model(domains, noise=1e-2)
    data = Observations(points(20), np.random.default_rng(1).standard_normal(20))
    posterior = gp.condition(data)
    base, at = data.X[3], points(6, 8)
    everything = np.vstack([data.X, base, at])
    K = gp.gram(everything)
    solved = np.linalg.solve(K[:20, :20] + 1e-2 * np.eye(20), K[:20])
    mean, covariance = (solved.T @ data.y)[20:], (K - K[:, :20] @ solved)[20:, 20:]
    found = posterior.difference(at, base)
    np.testing.assert_allclose(found[0], mean[1:] - mean[0], atol=1e-9)
    expected = np.diagonal(covariance)[1:] + covariance[0, 0] - 2 * covariance[0, 1:]
    np.testing.assert_allclose(found[1] ** 2, expected, atol=1e-9)
    assert posterior.difference(base[None], base)[1][0] < 1e-6
