"""From grids to points: zoom, polish, excluded points."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest

from dechbo import Categorical, FactorGraph, Float, Int, Space
from dechbo.acquisition import EnsembleUCB
from dechbo.data.observations import Observations
from dechbo.gp import AdditiveGP, Hyperparameters
from dechbo.maxsum import Exact
from dechbo.search.engine import LocalEngine
from dechbo.search.grid_search import FactorSearch
from dechbo.search.grids import Granularity, base_candidates
from search_cases import AlsoExcluded
from strategies import relabelled_graph

SPACE = Space({"a": Float(0, 1), "b": Float(0, 1), "k": Int(0, 6), "c": Categorical(["p", "q", "r"])})
GRAPH = FactorGraph(4, ((0, 1), (1, 2), (2, 3), (0,)))
KERNELS = ("matern52", "matern52", "matern52", "categorical")
THETA = Hyperparameters(np.array([0.3, 0.2, 0.4, 1.0]), np.array([0.5, 0.4, 0.3, 0.2]), 1e-3)


def model(seed: int, n: int = 25) -> tuple[AdditiveGP, Observations]:
    rng = np.random.default_rng(seed)
    X = np.array([SPACE.from_uniform(u) for u in rng.random((n, 4))])
    gp = AdditiveGP(GRAPH, THETA, kernel=KERNELS)
    return gp, Observations(X, rng.standard_normal(n))


def search(seed: int, **changes: Any) -> FactorSearch:
    gp, data = model(seed)
    settings: dict[str, Any] = {
        "space": SPACE,
        "gp": gp,
        "data": data,
        "beta": 2.0,
        "pending": np.empty((0, 4)),
        "fixed": {},
        "incumbent": data.X[int(data.y.argmax())],
        "excluded": (),
        **changes,
    }
    return FactorSearch(**settings)


@pytest.mark.parametrize("seed", range(6))
def test_the_point_is_a_global_maximum_up_to_the_grid(seed: int) -> None:
    """Oracle: the acquisition at 20,000 random points of the space is nowhere higher than at the suggestion."""
    task = search(seed)
    suggestion = task.run(LocalEngine(Exact()))
    rng = np.random.default_rng(100 + seed)
    rivals = np.array([SPACE.from_uniform(u) for u in rng.random((20_000, 4))])
    at_point = task.acquisition.values(suggestion.point[None])[0]
    assert at_point == pytest.approx(suggestion.polished_value, rel=1e-9)
    assert at_point >= task.acquisition.values(rivals).max() - 1e-6
    assert suggestion.polished_value >= suggestion.maximum.value


@pytest.mark.parametrize("seed", range(4))
def test_zooming_raises_the_acquisition(seed: int) -> None:
    coarse = search(seed, granularity=Granularity(work=0.0, polish_steps=0))
    engine = LocalEngine(Exact())
    grid = base_candidates(SPACE, GRAPH, len(coarse.data), {}, coarse.granularity)
    base = engine.suggest(coarse.gp, coarse.data, coarse.beta, grid)
    zoomed = coarse.run(engine)
    assert zoomed.maximum.value >= base.value
    assert zoomed.polished_value == zoomed.maximum.value


def test_the_incumbent_is_among_the_candidates() -> None:
    task = search(0)
    zoomed = task._zoomed(np.array([0.5, 0.5, 0.5, 1.0]), np.full(4, 0.1))
    assert all(value in grid for value, grid in zip(task.incumbent, zoomed, strict=True))
    assert all(value in grid for value, grid in zip([0.5, 0.5, 0.5, 1.0], zoomed, strict=True))


def test_an_excluded_point_is_replaced_by_the_best_other_one() -> None:
    """On a small finite space the answer is the enumerated maximum over the free points."""
    space = Space({"a": Int(0, 4), "b": Int(0, 4), "c": Categorical(["p", "q"])})
    rng = np.random.default_rng(3)
    everything = np.array(list(itertools.product(*(p.grid(5) for p in space.parameters))))
    X = everything[rng.choice(50, 12, replace=False)]
    gp = AdditiveGP(
        FactorGraph(3, ((0, 1), (1, 2))),
        Hyperparameters(np.array([0.5, 0.5, 1.0]), np.ones(2), 1e-4),
        kernel=("matern52", "matern52", "categorical"),
    )
    data = Observations(X, rng.standard_normal(12))
    known = {point.tobytes() for point in X}
    excluded = AlsoExcluded((), lambda point: point.tobytes() in known)
    for _ in range(20):
        task = FactorSearch(space, gp, data, 1.0, np.empty((0, 3)), {}, X[0], excluded)
        suggestion = task.run(LocalEngine(Exact()))
        free = np.array([p for p in everything if p not in excluded])
        assert suggestion.polished_value == pytest.approx(task.acquisition.values(free).max(), rel=1e-9)
        assert suggestion.maximum.upper_bound >= suggestion.polished_value - 1e-12
        known.add(suggestion.point.tobytes())


def test_an_excluded_neighbourhood_of_a_continuous_space_is_left() -> None:
    task = search(2)
    first = task.run(LocalEngine()).point
    away = search(2, excluded=AlsoExcluded((), lambda p: bool(np.abs(p - first).max() < 1e-3))).run(LocalEngine())
    assert np.abs(away.point - first).max() >= 1e-3
    assert away.polished_value <= task.run(LocalEngine()).polished_value


def test_fixed_and_excluded_are_respected() -> None:
    task = search(5, fixed={1: 0.25, 3: 1.0}, excluded=AlsoExcluded((), lambda p: bool(p[0] < 0.9)))
    point = task.run(LocalEngine()).point
    assert (point[1], point[3]) == (0.25, 1.0)
    assert point[0] >= 0.9


@pytest.mark.parametrize("dim", [9, 30])
def test_a_factor_too_large_for_a_table_is_climbed_from_the_incumbent(dim: int) -> None:
    space = Space({f"x{i}": Float(0, 1) for i in range(dim)})
    X = np.random.default_rng(0).random((20, dim))
    data = Observations(X, -((X - 0.4) ** 2).sum(axis=1)).standardised()[0]
    gp = AdditiveGP(FactorGraph(dim, (tuple(range(dim)),)), Hyperparameters(np.full(dim, 1.5), np.ones(1), 1e-4))
    task = FactorSearch(space, gp, data, 2.0, np.empty((0, dim)), {}, X[int(data.y.argmax())], ())
    assert task.gridded is None
    found = task.run(LocalEngine())
    assert found.upper_bound == np.inf
    assert found.polished_value == pytest.approx(task.acquisition.values(found.point[None])[0])
    assert found.polished_value > task.acquisition.values(task.incumbent[None])[0]


def test_pending_points_push_the_search_away() -> None:
    task = search(4)
    first = task.run(LocalEngine())
    again = search(4, pending=first.point[None]).run(LocalEngine())
    there = EnsembleUCB.of(task.posterior.with_pending(first.point[None]), task.beta)
    assert there.values(first.point[None])[0] < first.polished_value
    assert not np.allclose(again.point, first.point)


@pytest.mark.parametrize("seed", range(3))
def test_relabelling_the_variables_relabels_the_suggestion(seed: int) -> None:
    gp, data = model(seed)
    order = np.array([3, 1, 0, 2])  # variable i becomes variable new[i]
    new = np.argsort(order)
    names = list(SPACE.names)
    space = Space({names[i]: SPACE[names[i]] for i in order})
    theta = gp.hyperparameters
    other = AdditiveGP(
        relabelled_graph(GRAPH, new.tolist()),
        Hyperparameters(theta.lengthscales[order], theta.variances, theta.noise),
        kernel=[KERNELS[i] for i in order],
    )
    turned = Observations(data.X[:, order], data.y)
    original = search(seed).run(LocalEngine(Exact()))
    relabelled = search(seed, space=space, gp=other, data=turned, incumbent=data.X[int(data.y.argmax())][order]).run(
        LocalEngine(Exact())
    )
    assert relabelled.maximum.value == pytest.approx(original.maximum.value, rel=1e-10)
    assert np.allclose(relabelled.point, original.point[order], atol=1e-6)


def test_very_large_finite_spaces_do_not_overflow() -> None:
    """Warnings are errors here."""
    space = Space({f"n{i}": Int(0, 10**9) for i in range(40)}, ["n0 + n1 <= 5"])
    X = np.zeros((3, 40))
    X[1:, 5:] = np.random.default_rng(0).random((2, 35)).round(1)
    gp = AdditiveGP(FactorGraph.singletons(40), Hyperparameters(np.ones(40), np.ones(40), 1e-2))
    task = FactorSearch(space, gp, Observations(X, np.arange(3.0)), 1.0, np.empty((0, 40)), {}, X[2], ())
    assert np.isfinite(task.best_not_excluded(X[2])[0])
    wide = Space({f"n{i}": Int(0, 2**62) for i in range(40)}, [f"n{i} - n{i + 1} <= 5" for i in range(39)])
    assert wide.region.count({}) == np.inf
