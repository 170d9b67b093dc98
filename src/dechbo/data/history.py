"""The history of a run: every evaluation and every point asked for. Once told, never lost."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dechbo.data.evaluation import Asked, Evaluation, Params
from dechbo.errors import StudyFileError
from dechbo.space import Space

Array = NDArray[np.float64]

RESOLUTION = 1e-4  # points closer than this in every continuous coordinate count as the same
SAME_POINT = 1e-9  # coordinates of the unit cube that differ by less differ by rounding only


class History:
    """Evaluations and points asked for, in order, with their coordinates in the unit cube."""

    def __init__(self, space: Space) -> None:
        self.space = space
        self.evaluations: list[Evaluation] = []
        self.points: list[Array] = []  # of the evaluations, in the same order
        self.asked: list[Asked] = []
        self.external: list[Params] = []  # pending points of other processes
        self.retracted: list[Evaluation] = []  # taken back: kept, but part of nothing else

    def replayed(
        self, evaluations: Sequence[Evaluation], pending: Sequence[Mapping[str, Any]], n_initial: int
    ) -> tuple[History, bool]:
        """The history in which each evaluation was asked for as soon as the one before it was told.

        The second value says whether it continues this history.
        """
        numbered = [replace(evaluation, number=n) for n, evaluation in enumerate(evaluations)]
        same = len(self.evaluations) <= len(numbered) and self.evaluations == numbered[: len(self.evaluations)]
        known = self.points if same else []  # encoding them again would cost time
        history = History(self.space)
        history.evaluations = numbered
        history.points = known + [self.space.encode(evaluation.params) for evaluation in numbered[len(known) :]]
        first = next((n for n, evaluation in enumerate(numbered) if not evaluation.failed), len(numbered))
        history.asked = [
            Asked(dict(evaluation.params), point, n, {}, modelled=n > first and n >= n_initial, answered=True)
            for n, (evaluation, point) in enumerate(zip(numbered, history.points, strict=True))
        ]
        for params in pending:
            self.space.encode(params)
        history.external = [dict(params) for params in pending]
        history.retracted = list(self.retracted)
        return history, same

    def revised(self, params: Mapping[str, Any], new: Evaluation | None, n_initial: int) -> History | None:
        """The history whose latest evaluation at ``params`` is ``new``, or gone if that is None; None if there is none.

        As if it had been told so from the start; what it replaces is kept in ``retracted``.
        """
        point = self.space.encode(params)
        here = [n for n, known in enumerate(self.points) if np.abs(known - point).max() < SAME_POINT]
        if not here:
            return None
        evaluations = list(self.evaluations)
        old = evaluations[here[-1]]
        evaluations[here[-1] : here[-1] + 1] = [] if new is None else [replace(new, params=old.params)]
        pending = [asked.params for asked in self.asked if not asked.answered] + self.external
        history, _ = self.replayed(evaluations, pending, n_initial)
        history.retracted = [*self.retracted, replace(old, number=len(self.retracted))]
        return history

    def tell(self, evaluation: Evaluation) -> None:
        """Add an evaluation; its point is no longer pending."""
        point = self.space.encode(evaluation.params)
        self.points.append(point)  # first: readers in other threads find a point for every evaluation
        self.evaluations.append(replace(evaluation, number=len(self.evaluations)))
        self.forget(evaluation.params)

    def ask(self, params: Params, fixed: Params, *, modelled: bool) -> None:
        """Add a point that was suggested."""
        self.asked.append(Asked(params, self.space.encode(params), len(self.evaluations), fixed, modelled))

    @property
    def pending(self) -> list[Array]:
        """Points under evaluation, here or in other processes."""
        asked = [asked.point for asked in self.asked if not asked.answered]
        return asked + [self.space.encode(params) for params in self.external]

    @property
    def failures(self) -> list[Array]:
        """Points whose evaluation failed."""
        return [self.points[evaluation.number] for evaluation in self.evaluations if evaluation.failed]

    @property
    def unresolved(self) -> Array:
        """Pending points and failures, (n, d): places that need no other look."""
        return np.array(self.pending + self.failures).reshape(-1, self.space.dim)

    @property
    def reports_constraints(self) -> bool:
        """Whether an evaluation has reported constraints."""
        return any(evaluation.constraints for evaluation in self.evaluations)

    @property
    def feasible_successes(self) -> NDArray[np.bool_]:
        """Which of the successes satisfy every constraint, reported or known."""
        feasible = {evaluation.number for evaluation in self.feasible}
        return np.array([evaluation.number in feasible for evaluation in self.successes], dtype=bool)

    @property
    def successes(self) -> list[Evaluation]:
        """Evaluations that gave a number."""
        return [evaluation for evaluation in self.evaluations if not evaluation.failed]

    @property
    def feasible(self) -> list[Evaluation]:
        """Evaluations that gave a number and satisfy every constraint, reported or known."""
        allows = self.space.allows
        return [
            e for e in self.evaluations if e.feasible and (not self.space.constraints or allows(self.points[e.number]))
        ]

    def best(self, sign: float) -> Evaluation | None:
        """The feasible evaluation with the largest sign * value, the first of equals."""
        return max(self.feasible, key=lambda evaluation: sign * evaluation.number_value, default=None)

    def incumbent(self, sign: float) -> Array:
        """The point of the best feasible evaluation, or of the best of all if none is feasible."""
        best = self.best(sign)
        if best is None:
            best = max(self.successes, key=lambda evaluation: sign * evaluation.number_value)
        return self.points[best.number].copy()

    def incumbents(self, sign: float, count: int) -> Array:
        """The points of the best feasible evaluations, or of the least infeasible ones if none is feasible, (n, d)."""
        best = sorted(self.feasible, key=lambda evaluation: -sign * evaluation.number_value)
        if not best:
            constraints = [evaluation.constraints or {} for evaluation in self.successes]
            names = {name for given in constraints for name in given}
            sizes = {name: _typical([given[name] for given in constraints if name in given]) for name in names}
            excess = [sum(max(0.0, c / sizes[name]) for name, c in given.items()) for given in constraints]
            values = [-sign * evaluation.number_value for evaluation in self.successes]
            best = [self.successes[k] for k in np.lexsort((values, excess))]
        return np.array([self.points[evaluation.number] for evaluation in best[:count]])

    def remaining(self, fixed: Mapping[int, float], taken: Array | None = None) -> tuple[float, float]:
        """How many points with the coordinates ``fixed`` the space has, and how many are neither evaluated nor pending.

        ``taken`` (n, d) are the points that do not remain, if others.
        Points that break a known constraint do not count.
        """
        space = self.space
        free = [i for i in range(space.dim) if i not in fixed]
        if space.conditions and not space.constraints:
            size = space.conditions.count(fixed)
        else:
            plain = [i for i in free if i not in space.region.variables]
            size = math.prod(space.parameters[i].cardinality for i in plain)
            size *= space.region.count(fixed) if size < math.inf else 1.0
        if size == math.inf:
            return size, size
        here = np.zeros(space.dim)
        here[list(fixed)] = list(fixed.values())
        taken = self.occupied if taken is None else taken
        matching = taken[same_coordinates(space, taken, here)[:, list(fixed)].all(axis=1)]
        if space.constraints:
            matching = matching[space.region.allows(matching)]
        return size, size - len(np.unique(matching[:, free].round(9), axis=0))

    @property
    def occupied(self) -> Array:
        """Points evaluated or pending, (n, d)."""
        return np.array(self.points + self.pending).reshape(-1, self.space.dim)

    def forget(self, params: Mapping[str, Any]) -> bool:
        """Stop waiting for a point; False if it was not pending."""
        point = self.space.encode(params)
        for k, asked in enumerate(self.asked):
            if not asked.answered and np.abs(asked.point - point).max() < SAME_POINT:
                self.asked[k] = replace(asked, answered=True)
                return True
        for k, other in enumerate(self.external):
            if np.abs(self.space.encode(other) - point).max() < SAME_POINT:
                del self.external[k]
                return True
        return False

    def to_json(self) -> dict[str, Any]:
        """Plain data; coordinates are left out, because the space gives them again."""
        of_evaluation = ("params", "value", "noise", "constraints")
        of_ask = ("params", "n_evaluations", "fixed", "modelled", "answered")
        return {
            "evaluations": [{name: getattr(e, name) for name in of_evaluation} for e in self.evaluations],
            "asked": [{name: getattr(a, name) for name in of_ask} for a in self.asked],
            "external": self.external,
            "retracted": [{name: getattr(e, name) for name in of_evaluation} for e in self.retracted],
        }

    @classmethod
    def from_json(cls, space: Space, content: Mapping[str, Any]) -> History:
        """The inverse of ``to_json``."""
        history = cls(space)
        for record in content["evaluations"]:
            history.tell(Evaluation.of(**record))
        for record in content["asked"]:
            asked = Asked(point=space.encode(record["params"]), **record)
            if not 0 <= asked.n_evaluations <= len(history.evaluations):
                raise StudyFileError(f"an ask after {asked.n_evaluations} of {len(history.evaluations)} evaluations")
            history.asked.append(asked)
        history.external = list(content["external"])
        for number, record in enumerate(content.get("retracted", ())):
            history.retracted.append(replace(Evaluation.of(**record), number=number))
        return history


def _typical(values: Sequence[float]) -> float:
    return float(np.median(np.abs(values))) or 1.0


def same_coordinates(space: Space, points: Array, point: Array) -> NDArray[np.bool_]:
    """Which coordinates of ``points`` (n, d) equal those of ``point``; continuous ones within RESOLUTION."""
    reach = np.where(space.is_continuous, RESOLUTION, SAME_POINT)
    return np.abs(points - point) < reach
