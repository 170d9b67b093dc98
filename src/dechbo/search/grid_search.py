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
from collections.abc import Iterable, Iterator, Mapping, Sequence
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
from dechbo.search.excluded import Exclusion
from dechbo.search.grids import Granularity, base_candidates, grid_graph, gridded, spacing_of
from dechbo.search.joint_search import MIN_GAIN, JointSearch
from dechbo.search.polish import polish
from dechbo.search.restart import Refit, Restart
from dechbo.space import Region, Space

Array = NDArray[np.float64]

COARSE_SPACING = 1 / 12  # a spacing above this may hide a hill between two candidates
MAX_DRAWS = 10_000  # random points after which a space counts as exhausted
MAX_CONSTRAINED_DRAWS, MAX_IDLE_DRAWS = 200, 50  # under constraints: in all, and in a row without a new point
MAX_ENUMERATED = 20_000  # finite spaces up to this size are searched point by point where points are excluded


@dataclass(frozen=True, eq=False)
class Suggestion:
    """A point, the certificate of the final grid it came from, and the acquisition at the point itself."""

    point: Array
    maximum: Maximum
    polished_value: float
    upper_bound: float  # of the base grid and the final one: rigorous where the base grid holds every value
    source: str = "acquisition"  # or "joint bound", "restart", "constrained"


@dataclass(frozen=True, eq=False)
class Search:
    """One maximisation of the acquisition: the model, what is fixed, and what is excluded."""

    space: Space
    gp: Surrogate
    data: Observations
    beta: float
    pending: Array  # (m, d)
    fixed: Mapping[int, float]
    incumbent: Array  # (d,), with the fixed coordinates, moved to where the known constraints hold
    excluded: Exclusion  # evaluated, pending, or against a known constraint
    granularity: Granularity = field(default_factory=Granularity)
    recurring: bool = False  # whether the next search has the same model and base grid
    restarts: bool = True  # whether to leave an exhausted optimum
    incumbents: Array | None = None  # (n, d), the best points known; None: by posterior mean
    joint: bool = False  # score by the joint bound, or by the sum of the factors' bounds with its certificate
    refit: Refit | None = None  # fits the model of a restart
    n_modelled: int = 0  # evaluations that a model asked for
    failures: Array | None = None  # (n, d), where evaluations failed

    def run(self, engine: Engine) -> Suggestion:
        """The maximiser on grids, if the factors have tables; then, if asked for, the best by the joint bound."""
        if self.gridded is None:
            return self._off_grid(None)
        on_grid = self._on_grid(engine, self.gridded)
        return self._off_grid(on_grid) if self.joint or self.gridded is not self.gp else self._or_restart(on_grid)

    def _on_grid(self, engine: Engine, gp: Surrogate) -> Suggestion:
        """Base grid, zooms, polish; then the best point that is not excluded."""
        candidates = self.base
        maximum = self._maximum(engine, gp, candidates, recurring=self.recurring)
        if maximum.value == -np.inf:  # loopy max-sum met no allowed cell, but there is one
            maximum = self._at_anchor(candidates, maximum)
        spacing = np.array([spacing_of(values) for values in candidates])
        bound = maximum.upper_bound
        coarse = bool(spacing[self._moving].max(initial=0.0) > COARSE_SPACING)
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
        # a value below the grid's maximum means that better points were excluded: report the point's own value
        offered = replace(maximum, value=min(value, maximum.value))
        return Suggestion(point, offered, value, max(bound, maximum.upper_bound))

    def _maximum(self, engine: Engine, gp: Surrogate, candidates: list[Array], recurring: bool = False) -> Maximum:
        if not self.space.constraints:
            return engine.suggest(gp, self.data, self.beta, candidates, pending=self.unresolved, recurring=recurring)
        walls = self.space.region.tables(candidates)
        return engine.suggest(
            gp, self.data, self.beta, candidates, pending=self.unresolved, recurring=recurring, extra=walls
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
        """The best by the joint bound, from the grid's maximiser and scattered starts; nothing is certified."""
        known = [self.incumbent] if on_grid is None else [on_grid.point]
        found = self.joint_search.best(known)
        if found is None:  # a finite space, nearly all excluded
            return self.rescored(on_grid, self.best_not_excluded(self.incumbent)[1], "joint bound")
        return self._or_restart(self.rescored(on_grid, found[1], "joint bound"))

    def _or_restart(self, chosen: Suggestion) -> Suggestion:
        """The chosen point, unless a restart is due or the point cannot improve anything: then another one."""
        if not self.restarts:
            return chosen
        joint_search, repeats = self.joint_search, False
        if self.refit is not None and not self.fixed:
            restart = Restart(self.joint_search, self.known, self.unresolved, self.refit, self.n_modelled)
            joint_search, repeats = restart.without_repeats, restart.repeats(chosen.point)
            point = restart.point() if (repeats or restart.is_due) and restart.would_stay(chosen.point) else None
            if point is not None:
                return self.rescored(chosen, point, "restart")
        if not repeats and self.joint_search.optimistic_gain(chosen.point[None])[0] >= MIN_GAIN:
            return chosen
        return self.rescored(chosen, joint_search.best_alternative(chosen.point), "restart")

    def rescored(self, on_grid: Suggestion | None, point: Array, source: str) -> Suggestion:
        """``point``, without a certificate."""
        value = float(self.acquisition.values(point[None])[0])
        if on_grid is None:
            choice = np.zeros(self.space.dim, dtype=np.int64)
            maximum = Maximum(choice, value, np.inf, rounds=0, converged=False, residual=np.inf, mean=value)
            return Suggestion(point, maximum, value, np.inf, source)
        offered = replace(on_grid.maximum, value=min(value, on_grid.maximum.value), upper_bound=np.inf)
        return Suggestion(point, offered, value, np.inf, source)

    @cached_property
    def gridded(self) -> Surrogate | None:
        """The members of the model whose factors all have tables; None if there is none."""
        return gridded(self.gp, self.space)

    @cached_property
    def joint_search(self) -> JointSearch:
        """The search by the joint bound."""
        return JointSearch(
            self.space,
            self.posterior,
            self.data,
            self.beta,
            self.fixed,
            self.incumbent,
            self.base,
            np.flatnonzero(self.space.is_continuous & ~np.isin(np.arange(self.space.dim), list(self.fixed))),
            self.excluded,
            self.granularity.polish_steps,
            self.incumbents,
            self.pending,
            self.known if self.failures is None else self.known.with_pending(self.failures),
        )

    @cached_property
    def acquisition(self) -> EnsembleUCB:
        """phi off the grid, deviations conditioned on the pending points."""
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
        """The best point that polishing reaches from the grid's maximiser.

        A coarse base grid may have missed the hill on which the incumbent stands: then from there as well.
        """
        reached = [(maximum.value, at_grid)]
        if len(self._moving) and self.granularity.polish_steps:
            region, steps = self.space.region, self.granularity.polish_steps
            for start in (at_grid, self.incumbent) if coarse or region.constraints else (at_grid,):
                reached.append(polish(self.acquisition, start, self._moving, steps, region))
        free = [pair for pair in reached if pair[1] not in self.excluded]
        return max(free, key=lambda pair: pair[0]) if free else self.best_not_excluded(at_grid)

    @cached_property
    def posterior(self) -> Posterior:
        """The model given the data, deviations conditioned on pending and failed points."""
        return self.known.with_pending(self.unresolved)

    @cached_property
    def known(self) -> Posterior:
        """The model given the data alone."""
        return self.gp.condition(self.data)

    @cached_property
    def unresolved(self) -> Array:
        """Pending points and failures, (n, d)."""
        return self.pending if self.failures is None else np.vstack([self.pending, self.failures])

    def points(self) -> Array:
        """Every point of a finite space that has the fixed coordinates, (n, d)."""
        parameters = enumerate(self.space.parameters)
        values = [[self.fixed[i]] if i in self.fixed else p.grid(MAX_ENUMERATED) for i, p in parameters]
        return np.array(list(itertools.product(*values)))

    def best_not_excluded(self, start: Array) -> tuple[float, Array]:
        """The best point that is not excluded: of all in a small finite space, else of those met from ``start``."""
        acquisition, parameters = self.acquisition, self.space.parameters
        free = [p.cardinality for i, p in enumerate(parameters) if i not in self.fixed]
        if math.prod(free) <= MAX_ENUMERATED:
            points = np.array([point for point in self.points() if point not in self.excluded])
            if len(points) == 0:
                raise SpaceExhausted("every point of this finite space is evaluated or pending")
            scores = acquisition.values(points)
            return float(scores.max()), points[int(scores.argmax())]
        wider = [
            np.concatenate([[x], grid[np.abs(grid - x) > RESOLUTION]]) for grid, x in zip(self.base, start, strict=True)
        ]
        for value, point in itertools.islice(_outward(acquisition, start, wider, self.space.region), 1000):
            if point not in self.excluded:
                return value, point
        rng = np.random.default_rng(len(self.data))
        for point in bounded_draws(self.space, (self.space.draw(rng, self.fixed) for _ in itertools.count()), 0):
            if point not in self.excluded:
                return float(acquisition.values(point[None])[0]), point
        raise SpaceExhausted("no point is left that is neither evaluated nor pending and that the constraints allow")


def bounded_draws(space: Space, points: Iterable[Array], known: int) -> Iterator[Array]:
    """The first of ``points``, enough to find that a space is exhausted of which ``known`` points are excluded.

    Under constraints a draw is expensive and the region may hold few points: the draws end when they only repeat.
    """
    if not space.constraints:
        yield from itertools.islice(points, known + MAX_DRAWS)
        return
    met: set[bytes] = set()
    idle = 0
    for point in itertools.islice(points, known + MAX_CONSTRAINED_DRAWS):
        place = (point / RESOLUTION).round().tobytes()
        idle = idle + 1 if place in met else 0
        met.add(place)
        if idle == MAX_IDLE_DRAWS:
            return
        yield point


def _outward(
    acquisition: EnsembleUCB, start: Array, candidates: Sequence[Array], region: Region
) -> Iterator[tuple[float, Array]]:
    """Points of the grid in the order of a best-first search that changes one coordinate at a time.

    Points that break a known constraint are left out.
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
