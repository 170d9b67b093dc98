"""The step with the paper's parts: one kind of model, the sum of the factors' bounds, max-sum on grids."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from dechbo.data.history import History
from dechbo.models.model import Model
from dechbo.models.refits import RefitSchedule, Replayed
from dechbo.optimizer.info import AskInfo
from dechbo.optimizer.problem import SearchProblem, SearchState, Suggested
from dechbo.search.engine import Engine
from dechbo.search.grid_search import FactorSearch
from dechbo.search.grids import base_candidates, gridded
from dechbo.space.fixed import fixed_coordinates
from dechbo.theory import step_bound


def suggest_by_factors(
    problem: SearchProblem, history: History, state: SearchState, fixed: Mapping[int, float], engine: Engine
) -> tuple[Suggested, SearchState]:
    """The next point and the next state."""
    model, schedule = factor_model(problem, history, state, engine)
    space, data, index = problem.space, model.data, len(history.asked)
    beta = problem.beta(len(data) + 1, model.gp)
    recurring = problem.builder.grid_recurs(model, index)
    incumbent = problem.allowed(history.incumbent(problem.builder.sign), fixed)
    search = FactorSearch(
        space,
        model.gp,
        data,
        beta,
        history.unresolved,
        fixed,
        incumbent,
        problem.excluded(history),
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
        switched_off=problem.all_switched_off(history),
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
