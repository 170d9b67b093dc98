"""From grids to points: increasing granularity, a continuous polish, and no point twice.

A base grid over the whole domain comes first, its fineness set by a budget of work. Then grids of a few cells zoom in
around the maximiser, halving their spacing each time, with the incumbent's coordinates among the candidates; the
number of levels grows with the logarithm of the number of evaluations. Last, a gradient ascent moves the continuous
coordinates between the grid points. No step may lower the acquisition.
"""

from __future__ import annotations

import heapq
import itertools
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from dechbo.acquisition import EnsembleUCB
from dechbo.data.history import RESOLUTION
from dechbo.data.observations import Observations
from dechbo.errors import SpaceExhausted
from dechbo.gp import Surrogate
from dechbo.gp.ensemble import Posterior
from dechbo.maxsum import Maximum
from dechbo.search.engine import Engine
from dechbo.search.grids import Granularity, base_candidates, grid_graph, gridded, spacing_of
from dechbo.search.joint_search import WORTHWHILE, Scout
from dechbo.search.polish import ascend
from dechbo.search.restart import FreshLook, Refit
from dechbo.space import Region, Space

Array = NDArray[np.float64]

COARSE = 1 / 12  # a spacing above this may hide a hill between two candidates
MOST_DRAWS = 10_000  # random points after which a space counts as exhausted
CONSTRAINED_DRAWS, IDLE_DRAWS = 200, 50  # the same under constraints, in all and in a row that met nothing new
ENUMERABLE = 20_000  # finite spaces up to this size are searched point by point when points are taken


@dataclass(frozen=True, eq=False)
class Suggestion:
    """A point, the certificate of the final grid it came from, and the acquisition at the point itself."""

    point: Array
    maximum: Maximum
    polished_value: float
    upper_bound: float  # of the base grid and the final one: rigorous where the base grid holds every value
    source: str = "acquisition"  # or "joint bound", or "elsewhere"


@dataclass(frozen=True, eq=False)
class Search:
    """One maximisation of the acquisition: what is modelled, what is held fixed, what must not come again."""

    space: Space
    gp: Surrogate
    data: Observations
    beta: float
    pending: Array  # (m, d), whose values are on the way
    fixed: Mapping[int, float]
    incumbent: Array  # (d,), with the fixed coordinates, and where the known constraints hold
    is_taken: Callable[[Array], bool]  # evaluated, pending, or against a known constraint
    granularity: Granularity = field(default_factory=Granularity)
    recurring: bool = False  # whether the next search will have the same model and so the same base grid
    look_elsewhere: bool = True  # whether to leave a point of which the model knows that it is no better
    champions: Array | None = None  # (n, d), the best points known; None: by the model
    joint: bool = False  # whether the joint bound chooses, or the sum of the factors' bounds with its certificate
    refit: Refit | None = None  # how a model is fitted anew, where fresh looks are wished
    searched: int = 0  # evaluations that a model had asked for
    failures: Array | None = None  # (n, d), where evaluations failed: as well as known, but nothing is awaited there

    def run(self, engine: Engine) -> Suggestion:
        """The maximiser on grids, if the factors can have them; then, if wished, the best by the joint bound."""
        if self.gridded is None:
            return self._off_grid(None)
        on_grid = self._on_grid(engine, self.gridded)
        return self._off_grid(on_grid) if self.joint or self.gridded is not self.gp else self._or_elsewhere(on_grid)

    def _on_grid(self, engine: Engine, gp: Surrogate) -> Suggestion:
        """Base grid, zooms, polish; then the best point that is not taken."""
        candidates = self.base
        maximum = self._maximum(engine, gp, candidates, recurring=self.recurring)
        if maximum.value == -np.inf:  # loopy max-sum met no allowed cell, but there is one
            maximum = self._at_anchor(candidates, maximum)
        spacing = np.array([spacing_of(values) for values in candidates])
        bound = maximum.upper_bound
        coarse = bool(spacing[self._moving].max(initial=0.0) > COARSE)
        for _ in range(self.granularity.levels(len(self.data)) if self._zoomable.any() else 0):
            point = _chosen(candidates, maximum)
            candidates = self._zoomed(point, spacing)
            finer = self._maximum(engine, gp, candidates)
            if finer.value < maximum.value:  # loopy max-sum may miss what the coarser grid had found
                choice = np.array([np.searchsorted(v, x) for v, x in zip(candidates, point, strict=True)])
                ceiling = max(finer.upper_bound, maximum.value)
                finer = replace(finer, choice=choice, value=maximum.value, upper_bound=ceiling)
            maximum = finer
            spacing = spacing / 2
        value, point = self._polished(_chosen(candidates, maximum), maximum, coarse)
        # a value below the grid's maximum means that better points were taken: what is offered is the point's own value
        offered = replace(maximum, value=min(value, maximum.value))
        return Suggestion(point, offered, value, max(bound, maximum.upper_bound))

    def _maximum(self, engine: Engine, gp: Surrogate, candidates: list[Array], recurring: bool = False) -> Maximum:
        if not self.space.constraints:
            return engine.suggest(gp, self.data, self.beta, candidates, pending=self.narrowing, recurring=recurring)
        walls = self.space.region.tables(candidates)
        return engine.suggest(
            gp, self.data, self.beta, candidates, pending=self.narrowing, recurring=recurring, extra=walls
        )

    def _at_anchor(self, candidates: list[Array], maximum: Maximum) -> Maximum:
        anchor = self.space.region.allowed_point(self.fixed)
        if anchor is None:
            raise AssertionError("a slice without an allowed point is searched")
        held = set(self.space.region.variables)
        choice = np.array([np.searchsorted(v, anchor[i]) if i in held else 0 for i, v in enumerate(candidates)])
        value = float(self.acquisition.values(_chosen(candidates, replace(maximum, choice=choice))[None])[0])
        return replace(maximum, choice=choice, value=value, upper_bound=max(value, maximum.upper_bound))

    def _off_grid(self, on_grid: Suggestion | None) -> Suggestion:
        """The best by the joint bound, from the maximiser on the grids and from strewn starts; nothing is certified."""
        known = [self.incumbent] if on_grid is None else [on_grid.point]
        found = self.scout.best(known)
        if found is None:  # a finite space, nearly all taken
            return self.rescored(on_grid, self.best_untaken(self.incumbent)[1], "joint bound")
        return self._or_elsewhere(self.rescored(on_grid, found[1], "joint bound"))

    def _or_elsewhere(self, chosen: Suggestion) -> Suggestion:
        """The point chosen, unless a fresh look is due, or it can gain nothing: then the joint bound says where to."""
        if not self.look_elsewhere:
            return chosen
        scout, repeats = self.scout, False
        if self.refit is not None and not self.fixed:
            look = FreshLook(self.scout, self.known, self.narrowing, self.refit, self.searched)
            scout, repeats = look.unrepeating, look.repeats(chosen.point)
            point = look.point() if (repeats or look.is_due) and look.would_stay(chosen.point) else None
            if point is not None:
                return self.rescored(chosen, point, "elsewhere")
        if not repeats and self.scout.promise(chosen.point[None])[0] >= WORTHWHILE:
            return chosen
        return self.rescored(chosen, scout.elsewhere(chosen.point), "elsewhere")

    def rescored(self, on_grid: Suggestion | None, point: Array, source: str) -> Suggestion:
        """``point``, which no certificate speaks of."""
        value = float(self.acquisition.values(point[None])[0])
        if on_grid is None:
            choice = np.zeros(self.space.dim, dtype=np.int64)
            maximum = Maximum(choice, value, np.inf, rounds=0, converged=False, residual=np.inf, mean=value)
            return Suggestion(point, maximum, value, np.inf, source)
        offered = replace(on_grid.maximum, value=min(value, on_grid.maximum.value), upper_bound=np.inf)
        return Suggestion(point, offered, value, np.inf, source)

    @cached_property
    def gridded(self) -> Surrogate | None:
        """What of the model can be put on grids: the members without a factor that is too large; None if none can."""
        return gridded(self.gp, self.space)

    @cached_property
    def scout(self) -> Scout:
        """The search by the joint bound."""
        return Scout(
            self.space,
            self.posterior,
            self.data,
            self.beta,
            self.fixed,
            self.incumbent,
            self.base,
            np.flatnonzero(self.space.is_continuous & ~np.isin(np.arange(self.space.dim), list(self.fixed))),
            self.is_taken,
            self.granularity.polish_steps,
            self.champions,
            self.pending,
            self.known if self.failures is None else self.known.with_pending(self.failures),
        )

    @cached_property
    def acquisition(self) -> EnsembleUCB:
        """phi between the grid points, deviations narrowed by the pending points."""
        return EnsembleUCB.of(self.posterior, self.beta)

    @cached_property
    def base(self) -> list[Array]:
        """The base grid."""
        return base_candidates(
            self.space, grid_graph(self.gp, self.space), len(self.data), self.fixed, self.granularity
        )

    @cached_property
    def _zoomable(self) -> NDArray[np.bool_]:
        """Which variables have values between their candidates on the base grid."""
        parameters = zip(self.space.parameters, self.base, strict=True)
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
                answer.append(self.base[i])  # it holds every value: so does every finer grid
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
            region, steps = self.space.region, self.granularity.polish_steps
            for start in (at_grid, self.incumbent) if coarse or region.constraints else (at_grid,):
                reached.append(ascend(self.acquisition, start, self._moving, steps, region))
        free = [pair for pair in reached if not self.is_taken(pair[1])]
        return max(free, key=lambda pair: pair[0]) if free else self.best_untaken(at_grid)

    @cached_property
    def posterior(self) -> Posterior:
        """The model given the data, deviations narrowed by the pending points and the failures."""
        return self.known.with_pending(self.narrowing)

    @cached_property
    def known(self) -> Posterior:
        """The model given the data alone."""
        return self.gp.condition(self.data)

    @cached_property
    def narrowing(self) -> Array:
        """Pending points and failures, (n, d)."""
        return self.pending if self.failures is None else np.vstack([self.pending, self.failures])

    def points(self) -> Array:
        """Every point of a finite space, or of the slice that is fixed, (n, d)."""
        parameters = enumerate(self.space.parameters)
        values = [[self.fixed[i]] if i in self.fixed else p.grid(ENUMERABLE) for i, p in parameters]
        return np.array(list(itertools.product(*values)))

    def best_untaken(self, start: Array) -> tuple[float, Array]:
        """The best point of a small finite space that is not taken; elsewhere the best of those met from ``start``."""
        acquisition, parameters = self.acquisition, self.space.parameters
        free = [p.cardinality for i, p in enumerate(parameters) if i not in self.fixed]
        if math.prod(free) <= ENUMERABLE:
            points = np.array([point for point in self.points() if not self.is_taken(point)])
            if len(points) == 0:
                raise SpaceExhausted("every point of this finite space is evaluated or pending")
            scores = acquisition.values(points)
            return float(scores.max()), points[int(scores.argmax())]
        wider = [
            np.concatenate([[x], grid[np.abs(grid - x) > RESOLUTION]]) for grid, x in zip(self.base, start, strict=True)
        ]
        for value, point in itertools.islice(_outward(acquisition, start, wider, self.space.region), 1000):
            if not self.is_taken(point):
                return value, point
        rng = np.random.default_rng(len(self.data))
        for point in patiently(self.space, (self.space.draw(rng, self.fixed) for _ in itertools.count()), 0):
            if not self.is_taken(point):
                return float(acquisition.values(point[None])[0]), point
        raise SpaceExhausted("no point is left that is neither evaluated nor pending and that the constraints allow")


def patiently(space: Space, points: Iterable[Array], known: int) -> Iterator[Array]:
    """As many of ``points`` as it takes to find that a space is exhausted, of which ``known`` points may be met.

    Under constraints a draw is dear, and their region may be a few points: it ends when nothing new comes.
    """
    if not space.constraints:
        yield from itertools.islice(points, known + MOST_DRAWS)
        return
    met: set[bytes] = set()
    idle = 0
    for point in itertools.islice(points, known + CONSTRAINED_DRAWS):
        place = (point / RESOLUTION).round().tobytes()
        idle = idle + 1 if place in met else 0
        met.add(place)
        if idle == IDLE_DRAWS:
            return
        yield point


def _outward(
    acquisition: EnsembleUCB, start: Array, candidates: Sequence[Array], region: Region
) -> Iterator[tuple[float, Array]]:
    """Points of the grid, the best first as far as met: from each, one coordinate is changed at a time.

    What a known constraint forbids is not met.
    """
    walled = set(region.variables)
    heap = [(-float(acquisition.values(start[None])[0]), start.tobytes())]
    met = {start.tobytes()}
    while heap:
        score, key = heapq.heappop(heap)
        point = np.frombuffer(key)
        yield -score, point
        for i, values in enumerate(acquisition.lines(point, candidates)):
            line = np.tile(point, (len(values), 1))
            line[:, i] = candidates[i]
            allowed = region.allows(line) if i in walled else np.ones(len(values), dtype=bool)
            for value, near, inside in zip(values, line, allowed, strict=True):
                if inside and near.tobytes() not in met:
                    met.add(near.tobytes())
                    heapq.heappush(heap, (-float(value), near.tobytes()))


def _chosen(candidates: Sequence[Array], maximum: Maximum) -> Array:
    return np.array([values[k] for values, k in zip(candidates, maximum.choice, strict=True)])
