"""Stale trials, whose process died: fail them and queue them again. Heartbeats keep the trials of live processes."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterable
from typing import Any

from optuna.search_space import intersection_search_space
from optuna.study import Study
from optuna.trial import FrozenTrial, TrialState, create_trial

from dechbo.integrations.optuna import adapter
from dechbo.integrations.optuna.adapter import OWNER, STALE
from dechbo.integrations.optuna.processes import is_dead
from dechbo.integrations.optuna.sampler import DecHBOSampler
from dechbo.integrations.optuna.trials import (
    FIXED,
    INDEX,
    RETRIES,
    as_sequence,
    index_of,
    numbers_in_retries,
    retried_numbers,
    started_just_now,
)


def recover(study: Study, *, retry: bool = True, nobody_else: bool = False) -> list[int]:
    """Fail the running trials whose process has died, and queue them again; returns their numbers.

    Trials of other hosts stay as they are, unless ``nobody_else`` works on this study: then no trial can be running.
    A trial that had all its parameters, or was enqueued, is queued again. One whose process died before that is not:
    the next suggestion has the same parameters. A trial that a later one has replaced is not queued either. A trial
    without owner and parameters stays as it is: nothing depends on it.
    """
    found = []
    for trial in study.get_trials(deepcopy=False, states=(TrialState.RUNNING,)):
        owner = trial.system_attrs.get(OWNER)
        if not nobody_else and (owner is None or not is_dead(owner)):
            continue
        if RETRIES in trial.system_attrs and started_just_now(trial):  # a live process may have taken it just now
            continue
        if adapter.fail_stale(study, adapter.trial_id(trial)):  # False if another process was faster
            found.append(trial.number)
            if retry:
                retry_stale(study, trial)
    return found


def recover_silent(study: Study, own: Iterable[int] = ()) -> list[int]:
    """``recover``, and the same for trials of other hosts without a recent heartbeat; needs a ``Database``.

    ``own`` holds the ids of trials of this process: they are alive even if this machine was suspended.
    """
    found = recover(study)
    ours = set(own)
    for trial_id in adapter.database_of(study).silent_trial_ids(adapter.study_id(study)):
        if trial_id not in ours and abandon(study, trial_id):
            found.append(adapter.storage_of(study).get_trial(trial_id).number)
    return found


def abandon(study: Study, trial_id: int) -> bool:
    """Fail a running trial as stale and queue it again; False if it has finished."""
    if not adapter.fail_stale(study, trial_id):
        return False
    retry_stale(study, adapter.storage_of(study).get_trial(trial_id))
    return True


def retry_stale(study: Study, trial: FrozenTrial) -> None:
    """Queue a stale trial again: ``RDBStorage(…, heartbeat_stale_trial_callback=retry_stale)``."""
    enqueued = FIXED in trial.system_attrs
    trials = study.get_trials(deepcopy=False)
    taken = numbers_in_retries(trials) if enqueued else retried_numbers(trials)
    complete = _has_all_params(study, trial)
    if trial.number in taken or not (complete or enqueued):
        return
    # the dead owner stays until another process takes the trial: if that one dies at once, the trial is still stale
    attributes: dict[str, Any] = {
        "failed_trial": trial.number,
        INDEX: index_of(trial),
        **{name: value for name, value in trial.system_attrs.items() if name != STALE},
        RETRIES: [*as_sequence(trial.system_attrs.get(RETRIES)), trial.number],
    }
    study.add_trial(
        create_trial(
            state=TrialState.WAITING,
            params=dict(trial.params) if complete else {},
            distributions=dict(trial.distributions) if complete else {},
            user_attrs=dict(trial.user_attrs),
            system_attrs=attributes,
        )
    )


def _has_all_params(study: Study, trial: FrozenTrial) -> bool:
    """Whether a trial has all parameters that are suggested together; the others come out the same when resampled."""
    if not trial.params:
        return False
    if isinstance(study.sampler, DecHBOSampler):
        return not study.sampler.lacks_parameters(study, trial)
    return set(intersection_search_space(study.get_trials(deepcopy=False))) <= set(trial.params)


class Heartbeats:
    """A thread that records heartbeats for the running trials of this process."""

    def __init__(self, study: Study) -> None:
        self._database = adapter.database_of(study)
        self._running: set[int] = set()  # ids of trials
        self._ended = threading.Event()
        self._thread: threading.Thread | None = None

    def __enter__(self) -> Heartbeats:
        interval = self._database.heartbeat_interval
        if interval is not None:
            self._thread = threading.Thread(target=self._beat, args=(interval / 2,), daemon=True)
            self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        if self._thread is not None:
            self._thread.join()

    def add(self, trial_id: int) -> None:
        """Record heartbeats for this trial from now on; creating it has recorded the first."""
        self._running.add(trial_id)

    def remove(self, trial_id: int) -> None:
        """Stop: the trial has ended."""
        self._running.discard(trial_id)

    def _beat(self, interval: float) -> None:
        while not self._ended.wait(interval):
            for trial_id in tuple(self._running):
                with contextlib.suppress(Exception):  # keep trying: the main thread reports a broken storage
                    self._database.record_heartbeat(trial_id)
        self._database.remove_session()
