"""Conditional parameters: which are active at a point, and the coordinate of those that are not.

``Float(1e-3, 1e3, log=True, when={"clf": "svm"})`` is active where ``clf`` is active itself and is "svm". An inactive
parameter has no value in a trial. Its coordinate is a value of its own, the same wherever it is inactive: 0 for a
number, whose active values then fill [GAP, 1], and one more category for a choice. A point with these coordinates is
*canonical*: two points with the same parameters are the same point, and a model never mistakes a value that was not
used for one that was. A search may move inactive coordinates as it likes; it sees the score of the canonical point.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from dechbo.errors import ParameterError, SpaceError, format_list
from dechbo.space.categorical import Categorical
from dechbo.space.parameters import Parameter

Array = NDArray[np.float64]
Flags = NDArray[np.bool_]
Scope = tuple[int, ...]

GAP = 0.25  # between the coordinate of an inactive number and its active ones


@dataclass(frozen=True)
class Conditional:
    """The coordinates of a conditional parameter: those of ``inner``, and one for "inactive"."""

    inner: Parameter

    @property
    def kernel_kind(self) -> Literal["numeric", "categorical"]:
        """That of the parameter."""
        return self.inner.kernel_kind

    @property
    def cardinality(self) -> float:
        """The number of coordinates: "inactive" is one of them."""
        return self.inner.cardinality + 1

    @property
    def is_categorical(self) -> bool:
        """Whether the parameter has choices without an order."""
        return isinstance(self.inner, Categorical)

    @property
    def inactive(self) -> float:
        """The coordinate of "inactive"."""
        return self.inner.cardinality if self.is_categorical else 0.0

    @property
    def lowest(self) -> float:
        """The lowest active coordinate."""
        return 0.0 if self.is_categorical else GAP

    def encode(self, value: object) -> float:
        """The coordinate of a value."""
        return float(self._outer(self.inner.encode(value)))

    def decode(self, u: float) -> Any:
        """The active value nearest to ``u``."""
        return self.inner.decode(self._inner(u))

    def grid(self, n: int, low: float = 0.0, high: float = 1.0) -> Array:
        """At most n active coordinates within [low, high], and "inactive" if the interval reaches it."""
        if self.is_categorical:
            return np.arange(self.inner.cardinality + 1)
        parts = [np.zeros(1)] if low < GAP / 2 else []
        if high >= GAP:
            parts.append(self._outer(self.inner.grid(n, self._inner(low), self._inner(high))))
        return np.concatenate(parts) if parts else np.array([GAP])

    def from_uniform(self, u: float) -> float:
        """The active coordinate of a uniform draw."""
        return float(self._outer(self.inner.from_uniform(u)))

    def is_active(self, coordinates: Array) -> Flags:
        """Which coordinates are active ones."""
        found: Flags = coordinates != self.inactive if self.is_categorical else coordinates >= GAP / 2
        return found

    def activated(self, coordinates: Array) -> Array:
        """Active coordinates for any: those below GAP are spread over the range, or go to its middle if discrete."""
        if self.is_categorical:
            return np.where(coordinates == self.inactive, 0.0, coordinates)
        below = coordinates < GAP - 1e-12
        middle = self._outer(self.inner.encode(self.inner.decode(0.5)))
        spread = GAP + (1 - GAP) * coordinates / GAP if self.inner.cardinality == math.inf else middle
        return np.where(below, spread, coordinates)

    def _outer(self, u: Any) -> Any:
        return u if self.is_categorical else GAP + (1 - GAP) * u

    def _inner(self, u: float) -> float:
        return u if self.is_categorical else min(max((u - GAP) / (1 - GAP), 0.0), 1.0)


Coordinate = Parameter | Conditional


class Conditions:
    """The conditions of a space; false if there are none."""

    def __init__(self, parameters: Mapping[str, Parameter]) -> None:
        self.names = tuple(parameters)
        self.coordinates: tuple[Coordinate, ...] = tuple(
            Conditional(parameter) if parameter.when else parameter for parameter in parameters.values()
        )
        index = {name: i for i, name in enumerate(self.names)}
        found: dict[int, dict[int, frozenset[float]]] = {}
        for name, parameter in parameters.items():
            if parameter.when:
                found[index[name]] = dict(_parents(name, parameter, parameters, index))
        self.parents = {i: found[i] for i in _ordered(found, self.names)}  # every parent before its children

    def __bool__(self) -> bool:
        return bool(self.parents)

    def __contains__(self, i: object) -> bool:
        return i in self.parents

    @cached_property
    def variables(self) -> list[int]:
        """Conditional parameters, and those that they depend on."""
        return sorted({j for i, parents in self.parents.items() for j in (i, *parents)})

    def active(self, points: Array) -> Flags:
        """(n, d) Which parameters are active at ``points`` (n, d)."""
        flags = np.ones(points.shape, dtype=bool)
        for i, parents in self.parents.items():
            for j, values in parents.items():
                flags[:, i] &= flags[:, j] & np.isin(np.rint(points[:, j]), list(values))
        return flags

    def canonical(self, points: Array) -> Array:
        """``points`` (n, d) with the coordinates of inactive parameters, and active ones for the others."""
        answer = points.copy()
        flags = self.active(points)
        for i in self.parents:
            coordinate = self.coordinates[i]
            assert isinstance(coordinate, Conditional)
            answer[:, i] = np.where(flags[:, i], coordinate.activated(points[:, i]), coordinate.inactive)
        return answer

    def filled(self, point: Array, others: Array) -> Array:
        """``point`` with active coordinates for inactive parameters: of the first of ``others`` (n, d) that has one.

        What a search starts from when it makes them active.
        """
        answer = point.copy()
        for i in self.parents:
            coordinate = self.coordinates[i]
            assert isinstance(coordinate, Conditional)
            if not coordinate.is_active(point[i : i + 1])[0]:
                known = others[coordinate.is_active(others[:, i]), i] if len(others) else np.empty(0)
                answer[i] = known[0] if len(known) else coordinate.from_uniform(0.5)
        return answer

    def active_names(self, params: Mapping[str, object], parameters: Mapping[str, Parameter]) -> set[str]:
        """The names of the parameters that ``params`` needs; a parent without a valid value makes none active."""
        flags = dict.fromkeys(range(len(self.names)), True)
        for i, parents in self.parents.items():
            for j, values in parents.items():
                name = self.names[j]
                given = name in params and flags[j] and _code(parameters[name], params[name]) in values
                flags[i] = flags[i] and given
        return {self.names[i] for i, flag in flags.items() if flag}

    def unseen(self, points: Array, fixed: Mapping[int, float]) -> dict[int, float]:
        """The choices that make a parameter active which is so at none of ``points`` (n, d); empty if there is none.

        Those of the first such parameter that the coordinates ``fixed`` allow.
        """
        counts = self.active(points).sum(axis=0)
        for i in self.parents:
            choices = self._choices_for(i)
            if counts[i] == 0 and all(fixed.get(j, code) == code for j, code in choices.items()):
                return choices
        return {}

    def _choices_for(self, i: int) -> dict[int, float]:
        """The first choices of all ancestors with which a parameter is active."""
        answer: dict[int, float] = {}
        for j, values in self.parents[i].items():
            answer |= self._choices_for(j) if j in self.parents else {}
            answer[j] = min(values)
        return answer

    def tables(self, candidates: Sequence[Array]) -> list[tuple[Scope, Array]]:
        """Each condition as a factor on a grid: 0 where it holds, -inf where it does not."""
        answer = []
        for i, parents in self.parents.items():
            scope = tuple(sorted((i, *parents)))
            coordinate = self.coordinates[i]
            assert isinstance(coordinate, Conditional)
            axes = dict(zip(scope, np.ix_(*(candidates[j] for j in scope)), strict=True))
            wanted = np.ones([len(candidates[j]) for j in scope], dtype=bool)
            for j, values in parents.items():
                wanted &= np.isin(np.rint(axes[j]), list(values))
            answer.append((scope, np.where(wanted == coordinate.is_active(axes[i]), 0.0, -np.inf)))
        return answer

    def count(self, fixed: Mapping[int, float]) -> float:
        """The number of canonical points with the coordinates ``fixed``."""
        deciding = sorted({j for parents in self.parents.values() for j in parents})
        total = 0.0
        choices = [[fixed[j]] if j in fixed else list(self.coordinates[j].grid(1)) for j in deciding]
        for combination in itertools.product(*choices):
            point = np.full((1, len(self.coordinates)), GAP)
            point[0, deciding] = combination
            point[:, list(fixed)] = list(fixed.values())
            flags, canonical = self.active(point)[0], self.canonical(point)[0]
            if not np.array_equal(canonical[deciding], combination):
                continue  # a parent that is inactive itself has one coordinate only
            sizes = [
                self._size(i) for i in range(len(self.coordinates)) if flags[i] and i not in fixed and i not in deciding
            ]
            total += math.prod(sizes)
        return total

    def _size(self, i: int) -> float:
        coordinate = self.coordinates[i]
        return coordinate.inner.cardinality if isinstance(coordinate, Conditional) else coordinate.cardinality


def _parents(
    name: str, parameter: Parameter, parameters: Mapping[str, Parameter], index: Mapping[str, int]
) -> Iterator[tuple[int, frozenset[float]]]:
    """The parents of a parameter, each with the codes of the choices that make it active."""
    for parent, choices in (parameter.when or {}).items():
        if parent not in parameters:
            raise SpaceError(
                f"parameter {name!r} depends on {parent!r}, which is not a parameter; the space has "
                f"{format_list(list(parameters))}"
            )
        other = parameters[parent]
        if not isinstance(other, Categorical):
            raise SpaceError(f"parameter {name!r} depends on {parent!r}, which must be a Categorical, got {other!r}")
        codes = [_code(other, choice) for choice in choices]
        if None in codes:
            wrong = choices[codes.index(None)]
            raise SpaceError(
                f"parameter {name!r} is there when {parent!r} is {wrong!r}, which is not one of its choices "
                f"{format_list(other.choices)}"
            )
        yield index[parent], frozenset(code for code in codes if code is not None)


def _code(parameter: Parameter, value: object) -> float | None:
    try:
        return parameter.encode(value)
    except ParameterError:
        return None


def _ordered(found: Mapping[int, Mapping[int, object]], names: Sequence[str]) -> list[int]:
    """The conditional parameters, every parent before its children."""
    order: list[int] = []
    left = dict(found)
    while left:
        ready = [i for i, parents in left.items() if not any(j in left for j in parents)]
        if not ready:
            raise SpaceError(f"the conditions of {format_list([names[i] for i in left])} go round in a circle")
        for i in ready:
            order.append(i)
            del left[i]
    return order
