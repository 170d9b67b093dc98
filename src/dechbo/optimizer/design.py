"""The initial design of a run: points that no model chooses."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from dechbo.data.history import History
from dechbo.errors import SpaceExhausted
from dechbo.optimizer.info import AskInfo
from dechbo.optimizer.problem import SearchProblem, Suggested
from dechbo.search.draws import bounded_draws
from dechbo.search.initial import initial_points

Array = NDArray[np.float64]


def suggest_initially(problem: SearchProblem, history: History, fixed: Mapping[int, float]) -> Suggested | None:
    """The next point of the initial design, or of a branch that it has missed; None if it is complete."""
    branch: dict[int, float] = {}
    if not needs_initial_point(problem, history):
        branch = unseen_branch(problem, history, fixed)
        if not branch:
            return None
    info = AskInfo("initial design", 0.0, switched_off=problem.all_switched_off(history))
    return Suggested(initial_point(problem, history, {**fixed, **branch}), info)


def needs_initial_point(problem: SearchProblem, history: History) -> bool:
    """Whether the initial design is unfinished: too few points, or no success yet."""
    return not history.successes or len(history.evaluations) + len(history.pending) < problem.n_initial


def unseen_branch(problem: SearchProblem, history: History, fixed: Mapping[int, float]) -> dict[int, float]:
    """The choices of a branch that the initial design has missed: a model has nothing to say about its parameters.

    At most as many such asks as the initial design has.
    """
    conditions, occupied = problem.space.conditions, history.occupied
    if not conditions or len(occupied) >= 2 * problem.n_initial:
        return {}
    branch = conditions.unseen(occupied, fixed)
    return branch if branch and history.remaining({**fixed, **branch})[1] > 0 else {}


def initial_point(problem: SearchProblem, history: History, fixed: Mapping[int, float]) -> Array:
    """The next point of the initial design that is not excluded."""
    excluded = problem.excluded(history)
    drawn = len(history.evaluations) + len(history.pending)
    points = initial_points(problem.space, problem.builder.seed, drawn, len(history.asked), fixed)
    for point in bounded_draws(problem.space, points, len(excluded.points) + drawn):
        if point not in excluded:
            return point
    raise SpaceExhausted("no point is left that is neither evaluated nor pending and that the constraints allow")
