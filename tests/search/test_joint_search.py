"""Points off the grid: the joint bound against a dense search, and excluded points."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from dechbo import Categorical, FactorGraph, Float, Int, Space
from dechbo.acquisition import JointConfidenceBound
from dechbo.data.observations import Observations
from dechbo.gp import AdditiveGP, Ensemble, Hyperparameters
from dechbo.search.engine import LocalEngine
from dechbo.search.excluded import AlsoExcluded
from dechbo.search.grid_search import Search
from dechbo.search.joint_search import MIN_GAIN, JointSearch

Array = NDArray[np.float64]

SPACE = Space({"a": Float(0, 1), "b": Float(0, 1), "k": Int(0, 6), "c": Categorical(["p", "q", "r"])})
KERNELS = ("matern52", "matern52", "matern52", "categorical")
WHOLE = FactorGraph(4, ((0, 1, 2, 3),))
SINGLE = FactorGraph.singletons(4)


def model(seed: int, graph: FactorGraph = WHOLE) -> tuple[AdditiveGP, Observations]:
    rng = np.random.default_rng(seed)
    X = np.array([SPACE.from_uniform(u) for u in rng.random((25, 4))])
    theta = Hyperparameters(np.array([0.5, 0.4, 0.6, 1.0]), np.ones(len(graph.scopes)) / len(graph.scopes), 1e-3)
    return AdditiveGP(graph, theta, kernel=KERNELS), Observations(X, rng.standard_normal(25))


def joint_search(seed: int, **changes: Any) -> JointSearch:
    gp, data = model(seed)
    settings: dict[str, Any] = {
        "posterior": gp.condition(data),
        "data": data,
        "beta": 2.0,
        "fixed": {},
        "incumbent": data.X[int(data.y.argmax())],
        "lines": [parameter.grid(9) for parameter in SPACE.parameters],
        "moving": np.array([0, 1]),
        "excluded": (),
        "steps": 50,
        **changes,
    }
    return JointSearch(SPACE, **settings)


def best_of(task: JointSearch, *known: Array) -> tuple[float, Array]:
    best = task.best(known)
    assert best is not None
    return best


@pytest.mark.parametrize("seed", range(5))
def test_the_best_is_as_good_as_a_dense_search(seed: int) -> None:
    task = joint_search(seed)
    value, point = best_of(task)
    rng = np.random.default_rng(100 + seed)
    rivals = np.array([SPACE.from_uniform(u) for u in rng.random((20_000, 4))])
    assert value == pytest.approx(task.joint.values(point[None])[0], abs=1e-9)
    assert value >= task.joint.values(rivals).max() - 1e-3
    np.testing.assert_array_equal(SPACE.encode(SPACE.decode(point))[2:], point[2:])  # whole numbers and categories


def test_known_points_are_polished_too() -> None:
    task = joint_search(0)
    peak = best_of(task)[1]
    assert best_of(task, peak)[0] >= task.joint.values(peak[None])[0]


def test_fixed_coordinates_stay_and_excluded_points_are_not_suggested() -> None:
    task = joint_search(
        1, fixed={1: 0.25, 3: 1.0}, moving=np.array([0]), excluded=AlsoExcluded((), lambda p: bool(p[0] < 0.9))
    )
    _, point = best_of(task)
    assert (point[1], point[3]) == (0.25, 1.0)
    assert point[0] >= 0.9
    assert joint_search(1, excluded=AlsoExcluded((), lambda p: True)).best() is None


def test_a_known_point_has_no_optimistic_gain() -> None:
    gp, _ = model(2)
    data = Observations(model(2)[1].X, model(2)[1].y)
    exact = AdditiveGP(WHOLE, Hyperparameters(gp.hyperparameters.lengthscales, np.ones(1), 1e-10), kernel=KERNELS)
    task = joint_search(2, posterior=exact.condition(data))
    best = data.X[int(data.y.argmax())]
    assert task.optimistic_gain(best[None])[0] < MIN_GAIN
    assert task.optimistic_gain(best_of(task)[1][None])[0] > 0.01


@pytest.mark.parametrize("weights", [(0.5, 0.5), (0.0, 1.0)])
def test_a_mixture_is_searched_by_its_joint_bound(weights: tuple[float, float]) -> None:
    rng = np.random.default_rng(3)
    dim = 9
    space = Space({f"x{i}": Float(0, 1) for i in range(dim)})
    X = rng.random((30, dim))
    data = Observations(X, -((X - 0.4) ** 2).sum(axis=1))
    small = AdditiveGP(FactorGraph.singletons(dim), Hyperparameters(np.full(dim, 0.5), np.full(dim, 0.1), 1e-4))
    large = AdditiveGP(FactorGraph(dim, (tuple(range(dim)),)), Hyperparameters(np.full(dim, 1.5), np.ones(1), 1e-4))
    gp = Ensemble((small, large), weights) if weights[0] else Ensemble((large,), (1.0,))
    task = Search(space, gp, data, 2.0, np.empty((0, dim)), {}, X[int(data.y.argmax())], ())
    found = task.run(LocalEngine())
    assert found.source == "joint bound"
    assert found.upper_bound == np.inf
    joint = JointConfidenceBound(gp.condition(data), 2.0)
    assert joint.values(found.point[None])[0] >= joint.values(rng.random((5000, dim))).max()


def test_a_slice_is_judged_by_what_is_known_of_it() -> None:
    """Everything in the slice is worse than the best known point, and there is still something to gain in it."""
    gp, data = model(6)
    values = np.where(data.X[:, 3] == 0, data.y - 50, data.y)
    shifted = Observations(data.X, (values - values.mean()) / values.std())
    incumbent = shifted.X[int(shifted.y.argmax())].copy()
    incumbent[3] = 0.0
    task = joint_search(6, posterior=gp.condition(shifted), data=shifted, fixed={3: 0.0}, incumbent=incumbent)
    assert (task._incumbents[:, 3] == 0).all()
    assert task.optimistic_gain(best_of(task)[1][None])[0] > MIN_GAIN


def test_whole_numbers_move_a_little() -> None:
    space = Space({"a": Int(0, 1000), "b": Float(0, 1)})
    X = np.random.default_rng(0).random((5, 2)).round(3)
    gp = AdditiveGP(FactorGraph.singletons(2), Hyperparameters(np.full(2, 0.3), np.ones(2), 1e-2))
    data = Observations(X, np.arange(5.0))
    task = JointSearch(
        space, gp.condition(data), data, 1.0, {}, X[4], [p.grid(9) for p in space.parameters], np.array([1]), (), 5
    )
    near = task._scattered(np.random.default_rng(1), X[4], 200)[:, 0]
    assert len(np.unique(near)) > 30
    np.testing.assert_allclose(near * 1000, np.round(near * 1000), atol=1.0)


def with_pending(seed: int, pending: Array, **changes: Any) -> JointSearch:
    gp, data = model(seed)
    known = gp.condition(data)
    return joint_search(seed, posterior=known.with_pending(pending), pending=pending, without_pending=known, **changes)


@pytest.mark.parametrize("seed", range(4))
def test_the_gain_of_a_pending_point_is_not_counted_again_for_its_neighbour(seed: int) -> None:
    first = best_of(joint_search(seed))[1]
    task = with_pending(seed, first[None])
    neighbour = first.copy()
    neighbour[0] += 0.003 if neighbour[0] < 0.5 else -0.003
    failed = joint_search(seed, posterior=task.posterior)  # a failure too reduces deviations, but no value will come
    assert failed.optimistic_gain(neighbour[None])[0] > MIN_GAIN
    assert task.optimistic_gain(neighbour[None])[0] < MIN_GAIN
    other = task.best_alternative(neighbour)
    assert np.abs(other - first).max() > 0.01
    assert task.optimistic_gain(other[None])[0] >= MIN_GAIN or (task.optimistic_gain(task.starts) < MIN_GAIN).all()


def test_a_pending_point_of_another_slice_does_not_count() -> None:
    first = best_of(joint_search(1))[1]
    inside, outside = {3: first[3]}, {3: (first[3] + 1) % 3}
    points = joint_search(1).starts
    assert (
        with_pending(1, first[None], fixed=inside).optimistic_gain(points)
        < joint_search(1, fixed=inside).optimistic_gain(points)
    ).any()
    task = with_pending(1, first[None], fixed=outside)
    np.testing.assert_array_equal(
        task.optimistic_gain(points), joint_search(1, fixed=outside, posterior=task.posterior).optimistic_gain(points)
    )


def test_incumbents_satisfy_the_known_constraints() -> None:
    """The best value was told for a point that breaks a constraint: allowed points are compared with allowed ones."""
    space = Space({"a": Float(0, 1), "b": Float(0, 1)}, ["a + b <= 1"])
    X = np.array([[0.9, 0.9], [0.2, 0.3], [0.5, 0.4], [0.1, 0.8]])
    data = Observations(X, np.array([9.0, 0.0, 1.0, 0.5]))
    gp = AdditiveGP(FactorGraph.singletons(2), Hyperparameters(np.full(2, 0.3), np.ones(2), 1e-4))
    lines = [parameter.grid(9) for parameter in space.parameters]
    task = JointSearch(space, gp.condition(data), data, 1.0, {}, X[2], lines, np.array([0, 1]), (), 5)
    assert space.region.allows(task._incumbents).all()
    assert task.optimistic_gain(best_of(task)[1][None])[0] > MIN_GAIN
