"""One step: from a history and a model to the next point."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import partial

import numpy as np
from numpy.typing import NDArray

from dechbo.acquisition import BetaContext, beta_schedule
from dechbo.acquisition.feasibility import LearnedConstraint
from dechbo.data.history import History
from dechbo.errors import SpaceExhausted
from dechbo.gp import Surrogate
from dechbo.models.builder import ModelBuilder
from dechbo.models.model import Model
from dechbo.optimizer.info import AskInfo
from dechbo.search.constrained import ConstrainedSearch
from dechbo.search.engine import Engine
from dechbo.search.excluded import Excluded
from dechbo.search.grid_search import Search, bounded_draws
from dechbo.search.initial import initial_points
from dechbo.search.joint_search import N_INCUMBENTS
from dechbo.search.options import SearchOptions
from dechbo.space import Space
from dechbo.theory import TheoryOptions, lipschitz_estimate, step_bound

Array = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class SearchProblem:
    """Everything about a run that no evaluation changes."""

    builder: ModelBuilder
    search: SearchOptions
    theory: TheoryOptions
    n_initial: int
    switched_off: tuple[str, ...] = ()  # options that the beta schedule or a given graph overrides

    @classmethod
    def of(cls, builder: ModelBuilder, search: SearchOptions, theory: TheoryOptions, n_initial: int) -> SearchProblem:
        """The problem with the options that the beta schedule allows.

        The theory's schedules guarantee no regret for the maximiser of the factors' bounds on grids and for no other
        point, so whatever suggests another point is switched off.
        """
        plain = ("centred",) if builder.needs_plain_kernels else ()
        if not theory.guaranteed:
            return cls(builder, search, theory, n_initial, plain)
        overridden = {
            "full_factor": builder.options.full_factor and builder.graph == "learned",
            "restarts": search.restarts,
            'score="joint"': search.score == "joint",
        }
        return cls(
            replace(builder, options=replace(builder.options, full_factor=False)),
            replace(search, restarts=False, score="factors"),
            theory,
            n_initial,
            (*plain, *(name for name, was_on in overridden.items() if was_on)),
        )

    @property
    def space(self) -> Space:
        """The parameters."""
        return self.builder.space

    @property
    def may_repeat(self) -> bool:
        """Whether a point may be suggested again: only where the user says that values are noisy."""
        return self.builder.noise is not None and self.builder.noise > 0

    def beta(self, t: int, gp: Surrogate) -> float:
        """beta_t of the schedule."""
        logs = np.log([parameter.cardinality for parameter in self.space.parameters])
        lipschitz = max(lipschitz_estimate(gp), 1e-3)
        context = BetaContext(gp.graph, logs, self.theory.delta, lipschitz=lipschitz)
        return beta_schedule(self.theory.beta)(t, context)


def needs_initial_point(problem: SearchProblem, history: History) -> bool:
    """Whether the initial design is unfinished: too few points, or no success yet."""
    return not history.successes or len(history.evaluations) + len(history.pending) < problem.n_initial


def excluded_points(problem: SearchProblem, history: History) -> Excluded:
    """What must not be suggested: evaluated and pending points, unless values are noisy."""
    points = np.empty((0, problem.space.dim)) if problem.may_repeat else history.occupied
    return Excluded(problem.space, points)


def initial_point(problem: SearchProblem, history: History, fixed: Mapping[int, float]) -> Array:
    """The next point of the initial design that is not excluded."""
    excluded = excluded_points(problem, history)
    drawn = len(history.evaluations) + len(history.pending)
    points = initial_points(problem.space, problem.builder.seed, drawn, len(history.asked), fixed)
    for point in bounded_draws(problem.space, points, len(excluded.points) + drawn):
        if point not in excluded:
            return point
    raise SpaceExhausted("no point is left that is neither evaluated nor pending and that the constraints allow")


def model_point(
    problem: SearchProblem, history: History, model: Model, engine: Engine, fixed: dict[int, float], *, recurring: bool
) -> tuple[Array, AskInfo]:
    """The point that the search finds by ``model``, and its AskInfo."""
    space, index, data = problem.space, len(history.asked), model.data
    gp = problem.builder.searched_by(model, index)
    sign = problem.builder.sign
    beta = problem.beta(len(data) + 1, gp)
    search = Search(
        space,
        gp,
        data,
        beta,
        np.array(history.pending).reshape(-1, space.dim),
        fixed,
        _allowed(space, history.incumbent(sign), fixed),
        excluded_points(problem, history),
        problem.search.granularity,
        recurring=recurring,
        restarts=problem.search.restarts,
        joint=problem.search.score == "joint",
        refit=partial(problem.builder.restarted, model),
        n_modelled=sum(asked.modelled and asked.answered for asked in history.asked),
        failures=np.array(history.failures).reshape(-1, space.dim),
    )
    if model.constraints:
        best = [_allowed(space, point, fixed) for point in history.incumbents(sign, N_INCUMBENTS)]
        search = replace(search, incumbents=np.array(best))
        constraints = [LearnedConstraint.of(limit, search.unresolved) for limit in model.constraints.values()]
        known = bool(history.feasible)
        suggestion = ConstrainedSearch(search, constraints, known, cautious=index % 2 == 1).run(engine)
    else:
        suggestion = search.run(engine)
    maximum = suggestion.maximum
    deviation = search.acquisition.deviation(suggestion.point)
    slack = suggestion.upper_bound - suggestion.polished_value  # infinite where nothing is certified
    info = AskInfo(
        suggestion.source,
        0.0,
        graph=gp.graph,
        beta=beta,
        value=maximum.value,
        upper_bound=maximum.upper_bound,
        gap=maximum.gap,
        rounds=maximum.rounds,
        converged=maximum.converged,
        certified=bool(np.isfinite(maximum.upper_bound)),
        polished_value=suggestion.polished_value,
        step_bound=step_bound(beta, deviation, slack) * model.scaling.scale,
        jitter=gp.condition(data).jitter,
        refitted=model.refitted,
        graph_converged=None if model.learned is None else model.learned.converged,
        switched_off=problem.switched_off,
    )
    return suggestion.point, info


def _allowed(space: Space, point: Array, fixed: Mapping[int, float]) -> Array:
    """``point`` with the coordinates ``fixed``, moved to where the known constraints hold."""
    moved = point.copy()
    moved[list(fixed)] = list(fixed.values())
    nearest = space.region.nearest(moved, fixed) if space.constraints else moved
    return moved if nearest is None else nearest
