"""Optuna's database storage: a write-ahead log on SQLite, parameters written with less ado, a first sign of life."""

from __future__ import annotations

import os
import sqlite3
import weakref
from collections.abc import Sequence
from datetime import datetime
from functools import partial
from typing import Any
from urllib.parse import quote

import sqlalchemy
from optuna.distributions import BaseDistribution, check_distribution_compatibility, distribution_to_json
from optuna.exceptions import StorageInternalError
from optuna.storages import RDBStorage
from optuna.storages._rdb import models
from optuna.study import Study
from optuna.trial import FrozenTrial, TrialState

from dechbo.errors import StorageError

BUSY_SECONDS = 60  # how long a writer waits for the others
CONNECT_SECONDS = 10

_TRIALS, _PARAMS = models.TrialModel.__table__, models.TrialParamModel.__table__
_ATTRIBUTES, _HEARTBEATS = models.TrialSystemAttributeModel.__table__, models.TrialHeartbeatModel.__table__
_STATE = sqlalchemy.select(_TRIALS.c.state, _TRIALS.c.study_id).where(
    _TRIALS.c.trial_id == sqlalchemy.bindparam("trial_id")
)
_INSERT = sqlalchemy.insert(_PARAMS)


class NoTables(StorageError):
    """A database in which no study was ever kept."""


class Database(RDBStorage):
    """Optuna's RDBStorage, faster, and safe against a process that dies right after it creates a trial.

    ``existing`` tables are not created where there are none, but NoTables is raised. ``readonly`` writes nothing.
    """

    def __init__(self, url: str, *, existing: bool = False, readonly: bool = False, **options: Any) -> None:
        self._known: dict[tuple[int, str], BaseDistribution] = {}  # by study and name: what the tables hold already
        self._readonly = readonly
        arguments: dict[str, Any] = {}
        if url.startswith("sqlite"):
            arguments = {"timeout": BUSY_SECONDS}
        elif url.startswith("postgresql"):
            arguments = {"connect_timeout": CONNECT_SECONDS}
        engine: dict[str, Any] = {"connect_args": arguments, "pool_pre_ping": not url.startswith("sqlite")}
        if readonly and url.startswith("sqlite"):
            path = sqlalchemy.make_url(self._fill_storage_url_template(url)).database
            engine["creator"] = partial(_reader, str(path))
        try:
            super().__init__(url, engine, skip_table_creation=existing or readonly, **options)
        except Exception:
            looking = (existing or readonly) and hasattr(self, "engine")
            if looking and not sqlalchemy.inspect(self.engine).has_table(_TRIALS.name):
                raise NoTables("there are no studies in this database") from None
            raise

    def __setattr__(self, name: str, value: object) -> None:
        # Optuna makes its engine in __init__ and again in __setstate__, and connects at once: the pragmas have to be
        # in place before that
        if name == "engine" and isinstance(value, sqlalchemy.Engine):
            weakref.finalize(self, value.dispose)  # connections are closed with the storage, not left to be found open
            if self._readonly:
                sqlalchemy.event.listen(value, "connect", _set_readonly)
            elif value.name == "sqlite":
                sqlalchemy.event.listen(value, "connect", _set_pragmas)
        super().__setattr__(name, value)

    def set_study_system_attr(self, study_id: int, key: str, value: Any) -> None:
        """Optuna's; what a reader would like to keep for later is dropped."""
        if not self._readonly:
            super().set_study_system_attr(study_id, key, value)

    def delete_study(self, study_id: int) -> None:
        """Optuna's; SQLite gives the number of the study to the next one, which has other parameters."""
        super().delete_study(study_id)
        self._known = {key: known for key, known in self._known.items() if key[0] != study_id}

    def set_trial_state_values(self, trial_id: int, state: TrialState, values: Sequence[float] | None = None) -> bool:
        """Optuna's, from the first look on alone: Optuna relies on FOR UPDATE, which means nothing to SQLite.

        So two that take the same waiting trial do not both get it.
        """
        if self.engine.name == "sqlite":
            session = self.scoped_session()
            try:  # a write, if of nothing, is what SQLite locks for; Optuna goes on in the same transaction
                session.execute(_TRIALS.update().where(_TRIALS.c.trial_id == trial_id).values(state=_TRIALS.c.state))
            except sqlalchemy.exc.SQLAlchemyError as error:
                session.rollback()
                raise StorageInternalError("the state of a trial cannot be written") from error
        return super().set_trial_state_values(trial_id, state, values)

    def give_up(self, trial_id: int) -> bool:
        """Mark a running trial as died and failed, both at once; False if it is no longer running."""
        from dechbo.integrations.optuna import DIED

        running = (_TRIALS.c.trial_id == trial_id) & (_TRIALS.c.state == TrialState.RUNNING)
        ended = _TRIALS.update().where(running).values(state=TrialState.FAIL, datetime_complete=datetime.now())
        with self.engine.begin() as connection:
            if connection.execute(ended).rowcount != 1:
                return False
            connection.execute(_attribute(trial_id, DIED))
            connection.execute(_ATTRIBUTES.insert().values(trial_id=trial_id, key=DIED, value_json="true"))
        return True

    def disown(self, trial_id: int) -> None:
        """Forget which process had a trial, and its sign of life: it can never go silent."""
        from dechbo.integrations.optuna import OWNER

        with self.engine.begin() as connection:
            connection.execute(_attribute(trial_id, OWNER))
            connection.execute(_HEARTBEATS.delete().where(_HEARTBEATS.c.trial_id == trial_id))

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


def database_of(study: Study) -> Database:
    """The database behind what Optuna keeps in memory."""
    storage = getattr(study._storage, "_backend", study._storage)
    assert isinstance(storage, Database)
    return storage


def _attribute(trial_id: int, key: str) -> sqlalchemy.Delete:
    """Remove a system attribute of a trial."""
    return sqlalchemy.delete(_ATTRIBUTES).where((_ATTRIBUTES.c.trial_id == trial_id) & (_ATTRIBUTES.c.key == key))


def _reader(path: str) -> sqlite3.Connection:
    """A connection that cannot write.

    A write-ahead log needs a file beside it even for reading. Where that cannot be made (a read-only file system) and
    nothing waits in the log, the file is all there is, and is read as one that does not change.
    """
    for mode in ("mode=ro", "immutable=1"):
        place = f"file:{quote(path)}?{mode}"
        connection = sqlite3.connect(place, uri=True, timeout=BUSY_SECONDS, check_same_thread=False)
        try:
            connection.execute("SELECT count(*) FROM sqlite_master").fetchone()
            return connection
        except sqlite3.OperationalError:
            connection.close()
            log = f"{path}-wal"
            if mode == "immutable=1" or (os.path.isfile(log) and os.path.getsize(log) > 0):
                raise
        except sqlite3.Error:
            connection.close()
            raise
    raise AssertionError


def _set_readonly(connection: Any, _: object) -> None:
    if hasattr(connection, "read_only"):  # psycopg
        connection.read_only = True


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
