"""Where the known constraints of a space hold: which points, which cells of a grid, the nearest such point, draws.

Constraints speak of the parameters' own values, points of coordinates. What is said here of a point depends on the
coordinates of the constrained parameters alone.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from dechbo.errors import SpaceError, format_list
from dechbo.space.linear import Linear
from dechbo.space.numeric import Float, Int
from dechbo.space.parameters import Parameter

Array = NDArray[np.float64]
Flags = NDArray[np.bool_]
Scope = tuple[int, ...]

TOLERANCE = 1e-9  # relative to the largest number of the sum: 0.1 + 0.2 <= 0.3 holds
COUNTABLE = 2**20  # combinations of values that are counted one by one
MOST_WHOLE = 10**6  # values of a discrete parameter above which the nearest point is first sought between them
SWEEPS = 10  # of a random walk through the region


class Region:
    """The points of ``parameters`` at which all ``constraints`` hold."""

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
                        f"constraint '{constraint}' names {name!r}, which is no parameter; the space has "
                        f"{format_list(list(index))}"
                    )
                if not isinstance(parameters[name], (Float, Int)):
                    raise SpaceError(f"constraint '{constraint}' needs numbers, but {name!r} is a choice without order")
            terms = sorted((index[name], c) for name, c in constraint.coefficients.items())
            self.scopes += (tuple(i for i, _ in terms),)
            self._weights.append(np.array([c for _, c in terms]))
        self.variables = sorted({i for scope in self.scopes for i in scope})
        self._columns = np.array(self.variables, dtype=np.int64)
        self._counts: dict[tuple[tuple[int, float], ...], float] = {}
        self._anchors: dict[tuple[tuple[int, float], ...], Array | None] = {}
        if self.constraints and self.anchor({}) is None:
            raise SpaceError(
                f"no point of the space satisfies {' and '.join(map(str, constraints))}: relax one of them"
            )

    def allows(self, points: Array) -> Flags:
        """Which of ``points`` (n, d) satisfy every constraint."""
        values = {i: self._values(i, points[:, i]) for i in self.variables}
        allowed = np.ones(len(points), dtype=bool)
        for k, scope in enumerate(self.scopes):
            allowed &= self._holds(k, [values[i] for i in scope])
        return allowed

    def tables(self, candidates: Sequence[Array]) -> list[tuple[Scope, Array]]:
        """Each constraint as a factor on a grid: 0 where it holds, -inf where it does not."""
        answer = []
        for k, scope in enumerate(self.scopes):
            axes = np.ix_(*(self._values(i, candidates[i]) for i in scope))
            answer.append((scope, np.where(self._holds(k, axes), 0.0, -np.inf)))
        return answer

    def slopes(self, k: int, point: Array) -> tuple[float, Array]:
        """upper - sum_i c_i x_i of constraint k over the length of its gradient there, and the gradient of that."""
        scope, weights = self.scopes[k], self._weights[k]
        values = np.array([self.parameters[i].decode(point[i]) for i in scope], dtype=np.float64)
        gradient = np.zeros(len(self.parameters))
        for i, weight, value in zip(scope, weights, values, strict=True):
            low, high = self._bounds(i)
            parameter = self.parameters[i]
            stretch = (
                value * np.log(high / low) if isinstance(parameter, (Float, Int)) and parameter.log else high - low
            )
            gradient[i] = -weight * stretch
        length = float(np.linalg.norm(gradient)) or 1.0
        return (self.constraints[k].upper - float(weights @ values)) / length, gradient / length

    def anchor(self, fixed: Mapping[int, float]) -> Array | None:
        """One point that satisfies every constraint with the coordinates ``fixed``; None if there is none."""
        key = tuple(sorted((i, x) for i, x in fixed.items() if i in self.variables))
        if key not in self._anchors:
            if len(self._anchors) > 100:
                self._anchors.clear()
            d = len(self.parameters)
            rng = np.random.default_rng(d)
            targets = [np.full(d, 0.5), np.zeros(d), np.ones(d), *rng.random((8, d))]
            found = (self.nearest(self._snapped(target[None])[0], dict(key)) for target in targets)
            self._anchors[key] = next((point for point in found if point is not None), None)
        anchor = self._anchors[key]
        return None if anchor is None else anchor.copy()

    def nearest(self, point: Array, fixed: Mapping[int, float] | None = None) -> Array | None:
        """The point nearest to ``point`` at which all constraints hold, by the sum of coordinate steps; None: no such.

        A mixed-integer linear programme: a step to the side costs its length on the coordinate's scale.
        """
        held = {} if fixed is None else fixed
        answer: Array = np.array(point)
        answer[list(held)] = list(held.values())
        if self.allows(answer[None])[0]:
            return answer
        free = [i for i in self.variables if i not in held]
        values = self._programme(answer, free) if free else None
        if values is None:
            return None
        for i, value in zip(free, values, strict=True):
            answer[i] = self._coordinate(i, value)
        answer = self._snapped(answer[None])[0]
        answer[list(held)] = list(held.values())
        for _ in range(3):  # what the programme's tolerance leaves
            if self.allows(answer[None])[0]:
                break
            for i in free:
                low, high = self._room(i, answer)
                if low <= high:
                    answer[i] = self._snapped_one(i, min(max(answer[i], low), high))
        return answer if self.allows(answer[None])[0] else None

    def pulled(self, points: Array, anchor: Array) -> Array:
        """``points`` (n, d), those that break a constraint moved towards ``anchor`` until they break none."""
        answer = points.copy()
        out = np.flatnonzero(~self.allows(answer))
        for part in (0.7, 0.4, 0.2, 0.1, 0.03, 0.01, 0.0):
            if len(out) == 0:
                break
            moved = answer[out]
            centre = anchor[self._columns]
            moved[:, self._columns] = centre + part * (points[out][:, self._columns] - centre)
            moved = self._snapped(moved)
            good = self.allows(moved)
            answer[out[good]] = moved[good]
            out = out[~good]
        answer[out[:, None], self._columns] = anchor[self._columns]  # snapping may have moved the anchor itself
        return answer

    def last_allowed(self, start: Array, end: Array) -> Array:
        """The last point from ``start``, which is allowed, towards ``end``; only continuous coordinates differ."""
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
        """A random point of the region: a walk along the coordinates from the one nearest to ``point``."""
        here = self.nearest(point, fixed)
        if here is None:
            return None
        free = [i for i in self.variables if i not in fixed]
        for _ in range(SWEEPS):
            for i in rng.permutation(free).tolist():
                low, high = self._room(i, here)
                step = here.copy()
                step[i] = self._snapped_one(i, low + rng.random() * (high - low))
                if self.allows(step[None])[0]:
                    here = step
        return here

    def count(self, fixed: Mapping[int, float]) -> float:
        """How many combinations of values of the constrained parameters are allowed; too many to count: all of them."""
        key = tuple(sorted((i, x) for i, x in fixed.items() if i in self.variables))
        if key not in self._counts:
            if len(self._counts) > 100:
                self._counts.clear()
            self._counts[key] = self._count(fixed)
        return self._counts[key]

    def _count(self, fixed: Mapping[int, float]) -> float:
        total = 1.0
        for component in self._components():
            sizes = [1.0 if i in fixed else self.parameters[i].cardinality for i in component]
            if math.prod(sizes) > COUNTABLE:
                total *= math.prod(sizes)
                continue
            axes = [np.array([fixed[i]]) if i in fixed else self.parameters[i].grid(COUNTABLE) for i in component]
            grid = dict(zip(component, np.ix_(*map(self._values, component, axes)), strict=True))
            allowed = np.ones([len(axis) for axis in axes], dtype=bool)
            inside = [k for k, scope in enumerate(self.scopes) if scope[0] in grid]
            for k in inside:
                allowed &= self._holds(k, [grid[i] for i in self.scopes[k]])
            total *= float(allowed.sum())
        return total

    def _holds(self, k: int, values: Sequence[Array]) -> Flags:
        """Whether constraint k holds at these values of its parameters, arrays that broadcast."""
        upper = self.constraints[k].upper
        with np.errstate(over="ignore", invalid="ignore"):
            terms = [weight * value for weight, value in zip(self._weights[k], values, strict=True)]
            total, size = sum(terms), sum(map(np.abs, terms))
            return np.asarray(total - upper <= TOLERANCE * np.maximum(size, abs(upper)))

    def _values(self, i: int, coordinates: Array) -> Array:
        parameter = self.parameters[i]
        if parameter.cardinality < np.inf:
            few, where = np.unique(coordinates, return_inverse=True)
            return np.array([parameter.decode(u) for u in few.tolist()], dtype=np.float64)[where]
        low, high = self._bounds(i)
        u = np.clip(coordinates, 0.0, 1.0)
        if isinstance(parameter, (Float, Int)) and parameter.log:
            values = np.exp((1 - u) * np.log(low) + u * np.log(high))
        else:
            values = 2 * ((1 - u) * (low / 2) + u * (high / 2))
        return np.asarray(np.clip(values, low, high))

    def _bounds(self, i: int) -> tuple[float, float]:
        parameter = self.parameters[i]
        return float(parameter.decode(0.0)), float(parameter.decode(1.0))  # type: ignore[arg-type]

    def _coordinate(self, i: int, value: float) -> float:
        """Where a real number lies on the scale of parameter i, between its values too."""
        low, high = self._bounds(i)
        value = min(max(value, low), high)
        parameter = self.parameters[i]
        if isinstance(parameter, (Float, Int)) and parameter.log:
            return float(np.log(value / low) / np.log(high / low))
        return float((value / 2 - low / 2) / (high / 2 - low / 2))

    def _room(self, i: int, point: Array) -> tuple[float, float]:
        """The coordinates that parameter i may have, the others as in ``point``; low > high: none."""
        low, high = self._bounds(i)
        for k, scope in enumerate(self.scopes):
            if i in scope:
                values = np.array([self.parameters[j].decode(point[j]) for j in scope], dtype=np.float64)
                own = scope.index(i)
                weight = self._weights[k][own]
                limit = (self.constraints[k].upper - float(np.delete(self._weights[k] * values, own).sum())) / weight
                low, high = (low, min(high, limit)) if weight > 0 else (max(low, limit), high)
        return (self._coordinate(i, low), self._coordinate(i, high)) if low <= high else (1.0, 0.0)

    def _snapped_one(self, i: int, coordinate: float) -> float:
        parameter = self.parameters[i]
        return coordinate if parameter.cardinality == np.inf else parameter.encode(parameter.decode(coordinate))

    def _snapped(self, points: Array) -> Array:
        """Constrained discrete coordinates at the values next to them, all in the unit interval."""
        answer = points.copy()
        answer[:, self._columns] = np.clip(answer[:, self._columns], 0.0, 1.0)
        for i in self.variables:
            if self.parameters[i].cardinality < np.inf:
                answer[:, i] = [self._snapped_one(i, u) for u in answer[:, i].tolist()]
        return answer

    def _programme(self, target: Array, free: list[int]) -> Array | None:
        """Values of the parameters ``free`` nearest to ``target``; solved for steps or parts of ranges, distances."""
        # deferred: a space without constraints needs no SciPy
        from scipy.optimize import Bounds, LinearConstraint, milp

        many = len(free)
        lows = np.array([self._bounds(i)[0] for i in free])
        spans = np.array([self._bounds(i)[1] for i in free]) - lows
        whole = np.array([self.parameters[i].cardinality <= MOST_WHOLE for i in free])
        tops = np.array([self.parameters[i].cardinality - 1 if w else 1.0 for i, w in zip(free, whole, strict=True)])
        at = {i: n for n, i in enumerate(free)}
        rows, uppers = [], []
        for scope, weights, constraint in zip(self.scopes, self._weights, self.constraints, strict=True):
            row, upper = np.zeros(2 * many), constraint.upper
            for i, weight in zip(scope, weights, strict=True):
                if i in at:
                    row[at[i]] = weight * spans[at[i]] / tops[at[i]]
                    upper -= weight * lows[at[i]]
                else:
                    upper -= weight * float(self.parameters[i].decode(target[i]))  # type: ignore[arg-type]
            size = np.abs(row * np.append(tops, np.ones(many))).max() or 1.0
            rows.append(row / size)
            uppers.append(upper / size + (TOLERANCE if not row.any() else 0.0))
        here = np.array([self._values(i, target[i : i + 1])[0] for i in free])
        start = (here - lows) / spans * tops
        # what a step of the variable is on the coordinate's scale
        cost = np.array([self._pace(i, value) for i, value in zip(free, here, strict=True)]) * spans / tops
        for n in range(many):
            for sign in (1.0, -1.0):
                row = np.zeros(2 * many)
                row[n], row[many + n] = sign, -1.0
                rows.append(row)
                uppers.append(sign * start[n])
        if not (np.isfinite(rows).all() and np.isfinite(uppers).all()):
            raise SpaceError(f"the numbers of {format_list(list(map(str, self.constraints)))} are too large to add up")
        found = milp(
            np.append(np.zeros(many), cost / cost.max()),
            constraints=LinearConstraint(np.array(rows), -np.inf, np.array(uppers)),
            bounds=Bounds(0.0, np.append(tops, np.maximum(tops, 1.0))),
            integrality=np.append(whole, np.zeros(many, dtype=bool)).astype(int),
        )
        return None if found.x is None else lows + found.x[:many] / tops * spans

    def _pace(self, i: int, value: float) -> float:
        low, high = self._bounds(i)
        parameter = self.parameters[i]
        log = isinstance(parameter, (Float, Int)) and parameter.log
        return float(1 / (value * np.log(high / low)) if log else 1 / (high - low))

    def _components(self) -> list[list[int]]:
        """The constrained parameters, those that constraints tie together in one list."""
        groups: list[set[int]] = []
        for scope in self.scopes:
            joined = set(scope).union(*(group for group in groups if group & set(scope)))
            groups = [group for group in groups if not group & set(scope)] + [joined]
        return [sorted(group) for group in groups]
