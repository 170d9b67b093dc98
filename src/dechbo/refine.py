"""From grids to points: increasing granularity, a continuous polish, and no point twice.

A base grid over the whole domain comes first, its fineness set by a budget of work. Then grids of four cells zoom in
around the maximiser, halving their spacing each time, with the incumbent's coordinates among the candidates; the
number of levels grows with the logarithm of the number of evaluations. Last, a gradient ascent moves the continuous
coordinates between the grid points. No step may lower the acquisition.
"""

from __future__ import annotations

import heapq
import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Protocol

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize

from dechbo.acquisition import AverageAcquisition, JointAcquisition
from dechbo.engine import Engine
from dechbo.errors import OptionError, SpaceExhausted
from dechbo.gp import Surrogate
from dechbo.gp.ensemble import Posterior, members_of
from dechbo.graph import FactorGraph
from dechbo.maxsum import Maximum
from dechbo.observations import Observations
from dechbo.space import Space

Array = NDArray[np.float64]

FINEST, FINEST_PAIR, COARSEST = 65, 33, 5  # candidates of a continuous variable on the base grid
COARSE = 1 / 12  # a spacing above this may hide a hill between two candidates
OVERHEAD = 50  # a cell costs about as much as (t + 50)^2 multiply-adds: building and reading it is not free
WORTHWHILE = 1e-5  # what a point has to promise, in standard deviations of the values, to be worth an evaluation
STARTS, ASCENTS = 256, 4  # of the search for a point elsewhere
RESOLUTION = 1e-4  # a point this near to another in every continuous coordinate would tell nothing new
ENUMERABLE = 20_000  # finite spaces up to this size are searched point by point when points are taken


class Smooth(Protocol):
    """An acquisition with a gradient."""

    def value_and_gradient(self, point: Array) -> tuple[float, Array]:
        """The value at one point, and its slope in every variable."""
        ...


@dataclass(frozen=True)
class Granularity:
    """How fine the grids are: ``work`` multiply-adds for the tables of the base grid, ``zoom`` candidates a level.

    ``polish_steps`` limits the gradient ascent that follows; 0 leaves the point on its grid.
    """

    work: float = 4e9
    zoom: int = 5
    polish_steps: int = 20

    def __post_init__(self) -> None:
        if not self.work >= 0 or not self.zoom >= 3 or not self.polish_steps >= 0:
            raise OptionError(f"Granularity needs work >= 0, zoom >= 3 and polish_steps >= 0, got {self}")

    def levels(self, evaluations: int) -> int:
        """How often to zoom: log2(1 + t) / 4, rounded up; each time halves the spacing."""
        return int(np.ceil(np.log2(1 + evaluations) / 4))


@dataclass(frozen=True, eq=False)
class Suggestion:
    """A point, the certificate of the final grid it came from, and the acquisition at the point itself."""

    point: Array
    maximum: Maximum
    polished_value: float
    upper_bound: float  # of the base grid and the final one: rigorous where the base grid holds every value


@dataclass(frozen=True, eq=False)
class Search:
    """One maximisation of the acquisition: what is modelled, what is held fixed, what must not come again."""

    space: Space
    gp: Surrogate
    data: Observations
    beta: float
    pending: Array  # (m, d)
    fixed: Mapping[int, float]
    incumbent: Array  # (d,), with the fixed coordinates
    is_taken: Callable[[Array], bool]
    granularity: Granularity = Granularity()
    recurring: bool = False  # whether the next search will have the same model and so the same base grid
    look_elsewhere: bool = True  # whether to leave a point of which the model knows that it is no better

    def run(self, engine: Engine) -> Suggestion:
        """Base grid, zooms, polish; then the best point that is not taken."""
        candidates = self._base
        maximum = engine.suggest(
            self.gp, self.data, self.beta, candidates, pending=self.pending, recurring=self.recurring
        )
        spacing = np.array([_spacing(values) for values in candidates])
        bound = maximum.upper_bound
        coarse = bool(spacing[self._moving].max(initial=0.0) > COARSE)
        for _ in range(self.granularity.levels(len(self.data)) if self._zoomable.any() else 0):
            point = _chosen(candidates, maximum)
            candidates = self._zoomed(point, spacing)
            finer = engine.suggest(self.gp, self.data, self.beta, candidates, pending=self.pending)
            if finer.value < maximum.value:  # loopy max-sum may miss what the coarser grid had found
                choice = np.array([np.searchsorted(v, x) for v, x in zip(candidates, point, strict=True)])
                ceiling = max(finer.upper_bound, maximum.value)
                finer = replace(finer, choice=choice, value=maximum.value, upper_bound=ceiling)
            maximum = finer
            spacing = spacing / 2
        value, point = self._polished(_chosen(candidates, maximum), maximum, coarse)
        if self.look_elsewhere and self._promise(point[None])[0] < WORTHWHILE:  # a local optimum is exhausted
            point = self._elsewhere(point)
            value = float(self.acquisition.values(point[None])[0])
            maximum = replace(maximum, upper_bound=np.inf)
        # a value below the grid's maximum means that better points were taken: what is offered is the point's own value
        offered = replace(maximum, value=min(value, maximum.value))
        return Suggestion(point, offered, value, max(bound, maximum.upper_bound))

    @cached_property
    def acquisition(self) -> AverageAcquisition:
        """phi between the grid points, deviations narrowed by the pending points."""
        return AverageAcquisition.of(self._posterior, self.beta)

    @cached_property
    def _base(self) -> list[Array]:
        return base_candidates(self.space, self.gp.graph, len(self.data), self.fixed, self.granularity)

    @cached_property
    def _zoomable(self) -> NDArray[np.bool_]:
        """Which variables have values between their candidates on the base grid."""
        parameters = zip(self.space.parameters, self._base, strict=True)
        between = np.array([parameter.cardinality > len(values) for parameter, values in parameters])
        between[list(self.fixed)] = False
        return between

    @cached_property
    def _moving(self) -> NDArray[np.int64]:
        return np.flatnonzero(self._zoomable & self.space.is_continuous)

    def _zoomed(self, point: Array, spacing: Array) -> list[Array]:
        """``zoom`` candidates within one old spacing of ``point``, the point itself, and the incumbent's coordinate."""
        zoomable = self._zoomable
        zoom = self.granularity.zoom if self.gp.graph.max_factor_size <= 2 else 3
        reach = spacing if zoom > 3 else spacing / 2
        low, high = np.maximum(point - reach, 0.0), np.minimum(point + reach, 1.0)
        near = low + (high - low) * np.linspace(0.0, 1.0, zoom)[:, None]  # where all values are candidates
        near = np.sort(np.vstack([near, point, self.incumbent]), axis=0)
        fresh = np.vstack([np.ones(len(point), dtype=bool), np.diff(near, axis=0) > 0])
        answer = []
        for i, parameter in enumerate(self.space.parameters):
            if i in self.fixed:
                answer.append(np.array([self.fixed[i]]))
            elif not zoomable[i]:
                answer.append(self._base[i])  # it holds every value: so does every finer grid
            elif self.space.is_continuous[i]:
                answer.append(near[fresh[:, i], i])
            else:
                values = parameter.grid(zoom, low[i], high[i])
                answer.append(np.unique(np.concatenate([values, [point[i], self.incumbent[i]]])))
        return answer

    def _polished(self, at_grid: Array, maximum: Maximum, coarse: bool) -> tuple[float, Array]:
        """The best free point that gradient ascent reaches from the grid's maximiser.

        A coarse base grid may have missed the hill on which the incumbent stands: then from there as well.
        """
        reached = [(maximum.value, at_grid)]
        if len(self._moving) and self.granularity.polish_steps:
            for start in (at_grid, self.incumbent) if coarse else (at_grid,):
                reached.append(ascend(self.acquisition, start, self._moving, self.granularity.polish_steps))
        free = [pair for pair in reached if not self.is_taken(pair[1])]
        return max(free, key=lambda pair: pair[0]) if free else self._best_untaken(at_grid)

    @cached_property
    def _posterior(self) -> Posterior:
        return self.gp.condition(self.data).with_pending(self.pending)

    @cached_property
    def _champion(self) -> Array:
        """The observed point with the best posterior mean, K alpha = y - noise alpha."""
        means = np.zeros(len(self.data))
        for weight, member in members_of(self._posterior):
            noise = member.gp.hyperparameters.noise + self.data.noise + member.jitter
            means += weight * (self.data.y - noise * member.alpha[: len(self.data)])
        champion: Array = self.data.X[int(means.argmax())]
        return champion

    def _promise(self, points: Array) -> Array:
        """How much ``points`` may gain over the best observed one: mean and two deviations of the difference."""
        total = np.zeros(len(points))
        for weight, member in members_of(self._posterior):
            mean, deviation = member.gain(points, self._champion)
            total += weight * (mean + 2 * deviation)
        return total

    def _elsewhere(self, point: Array) -> Array:
        """The best free point by the joint bound that may beat the best; if none may, the one least known.

        From random starts and from the lines through the incumbent. Nothing is certified about it; if every start is
        taken, ``point`` stays.
        """
        starts = self._starts()
        mean, deviation = self._posterior.joint(starts)
        promising = self._promise(starts) >= WORTHWHILE
        order = np.lexsort([-np.where(promising, mean + np.sqrt(self.beta) * deviation, deviation), ~promising])
        free = list(itertools.islice((k for k in order if not self.is_taken(starts[k])), ASCENTS))
        joint = JointAcquisition(self._posterior, self.beta)
        reached = [
            ascend(joint, starts[k], self._moving, self.granularity.polish_steps)
            for k in free
            if promising[k] and len(self._moving) and self.granularity.polish_steps
        ]
        for _, end in sorted(reached, key=lambda pair: -pair[0]):
            if self._promise(end[None])[0] >= WORTHWHILE and not self.is_taken(end):
                return end
        return starts[free[0]] if free else point

    def _starts(self) -> Array:
        """Random points, and points that differ from the incumbent in one coordinate of the base grid."""
        rng = np.random.default_rng([len(self.data), len(self.pending)])
        starts = [self.space.from_uniform(u) for u in rng.random((STARTS, self.space.dim))]
        for i in rng.permutation(self.space.dim)[:STARTS]:
            for coordinate in self._base[i]:
                starts.append(self.incumbent.copy())
                starts[-1][i] = coordinate
        chosen: Array = np.array(starts)[rng.permutation(len(starts))[: 4 * STARTS]]
        chosen[:, list(self.fixed)] = list(self.fixed.values())
        return chosen

    def _best_untaken(self, start: Array) -> tuple[float, Array]:
        """The best point of a small finite space that is not taken; elsewhere the best of those met from ``start``."""
        acquisition, parameters = self.acquisition, self.space.parameters
        free = [p.cardinality for i, p in enumerate(parameters) if i not in self.fixed]
        if np.prod(free) <= ENUMERABLE:
            values = [[self.fixed[i]] if i in self.fixed else p.grid(ENUMERABLE) for i, p in enumerate(parameters)]
            points = np.array([p for p in itertools.product(*values) if not self.is_taken(np.array(p))])
            if len(points) == 0:
                raise SpaceExhausted("every point of this finite space is evaluated or pending")
            scores = acquisition.values(points)
            return float(scores.max()), points[int(scores.argmax())]
        wider = [
            np.concatenate([[x], grid[np.abs(grid - x) > RESOLUTION]])
            for grid, x in zip(self._base, start, strict=True)
        ]
        for value, point in itertools.islice(_outward(acquisition, start, wider), 1000):
            if not self.is_taken(point):
                return value, point
        rng = np.random.default_rng(len(self.data))
        while True:
            point = self.space.from_uniform(rng.random(self.space.dim))
            point[list(self.fixed)] = list(self.fixed.values())
            if not self.is_taken(point):
                return float(acquisition.values(point[None])[0]), point


def base_candidates(
    space: Space, graph: FactorGraph, evaluations: int, fixed: Mapping[int, float], granularity: Granularity
) -> list[Array]:
    """The base grid: as many candidates as the budget of work allows, all values of a small discrete domain."""
    largest = np.zeros(space.dim)
    for scope in graph.scopes:
        largest[list(scope)] = np.maximum(largest[list(scope)], len(scope))
    cardinalities = np.array([parameter.cardinality for parameter in space.parameters])
    cells = float(FINEST_PAIR**2)
    while True:
        counts = np.clip(np.floor(cells ** (1 / largest) + 1e-9), COARSEST, FINEST).astype(np.int64)
        sizes = np.where(space.is_categorical, cardinalities, np.minimum(counts, cardinalities))
        sizes[list(fixed)] = 1
        total = np.multiply.reduceat(sizes[graph.members], graph.starts[:-1]).sum()
        if total * (evaluations + OVERHEAD) ** 2 <= granularity.work or (counts == COARSEST).all():
            break
        cells /= 2
    return [
        np.array([fixed[i]]) if i in fixed else parameter.grid(int(counts[i]))
        for i, parameter in enumerate(space.parameters)
    ]


def ascend(acquisition: Smooth, start: Array, moving: NDArray[np.int64], steps: int) -> tuple[float, Array]:
    """Gradient ascent of phi in the coordinates ``moving``, within the unit cube; never below the start."""
    point = start.copy()

    def descent(free: Array) -> tuple[float, Array]:
        point[moving] = free
        value, gradient = acquisition.value_and_gradient(point)
        return -value, -gradient[moving]

    before = -descent(start[moving])[0]
    found = minimize(
        descent,
        start[moving],
        jac=True,
        method="L-BFGS-B",
        bounds=[(0.0, 1.0)] * len(moving),
        options={"maxiter": steps},
    )
    if not -found.fun > before:
        return before, start
    point[moving] = np.clip(found.x, 0.0, 1.0)
    return float(-found.fun), point


def _outward(
    acquisition: AverageAcquisition, start: Array, candidates: Sequence[Array]
) -> Iterator[tuple[float, Array]]:
    """Points of the grid, the best first as far as met: from each, one coordinate is changed at a time."""
    heap = [(-float(acquisition.values(start[None])[0]), start.tobytes())]
    met = {start.tobytes()}
    while heap:
        score, key = heapq.heappop(heap)
        point = np.frombuffer(key)
        yield -score, point
        for i, values in enumerate(acquisition.lines(point, candidates)):
            for value, coordinate in zip(values, candidates[i], strict=True):
                near = point.copy()
                near[i] = coordinate
                if near.tobytes() not in met:
                    met.add(near.tobytes())
                    heapq.heappush(heap, (-float(value), near.tobytes()))


def _chosen(candidates: Sequence[Array], maximum: Maximum) -> Array:
    return np.array([values[k] for values, k in zip(candidates, maximum.choice, strict=True)])


def _spacing(values: Array) -> float:
    return float(np.diff(values).max()) if len(values) > 1 else 0.0
