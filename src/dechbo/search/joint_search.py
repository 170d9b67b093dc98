"""The best point by a joint score: proposals, the best of them polished, the best of all that may be suggested."""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize

from dechbo.acquisition.score import Score
from dechbo.errors import SpaceExhausted
from dechbo.search.draws import MAX_ENUMERATED, bounded_draws, listed_points
from dechbo.search.exchange import exchange
from dechbo.search.excluded import Exclusion
from dechbo.search.options import PROPOSALS
from dechbo.search.polish import polish
from dechbo.search.proposals import Proposals, around, spread, within_reach
from dechbo.space import Space

Array = NDArray[np.float64]
Indices = NDArray[np.int64]

N_INCUMBENTS = 5  # around which proposals are made
N_SPREAD, N_AROUND = 512, 128  # proposals over the space, and around each incumbent
MAX_WORK = 4e9  # multiply-adds for the scores of the proposals
N_POLISHED, N_POLISHED_SPREAD = 5, 3  # best of all proposals, and best of those over the space, that are polished
POLISH_STEPS = 40
N_EXCHANGED = 2  # polished points whose discrete coordinates are exchanged
MAX_LISTED = 4096  # finite spaces up to this size are scored whole


@dataclass(frozen=True, eq=False)
class Found:
    """The point of a search, its score, and the source of the proposal it came from."""

    point: Array
    value: float
    source: str


@dataclass(frozen=True, eq=False)
class CanonicalScore:
    """A score over a space with conditional parameters: inactive coordinates change nothing."""

    score: Score
    space: Space

    def values(self, points: Array) -> Array:
        """At ``points`` (n, d)."""
        return self.score.values(self.space.canonical(points))

    def gradients(self, points: Array) -> tuple[Array, Array]:
        """The values, and their gradients, 0 for inactive parameters."""
        values, slopes = self.score.gradients(self.space.canonical(points))
        return values, np.where(self.space.conditions.active(points), slopes, 0.0)


@dataclass(frozen=True, eq=False)
class JointSearch:
    """Where to search: the space, what is fixed and excluded, the incumbents, and the random numbers."""

    space: Space
    fixed: Mapping[int, float]
    incumbents: Array  # (n, d), the best first, with the fixed coordinates and where the known constraints hold
    excluded: Exclusion
    seed: Sequence[int]  # of the proposals
    cost: float = 1.0  # multiply-adds to score one proposal

    def maximum(self, score: Score, proposals: Proposals) -> Found:
        """The best point by ``score`` that is not excluded, from ``proposals`` uphill."""
        if self.space.conditions:
            score = CanonicalScore(score, self.space)
        values = score.values(proposals.points)
        order = np.argsort(-values, kind="stable")
        ends, sources = self._polished(score, proposals, order)
        points = np.vstack([ends, proposals.points[order]])
        scores = np.append(score.values(ends), values[order])
        names = [*sources, *(proposals.sources[k] for k in order)]
        for k in np.argsort(-scores, kind="stable"):
            if points[k] not in self.excluded:
                return Found(self.space.canonical(points[k : k + 1])[0], float(scores[k]), names[k])
        point = self._not_excluded(score)
        return Found(point, float(score.values(point[None])[0]), "spread")

    def proposals(self, wanted: Sequence[str] = PROPOSALS, given: Mapping[str, Array] | None = None) -> Proposals:
        """The ``wanted`` kinds, with the fixed coordinates and within the known constraints; ``given`` ones come first.

        A small finite space is listed whole. Where nothing wanted is to be had, the space is searched.
        """
        parts = [(name, point[None]) for name, point in (given or {}).items()]
        if self._size <= MAX_LISTED:
            return Proposals.joined([*parts, ("spread", self._listed())])
        rng = np.random.default_rng([*self.seed, 7])
        share = float(np.clip(MAX_WORK / (self.cost * (N_SPREAD + N_INCUMBENTS * N_AROUND)), 0.1, 1.0))
        drawn = []
        if "spread" in wanted or not (parts or "incumbent" in wanted):
            drawn.append(("spread", spread(self.space, rng, int(share * N_SPREAD))))
        if "incumbent" in wanted:
            drawn += [("incumbent", around(self.space, rng, c, int(share * N_AROUND))) for c in self.incumbents]
        anchor = self.incumbents[0]
        parts += [(name, within_reach(self.space, points, self.fixed, anchor)) for name, points in drawn]
        return Proposals.joined(parts)

    def _polished(self, score: Score, proposals: Proposals, order: Indices) -> tuple[Array, list[str]]:
        """The ends of ascents from the best proposals, and the sources of these proposals."""
        over_space = [k for k in order.tolist() if proposals.sources[k] == "spread"]
        given = [k for k, name in enumerate(proposals.sources) if name not in ("spread", "incumbent")]
        chosen = list(dict.fromkeys([*given, *order[:N_POLISHED].tolist(), *over_space[:N_POLISHED_SPREAD]]))
        points, sources = proposals.points[chosen], [proposals.sources[k] for k in chosen]
        points = self._ascended(score, points)
        if len(self.discrete):
            best = np.argsort(-score.values(points), kind="stable")[:N_EXCHANGED]
            exchanged = np.array([exchange(score, self.space, points[k], self.discrete) for k in best])
            points = np.vstack([self._ascended(score, exchanged), points])
            sources = [*(sources[k] for k in best), *sources]
        return points, sources

    def _ascended(self, score: Score, starts: Array) -> Array:
        """Gradient ascent in the continuous coordinates of all ``starts`` (n, d) at once; none ends lower."""
        moving = self.moving
        if len(moving) == 0:
            return starts
        if self.space.constraints:
            one = _OnePoint(score)
            return np.array([polish(one, start, moving, POLISH_STEPS, self.space.region)[1] for start in starts])
        points = starts.copy()

        def descent(free: Array) -> tuple[float, Array]:
            points[:, moving] = free.reshape(len(starts), -1)
            values, slopes = score.gradients(points)
            return -float(values.sum()), -slopes[:, moving].ravel()

        bounds = [(low, 1.0) for low in self.space.lowest[moving]] * len(starts)
        options = {"maxiter": POLISH_STEPS}
        found = minimize(
            descent, starts[:, moving].ravel(), jac=True, method="L-BFGS-B", bounds=bounds, options=options
        )
        points[:, moving] = np.clip(found.x.reshape(len(starts), -1), self.space.lowest[moving], 1.0)
        better = score.values(points) > score.values(starts)
        answer: Array = np.where(better[:, None], points, starts)
        return answer

    @cached_property
    def moving(self) -> Indices:
        """Continuous coordinates that are not fixed."""
        return np.array([i for i in np.flatnonzero(self.space.is_continuous) if i not in self.fixed], dtype=np.int64)

    @cached_property
    def discrete(self) -> Indices:
        """Discrete coordinates that are not fixed."""
        return np.array([i for i in np.flatnonzero(~self.space.is_continuous) if i not in self.fixed], dtype=np.int64)

    @property
    def _size(self) -> float:
        """The number of points with the fixed coordinates."""
        return math.prod(p.cardinality for i, p in enumerate(self.space.parameters) if i not in self.fixed)

    def _listed(self) -> Array:
        """Every allowed point of a finite space, (n, d)."""
        points = listed_points(self.space, self.fixed)
        return points[self.space.region.allows(points)] if self.space.constraints else points

    def _not_excluded(self, score: Score) -> Array:
        """A point that is not excluded: the best of all in a small finite space, otherwise a random one."""
        if self._size <= MAX_ENUMERATED:
            points = np.array([point for point in self._listed() if point not in self.excluded])
            if len(points) == 0:
                raise SpaceExhausted("every point of this finite space is evaluated or pending")
            best: Array = points[int(score.values(points).argmax())]
            return best
        rng = np.random.default_rng([*self.seed, 8])
        draws = (self.space.draw(rng, self.fixed) for _ in itertools.count())
        for point in bounded_draws(self.space, draws, 0):
            if point not in self.excluded:
                return point
        raise SpaceExhausted("no point is left that is neither evaluated nor pending and that the constraints allow")


@dataclass(frozen=True, eq=False)
class _OnePoint:
    """A score at one point at a time, as ``polish`` wants it."""

    score: Score

    def value_and_gradient(self, point: Array) -> tuple[float, Array]:
        values, slopes = self.score.gradients(point[None])
        return float(values[0]), slopes[0]
