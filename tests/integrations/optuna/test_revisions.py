"""Retracted, corrected and retried trials: kept in the study, and counted as they are now."""

from __future__ import annotations

import optuna
import pytest
from optuna.trial import TrialState

from dechbo.errors import ParameterError, StudyError
from dechbo.integrations.optuna import DecHBOSampler, correct, retract, retry
from dechbo.integrations.optuna.revisions import current_trials
from dechbo.integrations.optuna.trials import best_trial, evaluated


def objective(trial: optuna.Trial) -> float:
    x, k = trial.suggest_float("x", 0, 1), trial.suggest_int("k", 1, 5)
    return (x - 0.3) ** 2 + k


def new_study(**options: object) -> optuna.Study:
    space = {"x": optuna.distributions.FloatDistribution(0, 1), "k": optuna.distributions.IntDistribution(1, 5)}
    sampler = DecHBOSampler(seed=3, n_startup_trials=3, search_space=space)
    return optuna.create_study(sampler=sampler, **options)  # type: ignore[arg-type]


def test_a_retracted_trial_is_not_modelled_and_the_next_suggestion_is_that_of_a_study_without_it() -> None:
    study, other = new_study(), new_study()
    study.optimize(objective, n_trials=5)
    other.add_trials(study.trials)
    wrong = optuna.trial.create_trial(
        params={"x": 0.9, "k": 5}, distributions=study.trials[0].distributions, value=-7.0
    )
    study.add_trial(wrong)
    assert best_trial(current_trials(study), "minimize").number == 5  # type: ignore[union-attr]
    retract(study, 5)
    assert [trial.number for trial in evaluated(current_trials(study))] == [0, 1, 2, 3, 4]
    assert best_trial(current_trials(study), "minimize").number != 5  # type: ignore[union-attr]
    assert isinstance(study.sampler, DecHBOSampler)
    assert isinstance(other.sampler, DecHBOSampler)
    assert study.sampler.suggest(study) == other.sampler.suggest(other)
    assert study.trials[5].value == -7.0  # kept
    retract(study, 5, undo=True)
    assert study.sampler.suggest(study) != other.sampler.suggest(other)


def test_a_correction_counts_as_if_it_had_been_told() -> None:
    study, other = new_study(), new_study()
    study.optimize(objective, n_trials=5)
    for trial in study.trials:
        other.add_trial(
            optuna.trial.create_trial(
                params=trial.params,
                distributions=trial.distributions,
                value=9.5 if trial.number == 2 else trial.value,
                constraints={"c": -1.0} if trial.number == 2 else None,
            )
        )
    study.set_user_attr("dechbo:corrected:2", {"value": 9.5, "constraints": {"c": -1.0}})  # by hand, as the docs say
    assert isinstance(study.sampler, DecHBOSampler)
    assert isinstance(other.sampler, DecHBOSampler)
    assert study.sampler.suggest(study) == other.sampler.suggest(other)
    correct(study, 2, None)
    assert current_trials(study)[2].state == TrialState.FAIL
    with pytest.raises(ParameterError, match="finite number"):
        correct(study, 2, float("nan"))
    with pytest.raises(StudyError, match="no trial 77"):
        correct(study, 77, 1.0)


def test_a_trial_can_retract_itself_while_it_runs() -> None:
    study = new_study()

    def suspicious(trial: optuna.Trial) -> float:
        trial.set_user_attr("dechbo:retracted", True)
        return objective(trial)

    study.optimize(suspicious, n_trials=1)
    assert evaluated(current_trials(study)) == []


@pytest.mark.parametrize("fails", [True, False])
def test_a_retried_trial_is_queued_once_and_its_result_left_out(fails: bool) -> None:
    study = new_study()

    def first(trial: optuna.Trial) -> float:
        value = objective(trial)
        if fails:
            raise ValueError("typo")
        return value

    study.optimize(first, n_trials=1, catch=ValueError)
    assert retry(study, 0)
    assert not retry(study, 0)
    assert evaluated(current_trials(study)) == []
    study.optimize(objective, n_trials=1)
    (again,) = evaluated(current_trials(study))
    assert again.number == 1
    assert again.params == study.trials[0].params
    assert again.state == TrialState.COMPLETE


def test_a_retry_leaves_out_a_correction_and_keeps_nothing_of_the_first_run() -> None:
    study = new_study()

    def first(trial: optuna.Trial) -> float:
        trial.set_user_attr("dechbo:noise", 4.0)
        trial.set_user_attr("dechbo:retracted", True)
        trial.set_user_attr("note", "mine")
        raise ValueError(objective(trial))

    study.optimize(first, n_trials=1, catch=ValueError)
    study.set_user_attr("dechbo:retracted:0", False)
    correct(study, 0, 0.5)
    assert [trial.value for trial in evaluated(current_trials(study))] == [0.5]
    assert retry(study, 0)
    assert evaluated(current_trials(study)) == []
    assert study.trials[1].user_attrs == {"note": "mine"}
