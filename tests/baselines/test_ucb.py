"""GP-UCB against a dense GP written out; Add-GP-UCB against the core with singleton factors."""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest

from baseline_cases import CUBE, MIXED, mixed_value, quadratic, random_start, run
from dechbo.acquisition import AdditiveUCB, ucb_tables
from dechbo.baselines import GPUCB, AddGPUCB
from dechbo.baselines.component import Component, ComponentAcquisition, UpperBound
from dechbo.baselines.partition import random_partition
from dechbo.baselines.refit import map_fit
from dechbo.data.observations import Observations
from dechbo.graph import FactorGraph
from dechbo.maxsum import MaxSum
from dechbo.search.polish import polish
from dechbo.space import Float, Space


def matern(delta: np.ndarray, length: float) -> np.ndarray:
    s = np.sqrt(5) * np.abs(delta) / length
    return np.asarray((1 + s + s**2 / 3) * np.exp(-s))


def dense_bound(method: GPUCB, points: np.ndarray) -> np.ndarray:
    """mu + sqrt(0.2 d log 2t) sigma with explicit matrices, from the evaluations and the hyperparameters alone."""
    theta = method.posterior().gp.hyperparameters
    X = np.array([method.space.encode(e.params) for e in method.evaluations])
    y = -np.array([e.value for e in method.evaluations])
    scaling = method._fit().scaling
    y = (y - scaling.shift) / scaling.scale

    def kernel(A: np.ndarray, B: np.ndarray) -> np.ndarray:
        k = [matern(A[:, None, i] - B[None, :, i], length) for i, length in enumerate(theta.lengthscales)]
        return np.asarray(theta.variances[0] * np.prod(k, axis=0))

    inverse = np.linalg.inv(kernel(X, X) + theta.noise * np.eye(len(X)))
    k = kernel(points, X)
    variance = theta.variances[0] - np.einsum("np,pq,nq->n", k, inverse, k)
    beta = 0.2 * method.space.dim * np.log(2 * (len(X) + 1))
    return np.asarray(k @ inverse @ y + np.sqrt(beta * np.maximum(variance, 0)))


def test_gp_ucb_asks_for_the_maximum_of_the_dense_bound() -> None:
    method = GPUCB(CUBE, seed=1)
    run(method, quadratic, 17)
    rng = np.random.default_rng(0)
    grid = np.concatenate([rng.random((40_000, 4)), np.array(list(itertools.product([0.0, 0.5, 1.0], repeat=4)))])
    over_the_cube = dense_bound(method, grid).max()
    asked = CUBE.encode(method.ask())
    answer = dense_bound(method, asked[None])[0]
    assert answer > over_the_cube - 1e-6
    nearby = np.clip(asked + 1e-3 * rng.standard_normal((2000, 4)), 0, 1)
    assert answer > dense_bound(method, nearby).max() - 1e-6


def test_add_gp_ucb_equals_the_core_with_singleton_factors() -> None:
    """Per-group maximisation on a grid = max-sum on the core's tables; the ask = that point climbed on."""
    method = AddGPUCB(CUBE, seed=1)
    run(method, quadratic, 23)
    posterior = method.posterior()
    assert posterior.gp.graph == FactorGraph.singletons(4)
    beta = 0.2 * np.log(2 * (23 + 1))
    assert method.beta_of(1) == pytest.approx(beta)
    grid = [np.linspace(0, 1, 101)] * 4
    maximum = MaxSum().maximize(ucb_tables(posterior, grid, beta))
    by_group = [ComponentAcquisition(Component(posterior, k), UpperBound(beta)) for k in range(4)]
    values = [acquisition.values(grid[0][:, None]) for acquisition in by_group]
    assert maximum.choice.tolist() == [int(v.argmax()) for v in values]
    assert maximum.value == pytest.approx(sum(v.max() for v in values), rel=1e-9)
    start = np.array([grid[i][k] for i, k in enumerate(maximum.choice)])
    whole = AdditiveUCB(posterior, beta)
    climbed, point = polish(whole, start, np.arange(4), 50)
    asked = CUBE.encode(method.ask())
    assert whole.values(asked[None])[0] >= climbed - 1e-7
    np.testing.assert_allclose(asked, point, atol=1e-3)


def test_given_groups_are_maximised_together_and_weighed_by_their_size() -> None:
    groups = [["x2", "x0"], ["x1"], ["x3"]]
    method = AddGPUCB(CUBE, seed=1, groups=groups)
    run(method, quadratic, 21)
    assert method.partition == (("x2", "x0"), ("x1",), ("x3",))
    posterior = method.posterior()
    asked = CUBE.encode(method.ask())
    for k, scope in enumerate(posterior.gp.graph.scopes):
        acquisition = ComponentAcquisition(Component(posterior, k), UpperBound(0.2 * len(scope) * np.log(2 * 22)))
        grid = np.array(list(itertools.product(np.linspace(0, 1, 65), repeat=len(scope))))
        assert acquisition.values(asked[None, scope])[0] > acquisition.values(grid).max() - 1e-6


@pytest.mark.parametrize("kernel", ["matern52", "se"])
def test_gradients_are_slopes(kernel: str) -> None:
    graph = FactorGraph(4, ((2, 0, 1), (3,)))
    rng = np.random.default_rng(3)
    data = Observations(rng.random((12, 4)), rng.standard_normal(12))
    posterior = map_fit(graph, data, [kernel] * 3 + ["categorical"]).condition(data).with_pending(rng.random((2, 4)))
    acquisition = ComponentAcquisition(Component(posterior, 0), UpperBound(2.0))
    for point in rng.random((5, 3)):
        value, gradient = acquisition.value_and_gradient(point)
        assert value == pytest.approx(acquisition.values(point[None])[0], rel=1e-9)
        for i, step in enumerate(1e-5 * np.eye(3)):
            difference = np.diff(acquisition.values(np.array([point - step, point + step])))[0] / 2e-5
            assert gradient[i] == pytest.approx(difference, rel=1e-4, abs=1e-6)
    assert (
        ComponentAcquisition(Component(posterior, 1), UpperBound(2.0)).value_and_gradient(data.X[0, 3:])[1] == 0
    ).all()


def test_a_full_gp_in_many_dimensions_still_sees_something() -> None:
    """Without longer lengthscales every correlation of 60 variables vanishes, and the model predicts its mean."""
    rng = np.random.default_rng(0)
    X, Z = rng.random((120, 60)), rng.random((200, 60))
    y = -((X - 0.3) ** 2).sum(axis=1)
    data, _ = Observations(X, y).standardised()
    gp = map_fit(FactorGraph(60, (tuple(range(60)),)), data, ["matern52"] * 60)
    mean, _ = gp.condition(data).joint(Z)
    assert np.corrcoef(mean, -((Z - 0.3) ** 2).sum(axis=1))[0, 1] > 0.5


def test_random_partitions_are_partitions_of_the_asked_size() -> None:
    rng = np.random.default_rng(0)
    seen = set()
    for _ in range(200):
        graph = random_partition(rng, 7, 3)
        assert sorted(i for scope in graph.scopes for i in scope) == list(range(7))
        assert sorted(map(len, graph.scopes)) == [1, 3, 3]
        seen.add(graph.scopes)
    assert len(seen) > 60  # of 70


def test_the_evidence_finds_the_pairs_of_a_pairwise_function() -> None:
    """Of the 3 partitions of 4 variables into pairs, the true one; learned again only every ``relearn_every`` tells."""

    def product(params: Mapping[str, Any]) -> float:
        a, b, c, d = ((x + 1) / 3 - 0.5 for x in params.values())
        return float(40 * a * c + 40 * b * d)

    method = AddGPUCB(CUBE, seed=0, group_size=2, partitions=20, relearn_every=30)
    for params, value in random_start(CUBE, product, 60):
        method.tell(params, value)
    assert method.partition == (("x0", "x2"), ("x1", "x3"))
    learned = method._learned
    run(method, product, 5)
    assert method._learned is learned


def test_mixed_spaces_are_maximised_over_all_their_values() -> None:
    """No single change of a discrete value improves the bound at the point asked for."""
    method = GPUCB(MIXED, seed=2)
    run(method, mixed_value, 20)
    posterior = method.posterior()
    asked = MIXED.encode(method.ask())
    acquisition = ComponentAcquisition(Component(posterior, 0), UpperBound(method.beta_of(4)))
    value = acquisition.values(asked[None])[0]
    for i in (1, 2):
        changed = np.tile(asked, (len(MIXED.parameters[i].grid(9)), 1))
        changed[:, i] = MIXED.parameters[i].grid(9)
        assert acquisition.values(changed).max() <= value + 1e-9


def test_beta_may_be_a_number_or_a_function() -> None:
    for beta in (0.0, lambda t: 0.0):
        method = GPUCB(Space({"x": Float(0, 1)}), seed=0, beta=beta, n_initial=3)
        run(method, lambda p: (p["x"] - 0.4) ** 2, 8)
        assert method.beta_of(1) == 0.0
        assert method.best is not None
        assert abs(method.best.params["x"] - 0.4) < 0.02  # pure exploitation of a parabola
