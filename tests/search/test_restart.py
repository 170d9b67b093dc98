"""Restarts: when they are due, and where they lead."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from numpy.typing import NDArray

from dechbo import Categorical, FactorGraph, Float, Int, Optimizer, Space
from dechbo.data.observations import Observations, Standardisation
from dechbo.gp import AdditiveGP, Hyperparameters, fit
from dechbo.search.excluded import AlsoExcluded
from dechbo.search.grid_search import Search
from dechbo.search.joint_search import JointSearch
from dechbo.search.options import SearchOptions
from dechbo.search.restart import (
    MAX_CUTS,
    MIN_PATIENCE,
    MIN_PROGRESS,
    NEGLIGIBLE_PROGRESS,
    REPEAT_DISTANCE,
    Restart,
    restart_probability,
    stagnation,
)
from dechbo.theory import TheoryOptions
from optimizer_cases import info_of

Array = NDArray[np.float64]

PLANE = Space({"a": Float(0, 1), "b": Float(0, 1)})
WHOLE = FactorGraph(2, ((0, 1),))
NARROW, WIDE = np.array([0.2, 0.2]), np.array([0.75, 0.7])
told_values = arrays(np.float64, st.integers(1, 40), elements=st.integers(-50, 50).map(float))
MANY = 10**6  # evaluations that a model asked for


def hill(X: Array, centre: Array, width: float) -> Array:
    height: Array = np.exp(-((X - centre) ** 2).sum(axis=-1) / width**2)
    return height


def two_hills(X: Array) -> Array:
    """A narrow hill, which the observations below cover, and a wide one that is far higher."""
    return hill(X, NARROW, 0.08) + 3 * hill(X, WIDE, 0.25)


def restart_on(
    function: Callable[[Array], Array],
    X: Array,
    *,
    space: Space = PLANE,
    kernel: str | Sequence[str] = "matern52",
    **changes: Any,
) -> Restart:
    """A restart given ``function`` at ``X``, by a model as narrow as the hill that it knows."""
    data, _ = Observations(X, function(X)).standardised()
    theta = Hyperparameters(np.full(space.dim, 0.08), np.ones(1), 1e-6)
    gp = AdditiveGP(FactorGraph(space.dim, (tuple(range(space.dim)),)), theta, kernel=kernel)
    settings: dict[str, Any] = {"excluded": (), "pending": np.empty((0, space.dim)), "fixed": {}, **changes}
    search = Search(space, gp, data, 2.0, incumbent=X[int(data.y.argmax())], **settings)
    return Restart(search.joint_search, search.known, search.unresolved, refit, MANY)


def refit(data: Observations, scaling: Standardisation) -> AdditiveGP:
    assert scaling.scale > 0
    kernels = ["matern52"] * min(data.dim, 2) + ["categorical"] * (data.dim - 2)
    return fit(FactorGraph(data.dim, (tuple(range(data.dim)),)), data, kernel=kernels)


def point_of(restart: Restart) -> Array:
    point = restart.point()
    assert point is not None
    return point


def around_the_narrow_hill(seed: int) -> Array:
    """Twelve points of the plane far from the wide hill's top, and thirty around the top of the narrow one."""
    rng = np.random.default_rng(seed)
    spread = np.array([x for x in rng.random((200, 2)) if np.linalg.norm(x - WIDE) > 0.35])[:12]
    return np.vstack([spread, NARROW + 0.02 * rng.standard_normal((30, 2)), NARROW])


# ------------------------------------------------------------------------------------------------ when


@given(told_values)
def test_stagnation_depends_on_no_unit(values: Array) -> None:
    assert stagnation(values) == stagnation(8 * values + 3)


@given(told_values)
def test_stagnation_counts_the_values_after_the_best(values: Array) -> None:
    """Whole numbers with quartiles at most 100 apart: any better one counts as progress."""
    assert stagnation(values) == len(values) - 1 - int(values.argmax())
    assert stagnation(np.append(values, values.max() + 1)) == 0


def test_gains_too_small_to_count_are_stagnation() -> None:
    start = np.linspace(-1.0, 0.0, 20)
    creep = MIN_PROGRESS / 10 * np.arange(1, 13)
    assert stagnation(np.concatenate([start, creep / 20])) == 12
    assert stagnation(np.concatenate([start, 100 * creep])) == 0


def test_evaluations_that_no_model_asked_for_are_not_stagnation() -> None:
    X = around_the_narrow_hill(0)[::-1]  # the best first: all the others are no progress
    task = restart_on(two_hills, X)
    shares = {k: restart_probability(min(stagnation(task._means), k), 2) for k in (0, MIN_PATIENCE - 1, MIN_PATIENCE)}
    assert list(shares.values()) == [0.0, 0.0, 0.5]
    assert not replace(task, n_modelled=0).is_due
    assert any(
        replace(task, n_modelled=MANY, unresolved=np.zeros((k, 2))).is_due for k in range(5)
    )  # each with a draw of its own


def test_an_ask_that_leaves_the_known_optimum_by_itself_needs_no_restart() -> None:
    task = restart_on(two_hills, around_the_narrow_hill(0))
    assert task.would_stay(NARROW + 0.005)
    assert not task.would_stay(WIDE)


def test_restarts_begin_after_the_patience_and_become_more_frequent() -> None:
    for dim in (2, 30):
        patience = max(MIN_PATIENCE, dim)
        shares = [restart_probability(k, dim) for k in range(10 * patience)]
        assert shares[:patience] == [0.0] * patience
        assert shares[patience] == 0.5
        assert (np.diff(shares[patience:]) > 0).all()
        assert shares[-1] < 1


def creeping(step: float) -> Restart:
    """Spread points, then gains of ``step`` interquartile ranges each, every point next to the one before."""
    spread = np.random.default_rng(0).random((16, 2))
    X = np.vstack([spread, NARROW + 0.004 * np.arange(MIN_PATIENCE + 1)[:, None]])
    low = np.linspace(-1.0, 0.0, 16)
    unit = float(np.subtract(*np.percentile(np.append(low, np.zeros(MIN_PATIENCE + 1)), [75, 25])))
    return restart_on(lambda X: np.append(low, unit * step * np.arange(MIN_PATIENCE + 1)), X)


def test_an_optimum_that_still_improves_a_little_is_not_exhausted() -> None:
    last = NARROW + 0.004 * MIN_PATIENCE + REPEAT_DISTANCE / 2
    assert not creeping(NEGLIGIBLE_PROGRESS).repeats(last)
    assert creeping(NEGLIGIBLE_PROGRESS / 100).repeats(last)


def test_only_immediate_neighbours_of_an_evaluation_repeat_it() -> None:
    task = creeping(NEGLIGIBLE_PROGRESS / 100)
    assert task.repeats(NARROW - 0.9 * REPEAT_DISTANCE)
    assert not task.repeats(NARROW - [0.0, 1.1 * REPEAT_DISTANCE])  # one coordinate apart is enough
    assert NARROW in task.without_repeats.excluded
    assert NARROW not in task.joint_search.excluded
    assert not replace(task, n_modelled=MIN_PATIENCE - 1).repeats(NARROW)


def test_an_exhausted_optimum_is_never_evaluated_again() -> None:
    """Without restarts, asks come within a thousandth of earlier evaluations."""
    least = {}
    for restarts in (False, True):
        optimizer = Optimizer(PLANE, graph=WHOLE, seed=0, search=SearchOptions(restarts=restarts))
        for _ in range(60):
            params = optimizer.ask()
            optimizer.tell(params, bowl(params))
        X = np.array([[e.params["a"], e.params["b"]] for e in optimizer.evaluations])
        least[restarts] = [float(np.abs(X[:k] - X[k]).max(axis=1).min()) for k in range(40, 60)]
    assert min(least[False]) < REPEAT_DISTANCE
    assert min(least[True]) >= REPEAT_DISTANCE


def test_in_a_discrete_space_only_excluded_points_count_as_repeats() -> None:
    space = Space({"a": Int(0, 5), "b": Int(0, 5)})
    X = np.array([space.encode({"a": a, "b": b}) for a in range(6) for b in range(6)])
    task = restart_on(lambda X: -X.sum(axis=1), X, space=space)  # the first is the best
    assert not task.repeats(X[0])
    assert task.without_repeats is task.joint_search


def test_the_same_numbers_in_another_category_are_no_repeat() -> None:
    space = Space({"a": Float(0, 1), "b": Float(0, 1), "c": Categorical(["p", "q"])})
    first, second = (space.encode({"a": 0.2, "b": 0.2, "c": c}) for c in "pq")
    X = np.vstack([first, np.column_stack([np.random.default_rng(0).random((20, 2)), np.full(20, first[2])])])
    values = np.append(1.0, np.linspace(-1.0, 0.0, 20))  # the first is the best
    task = restart_on(lambda X: values, X, space=space, kernel=["matern52", "matern52", "categorical"])
    assert task.repeats(first)
    assert not task.repeats(second)


# ----------------------------------------------------------------------------------------------- where


def best_beyond(task: Restart) -> tuple[int, list[int]]:
    means = task._means
    ranking = np.argsort(-means, kind="stable")
    return int(ranking[0]), task._beyond([int(ranking[0])], ranking)


@pytest.mark.parametrize("seed", range(5))
def test_points_belong_to_the_hill_on_which_they_lie(seed: int) -> None:
    rng = np.random.default_rng(seed)
    X = np.vstack([around_the_narrow_hill(seed), WIDE, WIDE + 0.03 * rng.standard_normal((6, 2))])
    task = restart_on(two_hills, X)
    top = int(task._means.argmax())
    on_wide = np.linalg.norm(X - WIDE, axis=1) < 0.12
    on_narrow = np.linalg.norm(X - NARROW, axis=1) < 0.05
    assert on_wide[top]
    assert task._belong_to(top, np.flatnonzero(on_wide)).all()
    assert not task._belong_to(top, np.flatnonzero(on_narrow)).any()
    assert on_narrow[best_beyond(task)[1]].all()  # the best that do not belong to the wide hill


@pytest.mark.parametrize("seed", range(5))
def test_a_known_optimum_is_cut_off_at_the_best_point_outside_it(seed: int) -> None:
    X = around_the_narrow_hill(seed)
    task = restart_on(two_hills, X)
    peak, beyond = best_beyond(task)
    assert np.linalg.norm(X[peak] - NARROW) < 0.01
    assert (np.linalg.norm(X[beyond] - NARROW, axis=1) > 0.1).all()
    height = float(task._means[beyond[0]])
    cut = task._cut_at(height, beyond)
    assert cut.data.y.max() == cut.data.y[peak] == pytest.approx(cut.data.y[beyond[0]], abs=1e-3)
    assert NARROW + 0.01 in cut.excluded  # next to what was cut off
    assert X[beyond[0]] + 0.001 not in cut.excluded
    np.testing.assert_array_equal(cut.incumbents, X[beyond])


@pytest.mark.parametrize("seed", range(5))
def test_a_restart_leaves_the_known_hill(seed: int) -> None:
    X = around_the_narrow_hill(seed)
    point = point_of(restart_on(two_hills, X))
    nearest = X[int(np.linalg.norm(X - point, axis=1).argmin())]
    assert np.linalg.norm(nearest - NARROW) > 0.1


def test_repeated_restarts_climb_the_other_hill() -> None:
    X = around_the_narrow_hill(0)
    for _ in range(8):
        X = np.vstack([X, point_of(restart_on(two_hills, X))])
    assert np.linalg.norm(X[-8:] - WIDE, axis=1).min() < 0.1


def test_with_no_other_optimum_everything_but_the_lowest_value_is_cut_off() -> None:
    """One hill, observed on a grid: every observation belongs to it, and its neighbourhood is excluded."""
    grid = np.linspace(0.05, 0.95, 7)
    X = np.array([[a, b] for a in grid for b in grid])
    task = restart_on(lambda X: -((X - 0.5) ** 2).sum(axis=-1), X)
    task = replace(task, known=fit(WHOLE, task.joint_search.data).condition(task.joint_search.data))
    assert best_beyond(task)[1] == []
    point = task.point()
    assert point is None or np.linalg.norm(point - 0.5) > 0.4


def test_two_hills_that_are_exhausted_are_both_cut_off(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dechbo.search.restart.MIN_RESTART_GAIN", 1e9)  # no gain is ever large enough
    heights: list[float] = []
    cut_at = Restart._cut_at

    def recorded(self: Restart, height: float, beyond: list[int]) -> JointSearch:
        heights.append(height)
        return cut_at(self, height, beyond)

    monkeypatch.setattr(Restart, "_cut_at", recorded)
    X = np.vstack([around_the_narrow_hill(0), WIDE])
    task = restart_on(two_hills, X)
    task.point()
    assert 2 <= len(heights) <= MAX_CUTS
    assert (np.diff(heights) < 0).all()
    assert heights[0] == pytest.approx(task._means[np.linalg.norm(X - NARROW, axis=1) < 0.05].max())


def test_excluded_points_are_not_suggested() -> None:
    X = around_the_narrow_hill(1)
    point = point_of(restart_on(two_hills, X, excluded=AlsoExcluded((), lambda p: bool(p[0] < 0.9))))
    assert point[0] >= 0.9
    assert restart_on(two_hills, X, excluded=AlsoExcluded((), lambda p: True)).point() is None


def test_points_that_break_a_known_constraint_are_neither_optima_nor_incumbents(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    space = Space({"a": Float(0, 1), "b": Float(0, 1)}, constraints=["a + b <= 1.2"])
    X = np.vstack([around_the_narrow_hill(2), WIDE])  # the top of the wide hill was told, and is not allowed
    task = restart_on(two_hills, X, space=space, excluded=AlsoExcluded((), lambda p: not space.allows(p)))
    cuts: list[tuple[float, list[int]]] = []
    cut_at = Restart._cut_at

    def recorded(self: Restart, height: float, beyond: list[int]) -> JointSearch:
        cuts.append((height, beyond))
        return cut_at(self, height, beyond)

    monkeypatch.setattr(Restart, "_cut_at", recorded)
    assert space.allows(point_of(task))
    assert len(cuts) == 1
    height, beyond = cuts[0]
    assert space.region.allows(X[beyond]).all()
    assert height < task._means[:-1].max()  # the allowed optimum is cut off, not the forbidden one


def test_nothing_lies_between_two_categories() -> None:
    """Two equal hills, one per category: no point on the path between them has a value between the two codes."""
    space = Space({"a": Float(0, 1), "b": Float(0, 1), "c": Categorical(["p", "q"])})
    codes = [space.encode({"a": 0.5, "b": 0.5, "c": c})[2] for c in "pq"]
    X = np.array([[*x, code] for x in around_the_narrow_hill(3) for code in codes])
    task = restart_on(
        lambda X: hill(X[:, :2], NARROW, 0.3), X, space=space, kernel=["matern52", "matern52", "categorical"]
    )
    peak = int(task.joint_search.data.y.argmax())
    opposite = np.flatnonzero((X[:, :2] == X[peak, :2]).all(axis=1) & (X[:, 2] != X[peak, 2]))
    assert task._belong_to(peak, opposite).all()  # the two are equal, and so is every point on the path


def test_restarts_keep_away_from_pending_points() -> None:
    X = around_the_narrow_hill(0)
    first = point_of(restart_on(two_hills, X))
    second = point_of(restart_on(two_hills, X, pending=first[None]))
    assert np.linalg.norm(second - first) > 0.01


# ---------------------------------------------------------------------------------------- as a user sees it


def spike(params: dict[str, Any], centre: float = 0.3) -> float:
    """A local optimum that is soon exhausted on nearly flat ground, and a far better one that is hidden."""
    x = np.array([params["a"], params["b"]])
    return -float(hill(x, np.full(2, centre), 0.1) + 5 * hill(x, np.array([0.85, 0.6]), 0.06) + 0.1 * x[0])


def bowl(params: dict[str, Any]) -> float:
    return float((params["a"] - 0.3) ** 2 + (params["b"] - 0.6) ** 2)


def near_the_optimum(optimizer: Optimizer, latest: int) -> int:
    points = np.array([[e.params["a"], e.params["b"]] for e in optimizer.evaluations[-latest:]])
    return int((np.abs(points - 0.3).max(axis=1) < 0.05).sum())


def test_restarts_spend_less_of_the_budget_on_an_exhausted_optimum() -> None:
    sources: dict[bool, list[str]] = {}
    spent: dict[bool, int] = {}
    for restarts in (True, False):
        optimizer = Optimizer(PLANE, graph=WHOLE, seed=0, search=SearchOptions(restarts=restarts))
        for x in np.linspace(0.24, 0.36, 5):  # the local optimum is known in detail from the start
            for y in np.linspace(0.24, 0.36, 5):
                optimizer.tell({"a": x, "b": y}, spike({"a": x, "b": y}))
        sources[restarts] = []
        for _ in range(25):
            params = optimizer.ask()
            optimizer.tell(params, spike(params))
            sources[restarts].append(info_of(optimizer).source)
        spent[restarts] = near_the_optimum(optimizer, 25)
    assert "restart" in sources[True]
    assert "restart" not in sources[False]
    assert spent[True] < spent[False]


def test_restarts_are_the_same_after_a_resume(tmp_path: Path) -> None:
    optimizer = Optimizer(PLANE, graph=WHOLE, seed=1)
    for _ in range(28):
        params = optimizer.ask()
        optimizer.tell(params, bowl(params))  # soon at its bottom
    optimizer.save(tmp_path / "run.json")
    other = Optimizer.load(tmp_path / "run.json")
    sources = []
    for _ in range(6):
        params = optimizer.ask()
        assert other.ask() == params
        sources.append(info_of(optimizer).source)
        for each in (optimizer, other):
            each.tell(params, bowl(params))
    assert "restart" in sources


def test_no_restart_in_a_slice_nor_where_it_is_switched_off(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Restart, "is_due", True)
    monkeypatch.setattr(Restart, "would_stay", lambda self, point: True)
    monkeypatch.setattr(Restart, "point", lambda self: np.array([0.123, 0.456]))
    asked = {}
    options: dict[str, dict[str, Any]] = {
        "default": {},
        "without restarts": {"search": SearchOptions(restarts=False)},
        "theory": {"theory": TheoryOptions(beta="theory")},
    }
    for name, more in options.items():
        optimizer = Optimizer(PLANE, graph=WHOLE, seed=1, **more)
        for k in range(12):
            optimizer.tell({"a": k / 11, "b": (5 * k % 12) / 11}, float(k * k))
        sliced = optimizer.ask(fixed={"a": 0.25})
        asked[name] = (sliced["b"] == 0.456, optimizer.ask()["b"] == 0.456)
    assert asked == {"default": (False, True), "without restarts": (False, False), "theory": (False, False)}
