"""Optuna's database storage: a write-ahead log on SQLite, parameters written with less ado, a first sign of life."""

from __future__ import annotations

import weakref
from typing import Any

import sqlalchemy
from optuna.distributions import BaseDistribution, check_distribution_compatibility, distribution_to_json
from optuna.storages import RDBStorage
from optuna.storages._rdb import models
from optuna.study import Study
from optuna.trial import FrozenTrial, TrialState

BUSY_SECONDS = 60  # how long a writer waits for the others
CONNECT_SECONDS = 10

_TRIALS, _PARAMS = models.TrialModel.__table__, models.TrialParamModel.__table__
_STATE = sqlalchemy.select(_TRIALS.c.state, _TRIALS.c.study_id).where(
    _TRIALS.c.trial_id == sqlalchemy.bindparam("trial_id")
)
_INSERT = sqlalchemy.insert(_PARAMS)


class Database(RDBStorage):
    """Optuna's RDBStorage, faster, and safe against a process that dies right after it creates a trial."""

    def __init__(self, url: str, **options: Any) -> None:
        self._known: dict[tuple[int, str], BaseDistribution] = {}  # by study and name: what the tables hold already
        arguments: dict[str, Any] = {}
        if url.startswith("sqlite"):
            arguments = {"timeout": BUSY_SECONDS}
        elif url.startswith("postgresql"):
            arguments = {"connect_timeout": CONNECT_SECONDS}
        engine = {"connect_args": arguments, "pool_pre_ping": not url.startswith("sqlite")}
        super().__init__(url, engine, **options)

    def __setattr__(self, name: str, value: object) -> None:
        # Optuna makes its engine in __init__ and again in __setstate__, and connects at once: the pragmas have to be
        # in place before that
        if name == "engine" and isinstance(value, sqlalchemy.Engine):
            weakref.finalize(self, value.dispose)  # connections are closed with the storage, not left to be found open
            if value.name == "sqlite":
                sqlalchemy.event.listen(value, "connect", _set_pragmas)
        super().__setattr__(name, value)

    def _get_prepared_new_trial(self, study_id: int, template_trial: FrozenTrial | None, session: Any) -> Any:
        """A new trial; if it runs under an owner, its first heartbeat is in the same transaction."""
        from dechbo.integrations.optuna import OWNER

        trial = super()._get_prepared_new_trial(study_id, template_trial, session)
        owned = template_trial is not None and OWNER in template_trial.system_attrs
        if owned and trial.state == TrialState.RUNNING and self.heartbeat_interval is not None:
            session.add(models.TrialHeartbeatModel(trial_id=trial.trial_id))
        return trial

    def _set_trial_param_without_commit(
        self,
        session: Any,
        trial_id: int,
        param_name: str,
        param_value_internal: float,
        distribution: BaseDistribution,
        previous_distribution: BaseDistribution | None = None,
    ) -> None:
        """Write a parameter: two plain statements where Optuna goes through its object layer."""
        connection = session.connection()
        row = connection.execute(_STATE, {"trial_id": trial_id}).one_or_none()
        known = None if row is None else self._known.get((row.study_id, param_name), previous_distribution)
        if row is None or known is None:  # the first of its name: Optuna looks whether another process wrote it before
            super()._set_trial_param_without_commit(
                session, trial_id, param_name, param_value_internal, distribution, previous_distribution
            )
            if row is not None:
                self._known[row.study_id, param_name] = distribution
            return
        self.check_trial_is_updatable(trial_id, row.state)
        check_distribution_compatibility(known, distribution)
        values = {
            "trial_id": trial_id,
            "param_name": param_name,
            "param_value": param_value_internal,
            "distribution_json": distribution_to_json(distribution),
        }
        connection.execute(_INSERT, values)


def retry(study: Study, trial: FrozenTrial) -> None:
    """Queue a trial again whose heartbeat has stopped."""
    from dechbo.integrations.optuna import retry_stale  # only now: it imports all of dechbo

    retry_stale(study, trial)


def _set_pragmas(connection: Any, _: object) -> None:
    """A write-ahead log, and no wait for the disk at each commit: a power cut may cost the last trials, never all."""
    cursor = connection.cursor()
    for pragma in (f"busy_timeout = {BUSY_SECONDS * 1000}", "journal_mode = WAL", "synchronous = NORMAL"):
        cursor.execute(f"PRAGMA {pragma}")
    cursor.close()
