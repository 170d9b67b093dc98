"""Studies of all kinds: changing spaces; failed, pruned, enqueued and added trials."""

from __future__ import annotations

import math
import warnings
from typing import Any

import optuna
import pytest
from optuna.distributions import FloatDistribution, IntDistribution
from optuna.trial import TrialState

from dechbo import Float, Space
from dechbo.errors import ParameterError, SpaceExhausted
from optuna_cases import MIXED, listening, mixed, objective, params_of, sampler, sampler_of, suggest


@pytest.fixture(autouse=True)
def heard() -> Any:
    with listening() as said:
        yield said


def test_conditional_parameters_are_sampled_independently_with_one_warning(heard: list[str]) -> None:
    def conditional(trial: optuna.Trial) -> float:
        x = trial.suggest_float("x", 0, 1)
        return x + (trial.suggest_float("y", 0, 1) if trial.number % 2 else trial.suggest_int("z", 0, 9))

    study = optuna.create_study(sampler=sampler())
    study.optimize(conditional, n_trials=1)
    assert heard == []
    study.optimize(conditional, n_trials=7)
    assert len(heard) == 1
    assert "search_space" in heard[0]
    assert sampler_of(study).optimizer(study).space == Space({"x": Float(0, 1)})
    again = optuna.create_study(sampler=sampler(warn_independent_sampling=False))
    again.optimize(conditional, n_trials=8)
    assert params_of(again) == params_of(study)
    assert len(heard) == 1


def test_the_first_trials_of_several_workers_are_no_reason_to_warn(heard: list[str]) -> None:
    study = optuna.create_study(sampler=sampler())
    first, second = study.ask(), study.ask()
    second.suggest_float("x", 0, 1)
    study.tell(first, first.suggest_float("x", 0, 1) + first.suggest_float("y", 0, 1))
    second.suggest_float("y", 0, 1)
    assert heard == []


def test_independent_samples_depend_on_seed_trial_and_name() -> None:
    def draws(seed: int) -> list[tuple[float, float]]:
        study = optuna.create_study(sampler=sampler(seed=seed))
        asked = [study.ask() for _ in range(3)]
        return [(trial.suggest_float("x", 0, 1), trial.suggest_float("y", 0, 1)) for trial in asked]

    assert draws(1) == draws(1)
    assert len({x for seed in (1, 2) for pair in draws(seed) for x in pair}) == 12


def test_a_space_that_changes_keeps_what_fits() -> None:
    study = optuna.create_study(sampler=sampler())
    study.optimize(lambda t: t.suggest_float("x", 0, 1) + t.suggest_float("y", 0, 1), n_trials=6)
    study.optimize(lambda t: t.suggest_float("x", 0, 1) + t.suggest_float("y", 0, 2), n_trials=3)
    assert sampler_of(study).optimizer(study).space.names == ("x",)
    given = sampler(search_space={"x": FloatDistribution(0, 1), "y": FloatDistribution(0, 1)}).optimizer(study)
    inside = [trial for trial in study.trials if trial.params["y"] <= 1]
    assert len(given.evaluations) == len(inside)


def test_steps_too_fine_for_a_model_are_sampled_independently() -> None:
    study = optuna.create_study(sampler=sampler())
    study.optimize(lambda t: t.suggest_float("x", 0, 1e9, step=1e-9) + t.suggest_float("y", 0, 1), n_trials=6)
    assert sampler_of(study).optimizer(study).space.names == ("y",)


def test_an_exhausted_space_repeats_its_points(heard: list[str]) -> None:
    study = optuna.create_study(sampler=sampler(search_space={"n": IntDistribution(0, 2)}))
    study.optimize(lambda t: t.suggest_int("n", 0, 2), n_trials=6)
    assert {trial.params["n"] for trial in study.trials[:3]} == {0, 1, 2}
    assert len(heard) == 1
    with pytest.raises(SpaceExhausted):
        sampler_of(study).suggest(study)


def test_failed_and_nan_trials_are_failed_evaluations() -> None:
    def fragile(trial: optuna.Trial) -> float:
        value = objective(trial)
        if trial.number in (0, 5):
            raise RuntimeError("broke")
        return math.nan if trial.number in (2, 7) else value

    study = optuna.create_study(sampler=sampler(search_space=MIXED))
    study.optimize(fragile, n_trials=10, catch=(RuntimeError,))
    told = sampler_of(study).optimizer(study).evaluations
    assert [evaluation.failed for evaluation in told] == [k in (0, 2, 5, 7) for k in range(10)]
    assert len({str(params) for params in params_of(study)}) == 10


def test_pruned_trials_count() -> None:
    def slow(trial: optuna.Trial) -> float:
        value = objective(trial)
        for step in range(4):
            trial.report(value + 1 / (step + 1) + 10 * (trial.number % 3 == 2), step)  # every third looks bad
            if trial.should_prune():
                raise optuna.TrialPruned
        return value

    study = optuna.create_study(sampler=sampler(), pruner=optuna.pruners.MedianPruner(n_startup_trials=3))
    study.optimize(slow, n_trials=14)
    states = [trial.state for trial in study.trials]
    assert TrialState.PRUNED in states
    told = sampler_of(study).optimizer(study).evaluations
    assert [evaluation.failed for evaluation in told] == [False] * 14


def test_hyperband_brackets() -> None:
    def slow(trial: optuna.Trial) -> float:
        value = objective(trial)
        for step in range(9):
            trial.report(value, step)
            if trial.should_prune():
                raise optuna.TrialPruned
        return value

    study = optuna.create_study(sampler=sampler(), pruner=optuna.pruners.HyperbandPruner(max_resource=9))
    study.optimize(slow, n_trials=10)
    assert all(trial.state.is_finished() for trial in study.trials)


def test_enqueued_and_added_trials_are_a_warm_start() -> None:
    study = optuna.create_study(sampler=sampler(search_space=MIXED, n_startup_trials=3))
    for x in (0.1, 0.6, 0.9):
        params = {"x": x, "y": 0.1, "n": 2, "c": "a"}
        study.add_trial(optuna.create_trial(params=params, distributions=MIXED, value=mixed(params)))
    assert len(sampler_of(study).optimizer(study).evaluations) == 3
    study.enqueue_trial({"n": 6, "c": None})
    study.enqueue_trial({"x": 0.3, "y": 0.2, "n": 1, "c": None, "unknown": 4})
    study.optimize(objective, n_trials=3)
    partly, whole, free = study.trials[3:]
    assert (partly.params["n"], partly.params["c"]) == (6, None)
    assert whole.params == {"x": 0.3, "y": 0.2, "n": 1, "c": None}
    info = sampler_of(study).info
    assert info is not None
    assert info.source != "initial design"
    assert free.state == TrialState.COMPLETE


def test_the_model_knows_what_a_partial_fixed_sampler_fixes() -> None:
    study = optuna.create_study(sampler=sampler())
    study.optimize(objective, n_trials=6)
    inner = study.sampler
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", optuna.exceptions.ExperimentalWarning)
        study.sampler = optuna.samplers.PartialFixedSampler({"n": 4}, inner)
    expected = sampler(search_space=MIXED).suggest(study, fixed={"n": 4})
    study.optimize(objective, n_trials=1)
    assert study.trials[-1].params == expected


def test_constraints_reach_the_core() -> None:
    def limited(trial: optuna.Trial) -> float:
        x = trial.suggest_float("x", 0, 1)
        trial.set_constraint("budget", x - 0.5)
        return -x

    study = optuna.create_study(sampler=sampler())
    study.optimize(limited, n_trials=8)
    optimizer = sampler_of(study).optimizer(study)
    told = optimizer.evaluations
    assert [e.constraints for e in told] == [{"budget": e.params["x"] - 0.5} for e in told]
    assert optimizer.best is not None
    assert optimizer.best.params == study.best_params
    assert study.best_params["x"] <= 0.5


def test_known_linear_constraints_hold_always() -> None:
    space = {"a": FloatDistribution(0, 1), "b": FloatDistribution(0, 1), "n": IntDistribution(0, 3)}
    study = optuna.create_study(sampler=sampler(search_space=space, constraints=["a + b <= 0.8", "n - 4*a >= 0"]))
    study.optimize(lambda t: -sum(suggest(t, name, space[name]) for name in space), n_trials=12)
    for trial in study.trials:
        assert trial.params["a"] + trial.params["b"] <= 0.8 + 1e-9
        assert trial.params["n"] - 4 * trial.params["a"] >= -1e-9


def test_only_enqueued_values_override_known_constraints(heard: list[str]) -> None:
    space = {name: FloatDistribution(0, 1) for name in "abc"}
    limited = sampler(search_space=space, constraints=["a + b <= 1"])
    study = optuna.create_study(sampler=limited)
    study.enqueue_trial({"a": 0.9, "b": 0.9})
    study.enqueue_trial({"a": 0.8, "b": 0.8, "c": 0.1})
    study.optimize(lambda t: sum(suggest(t, name, space[name]) for name in space), n_trials=6)
    assert [(t.params["a"], t.params["b"]) for t in study.trials[:2]] == [(0.9, 0.9), (0.8, 0.8)]
    assert all(t.params["a"] + t.params["b"] <= 1 for t in study.trials[2:])
    assert len(heard) == 1
    assert "constraint" in heard[0]
    with pytest.raises(ParameterError, match=r"a \+ b <= 1"):
        limited.suggest(study, fixed={"a": 0.9, "b": 0.9, "c": 0.5})
