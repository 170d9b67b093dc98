"""RefitSchedule: the model of an ask, step by step or replayed."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from dechbo.data.evaluation import Evaluation
from dechbo.data.history import History
from dechbo.errors import NoObservations
from dechbo.gp.ensemble import weighted_members
from dechbo.graph import FactorGraph
from dechbo.models.builder import ModelBuilder
from dechbo.models.model import REBUILD_EVERY, Model
from dechbo.models.options import ModelOptions
from dechbo.models.refits import RefitSchedule
from dechbo.structure import StructureOptions
from optimizer_cases import bowl, box

SPACE = box(3)
N_INITIAL = 4
CHAIN = FactorGraph(3, ((0, 1), (1, 2)))


def builder(graph: FactorGraph | str) -> ModelBuilder:
    return ModelBuilder(SPACE, graph, 5, -1.0, options=ModelOptions(structure=StructureOptions(chains=1, sweeps=1)))


def grow(history: History, rng: np.random.Generator, *, modelled: bool) -> None:
    """One point asked for and told, now and then a failure."""
    params = SPACE.decode(rng.random(3))
    history.ask(params, {}, modelled=modelled)
    history.tell(Evaluation.of(params, None if rng.random() < 0.1 else bowl(params)))


def numbers(model: Model) -> list[Any]:
    """Everything that a suggestion depends on, bit for bit."""
    posterior = model.gp.condition(model.data)
    thetas = [member.gp.hyperparameters for _, member in weighted_members(posterior)]
    mean, deviation = posterior.joint(np.random.default_rng(0).random((5, 3)))
    values = [[*t.lengthscales, *t.variances, t.noise] for t in thetas]
    return [model.gp.graph, model.scaling, model.fitted_on, model.refitted, values, mean.tolist(), deviation.tolist()]


@pytest.mark.parametrize("graph", [CHAIN, "random", "learned"], ids=["given", "random", "learned"])
def test_a_resumed_schedule_arrives_at_the_same_models(graph: FactorGraph | str) -> None:
    history, rng = History(SPACE), np.random.default_rng(1)
    for _ in range(N_INITIAL):
        grow(history, rng, modelled=False)
    stepwise = RefitSchedule(builder(graph))
    for index in range(N_INITIAL, 2 * REBUILD_EVERY + 4):
        model, replayed = stepwise.model(history)
        stepwise = stepwise.after_ask(history, model)
        assert replayed == []
        if index % 3 == 0:
            again, on_the_way = RefitSchedule(builder(graph)).model(history)
            assert numbers(again) == numbers(model)
            first = max(index - index % REBUILD_EVERY, N_INITIAL)
            assert [step.index for step in on_the_way] == list(range(first, index))
        grow(history, rng, modelled=True)


def test_a_preview_is_the_model_of_the_next_ask_and_changes_nothing() -> None:
    history, rng = History(SPACE), np.random.default_rng(2)
    for _ in range(N_INITIAL):
        grow(history, rng, modelled=False)
    curious, quiet = RefitSchedule(builder(CHAIN)), RefitSchedule(builder(CHAIN))
    for _ in range(REBUILD_EVERY):
        preview, _ = curious.model(history)
        curious = curious.after_preview(history, preview)
        assert curious.model(history)[0] is preview  # built once
        curious, (model, _) = curious.after_ask(history, preview), quiet.model(history)
        quiet = quiet.after_ask(history, model)
        assert numbers(model) == numbers(preview)
        grow(history, rng, modelled=True)


def test_a_schedule_is_a_value() -> None:
    """An ask gives a new schedule; the old one goes on as before."""
    history, rng = History(SPACE), np.random.default_rng(3)
    for _ in range(N_INITIAL + 2):
        grow(history, rng, modelled=False)
    schedule = RefitSchedule(builder(CHAIN))
    model, _ = schedule.model(history)
    later = schedule.after_ask(history, model)
    assert schedule.latest is None
    assert later.model(history)[0] is model
    again, _ = schedule.model(history)
    assert again is not model
    assert numbers(again) == numbers(model)


def test_a_grid_recurs_only_with_the_same_factors_and_hyperparameters() -> None:
    history, rng = History(SPACE), np.random.default_rng(4)
    for _ in range(45):
        grow(history, rng, modelled=False)
    given, random = builder(CHAIN), builder("random")
    model, _ = RefitSchedule(given).model(history)
    assert given.grid_recurs(model, 45)
    assert not given.grid_recurs(model, 49)  # the next ask is cold
    assert not random.grid_recurs(model, 45)  # the next ask has another forest
    history.tell(Evaluation.of(SPACE.decode(rng.random(3)), 1.0, None, {"size": -1.0}))
    constrained, _ = RefitSchedule(given).model(history)
    assert not given.grid_recurs(constrained, 45)


def test_a_model_needs_a_successful_evaluation() -> None:
    history = History(SPACE)
    history.tell(Evaluation.of(SPACE.decode(np.full(3, 0.5)), None))
    with pytest.raises(NoObservations, match="tell one first"):
        RefitSchedule(builder(CHAIN)).model(history)
