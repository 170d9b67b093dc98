"""The initial design: when it ends, and what it suggests."""

from __future__ import annotations

import pytest

from dechbo import Categorical, Float, Int, Space
from dechbo.data.evaluation import Evaluation
from dechbo.data.history import History
from dechbo.errors import SpaceExhausted
from dechbo.optimizer.design import initial_point, needs_initial_point, suggest_initially
from optimizer_cases import box, problem_in, told


def test_the_initial_design_ends_with_enough_points_and_one_success() -> None:
    space, history = box(2), History(box(2))
    problem = problem_in(space)
    for outcome in (None, None, None):
        history.tell(Evaluation.of({"x0": 0.1, "x1": 0.1}, outcome))
    assert needs_initial_point(problem, history)  # enough points, no success
    history.tell(Evaluation.of({"x0": 0.2, "x1": 0.1}, 1.0))
    assert not needs_initial_point(problem, history)
    assert needs_initial_point(problem_in(space, n_initial=5), history)
    history.external.append({"x0": 0.5, "x1": 0.5})
    assert not needs_initial_point(problem_in(space, n_initial=5), history)  # a pending point counts


def test_an_exhausted_space_has_no_initial_point() -> None:
    space = Space({"n": Int(0, 1)})
    history = History(space)
    for _ in range(2):
        point = initial_point(problem_in(space), history, {})
        assert point not in problem_in(space).excluded(history)
        history.tell(Evaluation.of(space.decode(point), None))
    with pytest.raises(SpaceExhausted, match="neither evaluated nor pending"):
        initial_point(problem_in(space), history, {})


def test_a_complete_design_suggests_nothing() -> None:
    space = box(2)
    problem = problem_in(space)
    for n, expected in ((0, "initial design"), (2, "initial design"), (3, None)):
        suggested = suggest_initially(problem, told(space, n), {1: 0.25})
        assert (None if suggested is None else suggested.info.source) == expected
        assert suggested is None or suggested.point[1] == 0.25


def test_a_branch_that_the_design_has_missed_comes_next() -> None:
    space = Space({"kind": Categorical(["a", "b"]), "x": Float(0, 1, when={"kind": "b"})})
    history = History(space)
    for _ in range(3):
        history.tell(Evaluation.of({"kind": "a"}, 1.0))
    suggested = suggest_initially(problem_in(space), history, {})
    assert suggested is not None
    assert space.decode(suggested.point)["kind"] == "b"
    assert suggest_initially(problem_in(space), history, {0: 0.0}) is None  # the other branch is fixed
