"""The history of a run: everything told and everything asked. Once told, never lost."""

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

RESOLUTION = 1e-4  # a point this near to another in every continuous coordinate would tell nothing new
SAME_POINT = 1e-9  # coordinates closer than this in the unit cube are the same number, but for rounding


class History:
    """Evaluations told and points asked, in order, with their coordinates."""

    def __init__(self, space: Space) -> None:
        self.space = space
        self.told: list[Evaluation] = []
        self.points: list[Array] = []  # where, evaluation by evaluation
        self.asked: list[Asked] = []
        self.elsewhere: list[Params] = []  # points that others evaluate, for whom this history is replayed

    def replayed(
        self, told: Sequence[Evaluation], elsewhere: Sequence[Mapping[str, Any]], n_initial: int
    ) -> tuple[History, bool]:
        """A history kept elsewhere, as if each evaluation had been asked for when all before it were told.

        And whether it continues this one.
        """
        numbered = [replace(evaluation, number=n) for n, evaluation in enumerate(told)]
        same = len(self.told) <= len(numbered) and self.told == numbered[: len(self.told)]
        known = self.points if same else []  # their coordinates need not be computed again
        history = History(self.space)
        history.told = numbered
        history.points = known + [self.space.encode(evaluation.params) for evaluation in numbered[len(known) :]]
        first = next((n for n, evaluation in enumerate(numbered) if not evaluation.failed), len(numbered))
        history.asked = [
            Asked(dict(evaluation.params), point, n, {}, modelled=n > first and n >= n_initial, answered=True)
            for n, (evaluation, point) in enumerate(zip(numbered, history.points, strict=True))
        ]
        for params in elsewhere:
            self.space.encode(params)
        history.elsewhere = [dict(params) for params in elsewhere]
        return history, same

    def tell(self, evaluation: Evaluation) -> None:
        """Add an evaluation; if its point was asked for, here or by others, it is pending no longer."""
        point = self.space.encode(evaluation.params)
        self.points.append(point)  # first: who reads in another thread finds a point for every evaluation
        self.told.append(replace(evaluation, number=len(self.told)))
        self.forget(evaluation.params)

    def ask(self, params: Params, fixed: Params, *, modelled: bool) -> None:
        """Add a point handed out."""
        self.asked.append(Asked(params, self.space.encode(params), len(self.told), fixed, modelled))

    @property
    def pending(self) -> list[Array]:
        """Points asked and not yet told, and those that others evaluate."""
        asked = [asked.point for asked in self.asked if not asked.answered]
        return asked + [self.space.encode(params) for params in self.elsewhere]

    @property
    def failures(self) -> list[Array]:
        """Points whose evaluation failed."""
        return [self.points[evaluation.number] for evaluation in self.told if evaluation.failed]

    @property
    def successes(self) -> list[Evaluation]:
        """Evaluations that gave a number."""
        return [evaluation for evaluation in self.told if not evaluation.failed]

    @property
    def feasible(self) -> list[Evaluation]:
        """Evaluations that gave a number and broke no constraint, neither one told nor a known one."""
        allows = self.space.allows
        return [e for e in self.told if e.feasible and (not self.space.constraints or allows(self.points[e.number]))]

    def best(self, sign: float) -> Evaluation | None:
        """The feasible evaluation with the largest sign * value, the first of equals."""
        return max(self.feasible, key=lambda evaluation: sign * evaluation.number_value, default=None)

    def incumbent(self, sign: float) -> Array:
        """Where the search looks for better: at the best feasible evaluation, or the best of all if none is."""
        best = self.best(sign)
        if best is None:
            best = max(self.successes, key=lambda evaluation: sign * evaluation.number_value)
        return self.points[best.number].copy()

    def champions(self, sign: float, many: int) -> Array:
        """Where the best feasible evaluations are, or the least infeasible ones if none is feasible, (n, d)."""
        best = sorted(self.feasible, key=lambda evaluation: -sign * evaluation.number_value)
        if not best:
            told = [evaluation.constraints or {} for evaluation in self.successes]
            sizes = {
                name: _typical([given[name] for given in told if name in given]) for given in told for name in given
            }
            excess = [sum(max(0.0, c / sizes[name]) for name, c in given.items()) for given in told]
            best = [self.successes[k] for k in np.argsort(excess, kind="stable")]
        return np.array([self.points[evaluation.number] for evaluation in best[:many]])

    def left(self, fixed: Mapping[int, float]) -> tuple[float, float]:
        """How many points a finite space has with the coordinates ``fixed``, and how many of them are free.

        Only those that the known constraints allow are counted.
        """
        space = self.space
        free = [i for i in range(space.dim) if i not in fixed]
        plain = [i for i in free if i not in space.region.variables]
        size = math.prod(space.parameters[i].cardinality for i in plain)
        size *= space.region.count(fixed) if size < math.inf else 1.0
        if size == math.inf:
            return size, size
        here = np.zeros(space.dim)
        here[list(fixed)] = list(fixed.values())
        taken = self.taken
        matching = taken[same_places(space, taken, here)[:, list(fixed)].all(axis=1)]
        if space.constraints:  # what was told against one does not count
            matching = matching[space.region.allows(matching)]
        return size, size - len(np.unique(matching[:, free].round(9), axis=0))

    @property
    def taken(self) -> Array:
        """Points evaluated or pending, (n, d)."""
        return np.array(self.points + self.pending).reshape(-1, self.space.dim)

    def forget(self, params: Mapping[str, Any]) -> bool:
        """Wait no longer for a point asked for, here or by others; False if it was not pending."""
        point = self.space.encode(params)
        for k, asked in enumerate(self.asked):
            if not asked.answered and np.abs(asked.point - point).max() < SAME_POINT:
                self.asked[k] = replace(asked, answered=True)
                return True
        for k, other in enumerate(self.elsewhere):
            if np.abs(self.space.encode(other) - point).max() < SAME_POINT:
                del self.elsewhere[k]
                return True
        return False

    def to_json(self) -> dict[str, Any]:
        """Plain data."""
        told = [
            {"params": e.params, "value": e.value, "noise": e.noise, "constraints": e.constraints} for e in self.told
        ]
        names = ("params", "told", "fixed", "modelled", "answered")
        asked = [{name: getattr(a, name) for name in names} for a in self.asked]
        return {"evaluations": told, "asked": asked, "elsewhere": self.elsewhere}

    @classmethod
    def from_json(cls, space: Space, content: Mapping[str, Any]) -> History:
        """The way back."""
        history = cls(space)
        for record in content["evaluations"]:
            history.tell(Evaluation.of(**record))
        for record in content["asked"]:
            asked = Asked(point=space.encode(record["params"]), **record)
            if not 0 <= asked.told <= len(history.told):
                raise StudyFileError(f"an ask after {asked.told} of {len(history.told)} evaluations")
            history.asked.append(asked)
        history.elsewhere = list(content.get("elsewhere", []))
        return history


def _typical(values: Sequence[float]) -> float:
    return float(np.median(np.abs(values))) or 1.0


def same_places(space: Space, points: Array, point: Array) -> NDArray[np.bool_]:
    """Which coordinates of ``points`` (n, d) are those of ``point``: equal if discrete, else within the resolution."""
    reach = np.where(space.is_continuous, RESOLUTION, SAME_POINT)
    return np.abs(points - point) < reach
