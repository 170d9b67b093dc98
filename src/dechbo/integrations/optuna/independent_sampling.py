"""Parameters outside the model, sampled one by one: Optuna calls this independent sampling.

Covered by tests/integrations/optuna/test_studies.py.
"""

from __future__ import annotations

from hashlib import sha256
from typing import Any

from optuna.distributions import BaseDistribution
from optuna.samplers import RandomSampler
from optuna.study import Study
from optuna.trial import FrozenTrial, TrialState


def sample(study: Study, trial: FrozenTrial, name: str, distribution: BaseDistribution, source: str) -> Any:
    """A random value that depends only on ``source`` and the parameter's name."""
    seed = int.from_bytes(sha256(f"{source}/{name}".encode()).digest()[:4], "big")
    return RandomSampler(seed=seed).sample_independent(study, trial, name, distribution)


def needs_warning(study: Study, trial: FrozenTrial, name: str) -> bool:
    """Whether the parameter is in trials that were complete before this one started: a model could have known it."""
    return any(
        name in other.distributions
        and other.datetime_complete is not None
        and (trial.datetime_start is None or other.datetime_complete < trial.datetime_start)
        for other in study.get_trials(deepcopy=False, states=(TrialState.COMPLETE,))
    )


def warning(trial: FrozenTrial, name: str) -> str:
    """The warning about such a parameter."""
    return (
        f"parameter {name!r} of trial {trial.number} is sampled at random: it has no single range, or no choice of "
        "another parameter explains which trials have it; so are others like it. Pass search_space=Space({…}), where "
        "when={…} makes a parameter conditional, or silence this with warn_independent_sampling=False"
    )
