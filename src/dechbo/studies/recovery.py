"""Trials that died with their process, and the heartbeat that says which live."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterable

import optuna
from optuna.storages._heartbeat import BaseHeartbeat

from dechbo.integrations.optuna import recover, retry_stale
from dechbo.studies.database import database_of


def recover_all(study: optuna.Study, own: Iterable[int] = ()) -> list[int]:
    """Queue again the trials of processes that are gone, here or by their heartbeat; the numbers that died.

    ``own`` trials (by id) are alive whatever their heartbeat says: this machine may have slept.
    """
    found = recover(study)
    storage = study._storage
    if not isinstance(storage, BaseHeartbeat) or storage.get_heartbeat_interval() is None:
        return found
    mine = set(own)
    for trial_id in storage._get_stale_trial_ids(study._study_id):
        if trial_id not in mine and abandon(study, trial_id):
            found.append(storage.get_trial(trial_id).number)
    return found


def abandon(study: optuna.Study, trial_id: int) -> bool:
    """Mark a running trial as died and queue it again; False if it finished after all."""
    if not database_of(study).give_up(trial_id):
        return False
    retry_stale(study, study._storage.get_trial(trial_id))
    return True


class Heartbeats:
    """A thread that keeps the running trials of this process alive in the storage."""

    def __init__(self, study: optuna.Study) -> None:
        self._storage = study._storage
        self._running: set[int] = set()  # ids of trials
        self._ended = threading.Event()
        self._thread: threading.Thread | None = None

    def __enter__(self) -> Heartbeats:
        interval = self._storage.get_heartbeat_interval() if isinstance(self._storage, BaseHeartbeat) else None
        if interval is not None:
            self._thread = threading.Thread(target=self._beat, args=(interval / 2,), daemon=True)
            self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        if self._thread is not None:
            self._thread.join()

    def add(self, trial_id: int) -> None:
        """Keep this trial alive from now on; its first sign of life is its creation's."""
        self._running.add(trial_id)

    def remove(self, trial_id: int) -> None:
        """The trial has ended."""
        self._running.discard(trial_id)

    def _beat(self, interval: float) -> None:
        assert isinstance(self._storage, BaseHeartbeat)
        while not self._ended.wait(interval):
            for trial_id in tuple(self._running):
                with contextlib.suppress(Exception):  # a storage in trouble says so where it matters; go on trying
                    self._storage.record_heartbeat(trial_id)
        self._storage.remove_session()
