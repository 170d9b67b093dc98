"""History: nothing told is lost, pending points, the incumbent, and a round trip through plain data."""

from __future__ import annotations

import itertools
import json
import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dechbo import Categorical, Float, Int, Space
from dechbo.data.evaluation import Evaluation
from dechbo.data.history import RESOLUTION, History, same_coordinates
from dechbo.errors import ParameterError, StudyFileError

SPACE = Space({"x": Float(0, 1), "y": Float(1e-3, 1, log=True), "n": Int(1, 6), "c": Categorical(["a", "b"])})
FINITE = Space({"n": Int(0, 3), "c": Categorical(["a", "b"])})


def params_of(rng: np.random.Generator, space: Space = SPACE) -> dict[str, Any]:
    return space.decode(space.from_uniform(rng.random(space.dim)))


def history_of(seed: int) -> History:
    """Asks and tells in random order, with failures, noise, constraints, fixed parameters and other processes."""
    rng = np.random.default_rng(seed)
    history = History(SPACE)
    for k in range(int(rng.integers(0, 12))):
        params = params_of(rng)
        if rng.random() < 0.7:
            history.ask(params, {"n": params["n"]} if rng.random() < 0.3 else {}, modelled=k > 3)
        if rng.random() < 0.7:
            value = None if rng.random() < 0.2 else float(rng.normal())
            limits = {"size": float(rng.normal())} if rng.random() < 0.5 else None
            history.tell(Evaluation.of(params, value, 0.1 if rng.random() < 0.3 else None, limits))
    history.external = [params_of(rng) for _ in range(int(rng.integers(0, 3)))]
    return history


@settings(max_examples=30)
@given(st.integers(0, 2**32 - 1))
def test_a_history_survives_json(seed: int) -> None:
    history = history_of(seed)
    again = History.from_json(SPACE, json.loads(json.dumps(history.to_json())))
    assert again.to_json() == history.to_json()
    assert again.evaluations == history.evaluations
    np.testing.assert_array_equal(again.occupied, history.occupied)
    assert [(a.params, a.n_evaluations, a.fixed, a.modelled, a.answered) for a in again.asked] == [
        (a.params, a.n_evaluations, a.fixed, a.modelled, a.answered) for a in history.asked
    ]
    for sign in (-1.0, 1.0):
        assert again.best(sign) == history.best(sign)


def test_an_ask_that_knew_more_evaluations_than_there_are_is_refused() -> None:
    history = History(FINITE)
    history.ask({"n": 0, "c": "a"}, {}, modelled=False)
    content = history.to_json()
    content["asked"][0]["n_evaluations"] = 1
    with pytest.raises(StudyFileError, match="an ask after 1 of 0 evaluations"):
        History.from_json(FINITE, content)


@settings(max_examples=30)
@given(st.integers(0, 2**32 - 1))
def test_evaluations_are_numbered_in_the_order_of_telling(seed: int) -> None:
    history = history_of(seed)
    assert [evaluation.number for evaluation in history.evaluations] == list(range(len(history.evaluations)))
    assert len(history.successes) + len(history.failures) == len(history.evaluations)
    for evaluation, point in zip(history.evaluations, history.points, strict=True):
        np.testing.assert_array_equal(point, SPACE.encode(evaluation.params))


def test_a_point_is_pending_until_it_is_told_or_forgotten() -> None:
    history = History(FINITE)
    first, second, third = ({"n": n, "c": "a"} for n in range(3))
    history.ask(first, {}, modelled=False)
    history.ask(second, {}, modelled=False)
    history.external = [third]
    np.testing.assert_array_equal(history.pending, [FINITE.encode(p) for p in (first, second, third)])
    history.tell(Evaluation.of(first, 1.0))
    assert history.forget(third)
    assert not history.forget(third)
    np.testing.assert_array_equal(history.pending, [FINITE.encode(second)])
    np.testing.assert_array_equal(history.occupied, [FINITE.encode(first), FINITE.encode(second)])


def test_two_pending_asks_of_one_point_are_answered_one_by_one() -> None:
    history = History(FINITE)
    for _ in range(2):
        history.ask({"n": 0, "c": "a"}, {}, modelled=False)
    history.tell(Evaluation.of({"n": 0, "c": "a"}, 1.0))
    assert len(history.pending) == 1


def test_the_incumbent_is_the_best_feasible_point_or_the_best_of_all() -> None:
    history = History(SPACE)
    points = [{"x": x, "y": 0.1, "n": 2, "c": "a"} for x in (0.1, 0.5, 0.9)]
    for params, value, limit in zip(points, (5.0, 3.0, 1.0), (0.4, 2.0, 1.0), strict=True):
        history.tell(Evaluation.of(params, value, None, {"size": limit}))
    assert history.best(1.0) is None
    np.testing.assert_array_equal(history.incumbent(1.0), history.points[0])
    np.testing.assert_array_equal(history.incumbents(1.0, 2), [history.points[0], history.points[2]])  # least excess
    history.tell(Evaluation.of({**points[0], "n": 3}, -7.0, None, {"size": -1.0}))
    best = history.best(1.0)
    assert best is not None
    assert best.number == 3
    np.testing.assert_array_equal(history.incumbent(1.0), history.points[3])
    np.testing.assert_array_equal(history.incumbents(1.0, 2), [history.points[3]])


def test_the_first_of_equals_is_the_best_and_the_sign_turns_the_order() -> None:
    history = History(FINITE)
    for n, value in enumerate((2.0, 1.0, 1.0, 2.0)):
        history.tell(Evaluation.of({"n": n, "c": "a"}, value))
    assert [best.number for sign in (1.0, -1.0) if (best := history.best(sign)) is not None] == [0, 1]


def test_a_point_that_breaks_a_known_constraint_is_not_feasible() -> None:
    space = Space({"x": Float(0, 1), "y": Float(0, 1)}, ["x + y <= 1"])
    history = History(space)
    history.tell(Evaluation.of({"x": 0.9, "y": 0.9}, 9.0))
    history.tell(Evaluation.of({"x": 0.1, "y": 0.2}, 1.0))
    assert [evaluation.number for evaluation in history.feasible] == [1]


@settings(max_examples=25)
@given(st.integers(0, 2**32 - 1), st.booleans(), st.booleans())
def test_remaining_points_are_those_of_an_enumeration(seed: int, constrained: bool, sliced: bool) -> None:
    rng = np.random.default_rng(seed)
    space = Space({"n": Int(0, 4), "m": Int(0, 3), "c": Categorical(["a", "b"])}, ["n + m <= 4"] if constrained else [])
    history = History(space)
    everything = [dict(zip("nmc", values, strict=True)) for values in itertools.product(range(5), range(4), "ab")]
    for k in rng.integers(0, len(everything), 8):  # some twice
        if rng.random() < 0.5:
            history.tell(Evaluation.of(everything[k], 1.0))
        else:
            history.ask(everything[k], {}, modelled=False)
    fixed = {2: 1.0} if sliced else {}
    points = np.array([space.encode(params) for params in everything])
    inside = points[[space.allows(p) and all(p[i] == x for i, x in fixed.items()) for p in points]]
    free = [p for p in inside if not any((p == q).all() for q in history.occupied)]
    assert history.remaining(fixed) == (len(inside), len(free))


def test_a_continuous_space_never_ends() -> None:
    assert History(SPACE).remaining({}) == (math.inf, math.inf)


def test_a_replayed_history_continues_the_one_it_extends() -> None:
    rng = np.random.default_rng(0)
    told = [Evaluation.of(params_of(rng), None if k == 1 else float(k)) for k in range(6)]
    first, _ = History(SPACE).replayed(told[:4], [], n_initial=3)
    longer, continues = first.replayed(told, [params_of(rng)], n_initial=3)
    assert continues
    assert [asked.n_evaluations for asked in longer.asked] == list(range(6))
    assert [asked.modelled for asked in longer.asked] == [False] * 3 + [True] * 3
    assert all(asked.answered for asked in longer.asked)
    assert len(longer.pending) == 1
    assert all(a is b for a, b in zip(first.points, longer.points[:4], strict=True))  # not encoded again
    other, continues = longer.replayed([Evaluation.of(params_of(rng), 1.0)], [], n_initial=3)
    assert not continues
    assert len(other.evaluations) == 1


def test_a_replayed_pending_point_outside_the_space_is_refused() -> None:
    with pytest.raises(ParameterError, match="n"):
        History(FINITE).replayed([], [{"n": 9, "c": "a"}], n_initial=1)


def test_continuous_coordinates_are_the_same_within_the_resolution() -> None:
    point = SPACE.encode({"x": 0.5, "y": 0.1, "n": 2, "c": "a"})
    near, far = point.copy(), point.copy()
    near[:2] += 0.9 * RESOLUTION
    far += 1.1 * RESOLUTION
    assert same_coordinates(SPACE, np.array([near]), point).all()
    assert not same_coordinates(SPACE, np.array([far]), point).any()


def test_there_is_a_point_for_every_evaluation_at_any_moment() -> None:
    """Another thread may read in the middle of a tell."""
    history = History(SPACE)
    points = history.points

    class Watched(list[Evaluation]):
        def append(self, evaluation: Evaluation) -> None:
            super().append(evaluation)
            assert len(points) >= len(self)

    history.evaluations = Watched()
    history.tell(Evaluation.of({"x": 0.5, "y": 0.1, "n": 2, "c": "a"}, None))
    assert len(history.failures) == 1


def test_of_equally_infeasible_points_the_best_come_first() -> None:
    """None satisfies the known constraint, and nothing else was reported."""
    space = Space({"x": Float(0, 1), "y": Float(0, 1)}, ["x + y <= 0.1"])
    history = History(space)
    for k, value in enumerate((4.0, 2.0, 3.0, 1.0)):
        history.tell(Evaluation.of({"x": 0.9, "y": 0.1 * k}, value))
    np.testing.assert_allclose(history.incumbents(-1.0, 3)[:, 1], [0.3, 0.1, 0.2])
    np.testing.assert_allclose(history.incumbents(1.0, 1)[0], history.incumbent(1.0))
