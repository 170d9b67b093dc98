"""Trials that died with their process: marked, and tried again."""

from __future__ import annotations

import contextlib
from typing import Any

from optuna.distributions import BaseDistribution
from optuna.exceptions import UpdateFinishedTrialError
from optuna.search_space import intersection_search_space
from optuna.study import Study
from optuna.trial import FrozenTrial, TrialState, create_trial

from dechbo.integrations.optuna.owners import OWNER, is_dead
from dechbo.integrations.optuna.sampler import DecHBOSampler
from dechbo.integrations.optuna.trials import (
    DIED,
    FIXED,
    INDEX,
    RETRIES,
    index_of,
    is_fresh,
    named_retries,
    retried_numbers,
)


def recover(study: Study, *, retry: bool = True, nobody_else: bool = False) -> list[int]:
    """Fail the running trials whose process is gone, and queue them again; the numbers of those that died.

    Trials of other hosts are left alone, unless ``nobody_else`` works on this study: then no trial is running. What a
    trial had when it died is tried again as far as it makes a whole: all its parameters, or what was enqueued. One that
    died while it was being asked for comes again by itself, as the next suggestion; one whose place a later trial has
    taken does not come again. One that died before its owner was written down has no parameters and is left running:
    nothing depends on it.
    """
    found = []
    for trial in study.get_trials(deepcopy=False, states=(TrialState.RUNNING,)):
        owner = trial.system_attrs.get(OWNER)
        if not nobody_else and (owner is None or not is_dead(owner)):
            continue
        if RETRIES in trial.system_attrs and is_fresh(trial):  # it may just have been taken over by a living process
            continue
        with contextlib.suppress(UpdateFinishedTrialError):  # another process was faster
            study._storage.set_trial_system_attr(trial._trial_id, DIED, True)
            if study._storage.set_trial_state_values(trial._trial_id, state=TrialState.FAIL):
                found.append(trial.number)
                if retry:
                    retry_stale(study, trial)
    return found


def retry_stale(study: Study, trial: FrozenTrial) -> None:
    """Queue a trial that died again: ``RDBStorage(…, heartbeat_stale_trial_callback=retry_stale)``."""
    enqueued = FIXED in trial.system_attrs
    trials = study.get_trials(deepcopy=False)
    taken = named_retries(trials) if enqueued else retried_numbers(trials)
    whole = _is_whole(study, trial)
    if trial.number in taken or not (whole or enqueued):
        return
    # its owner stays until another process takes over: should that one die at once, the trial is known to be dead
    left = {name: value for name, value in trial.system_attrs.items() if name != DIED}
    history = left.get(RETRIES)
    attributes: dict[str, Any] = {
        "failed_trial": trial.number,
        INDEX: index_of(trial),
        **left,
        RETRIES: [*(history if isinstance(history, list) else []), trial.number],
    }
    study.add_trial(
        create_trial(
            state=TrialState.WAITING,
            params=dict(trial.params) if whole else {},
            distributions=dict(trial.distributions) if whole else {},
            user_attrs=dict(trial.user_attrs),
            system_attrs=attributes,
        )
    )


def _is_whole(study: Study, trial: FrozenTrial) -> bool:
    """Whether a trial has all parameters that are suggested together; others are drawn anew, with the same result."""
    sampler = study.sampler
    space: dict[str, BaseDistribution]
    if isinstance(sampler, DecHBOSampler):
        space = sampler.infer_relative_search_space(study, trial)
    else:
        space = intersection_search_space(study.get_trials(deepcopy=False))
    return bool(trial.params) and set(space) <= set(trial.params)
