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
from collections.abc import Iterator, Mapping, Sequence
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
from dechbo.search.draws import MAX_ENUMERATED, bounded_draws, listed_points
from dechbo.search.engine import Engine
from dechbo.search.excluded import Exclusion
from dechbo.search.grids import Granularity, base_candidates, grid_graph, gridded, spacing_of
from dechbo.search.polish import polish
from dechbo.space import Space

Array = NDArray[np.float64]

OFF_GRID_STEPS = 100  # of the ascent where no factor can have a table
COARSE_SPACING = 1 / 12  # a spacing above this may hide a hill between two candidates


@dataclass(frozen=True, eq=False)
class Suggestion:
    """A point, the certificate of the final grid it came from, and the acquisition at the point itself."""

    point: Array
    maximum: Maximum
    polished_value: float
    upper_bound: float  # of the base grid and the final one: rigorous where the base grid holds every value


@dataclass(frozen=True, eq=False)
class FactorSearch:
    """One maximisation of the sum of the factors' bounds: the model, what is fixed, and what is excluded."""

    space: Space
    gp: Surrogate
    data: Observations
    beta: float
    pending: Array  # (m, d), on which the deviations are conditioned: asked for, or failed
    fixed: Mapping[int, float]
    incumbent: Array  # (d,), with the fixed coordinates, moved to where the known constraints hold
    excluded: Exclusion  # evaluated, pending, or against a known constraint
    granularity: Granularity = field(default_factory=Granularity)
    recurring: bool = False  # whether the next search has the same model and base grid

    def run(self, engine: Engine) -> Suggestion:
        """The maximiser on grids; off them, and without a certificate, if no factor can have a table."""
        if self.gridded is None:
            return self._off_grid()
        return self._on_grid(engine, self.gridded)

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
        if not self.space.constraints and not self.space.conditions:
            return engine.suggest(gp, self.data, self.beta, candidates, pending=self.pending, recurring=recurring)
        walls = self.space.region.tables(candidates) + self.space.conditions.tables(candidates)
        return engine.suggest(
            gp, self.data, self.beta, candidates, pending=self.pending, recurring=recurring, extra=walls
        )

    def _at_anchor(self, candidates: list[Array], maximum: Maximum) -> Maximum:
        anchor = self.space.region.allowed_point(self.fixed)
        if anchor is None:
            raise AssertionError("a slice without an allowed point is searched")
        anchor = self.space.canonical(anchor[None])[0]
        held = {*self.space.region.variables, *self.space.conditions.variables}
        choice = np.array([np.abs(v - anchor[i]).argmin() if i in held else 0 for i, v in enumerate(candidates)])
        value = float(self.acquisition.values(_chosen(candidates, replace(maximum, choice=choice))[None])[0])
        return replace(maximum, choice=choice, value=value, upper_bound=max(value, maximum.upper_bound))

    def _off_grid(self) -> Suggestion:
        """The best by the sum of the bounds, from the incumbent uphill; nothing is certified."""
        value, point = polish(self.acquisition, self.incumbent, self._moving, OFF_GRID_STEPS, self.space.region)
        if point in self.excluded:
            value, point = self.best_not_excluded(point)
        choice = np.zeros(self.space.dim, dtype=np.int64)
        maximum = Maximum(choice, value, np.inf, rounds=0, converged=False, residual=np.inf, mean=value)
        return Suggestion(point, maximum, value, np.inf)

    @cached_property
    def gridded(self) -> Surrogate | None:
        """The members of the model whose factors all have tables; None if there is none."""
        return gridded(self.gp, self.space)

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
        always = np.array([i not in self.space.conditions for i in range(self.space.dim)])
        return np.flatnonzero(self._zoomable & self.space.is_continuous & always)

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
            elif self.space.is_continuous[i] and i not in self.space.conditions:
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
        """The model given the data, deviations conditioned on pending points."""
        return self.gp.condition(self.data).with_pending(self.pending)

    def best_not_excluded(self, start: Array) -> tuple[float, Array]:
        """The best point that is not excluded: of all in a small finite space, else of those met from ``start``."""
        acquisition, parameters = self.acquisition, self.space.parameters
        free = [p.cardinality for i, p in enumerate(parameters) if i not in self.fixed]
        if math.prod(free) <= MAX_ENUMERATED:
            points = np.array([point for point in listed_points(self.space, self.fixed) if point not in self.excluded])
            if len(points) == 0:
                raise SpaceExhausted("every point of this finite space is evaluated or pending")
            scores = acquisition.values(points)
            return float(scores.max()), points[int(scores.argmax())]
        wider = [
            np.concatenate([[x], grid[np.abs(grid - x) > RESOLUTION]]) for grid, x in zip(self.base, start, strict=True)
        ]
        for value, point in itertools.islice(_outward(acquisition, start, wider, self.space), 1000):
            if point not in self.excluded:
                return value, point
        rng = np.random.default_rng(len(self.data))
        for point in bounded_draws(self.space, (self.space.draw(rng, self.fixed) for _ in itertools.count()), 0):
            if point not in self.excluded:
                return float(acquisition.values(point[None])[0]), point
        raise SpaceExhausted("no point is left that is neither evaluated nor pending and that the constraints allow")


def _outward(
    acquisition: EnsembleUCB, start: Array, candidates: Sequence[Array], space: Space
) -> Iterator[tuple[float, Array]]:
    """Points of the grid in the order of a best-first search that changes one coordinate at a time.

    A choice takes the parameters that it makes active or inactive along. Points that break a known constraint are left
    out.
    """
    region = space.region
    walled, choices = set(region.variables), set(space.conditions.variables)
    heap = [(-float(acquisition.values(start[None])[0]), start.tobytes())]
    met = {start.tobytes()}
    while heap:
        score, key = heapq.heappop(heap)
        point = np.frombuffer(key)
        yield -score, point
        for i, values in enumerate(acquisition.lines(point, candidates)):
            line = np.tile(point, (len(values), 1))
            line[:, i] = candidates[i]
            if i in choices:
                line = space.canonical(line)
                values = acquisition.values(line)
            allowed = region.allows(line) if i in walled else np.ones(len(values), dtype=bool)
            for value, near, inside in zip(values, line, allowed, strict=True):
                if inside and near.tobytes() not in met:
                    met.add(near.tobytes())
                    heapq.heappush(heap, (-float(value), near.tobytes()))


def _chosen(candidates: Sequence[Array], maximum: Maximum) -> Array:
    return np.array([values[k] for values, k in zip(candidates, maximum.choice, strict=True)])
