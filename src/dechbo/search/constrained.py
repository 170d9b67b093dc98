"""The search under constraints that are learned from what evaluations report (feasible where c <= 0).

On the grid the objective's bound and the constraints' bounds split over the factors alike: the maximiser of
phi + sum_c lambda_c phi_c, with multipliers found by dual ascent, is where the search starts. The point is chosen by
the joint bounds: the largest mu + sqrt(beta) sigma of the objective among the points whose constraints may hold,
mu_c + sqrt(beta) sigma_c >= 0. Every other ask is cautious and demands mu_c - kappa sigma_c >= 0, so that the optimum
is approached from both sides. As long as no feasible point is known, the most probably feasible one is suggested.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from dechbo.acquisition import JointConfidenceBound, acquisition_tables
from dechbo.acquisition.feasibility import ConstraintMargin, LearnedConstraint, LogFeasibility
from dechbo.graph import FactorGraph, Scope
from dechbo.search.engine import Engine
from dechbo.search.excluded import AlsoExcluded
from dechbo.search.grid_search import Search, Suggestion
from dechbo.search.grids import base_candidates, gridded
from dechbo.search.joint_search import MIN_GAIN, N_POLISHED, JointSearch
from dechbo.search.polish import Smooth, edges, polish_within, within
from dechbo.space import Space

Array = NDArray[np.float64]

CAUTION = 0.5  # kappa^2
DUAL_ROUNDS = 5  # of the multipliers on the grid
GRID_SHARE = 0.1  # of the work that a search without constraints puts into its base grid
N_FOLLOWED = 2  # starts of each kind that are followed uphill
FEASIBILITY_TOLERANCE = 1e-3  # a limit missed by this much, in standard deviations of its values, counts as met
MAX_LISTED = 2000  # finite spaces up to this size are searched whole: every point is scored by all constraint models


@dataclass(frozen=True, eq=False)
class ConstrainedSearch:
    """One maximisation of the objective's bound over the points whose constraints may hold."""

    search: Search
    constraints: Sequence[LearnedConstraint]
    feasible: bool  # whether a feasible evaluation is known
    cautious: bool

    def run(self, engine: Engine) -> Suggestion:
        """The point, without a certificate."""
        point = self._most_feasible() if not self.feasible else None
        if point is None and self.cautious:
            point = self._best(engine, self._margins(CAUTION, lower=True))
        if point is None:
            point = self._best(engine, self._margins(self.search.beta))
        if point is None:
            point = self._most_feasible()
        if point is None:
            point = self.search.best_not_excluded(self.search.incumbent)[1]
        return self.search.rescored(None, point, "constrained")

    @cached_property
    def _joint_search(self) -> JointSearch:
        """The search by the objective's joint bound; only pending points that may be feasible count as pending."""
        pending = self.search.pending
        missed = _shortfall(self._margins(0.0), pending)
        return replace(self.search.joint_search, pending=pending[missed <= FEASIBILITY_TOLERANCE])

    def _margins(self, beta: float, *, lower: bool = False) -> list[ConstraintMargin]:
        return [
            ConstraintMargin(JointConfidenceBound(limit.posterior, beta, lower), limit.threshold)
            for limit in self.constraints
        ]

    def _best(self, engine: Engine, margins: Sequence[ConstraintMargin]) -> Array | None:
        """The point with the largest bound of the objective where all ``margins`` are at least 0, if there is one."""
        search = self.search
        known = [search.incumbent, *self._lagrangian(engine, margins)[-N_FOLLOWED:]]
        starts = np.vstack([*known, self._starts])
        values, shortfall = self._joint_search.joint.values(starts), _shortfall(margins, starts)
        order = np.lexsort([-values, shortfall > FEASIBILITY_TOLERANCE])
        merit = np.argsort(-(values - 10 * shortfall), kind="stable")
        follow = [*range(len(known)), *order[:N_FOLLOWED].tolist(), *merit[:N_FOLLOWED].tolist()]
        ends = self._polished(self._joint_search.joint, margins, [starts[k] for k in dict.fromkeys(follow)])
        points = np.vstack([ends, starts]) if len(ends) else starts
        values, shortfall = self._joint_search.joint.values(points), _shortfall(margins, points)
        order = np.argsort(-values, kind="stable")
        free = (k for k in order if shortfall[k] <= FEASIBILITY_TOLERANCE and points[k] not in search.excluded)
        return self._or_alternative(points, next(free, None))

    def _most_feasible(self) -> Array | None:
        """The point that is most probably feasible."""
        search, likelihood = self.search, LogFeasibility(self.constraints)
        starts = np.vstack([search.incumbent, self._starts])
        order = np.argsort(-likelihood.values(starts), kind="stable")
        ends = self._polished(likelihood, (), [starts[k] for k in order[: 2 * N_POLISHED]])
        points = np.vstack([ends, starts]) if len(ends) else starts
        order = np.argsort(-likelihood.values(points), kind="stable")
        chosen = next((k for k in order if points[k] not in search.excluded), None)
        return None if chosen is None else np.array(points[chosen])

    def _or_alternative(self, points: Array, chosen: int | None) -> Array | None:
        """The chosen point if it may improve on the best feasible one, otherwise the best alternative."""
        if chosen is None:
            return None
        search, point = self.search, np.array(points[chosen])
        if not search.restarts or self._joint_search.optimistic_gain(point[None])[0] >= MIN_GAIN:
            return point
        margins = self._margins(search.beta)

        def is_infeasible(other: Array) -> bool:
            return bool(_shortfall(margins, other[None])[0] > FEASIBILITY_TOLERANCE)

        excluded = AlsoExcluded(search.excluded, is_infeasible)
        return replace(self._joint_search, excluded=excluded).best_alternative(point)

    def _polished(self, target: Smooth, margins: Sequence[ConstraintMargin], starts: Sequence[Array]) -> list[Array]:
        """The ends of ascents that stay within the margins and the known constraints."""
        search = self.search
        region, moving, steps = search.space.region, self._joint_search.moving, search.granularity.polish_steps
        if not len(moving) or not steps:
            return []
        limits = [*margins, *edges(region)]
        return [within(region, start, polish_within(target, limits, start, moving, steps), moving) for start in starts]

    def _lagrangian(self, engine: Engine, margins: Sequence[ConstraintMargin]) -> list[Array]:
        """Maximisers of phi + sum_c lambda_c phi_c on the base grid, one for each update of the multipliers."""
        search, space = self.search, self.search.space
        objective = gridded(search.gp, space)
        limits = [part for limit in self.constraints if (part := _on_grid(limit, space)) is not None]
        if objective is None or len(limits) < len(self.constraints):
            return []
        graph = _union([objective.graph, *(limit.gp.graph for limit in limits)])
        work = replace(search.granularity, work=GRID_SHARE * search.granularity.work)
        candidates = base_candidates(space, graph, len(search.data), search.fixed, work)
        walls = space.region.tables(candidates)
        tables = [acquisition_tables(limit.posterior, candidates, search.beta) for limit in limits]
        multipliers = np.zeros(len(self.constraints))
        points: list[Array] = []
        for turn in range(DUAL_ROUNDS):
            extra: list[tuple[Scope, Array]] = list(walls)
            for multiplier, table in zip(multipliers, tables, strict=True):
                if multiplier > 0:
                    extra += [
                        (s, multiplier * cells) for s, cells in zip(table.graph.scopes, table.values, strict=True)
                    ]
            maximum = engine.suggest(
                objective, search.data, search.beta, candidates, pending=search.unresolved, extra=extra
            )
            point = np.array([values[k] for values, k in zip(candidates, maximum.choice, strict=True)])
            margin_values = np.array([float(margin.values(point[None])[0]) for margin in margins])
            if space.allows(point) and not any((point == other).all() for other in points):
                points.append(point)
            updated = np.maximum(0.0, multipliers - 2.0 / (1 + turn) * margin_values)
            if (updated == multipliers).all():
                break
            multipliers = updated
        return points

    @cached_property
    def _starts(self) -> Array:
        """Scattered points, or every point of a small finite space."""
        search = self.search
        sizes = [p.cardinality for i, p in enumerate(search.space.parameters) if i not in search.fixed]
        return search.points() if math.prod(sizes) <= MAX_LISTED else self._joint_search.starts


def _on_grid(constraint: LearnedConstraint, space: Space) -> LearnedConstraint | None:
    """The members of the constraint's model that can have tables; None if none can."""
    gp = gridded(constraint.gp, space)
    if gp is constraint.gp:
        return constraint  # keeps its posterior
    return None if gp is None else replace(constraint, gp=gp)


def _shortfall(margins: Sequence[ConstraintMargin], points: Array) -> Array:
    """How far the margins lie below 0, summed."""
    total = np.zeros(len(points))
    for margin in margins:
        total += np.maximum(0.0, -margin.values(points))
    return total


def _union(graphs: Sequence[FactorGraph]) -> FactorGraph:
    scopes = {frozenset(scope): scope for graph in graphs for scope in graph.scopes}
    return FactorGraph(graphs[0].dim, tuple(scopes.values()))
