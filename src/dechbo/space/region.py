"""The region where the known constraints of a space hold: tests, grid tables, the nearest point, random points.

Constraints are on the parameters' values; points are coordinates. Only constrained parameters matter here.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from dechbo.errors import SpaceError, format_list
from dechbo.space.coordinates import bounds, coordinate_of, derivative_at, snap, values_at
from dechbo.space.linear import TOLERANCE, Linear
from dechbo.space.numeric import Float, Int
from dechbo.space.parameters import Parameter
from dechbo.space.projection import nearest_values

Array = NDArray[np.float64]
Flags = NDArray[np.bool_]
Scope = tuple[int, ...]

MAX_COUNTED = 2**20  # combinations of values that are enumerated
WALK_SWEEPS = 10  # of the random walk that draws a point
MAX_CACHED = 100  # sets of fixed coordinates
SHRINK_FACTORS = (0.7, 0.4, 0.2, 0.1, 0.03, 0.01, 0.0)  # of the distance to the allowed point


class Region:
    """The points that satisfy all ``constraints``."""

    def __init__(self, parameters: Mapping[str, Parameter], constraints: Sequence[Linear]) -> None:
        index = {name: i for i, name in enumerate(parameters)}
        self.parameters = tuple(parameters.values())
        self.constraints = tuple(constraints)
        self.scopes: tuple[Scope, ...] = ()
        self._weights: list[Array] = []
        for constraint in constraints:
            for name in constraint.coefficients:
                if name not in index:
                    raise SpaceError(
                        f"constraint '{constraint}' names {name!r}, which is not a parameter; the space has "
                        f"{format_list(list(index))}"
                    )
                if not isinstance(parameters[name], (Float, Int)):
                    raise SpaceError(f"constraint '{constraint}' needs numeric parameters, but {name!r} is categorical")
            terms = sorted((index[name], c) for name, c in constraint.coefficients.items())
            self.scopes += (tuple(i for i, _ in terms),)
            self._weights.append(np.array([c for _, c in terms]))
        self.variables = sorted({i for scope in self.scopes for i in scope})
        self._columns = np.array(self.variables, dtype=np.int64)
        self._counts: dict[tuple[tuple[int, float], ...], float] = {}
        self._allowed_points: dict[tuple[tuple[int, float], ...], Array | None] = {}
        if self.constraints and self.allowed_point({}) is None:
            raise SpaceError(
                f"no point of the space satisfies {' and '.join(map(str, constraints))}: relax one of them"
            )

    def allows(self, points: Array) -> Flags:
        """Which of ``points`` (n, d) satisfy every constraint."""
        values = {i: values_at(self.parameters[i], points[:, i]) for i in self.variables}
        allowed = np.ones(len(points), dtype=bool)
        for k, scope in enumerate(self.scopes):
            allowed &= self._holds(k, [values[i] for i in scope])
        return allowed

    def tables(self, candidates: Sequence[Array]) -> list[tuple[Scope, Array]]:
        """Each constraint as a factor on a grid: 0 where it holds, -inf where it does not."""
        answer = []
        for k, scope in enumerate(self.scopes):
            axes = np.ix_(*(values_at(self.parameters[i], candidates[i]) for i in scope))
            answer.append((scope, np.where(self._holds(k, axes), 0.0, -np.inf)))
        return answer

    def slack_and_gradient(self, k: int, point: Array) -> tuple[float, Array]:
        """upper - sum_i c_i x_i of constraint k in units of its gradient's norm at ``point``, and its gradient."""
        scope, weights = self.scopes[k], self._weights[k]
        values = np.array([self.parameters[i].decode(point[i]) for i in scope], dtype=np.float64)
        gradient = np.zeros(len(self.parameters))
        for i, weight, value in zip(scope, weights, values, strict=True):
            gradient[i] = -weight * derivative_at(self.parameters[i], value)
        length = float(np.linalg.norm(gradient)) or 1.0
        return (self.constraints[k].upper - float(weights @ values)) / length, gradient / length

    def allowed_point(self, fixed: Mapping[int, float]) -> Array | None:
        """A point with the coordinates ``fixed`` that satisfies every constraint; None if there is none."""
        key = tuple(sorted((i, x) for i, x in fixed.items() if i in self.variables))
        if key not in self._allowed_points:
            if len(self._allowed_points) > MAX_CACHED:
                self._allowed_points.clear()
            d = len(self.parameters)
            rng = np.random.default_rng(d)
            targets = [np.full(d, 0.5), np.zeros(d), np.ones(d), *rng.random((8, d))]
            found = (self.nearest(self._snapped(target[None])[0], dict(key)) for target in targets)
            self._allowed_points[key] = next((point for point in found if point is not None), None)
        allowed = self._allowed_points[key]
        return None if allowed is None else allowed.copy()

    def nearest(self, point: Array, fixed: Mapping[int, float] | None = None) -> Array | None:
        """The allowed point with coordinates ``fixed`` nearest to ``point`` in the 1-norm; None if there is none."""
        fixed = {} if fixed is None else fixed
        answer: Array = np.array(point)
        answer[list(fixed)] = list(fixed.values())
        if self.allows(answer[None])[0]:
            return answer
        free = [i for i in self.variables if i not in fixed]
        terms = list(zip(self.scopes, self._weights, strict=True))
        values = nearest_values(self.parameters, self.constraints, terms, answer, free) if free else None
        if values is None:
            return None
        for i, value in zip(free, values, strict=True):
            answer[i] = coordinate_of(self.parameters[i], value)
        answer = self._snapped(answer[None])[0]
        answer[list(fixed)] = list(fixed.values())
        for _ in range(3):  # remove what the tolerance of the solver leaves
            if self.allows(answer[None])[0]:
                break
            for i in free:
                low, high = self._allowed_range(i, answer)
                if low <= high:
                    answer[i] = snap(self.parameters[i], min(max(answer[i], low), high))
        return answer if self.allows(answer[None])[0] else None

    def pull_inside(self, points: Array, allowed: Array) -> Array:
        """Move the ``points`` (n, d) that violate a constraint towards the point ``allowed`` until they satisfy all."""
        answer = points.copy()
        out = np.flatnonzero(~self.allows(answer))
        for factor in SHRINK_FACTORS:
            if len(out) == 0:
                break
            moved = answer[out]
            centre = allowed[self._columns]
            moved[:, self._columns] = centre + factor * (points[out][:, self._columns] - centre)
            moved = self._snapped(moved)
            good = self.allows(moved)
            answer[out[good]] = moved[good]
            out = out[~good]
        answer[out[:, None], self._columns] = allowed[self._columns]  # snapping may have moved that point itself
        return answer

    def last_allowed(self, start: Array, end: Array) -> Array:
        """The last allowed point on the way from ``start`` to ``end``.

        ``start`` is allowed; the two differ in continuous coordinates only.
        """
        if self.allows(end[None])[0]:
            return end
        inside, outside = 0.0, 1.0
        for _ in range(50):
            middle = (inside + outside) / 2
            if self.allows((start + middle * (end - start))[None])[0]:
                inside = middle
            else:
                outside = middle
        last: Array = start + inside * (end - start)
        return last

    def draw(self, point: Array, fixed: Mapping[int, float], rng: np.random.Generator) -> Array | None:
        """A random allowed point: a coordinate-wise random walk from the allowed point nearest to ``point``."""
        here = self.nearest(point, fixed)
        if here is None:
            return None
        free = [i for i in self.variables if i not in fixed]
        for _ in range(WALK_SWEEPS):
            for i in rng.permutation(free).tolist():
                low, high = self._allowed_range(i, here)
                step = here.copy()
                step[i] = snap(self.parameters[i], low + rng.random() * (high - low))
                if self.allows(step[None])[0]:
                    here = step
        return here

    def count(self, fixed: Mapping[int, float]) -> float:
        """The number of allowed combinations of the constrained parameters; an upper bound if there are too many."""
        key = tuple(sorted((i, x) for i, x in fixed.items() if i in self.variables))
        if key not in self._counts:
            if len(self._counts) > MAX_CACHED:
                self._counts.clear()
            self._counts[key] = self._count(fixed)
        return self._counts[key]

    def _count(self, fixed: Mapping[int, float]) -> float:
        total = 1.0
        for component in self._components():
            sizes = [1.0 if i in fixed else self.parameters[i].cardinality for i in component]
            if math.prod(sizes) > MAX_COUNTED:
                total *= math.prod(sizes)
                continue
            axes = [np.array([fixed[i]]) if i in fixed else self.parameters[i].grid(MAX_COUNTED) for i in component]
            values = [values_at(self.parameters[i], axis) for i, axis in zip(component, axes, strict=True)]
            grid = dict(zip(component, np.ix_(*values), strict=True))
            allowed = np.ones([len(axis) for axis in axes], dtype=bool)
            inside = [k for k, scope in enumerate(self.scopes) if scope[0] in grid]
            for k in inside:
                allowed &= self._holds(k, [grid[i] for i in self.scopes[k]])
            total *= float(allowed.sum())
        return total

    def _holds(self, k: int, values: Sequence[Array]) -> Flags:
        """Whether constraint k holds at these values of its parameters (arrays that broadcast)."""
        upper = self.constraints[k].upper
        with np.errstate(over="ignore", invalid="ignore"):
            terms = [weight * value for weight, value in zip(self._weights[k], values, strict=True)]
            total, size = sum(terms), sum(map(np.abs, terms))
            return np.asarray(total - upper <= TOLERANCE * np.maximum(size, abs(upper)))

    def _allowed_range(self, i: int, point: Array) -> tuple[float, float]:
        """The range of coordinates that constraints leave parameter i, the others as in ``point``; (1, 0) if none."""
        parameter = self.parameters[i]
        low, high = bounds(parameter)
        for k, scope in enumerate(self.scopes):
            if i in scope:
                values = np.array([self.parameters[j].decode(point[j]) for j in scope], dtype=np.float64)
                own = scope.index(i)
                weight = self._weights[k][own]
                limit = (self.constraints[k].upper - float(np.delete(self._weights[k] * values, own).sum())) / weight
                low, high = (low, min(high, limit)) if weight > 0 else (max(low, limit), high)
        return (coordinate_of(parameter, low), coordinate_of(parameter, high)) if low <= high else (1.0, 0.0)

    def _snapped(self, points: Array) -> Array:
        """Clip constrained coordinates to the unit interval and move discrete ones to the nearest value."""
        answer = points.copy()
        answer[:, self._columns] = np.clip(answer[:, self._columns], 0.0, 1.0)
        for i in self.variables:
            if self.parameters[i].cardinality < np.inf:
                answer[:, i] = [snap(self.parameters[i], u) for u in answer[:, i].tolist()]
        return answer

    def _components(self) -> list[list[int]]:
        """The connected components of the constrained parameters."""
        groups: list[set[int]] = []
        for scope in self.scopes:
            joined = set(scope).union(*(group for group in groups if group & set(scope)))
            groups = [group for group in groups if not group & set(scope)] + [joined]
        return [sorted(group) for group in groups]
