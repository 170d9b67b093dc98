"""Conditional parameters of define-by-run scripts, learned from the trials."""

from __future__ import annotations

import logging
from typing import Any

import optuna
import pytest
from optuna.distributions import CategoricalDistribution, FloatDistribution
from optuna.trial import FrozenTrial, create_trial

from dechbo.integrations.optuna import DecHBOSampler
from dechbo.integrations.optuna.learned_space import learned_space

RANGES: dict[str, Any] = {
    "clf": CategoricalDistribution(("svm", "forest", "knn")),
    "mode": CategoricalDistribution((True, False)),
    "kernel": CategoricalDistribution(("rbf", "linear")),
    "C": FloatDistribution(0, 1),
    "gamma": FloatDistribution(0, 1),
    "x": FloatDistribution(0, 1),
}


def trial(**params: Any) -> FrozenTrial:
    return create_trial(params=params, distributions={name: RANGES[name] for name in params}, value=1.0)


def test_a_parameter_seen_only_with_some_choices_is_conditional_on_them() -> None:
    trials = [
        trial(clf="svm", mode=True, C=0.1, kernel="rbf", gamma=0.5),
        trial(clf="forest", mode=False, x=0.1),
        trial(clf="knn", mode=True, x=0.2),
        trial(clf="svm", mode=False, C=0.3, kernel="linear"),
    ]
    distributions, conditions = learned_space(trials)
    assert list(distributions) == ["C", "clf", "gamma", "kernel", "mode", "x"]
    assert conditions == {
        "C": {"clf": ("svm",)},
        "kernel": {"clf": ("svm",)},
        "x": {"clf": ("forest", "knn")},
        "gamma": {"kernel": ("rbf",)},  # under a parameter that is conditional itself
    }


def test_two_choices_together() -> None:
    trials = [
        trial(clf="svm", mode=True, x=0.1),
        trial(clf="svm", mode=False),
        trial(clf="forest", mode=True),
        trial(clf="forest", mode=False),
    ]
    assert learned_space(trials)[1] == {"x": {"clf": ("svm",), "mode": (True,)}}


def test_what_no_choice_explains_is_left_out() -> None:
    trials = [trial(clf="svm", x=0.1), trial(clf="svm"), trial(clf="forest")]
    assert learned_space(trials) == ({"clf": RANGES["clf"]}, {})
    assert learned_space([]) == ({}, {})


def objective(trial: optuna.Trial) -> float:
    x = trial.suggest_float("x", 0, 1)
    if trial.suggest_categorical("clf", ["svm", "forest"]) == "svm":
        return (x - 0.4) ** 2 + abs(trial.suggest_float("C", 0, 10) - 3)
    return (x - 0.4) ** 2 + 0.5 + 0.02 * abs(trial.suggest_int("depth", 1, 20) - 7)


def test_a_script_with_conditions_is_modelled_without_a_warning(caplog: pytest.LogCaptureFixture) -> None:
    """The parameters of the best branch are tuned; they used to be drawn at random."""
    optuna.logging.enable_propagation()
    sampler = DecHBOSampler(seed=0)
    study = optuna.create_study(sampler=sampler)
    with caplog.at_level(logging.WARNING, logger="optuna"):
        study.optimize(objective, n_trials=25)
    assert [record.message for record in caplog.records if "DecHBOSampler" in record.message] == []
    assert study.best_value < 0.1
    space = sampler.optimizer(study).space
    assert space["C"].when == {"clf": ("svm",)}
    assert space["depth"].when == {"clf": ("forest",)}
    assert len(sampler.optimizer(study).evaluations) == 25  # all trials, not only those of one branch


def test_only_choices_left_says_what_happens_in_the_words_of_optuna(caplog: pytest.LogCaptureFixture) -> None:
    optuna.logging.enable_propagation()
    study = optuna.create_study(sampler=DecHBOSampler(seed=0))
    with caplog.at_level(logging.WARNING, logger="optuna"):
        study.optimize(lambda trial: float(trial.suggest_categorical("a", [1, 2])), n_trials=4)
    (warning,) = [record.message for record in caplog.records if "DecHBOSampler" in record.message]
    assert warning == "DecHBOSampler: all points of ['a'] are evaluated, from now on they are repeated"
