"""Parameters that no model knows: drawn one by one."""

from __future__ import annotations

from hashlib import sha256
from typing import Any

from optuna.distributions import BaseDistribution
from optuna.samplers import RandomSampler
from optuna.study import Study
from optuna.trial import FrozenTrial, TrialState


def draw(study: Study, trial: FrozenTrial, name: str, distribution: BaseDistribution, source: str) -> Any:
    """A random value that depends on ``source`` and the parameter's name alone."""
    seed = int.from_bytes(sha256(f"{source}/{name}".encode()).digest()[:4], "big")
    return RandomSampler(seed=seed).sample_independent(study, trial, name, distribution)


def is_unusual(study: Study, trial: FrozenTrial, name: str) -> bool:
    """Whether a model could have known the parameter: it was in trials that were complete when this one started."""
    return any(
        name in other.distributions
        and other.datetime_complete is not None
        and (trial.datetime_start is None or other.datetime_complete < trial.datetime_start)
        for other in study.get_trials(deepcopy=False, states=(TrialState.COMPLETE,))
    )


def warning(trial: FrozenTrial, name: str) -> str:
    """What is said of such a parameter."""
    return (
        f"parameter {name!r} of trial {trial.number} is drawn at random, as are others that not all trials have, or "
        "not with the same range: the model does not know them. Pass search_space=… for parameters that all trials "
        "have; warn_independent_sampling=False silences this"
    )
