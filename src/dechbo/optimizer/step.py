"""One step: from a history to the next point.

``suggest`` is pure: a problem, a history and a state go in, a suggestion and the next state come out. The state only
saves work: from an empty one the same suggestion comes, bit for bit.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from dechbo.acquisition import BetaContext, beta_schedule
from dechbo.data.history import History
from dechbo.errors import SpaceExhausted
from dechbo.gp import Surrogate
from dechbo.graph import FactorGraph
from dechbo.models.builder import ModelBuilder
from dechbo.models.committee import Committee
from dechbo.models.fits import Fits
from dechbo.models.members import CommitteeBuilder
from dechbo.models.model import Model
from dechbo.models.refits import RefitSchedule, Replayed
from dechbo.optimizer.info import AskInfo, Opinion
from dechbo.search.decision import Portfolio, decide
from dechbo.search.draws import bounded_draws
from dechbo.search.engine import Engine
from dechbo.search.excluded import Excluded
from dechbo.search.grid_search import FactorSearch
from dechbo.search.grids import base_candidates, gridded
from dechbo.search.initial import initial_points
from dechbo.search.joint_search import N_INCUMBENTS, JointSearch
from dechbo.search.maxsum_proposal import MaxSumProposal, maxsum_proposal
from dechbo.search.options import SearchOptions
from dechbo.search.sample_proposal import sample_proposal
from dechbo.space import Space
from dechbo.space.fixed import fixed_coordinates
from dechbo.theory import TheoryOptions, lipschitz_estimate, step_bound

Array = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class SearchProblem:
    """Everything about a run that no evaluation changes."""

    builder: ModelBuilder  # of the factors' model
    search: SearchOptions
    theory: TheoryOptions
    n_initial: int
    switched_off: tuple[str, ...] = ()  # options that the beta schedule or a given graph overrides

    @classmethod
    def of(cls, builder: ModelBuilder, search: SearchOptions, theory: TheoryOptions, n_initial: int) -> SearchProblem:
        """The problem with the options that the beta schedule allows.

        The theory's schedules guarantee no regret for the maximiser of the factors' bounds on grids and for no other
        point, so the committee is switched off.
        """
        plain = ("centred",) if builder.needs_plain_kernels else ()
        if not theory.guaranteed or search.score == "factors":
            return cls(builder, search, theory, n_initial, plain)
        return cls(builder, replace(search, score="factors"), theory, n_initial, (*plain, 'score="joint"'))

    @property
    def space(self) -> Space:
        """The parameters."""
        return self.builder.space

    @property
    def committees(self) -> CommitteeBuilder:
        """The builder of committees for the same run."""
        b = self.builder
        return CommitteeBuilder(b.space, b.graph, b.seed, b.sign, b.noise, b.max_factor_size, b.options)

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

    def portfolio(self, t: int) -> Portfolio:
        """The scores that take turns; with a beta of the user's own, only the bound with that beta."""
        if isinstance(self.theory.beta, str):
            return Portfolio(self.search.acquisitions)
        context = BetaContext(FactorGraph.singletons(self.space.dim), np.zeros(self.space.dim), self.theory.delta)
        return Portfolio(("bound",), beta_schedule(self.theory.beta)(t, context))


@dataclass(frozen=True, eq=False)
class SearchState:
    """What is kept between asks to save work."""

    fits: Fits = field(default_factory=Fits)
    committee: tuple[int, Committee] | None = None  # with the number of evaluations it knows
    models: RefitSchedule | None = None  # of the factors' model


@dataclass(frozen=True, eq=False)
class Suggested:
    """A point, and what the ask did to find it."""

    point: Array
    info: AskInfo


def suggest(
    problem: SearchProblem, history: History, state: SearchState, fixed: Mapping[int, float], engine: Engine
) -> tuple[Suggested, SearchState]:
    """The next point and the next state."""
    if needs_initial_point(problem, history):
        info = AskInfo("initial design", 0.0, switched_off=problem.switched_off)
        return Suggested(initial_point(problem, history, fixed), info), state
    if branch := unseen_branch(problem, history, fixed):
        info = AskInfo("initial design", 0.0, switched_off=problem.switched_off)
        return Suggested(initial_point(problem, history, {**fixed, **branch}), info), state
    if problem.search.score == "factors" and not history.reports_constraints:
        return suggest_by_factors(problem, history, state, fixed, engine)
    clock = [time.perf_counter()]
    committee, state = believe(problem, history, state)
    clock.append(time.perf_counter())
    space, pending = problem.space, history.unresolved
    incumbents = starting_points(problem, history, fixed)
    seed, wanted = (problem.builder.seed, len(history.evaluations), len(pending)), problem.search.proposals
    proposal = drawn = None
    if "max-sum" in wanted:
        proposal = maxsum_proposal(committee, space, pending, fixed, incumbents[0], engine)
    if "sample" in wanted:
        drawn = sample_proposal(committee, space, fixed, (*seed, 6))
    clock.append(time.perf_counter())
    cost = len(committee.members) * (len(committee.data) + len(pending)) ** 2
    search = JointSearch(space, fixed, incumbents, excluded_points(problem, history), seed, cost)
    given = {"max-sum": None if proposal is None else proposal.point, "sample": drawn}
    proposals = search.proposals(wanted, {name: point for name, point in given.items() if point is not None})
    portfolio = problem.portfolio(len(committee.data) + 1)
    awaited = np.array(history.pending).reshape(-1, space.dim)
    decision = decide(committee, search, proposals, pending, awaited, history.feasible_successes, portfolio)
    found = decision.found
    clock.append(time.perf_counter())
    info = AskInfo(
        found.source,
        0.0,
        acquisition=decision.acquisition,
        members=opinions(committee, found.point),
        parts=dict(zip(("models", "max-sum", "search"), np.diff(clock).tolist(), strict=True)),
        graph=None if state.fits.graph is None else state.fits.graph.graph,
        beta=decision.beta,
        polished_value=found.value,
        jitter=committee.jitter,
        refitted=True,
        graph_converged=None if state.fits.graph is None else state.fits.graph.posterior.converged,
        switched_off=problem.switched_off,
    )
    return Suggested(found.point, info if proposal is None else with_certificate(info, proposal, found.point)), state


def with_certificate(info: AskInfo, proposal: MaxSumProposal, point: Array) -> AskInfo:
    """``info`` with the certificate of max-sum's proposal."""
    maximum = proposal.maximum
    is_point = bool((proposal.point == point).all())
    return replace(
        info,
        graph=proposal.graph,
        value=maximum.value,
        upper_bound=maximum.upper_bound,
        gap=maximum.gap,
        rounds=maximum.rounds,
        converged=maximum.converged,
        certified=is_point and bool(np.isfinite(maximum.upper_bound)),
    )


def believe(problem: SearchProblem, history: History, state: SearchState) -> tuple[Committee, SearchState]:
    """The committee given the whole history."""
    known = len(history.evaluations)
    if state.committee is not None and state.committee[0] == known:
        return state.committee[1], state
    committee, fits = problem.committees.build(history.evaluations, history.points, state.fits)
    return committee, replace(state, fits=fits, committee=(known, committee))


def starting_points(problem: SearchProblem, history: History, fixed: Mapping[int, float]) -> Array:
    """The incumbents (n, d), with the coordinates ``fixed`` and where the known constraints hold.

    Inactive parameters start at what the best evaluation that used them had.
    """
    space, sign = problem.space, problem.builder.sign
    best = history.incumbents(sign, len(history.evaluations) if space.conditions else N_INCUMBENTS)
    starts = [space.conditions.filled(x, best) if space.conditions else x for x in best[:N_INCUMBENTS]]
    return np.array([_allowed(space, x, fixed) for x in starts])


def opinions(committee: Committee, point: Array) -> tuple[Opinion, ...]:
    """What every member thinks of ``point``."""
    parts = zip(committee.members, committee.weights, committee.posteriors, strict=True)
    moments = [(member.name, float(weight), *posterior.joint(point[None])) for member, weight, posterior in parts]
    return tuple(Opinion(name, weight, float(mean[0]), float(sd[0])) for name, weight, mean, sd in moments)


def needs_initial_point(problem: SearchProblem, history: History) -> bool:
    """Whether the initial design is unfinished: too few points, or no success yet."""
    return not history.successes or len(history.evaluations) + len(history.pending) < problem.n_initial


def excluded_points(problem: SearchProblem, history: History) -> Excluded:
    """What must not be suggested: evaluated and pending points, unless values are noisy."""
    points = np.empty((0, problem.space.dim)) if problem.may_repeat else history.occupied
    return Excluded(problem.space, points)


def unseen_branch(problem: SearchProblem, history: History, fixed: Mapping[int, float]) -> dict[int, float]:
    """The choices of a branch that the initial design has missed: a model has nothing to say about its parameters.

    At most as many such asks as the initial design has.
    """
    conditions, occupied = problem.space.conditions, history.occupied
    if not conditions or len(occupied) >= 2 * problem.n_initial:
        return {}
    branch = conditions.unseen(occupied, fixed)
    return branch if branch and history.remaining({**fixed, **branch})[1] > 0 else {}


def initial_point(problem: SearchProblem, history: History, fixed: Mapping[int, float]) -> Array:
    """The next point of the initial design that is not excluded."""
    excluded = excluded_points(problem, history)
    drawn = len(history.evaluations) + len(history.pending)
    points = initial_points(problem.space, problem.builder.seed, drawn, len(history.asked), fixed)
    for point in bounded_draws(problem.space, points, len(excluded.points) + drawn):
        if point not in excluded:
            return point
    raise SpaceExhausted("no point is left that is neither evaluated nor pending and that the constraints allow")


# ------------------------------------------------------------ the paper's parts


def suggest_by_factors(
    problem: SearchProblem, history: History, state: SearchState, fixed: Mapping[int, float], engine: Engine
) -> tuple[Suggested, SearchState]:
    """The step with the paper's parts: one kind of model, the sum of the factors' bounds, max-sum on grids."""
    model, schedule = factor_model(problem, history, state, engine)
    space, data, index = problem.space, model.data, len(history.asked)
    beta = problem.beta(len(data) + 1, model.gp)
    recurring = problem.builder.grid_recurs(model, index)
    incumbent = _allowed(space, history.incumbent(problem.builder.sign), fixed)
    search = FactorSearch(
        space,
        model.gp,
        data,
        beta,
        history.unresolved,
        fixed,
        incumbent,
        excluded_points(problem, history),
        problem.search.granularity,
        recurring=recurring,
    )
    suggestion = search.run(engine)
    maximum = suggestion.maximum
    deviation = search.acquisition.deviation(suggestion.point)
    slack = suggestion.upper_bound - suggestion.polished_value  # infinite where nothing is certified
    info = AskInfo(
        "max-sum",
        0.0,
        acquisition="factors",
        graph=model.gp.graph,
        beta=beta,
        value=maximum.value,
        upper_bound=maximum.upper_bound,
        gap=maximum.gap,
        rounds=maximum.rounds,
        converged=maximum.converged,
        certified=bool(np.isfinite(maximum.upper_bound)),
        polished_value=suggestion.polished_value,
        step_bound=step_bound(beta, deviation, slack) * model.scaling.scale,
        jitter=model.gp.condition(data).jitter,
        refitted=model.refitted,
        graph_converged=None if model.learned is None else model.learned.converged,
        switched_off=problem.switched_off,
    )
    return Suggested(suggestion.point, info), replace(state, models=schedule.after_ask(history, model))


def factor_model(
    problem: SearchProblem, history: History, state: SearchState, engine: Engine
) -> tuple[Model, RefitSchedule]:
    """The factors' model of the next ask; the engine's caches follow what had to be replayed for it."""
    schedule = RefitSchedule(problem.builder) if state.models is None else state.models
    model, replayed = schedule.model(history)
    _prepare(problem, history, replayed, engine)
    return model, schedule


def _prepare(problem: SearchProblem, history: History, replayed: list[Replayed], engine: Engine) -> None:
    builder, granularity, space = problem.builder, problem.search.granularity, problem.space
    for ask in replayed:
        on_grid = gridded(ask.model.gp, space)
        if on_grid is not None and builder.grid_recurs(ask.model, ask.index):
            data, fixed = ask.model.data, fixed_coordinates(space, history.asked[ask.index].fixed)
            engine.prepare(on_grid, data, base_candidates(space, on_grid.graph, len(data), fixed, granularity))


def _allowed(space: Space, point: Array, fixed: Mapping[int, float]) -> Array:
    """``point`` with the coordinates ``fixed``, moved to where the known constraints hold."""
    moved = point.copy()
    moved[list(fixed)] = list(fixed.values())
    nearest = space.region.nearest(moved, fixed) if space.constraints else moved
    return moved if nearest is None else nearest
