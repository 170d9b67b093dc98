"""Points off the grid: the joint bound against a dense search, and what must not come again."""

from __future__ import annotations

import numpy as np
import pytest

from dechbo import Categorical, FactorGraph, Float, Int, Space
from dechbo.acquisition import JointAcquisition
from dechbo.data.observations import Observations
from dechbo.gp import AdditiveGP, Ensemble, Hyperparameters
from dechbo.search.engine import LocalEngine
from dechbo.search.exclusion import AlsoExcluded
from dechbo.search.grid_search import Search
from dechbo.search.grids import gridded
from dechbo.search.joint_search import MIN_GAIN, JointSearch

SPACE = Space({"a": Float(0, 1), "b": Float(0, 1), "k": Int(0, 6), "c": Categorical(["p", "q", "r"])})
KERNELS = ("matern52", "matern52", "matern52", "categorical")
WHOLE = FactorGraph(4, ((0, 1, 2, 3),))
SINGLE = FactorGraph.singletons(4)


def model(seed: int, graph: FactorGraph = WHOLE) -> tuple[AdditiveGP, Observations]:
    rng = np.random.default_rng(seed)
    X = np.array([SPACE.from_uniform(u) for u in rng.random((25, 4))])
    theta = Hyperparameters([0.5, 0.4, 0.6, 1.0], np.ones(len(graph.scopes)) / len(graph.scopes), 1e-3)
    return AdditiveGP(graph, theta, kernel=KERNELS), Observations(X, rng.standard_normal(25))


def joint_search(seed: int, **changes) -> JointSearch:
    gp, data = model(seed)
    settings = {
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


@pytest.mark.parametrize("seed", range(5))
def test_the_best_is_as_good_as_a_dense_search(seed: int) -> None:
    task = joint_search(seed)
    value, point = task.best()
    rng = np.random.default_rng(100 + seed)
    rivals = np.array([SPACE.from_uniform(u) for u in rng.random((20_000, 4))])
    assert value == pytest.approx(task.joint.values(point[None])[0], abs=1e-9)
    assert value >= task.joint.values(rivals).max() - 1e-3
    np.testing.assert_array_equal(SPACE.encode(SPACE.decode(point))[2:], point[2:])  # whole numbers and categories


def test_known_points_are_followed_too() -> None:
    task = joint_search(0)
    peak = task.best()[1]
    assert task.best([peak])[0] >= task.joint.values(peak[None])[0]


def test_what_is_fixed_or_taken_is_respected() -> None:
    task = joint_search(
        1, fixed={1: 0.25, 3: 1.0}, moving=np.array([0]), excluded=AlsoExcluded((), lambda p: bool(p[0] < 0.9))
    )
    _, point = task.best()
    assert (point[1], point[3]) == (0.25, 1.0)
    assert point[0] >= 0.9
    assert joint_search(1, excluded=AlsoExcluded((), lambda p: True)).best() is None


def test_a_known_point_promises_nothing() -> None:
    gp, _ = model(2)
    data = Observations(model(2)[1].X, model(2)[1].y)
    exact = AdditiveGP(WHOLE, Hyperparameters(gp.hyperparameters.lengthscales, [1.0], 1e-10), kernel=KERNELS)
    task = joint_search(2, posterior=exact.condition(data))
    best = data.X[int(data.y.argmax())]
    assert task.optimistic_gain(best[None])[0] < MIN_GAIN
    assert task.optimistic_gain(task.best()[1][None])[0] > 0.01


def test_members_that_cannot_have_tables_are_left_out_of_the_grids() -> None:
    small, data = model(0, SINGLE)
    nine = FactorGraph(9, (tuple(range(9)),))
    large = AdditiveGP(nine, Hyperparameters(np.ones(9), [1.0], 1e-3))
    nines = Space({f"x{i}": Float(0, 1) for i in range(9)})
    assert gridded(large, nines) is None
    assert gridded(small, SPACE) is small
    both = Ensemble(
        (AdditiveGP(FactorGraph.singletons(9), Hyperparameters(np.ones(9), np.ones(9), 1e-3)), large), (0.25, 0.75)
    )
    part = gridded(both, nines)
    assert part.members == both.members[:1]
    assert part.weights == (1.0,)
    assert gridded(Ensemble((large,), (1.0,)), nines) is None
    assert len(data) == 25


@pytest.mark.parametrize("weights", [(0.5, 0.5), (0.0, 1.0)])
def test_a_mixture_is_searched_by_its_joint_bound(weights) -> None:
    rng = np.random.default_rng(3)
    dim = 9
    space = Space({f"x{i}": Float(0, 1) for i in range(dim)})
    X = rng.random((30, dim))
    data = Observations(X, -((X - 0.4) ** 2).sum(axis=1))
    small = AdditiveGP(FactorGraph.singletons(dim), Hyperparameters(np.full(dim, 0.5), np.full(dim, 0.1), 1e-4))
    large = AdditiveGP(FactorGraph(dim, (tuple(range(dim)),)), Hyperparameters(np.full(dim, 1.5), [1.0], 1e-4))
    gp = Ensemble((small, large), weights) if weights[0] else Ensemble((large,), (1.0,))
    task = Search(space, gp, data, 2.0, np.empty((0, dim)), {}, X[int(data.y.argmax())], lambda p: False)
    found = task.run(LocalEngine())
    assert found.source == "joint bound"
    assert found.upper_bound == np.inf
    joint = JointAcquisition(gp.condition(data), 2.0)
    assert joint.values(found.point[None])[0] >= joint.values(rng.random((5000, dim))).max()


def test_a_factor_over_many_categories_has_no_table() -> None:
    space = Space({f"c{i}": Categorical([str(k) for k in range(20)]) for i in range(6)})
    six = AdditiveGP(FactorGraph(6, (tuple(range(6)),)), Hyperparameters(np.ones(6), [1.0], 1e-3), kernel="categorical")
    assert gridded(six, space) is None
    small = Space({f"c{i}": Categorical(["a", "b"]) for i in range(6)})
    assert gridded(six, small) is six


def test_a_slice_is_judged_by_what_is_known_of_it() -> None:
    """Everything in the slice is worse than the best known: it promises something all the same."""
    gp, data = model(6)
    values = np.where(data.X[:, 3] == 0, data.y - 50, data.y)
    shifted = Observations(data.X, (values - values.mean()) / values.std())
    incumbent = shifted.X[int(shifted.y.argmax())].copy()
    incumbent[3] = 0.0
    task = joint_search(6, posterior=gp.condition(shifted), data=shifted, fixed={3: 0.0}, incumbent=incumbent)
    assert (task._incumbents[:, 3] == 0).all()
    assert task.optimistic_gain(task.best()[1][None])[0] > MIN_GAIN


def test_whole_numbers_move_a_little() -> None:
    space = Space({"a": Int(0, 1000), "b": Float(0, 1)})
    X = np.random.default_rng(0).random((5, 2)).round(3)
    gp = AdditiveGP(FactorGraph.singletons(2), Hyperparameters([0.3, 0.3], [1.0, 1.0], 1e-2))
    data = Observations(X, np.arange(5.0))
    task = JointSearch(
        space, gp.condition(data), data, 1.0, {}, X[4], [p.grid(9) for p in space.parameters], np.array([1]), bool, 5
    )
    near = task._scattered(np.random.default_rng(1), X[4], 200)[:, 0]
    assert len(np.unique(near)) > 30
    np.testing.assert_allclose(near * 1000, np.round(near * 1000), atol=1.0)


def waiting(seed: int, pending: np.ndarray, **changes) -> JointSearch:
    gp, data = model(seed)
    known = gp.condition(data)
    return joint_search(seed, posterior=known.with_pending(pending), pending=pending, before=known, **changes)


@pytest.mark.parametrize("seed", range(4))
def test_what_a_pending_point_promises_is_not_counted_for_its_twin(seed: int) -> None:
    first = joint_search(seed).best()[1]
    task = waiting(seed, first[None])
    twin = first.copy()
    twin[0] += 0.003 if twin[0] < 0.5 else -0.003
    failed = joint_search(seed, posterior=task.posterior)  # a failed evaluation narrows too, but no value is to come
    assert failed.optimistic_gain(twin[None])[0] > MIN_GAIN
    assert task.optimistic_gain(twin[None])[0] < MIN_GAIN
    other = task.best_alternative(twin)
    assert np.abs(other - first).max() > 0.01
    assert task.optimistic_gain(other[None])[0] >= MIN_GAIN or (task.optimistic_gain(task.starts) < MIN_GAIN).all()


def test_a_pending_point_of_another_slice_is_no_rival() -> None:
    first = joint_search(1).best()[1]
    inside, outside = {3: first[3]}, {3: (first[3] + 1) % 3}
    points = joint_search(1).starts
    assert (
        waiting(1, first[None], fixed=inside).optimistic_gain(points)
        < joint_search(1, fixed=inside).optimistic_gain(points)
    ).any()
    task = waiting(1, first[None], fixed=outside)
    np.testing.assert_array_equal(
        task.optimistic_gain(points), joint_search(1, fixed=outside, posterior=task.posterior).optimistic_gain(points)
    )


def test_a_champion_can_be_reached() -> None:
    """The best told breaks a known constraint: what is allowed is compared with what is allowed."""
    space = Space({"a": Float(0, 1), "b": Float(0, 1)}, ["a + b <= 1"])
    X = np.array([[0.9, 0.9], [0.2, 0.3], [0.5, 0.4], [0.1, 0.8]])
    data = Observations(X, np.array([9.0, 0.0, 1.0, 0.5]))
    gp = AdditiveGP(FactorGraph.singletons(2), Hyperparameters([0.3, 0.3], [1.0, 1.0], 1e-4))
    lines = [parameter.grid(9) for parameter in space.parameters]
    task = JointSearch(space, gp.condition(data), data, 1.0, {}, X[2], lines, np.array([0, 1]), lambda point: False, 5)
    assert space.region.allows(task._incumbents).all()
    assert task.optimistic_gain(task.best()[1][None])[0] > MIN_GAIN
