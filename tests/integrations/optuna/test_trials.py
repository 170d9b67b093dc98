"""Trials as histories: evaluations, pending and stale trials."""

from __future__ import annotations

import math
from datetime import timedelta
from typing import Any

import optuna
import pytest
from optuna.distributions import BaseDistribution, CategoricalDistribution, FloatDistribution
from optuna.trial import FrozenTrial, TrialState

from dechbo.integrations.optuna import OWNER, STALE, this_process
from dechbo.integrations.optuna.spaces import Translation
from dechbo.integrations.optuna.trials import (
    INDEX,
    HistoryReader,
    TrialHistory,
    constraints_of,
    free_index,
    retried_numbers,
)

SPACE: dict[str, BaseDistribution] = {"x": FloatDistribution(0, 1), "c": CategoricalDistribution(["a", "b"])}
GONE = this_process().replace('"started": ', '"started": 9')


def trial(
    number: int, state: TrialState, value: float | None = None, x: float | None = 0.5, **more: Any
) -> FrozenTrial:
    params = {} if x is None else {"x": x, "c": "b"}
    frozen = optuna.trial.create_trial(
        state=state,
        value=value,
        params=params,
        distributions={name: SPACE[name] for name in params},
        intermediate_values=more.pop("reports", None),
        system_attrs=more.pop("attrs", None),
    )
    frozen.number = frozen._trial_id = number
    assert not more
    return frozen


def read(*trials: FrozenTrial, own: int | None = None, maximize: bool = False) -> TrialHistory:
    return HistoryReader(Translation.of(SPACE)).history(trials, maximize=maximize, own=own)


def values(history: TrialHistory) -> list[float | None]:
    return [evaluation.value for evaluation in history.evaluations]


COMPLETE, PRUNED, FAIL, RUNNING, WAITING = (
    TrialState.COMPLETE,
    TrialState.PRUNED,
    TrialState.FAIL,
    TrialState.RUNNING,
    TrialState.WAITING,
)


def test_finished_trials_are_evaluations_in_the_order_of_their_numbers() -> None:
    history = read(trial(3, FAIL, x=0.25), trial(0, COMPLETE, 1.5), trial(2, COMPLETE, math.inf))
    assert values(history) == [1.5, None, None]
    assert history.evaluations[2].params == {"x": 0.25, "c": "b"}


def test_a_pruned_trial_is_no_better_than_the_median_of_the_complete_ones_before_it() -> None:
    trials = [trial(0, COMPLETE, 1.0), trial(1, COMPLETE, 3.0), trial(5, COMPLETE, 100.0)]
    pruned = trial(2, PRUNED, reports={1: 7.0, 4: 0.5, 3: 9.0})
    worse = trial(3, PRUNED, reports={0: 8.0})
    silent, broken = trial(4, PRUNED), trial(6, PRUNED, reports={0: math.nan})
    assert values(read(*trials, pruned, worse, silent, broken)) == [1.0, 3.0, 2.0, 8.0, None, 100.0, None]
    assert values(read(*trials, pruned, worse, maximize=True)) == [1.0, 3.0, 0.5, 2.0, 100.0]
    assert values(read(pruned)) == [0.5]


def test_stale_trials_are_not_evaluations() -> None:
    died = trial(0, FAIL, attrs={STALE: True})
    stale, retry = trial(1, FAIL), trial(2, COMPLETE, 1.0, attrs={"retry_history": [1]})
    replaced, instead = trial(3, FAIL), trial(4, COMPLETE, 2.0, attrs={INDEX: 3})
    running = trial(5, RUNNING, attrs={OWNER: GONE})
    history = read(died, stale, retry, replaced, instead, running)
    assert values(history) == [1.0, 2.0]
    assert history.pending == []


def test_running_trials_are_pending_unless_their_process_is_dead() -> None:
    mine = {OWNER: this_process()}
    trials = [
        trial(0, RUNNING),
        trial(1, RUNNING, attrs=mine),
        trial(2, RUNNING, attrs={OWNER: GONE}),
        trial(3, WAITING),
    ]
    history = read(*trials, own=1)
    assert [number for number, _ in history.pending] == [0]
    assert [number for number, _ in read(*trials).pending] == [0, 1]


def test_trials_without_all_parameters_are_incomplete_if_they_have_an_owner() -> None:
    mine = {OWNER: this_process()}
    known = trial(0, RUNNING, x=None, attrs={**mine, "fixed_params": {"x": 0.25, "other": 1}})
    nobody = trial(1, RUNNING, x=None)
    outside = trial(2, RUNNING, x=None, attrs={**mine, "fixed_params": {"x": 25}})
    later = trial(9, RUNNING, x=None, attrs=mine)
    assert read(known, nobody, outside, later, own=9).incomplete == [(0, {"x": 0.25})]
    assert read(known, nobody, outside, later).incomplete == [(0, {"x": 0.25}), (9, {})]


def test_trials_of_another_space_are_left_out() -> None:
    outside = optuna.trial.create_trial(
        value=1.0, params={"x": 5.0, "c": "a"}, distributions={"x": FloatDistribution(0, 9), "c": SPACE["c"]}
    )
    lacking = optuna.trial.create_trial(value=1.0, params={"x": 0.5}, distributions={"x": SPACE["x"]})
    assert values(read(outside, lacking, trial(3, COMPLETE, 2.0))) == [2.0]


def test_the_cache_notices_changed_parameters() -> None:
    reader = HistoryReader(Translation.of(SPACE))
    first = reader.history([trial(0, COMPLETE, 1.0, x=0.25)], maximize=False)
    again = reader.history([trial(0, COMPLETE, 1.0, x=0.25)], maximize=False)
    other = reader.history([trial(0, COMPLETE, 1.0, x=0.75)], maximize=False)
    assert first.evaluations == again.evaluations
    assert other.evaluations[0].params["x"] == 0.75


def test_constraints_in_both_formats() -> None:
    attrs = {"constraints": [1, -2.5], "constraints:memory": 0.5, "constraints:odd": None, "other": 3}
    assert constraints_of(trial(0, COMPLETE, 1.0, attrs=attrs)) == {"0": 1.0, "1": -2.5, "memory": 0.5}
    assert constraints_of(trial(0, COMPLETE, 1.0, attrs={"constraints": None})) == {}
    evaluation = read(trial(0, COMPLETE, 1.0, attrs=attrs)).evaluations[0]
    assert evaluation.constraints == {"0": 1.0, "1": -2.5, "memory": 0.5}
    assert not evaluation.feasible


@pytest.mark.parametrize(("limit", "value"), [(math.inf, None), (math.nan, None), (-math.inf, 1.0)])
def test_constraints_that_are_not_finite(limit: float, value: float | None) -> None:
    (evaluation,) = read(trial(0, COMPLETE, 1.0, attrs={"constraints": [limit, 0.5]})).evaluations
    assert evaluation.value == value
    assert evaluation.constraints == {"1": 0.5}


def test_the_index_of_a_stale_trial_is_free() -> None:
    done, mine = [trial(n, COMPLETE, 0.0) for n in range(3)], {OWNER: this_process()}
    dead = trial(3, RUNNING, attrs={OWNER: GONE})
    fourth, fifth = trial(4, RUNNING, x=None), trial(5, RUNNING, x=None)
    assert free_index([*done, dead, fourth], own=4) == 3
    assert free_index([*done, dead, trial(4, RUNNING, attrs={INDEX: 3, **mine}), fifth], own=5) == 4
    # a trial with a lower number and no index yet takes the first free one
    assert free_index([*done, dead, fourth, fifth], own=5) == 4
    assert free_index([*done, dead, fourth, fifth], own=4) == 3
    assert free_index([*done, trial(3, RUNNING, attrs=mine), fourth], own=4) == 4
    assert free_index([trial(0, WAITING), trial(1, RUNNING, x=None)], own=1) == 1


def test_a_trial_that_never_had_an_owner_leaves_its_index() -> None:
    done = [trial(n, COMPLETE, 0.0) for n in range(3)]
    dead, mine = trial(3, RUNNING, x=None), trial(4, RUNNING, x=None)
    assert dead.datetime_start is not None
    dead.datetime_start -= timedelta(seconds=60)
    assert free_index([*done, dead, mine], own=4) == 3
    # a trial asked for by hand has all its parameters and keeps its index
    by_hand = trial(3, RUNNING)
    assert by_hand.datetime_start is not None
    by_hand.datetime_start -= timedelta(days=20)
    assert free_index([*done, by_hand, mine], own=4) == 4


def test_without_stale_trials_the_index_is_the_number() -> None:
    states = [COMPLETE, FAIL, PRUNED, WAITING, RUNNING]
    trials = [trial(n, state, 0.0 if state == COMPLETE else None) for n, state in enumerate(states)]
    assert free_index(trials, own=4) == 4
    assert retried_numbers(trials) == set()
