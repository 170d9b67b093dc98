"""One step: from a history to the next point.

``suggest`` is pure: a problem, a history and a state go in, a suggestion and the next state come out. The state only
saves work: from an empty one the same suggestion comes, bit for bit.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from dechbo.data.history import History
from dechbo.models.committee import Committee
from dechbo.optimizer.design import suggest_initially
from dechbo.optimizer.info import AskInfo, Opinion
from dechbo.optimizer.paper_step import suggest_by_factors
from dechbo.optimizer.problem import SearchProblem, SearchState, Suggested
from dechbo.search.decision import Decision, decide
from dechbo.search.engine import Engine
from dechbo.search.joint_search import N_INCUMBENTS, JointSearch
from dechbo.search.maxsum_proposal import MaxSumProposal, maxsum_proposal
from dechbo.search.sample_proposal import sample_proposal

Array = NDArray[np.float64]


def suggest(
    problem: SearchProblem, history: History, state: SearchState, fixed: Mapping[int, float], engine: Engine
) -> tuple[Suggested, SearchState]:
    """The next point and the next state."""
    initial = suggest_initially(problem, history, fixed)
    if initial is not None:
        return initial, state
    if problem.decides_by_factors(history):
        return suggest_by_factors(problem, history, state, fixed, engine)
    clock, before = [time.perf_counter()], state
    committee, state = believe(problem, history, state)
    clock.append(time.perf_counter())
    search = joint_search(problem, history, fixed, committee)
    proposal, given = factor_proposals(problem, history, committee, search, engine)
    clock.append(time.perf_counter())
    proposals = search.proposals(problem.search.proposals, given)
    awaited = np.array(history.pending).reshape(-1, problem.space.dim)
    portfolio = problem.portfolio(len(committee.data) + 1)
    decision = decide(committee, search, proposals, history.unresolved, awaited, history.feasible_successes, portfolio)
    clock.append(time.perf_counter())
    parts = dict(zip(("models", "max-sum", "search"), np.diff(clock).tolist(), strict=True))
    info = replace(
        described(state, committee, decision, proposal, parts),
        refitted=state.fits.fitted != before.fits.fitted,
        switched_off=problem.all_switched_off(history),
    )
    return Suggested(decision.found.point, info), state


def joint_search(
    problem: SearchProblem, history: History, fixed: Mapping[int, float], committee: Committee
) -> JointSearch:
    """Where this ask searches: the space, what is fixed and excluded, the incumbents, its random numbers."""
    unresolved = len(history.unresolved)
    seed = (problem.builder.seed, len(history.evaluations), unresolved)
    cost = len(committee.members) * (len(committee.data) + unresolved) ** 2
    return JointSearch(
        problem.space, fixed, starting_points(problem, history, fixed), problem.excluded(history), seed, cost
    )


def factor_proposals(
    problem: SearchProblem, history: History, committee: Committee, search: JointSearch, engine: Engine
) -> tuple[MaxSumProposal | None, dict[str, Array]]:
    """What max-sum proposes for the factors' bounds, with its certificate, and the points of all factors' proposals."""
    space, fixed, given = problem.space, search.fixed, {}
    proposal = None
    if "max-sum" in problem.search.proposals:
        proposal = maxsum_proposal(committee, space, history.unresolved, fixed, search.incumbents[0], engine)
        if proposal is not None:
            given["max-sum"] = proposal.point
    if "sample" in problem.search.proposals:
        drawn = sample_proposal(committee, space, fixed, (*search.seed, 6))
        if drawn is not None:
            given["sample"] = drawn
    return proposal, given


def described(
    state: SearchState,
    committee: Committee,
    decision: Decision,
    proposal: MaxSumProposal | None,
    parts: Mapping[str, float],
) -> AskInfo:
    """What an ask did."""
    learned = state.fits.graph
    info = AskInfo(
        decision.found.source,
        0.0,
        acquisition=decision.acquisition,
        members=opinions(committee, decision.found.point),
        parts=parts,
        graph=None if learned is None else learned.graph,
        beta=decision.beta,
        polished_value=decision.found.value,
        jitter=committee.jitter,
        graph_converged=None if learned is None else learned.posterior.converged,
    )
    return info if proposal is None else with_certificate(info, proposal, decision)


def with_certificate(info: AskInfo, proposal: MaxSumProposal, decision: Decision) -> AskInfo:
    """``info`` with the certificate of max-sum's proposal."""
    maximum = proposal.maximum
    is_point = bool((proposal.point == decision.found.point).all())
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
    return np.array([problem.allowed(x, fixed) for x in starts])


def opinions(committee: Committee, point: Array) -> tuple[Opinion, ...]:
    """What every member thinks of ``point``."""
    parts = zip(committee.members, committee.weights, committee.posteriors, strict=True)
    moments = [(member.name, float(weight), *posterior.joint(point[None])) for member, weight, posterior in parts]
    return tuple(Opinion(name, weight, float(mean[0]), float(sd[0])) for name, weight, mean, sd in moments)
