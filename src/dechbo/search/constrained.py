"""The search under constraints that are learned from what evaluations report (feasible where c <= 0).

Every constraint has an additive model of its own, g = -c, so that larger is more feasible. On the grid the objective's
bound and the constraints' bounds split over the factors alike: the maximiser of phi + sum_c lambda_c phi_c, the
multipliers found by dual ascent, says where to start. The choice itself is made by the joint bounds: the largest
mu + sqrt(beta) sigma of the objective among the points whose constraints may hold, mu_c + sqrt(beta) sigma_c >= 0.
So the optimum is approached from both sides: every other ask demands that the constraints hold cautiously,
mu_c - kappa sigma_c >= 0. As long as no feasible point is known, the likeliest one is asked for.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray
from scipy.special import log_ndtr

from dechbo.acquisition import JointConfidenceBound, acquisition_tables
from dechbo.data.observations import Observations
from dechbo.gp import Surrogate
from dechbo.gp.ensemble import Posterior, weighted_members
from dechbo.graph import FactorGraph, Scope
from dechbo.models.model import Model
from dechbo.search.engine import Engine
from dechbo.search.grid_search import Search, Suggestion
from dechbo.search.grids import base_candidates, gridded
from dechbo.search.joint_search import ASCENTS, WORTHWHILE, Scout
from dechbo.search.polish import MET, Smooth, climb, edges, within
from dechbo.space import Space

Array = NDArray[np.float64]

CAUTION = 0.5  # kappa^2
DUAL_ROUNDS = 5  # of the multipliers on the grid
GRID_SHARE = 0.1  # of the work that a search without constraints puts into its base grid
FOLLOWED = 2  # starts of each kind that are followed uphill
NEARLY = 1e-3  # a limit missed by this much, in standard deviations of its values, counts as met
ENUMERABLE = 2000  # finite spaces up to this size are searched point by point


@dataclass(frozen=True, eq=False)
class Limit:
    """One learned constraint: it holds where g >= ``threshold``, in standard deviations of its values."""

    gp: Surrogate
    data: Observations
    pending: Array  # (m, d) points that narrow the deviations
    threshold: float

    @classmethod
    def of(cls, model: Model, pending: Array) -> Limit:
        """From the model of -c, whose zero is the threshold."""
        return cls(model.gp, model.data, pending, float(model.scaling.standard(np.zeros(1))[0]))

    @cached_property
    def posterior(self) -> Posterior:
        """The model given its data and what is pending."""
        return self.gp.condition(self.data).with_pending(self.pending)

    def gridded(self, space: Space) -> Limit | None:
        """What of the model can have tables; None if nothing can."""
        gp = gridded(self.gp, space)
        if gp is self.gp:
            return self  # with its posterior
        return None if gp is None else replace(self, gp=gp)


@dataclass(frozen=True, eq=False)
class Margin:
    """How far a confidence bound of a constraint lies above its threshold, with its gradient."""

    bound: JointConfidenceBound
    threshold: float

    def values(self, points: Array) -> Array:
        """At ``points`` (n, d)."""
        return self.bound.values(points) - self.threshold

    def value_and_gradient(self, point: Array) -> tuple[float, Array]:
        """At one point."""
        value, gradient = self.bound.value_and_gradient(point)
        return value - self.threshold, gradient


@dataclass(frozen=True, eq=False)
class Likelihood:
    """log of the probability that all constraints hold, sum_c log Phi((mu_c - threshold) / sigma_c).

    Of an ensemble, sigma_c holds what its members disagree about, too: where they do, nothing is sure.
    """

    limits: Sequence[Limit]

    def values(self, points: Array) -> Array:
        """At ``points`` (n, d)."""
        total = np.zeros(len(points))
        for limit in self.limits:
            mean, deviation = limit.posterior.joint(points)
            total += log_ndtr((mean - limit.threshold) / np.maximum(deviation, MET))
        return total

    def value_and_gradient(self, point: Array) -> tuple[float, Array]:
        """At one point."""
        total, slope = 0.0, np.zeros(len(point))
        for limit in self.limits:
            mean, change, deviation, deviation_change = _moments(limit.posterior, point)
            z = (mean - limit.threshold) / deviation
            share = float(log_ndtr(z))
            # phi / Phi in logarithms: both vanish where a constraint is far from holding
            rate = float(np.exp(np.clip(-0.5 * z * z - 0.5 * np.log(2 * np.pi) - share, -700, 700)))
            total += share
            slope += rate * (change - z * deviation_change) / deviation
        return total, slope


def _moments(posterior: Posterior, point: Array) -> tuple[float, Array, float, Array]:
    """mu and sigma at one point, each with its gradient; sigma^2 = sum_k w_k (sigma_k^2 + mu_k^2) - mu^2."""
    mean, square = 0.0, 0.0
    change, square_change = np.zeros(len(point)), np.zeros(len(point))
    for weight, member in weighted_members(posterior):
        mu, mu_change = JointConfidenceBound(member, 0.0).value_and_gradient(point)
        upper, upper_change = JointConfidenceBound(member, 1.0).value_and_gradient(point)
        sigma, sigma_change = upper - mu, upper_change - mu_change
        mean, change = mean + weight * mu, change + weight * mu_change
        square += weight * (sigma**2 + mu**2)
        square_change += 2 * weight * (sigma * sigma_change + mu * mu_change)
    deviation = max(math.sqrt(max(square - mean**2, 0.0)), MET)
    return mean, change, deviation, (square_change - 2 * mean * change) / (2 * deviation)


@dataclass(frozen=True, eq=False)
class ConstrainedSearch:
    """One maximisation of the objective's bound where the constraints may hold, or hold cautiously."""

    search: Search
    limits: Sequence[Limit]
    feasible: bool  # whether a feasible evaluation is known
    cautious: bool

    def run(self, engine: Engine) -> Suggestion:
        """The point, which no certificate speaks of."""
        point = self._likeliest() if not self.feasible else None
        if point is None and self.cautious:
            point = self._best(engine, self._margins(CAUTION, lower=True))
        if point is None:
            point = self._best(engine, self._margins(self.search.beta))
        if point is None:
            point = self._likeliest()
        if point is None:
            point = self.search.best_untaken(self.search.incumbent)[1]
        return self.search.rescored(None, point, "constrained")

    @cached_property
    def _scout(self) -> Scout:
        """The objective's; of the pending points those count that may well be feasible: others are no rivals."""
        pending = self.search.pending
        missed = _shortfall(self._margins(0.0), pending)
        return replace(self.search.scout, pending=pending[missed <= NEARLY])

    def _margins(self, beta: float, *, lower: bool = False) -> list[Margin]:
        return [Margin(JointConfidenceBound(limit.posterior, beta, lower), limit.threshold) for limit in self.limits]

    def _best(self, engine: Engine, margins: Sequence[Margin]) -> Array | None:
        """The free point with the largest bound of the objective at which all ``margins`` are kept; None: none is."""
        search = self.search
        known = [search.incumbent, *self._lagrangian(engine, margins)[-FOLLOWED:]]
        starts = np.vstack([*known, self._starts])
        values, shortfall = self._scout.joint.values(starts), _shortfall(margins, starts)
        order = np.lexsort([-values, shortfall > NEARLY])
        merit = np.argsort(-(values - 10 * shortfall), kind="stable")
        follow = [*range(len(known)), *order[:FOLLOWED].tolist(), *merit[:FOLLOWED].tolist()]
        ends = self._climbed(self._scout.joint, margins, [starts[k] for k in dict.fromkeys(follow)])
        points = np.vstack([ends, starts]) if len(ends) else starts
        values, shortfall = self._scout.joint.values(points), _shortfall(margins, points)
        order = np.argsort(-values, kind="stable")
        free = (k for k in order if shortfall[k] <= NEARLY and not search.is_taken(points[k]))
        return self._worthwhile(points, next(free, None))

    def _likeliest(self) -> Array | None:
        """The free point at which all constraints hold most probably."""
        search, likelihood = self.search, Likelihood(self.limits)
        starts = np.vstack([search.incumbent, self._starts])
        order = np.argsort(-likelihood.values(starts), kind="stable")
        ends = self._climbed(likelihood, (), [starts[k] for k in order[: 2 * ASCENTS]])
        points = np.vstack([ends, starts]) if len(ends) else starts
        order = np.argsort(-likelihood.values(points), kind="stable")
        chosen = next((k for k in order if not search.is_taken(points[k])), None)
        return None if chosen is None else np.array(points[chosen])

    def _worthwhile(self, points: Array, chosen: int | None) -> Array | None:
        """The chosen point, if it may gain anything over the best feasible one; if not, another that may hold."""
        if chosen is None:
            return None
        search, point = self.search, np.array(points[chosen])
        if not search.look_elsewhere or self._scout.promise(point[None])[0] >= WORTHWHILE:
            return point
        margins = self._margins(search.beta)

        def is_out(other: Array) -> bool:
            return search.is_taken(other) or bool(_shortfall(margins, other[None])[0] > NEARLY)

        return replace(self._scout, is_taken=is_out).elsewhere(point)

    def _climbed(self, target: Smooth, margins: Sequence[Margin], starts: Sequence[Array]) -> list[Array]:
        """Where ascents within the margins and the known constraints end."""
        search = self.search
        region, moving, steps = search.space.region, self._scout.moving, search.granularity.polish_steps
        if not len(moving) or not steps:
            return []
        held = [*margins, *edges(region)]
        return [within(region, start, climb(target, held, start, moving, steps), moving) for start in starts]

    def _lagrangian(self, engine: Engine, margins: Sequence[Margin]) -> list[Array]:
        """Maximisers of phi + sum_c lambda_c phi_c on the base grid, for multipliers that follow the margins missed."""
        search, space = self.search, self.search.space
        objective = gridded(search.gp, space)
        limits = [part for limit in self.limits if (part := limit.gridded(space)) is not None]
        if objective is None or len(limits) < len(self.limits):
            return []
        graph = _union([objective.graph, *(limit.gp.graph for limit in limits)])
        work = replace(search.granularity, work=GRID_SHARE * search.granularity.work)
        candidates = base_candidates(space, graph, len(search.data), search.fixed, work)
        walls = space.region.tables(candidates)
        tables = [acquisition_tables(limit.posterior, candidates, search.beta) for limit in limits]
        multipliers = np.zeros(len(self.limits))
        points: list[Array] = []
        for turn in range(DUAL_ROUNDS):
            extra: list[tuple[Scope, Array]] = list(walls)
            for multiplier, table in zip(multipliers, tables, strict=True):
                if multiplier > 0:
                    extra += [
                        (s, multiplier * cells) for s, cells in zip(table.graph.scopes, table.values, strict=True)
                    ]
            maximum = engine.suggest(
                objective, search.data, search.beta, candidates, pending=search.narrowing, extra=extra
            )
            point = np.array([values[k] for values, k in zip(candidates, maximum.choice, strict=True)])
            kept = np.array([float(margin.values(point[None])[0]) for margin in margins])
            if space.allows(point) and not any((point == other).all() for other in points):
                points.append(point)
            updated = np.maximum(0.0, multipliers - 2.0 / (1 + turn) * kept)
            if (updated == multipliers).all():
                break
            multipliers = updated
        return points

    @cached_property
    def _starts(self) -> Array:
        """Strewn points, or every point of a small finite space."""
        search = self.search
        sizes = [p.cardinality for i, p in enumerate(search.space.parameters) if i not in search.fixed]
        return search.points() if math.prod(sizes) <= ENUMERABLE else self._scout.starts


def _shortfall(margins: Sequence[Margin], points: Array) -> Array:
    """By how much the margins are missed in all."""
    total = np.zeros(len(points))
    for margin in margins:
        total += np.maximum(0.0, -margin.values(points))
    return total


def _union(graphs: Sequence[FactorGraph]) -> FactorGraph:
    scopes = {frozenset(scope): scope for graph in graphs for scope in graph.scopes}
    return FactorGraph(graphs[0].dim, tuple(scopes.values()))
