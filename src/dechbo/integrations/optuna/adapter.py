"""All code that depends on Optuna's internals, for the versions of Optuna that pyproject.toml allows.

Optuna has no public way to do the following, so a new release may break it. Check each item before raising the cap,
and run the tests with the oldest and with the newest version that it allows (so far both are 5.0.0):

- ``Study._storage`` and ``Study._study_id``: system attributes of a study, trials created from a template.
- ``FrozenTrial._trial_id``: the storage addresses trials by id, the public API by number.
- ``PartialFixedSampler._fixed_params``: the model needs the fixed values while it suggests the others.
- ``_CachedStorage._backend``: the database behind Optuna's cache.
- ``RDBStorage._get_stale_trial_ids``: the running trials without a recent heartbeat.
- ``optuna.storages._rdb.models``: the tables, for changes that need a single transaction.
- ``RDBStorage._fill_storage_url_template``, ``_get_prepared_new_trial`` and ``_set_trial_param_without_commit``: the
  first heartbeat within the transaction that creates a trial; faster writes.

Covered by tests/integrations/optuna/test_adapter.py, and by the tests of its callers.
"""

from __future__ import annotations

import os
import sqlite3
import weakref
from collections.abc import Mapping, Sequence
from datetime import datetime
from functools import partial
from typing import Any
from urllib.parse import quote

import sqlalchemy
from optuna.distributions import BaseDistribution, check_distribution_compatibility, distribution_to_json
from optuna.exceptions import StorageInternalError, UpdateFinishedTrialError
from optuna.storages import BaseStorage, RDBStorage
from optuna.storages._rdb import models
from optuna.study import Study
from optuna.trial import FrozenTrial, Trial, TrialState

from dechbo.errors import StorageError

OWNER = "dechbo:owner"  # system attribute of a trial: the process that runs it, see processes.py
STALE = "dechbo:stale"  # system attribute of a trial: its process died, so it is not an evaluation

BUSY_TIMEOUT_SECONDS = 60  # how long a writer waits for other writers
CONNECT_TIMEOUT_SECONDS = 10

_TRIALS, _PARAMS = models.TrialModel.__table__, models.TrialParamModel.__table__
_ATTRIBUTES, _HEARTBEATS = models.TrialSystemAttributeModel.__table__, models.TrialHeartbeatModel.__table__
_SELECT_STATE = sqlalchemy.select(_TRIALS.c.state, _TRIALS.c.study_id).where(
    _TRIALS.c.trial_id == sqlalchemy.bindparam("trial_id")
)
_INSERT_PARAM = sqlalchemy.insert(_PARAMS)


def storage_of(study: Study) -> BaseStorage:
    """The storage of a study, behind Optuna's cache if it is a database."""
    return study._storage


def study_id(study: Study) -> int:
    """The id of a study in its storage."""
    return study._study_id


def trial_id(trial: FrozenTrial | Trial) -> int:
    """The id of a trial in its storage, unique over all studies."""
    return trial._trial_id


def system_attributes(study: Study) -> dict[str, Any]:
    """All system attributes of a study."""
    return study._storage.get_study_system_attrs(study._study_id)


def user_attributes(study: Study) -> dict[str, Any]:
    """All user attributes of a study; the studies that a ``HyperbandPruner`` shows its samplers have no public way."""
    return study._storage.get_study_user_attrs(study._study_id)


def set_system_attribute(study: Study, key: str, value: Any) -> None:
    """Write a system attribute of a study."""
    study._storage.set_study_system_attr(study._study_id, key, value)


def fixed_by_sampler(study: Study) -> Mapping[str, Any]:
    """The values that a ``PartialFixedSampler`` around ours fixes; empty for other samplers."""
    fixed = getattr(study.sampler, "_fixed_params", None)
    return fixed if isinstance(fixed, Mapping) else {}


def database_of(study: Study) -> Database:
    """The database of a study that ``make_storage`` opened."""
    storage = _behind_cache(study)
    assert isinstance(storage, Database)
    return storage


def fail_stale(study: Study, trial_id: int) -> bool:
    """Mark a running trial as stale and failed; False if it is no longer running. Atomic in a ``Database``."""
    database = _behind_cache(study)
    if isinstance(database, Database):
        return database.fail_stale(trial_id)
    try:
        study._storage.set_trial_system_attr(trial_id, STALE, True)
        return study._storage.set_trial_state_values(trial_id, state=TrialState.FAIL)
    except UpdateFinishedTrialError:
        return False


def _behind_cache(study: Study) -> BaseStorage:
    storage: BaseStorage = getattr(study._storage, "_backend", study._storage)
    return storage


class NoTables(StorageError):
    """The database has no tables of Optuna."""


class Database(RDBStorage):
    """Optuna's RDBStorage with faster writes, and without the gaps in which a process that dies loses a trial.

    With ``existing`` it raises NoTables instead of creating tables. ``readonly`` writes nothing.
    """

    def __init__(self, url: str, *, existing: bool = False, readonly: bool = False, **options: Any) -> None:
        self._stored: dict[tuple[int, str], BaseDistribution] = {}  # by study and name: distributions in the tables
        self._readonly = readonly
        arguments: dict[str, Any] = {}
        if url.startswith("sqlite"):
            arguments = {"timeout": BUSY_TIMEOUT_SECONDS}
        elif url.startswith("postgresql"):
            arguments = {"connect_timeout": CONNECT_TIMEOUT_SECONDS}
        engine: dict[str, Any] = {"connect_args": arguments, "pool_pre_ping": not url.startswith("sqlite")}
        if readonly and url.startswith("sqlite"):
            path = sqlalchemy.make_url(self._fill_storage_url_template(url)).database
            engine["creator"] = partial(_connect_readonly, str(path))
        try:
            super().__init__(url, engine, skip_table_creation=existing or readonly, **options)
        except Exception:
            may_lack_tables = (existing or readonly) and hasattr(self, "engine")
            if may_lack_tables and not sqlalchemy.inspect(self.engine).has_table(_TRIALS.name):
                raise NoTables("the database has no studies") from None
            raise

    def __setattr__(self, name: str, value: object) -> None:
        # Optuna creates its engine in __init__ and in __setstate__ and connects at once: set it up before that
        if name == "engine" and isinstance(value, sqlalchemy.Engine):
            weakref.finalize(self, value.dispose)  # close the connections together with the storage
            if self._readonly:
                sqlalchemy.event.listen(value, "connect", _set_readonly)
            elif value.name == "sqlite":
                sqlalchemy.event.listen(value, "connect", _set_pragmas)
        super().__setattr__(name, value)

    def set_study_system_attr(self, study_id: int, key: str, value: Any) -> None:
        """Optuna's, but does nothing if the database is read-only: a reader need not store its seed or graph."""
        if not self._readonly:
            super().set_study_system_attr(study_id, key, value)

    def delete_study(self, study_id: int) -> None:
        """Optuna's; also forgets the distributions, because SQLite reuses the id for the next study."""
        super().delete_study(study_id)
        self._stored = {key: known for key, known in self._stored.items() if key[0] != study_id}

    def set_trial_state_values(self, trial_id: int, state: TrialState, values: Sequence[float] | None = None) -> bool:
        """Optuna's, but locked from the first read, so that only one process can start a waiting trial.

        Optuna relies on SELECT FOR UPDATE, which SQLite ignores.
        """
        if self.engine.name == "sqlite":
            session = self.scoped_session()
            try:  # this write changes nothing but takes SQLite's lock; Optuna continues in the same transaction
                session.execute(_TRIALS.update().where(_TRIALS.c.trial_id == trial_id).values(state=_TRIALS.c.state))
            except sqlalchemy.exc.SQLAlchemyError as error:
                session.rollback()
                raise StorageInternalError("cannot write the state of a trial") from error
        return super().set_trial_state_values(trial_id, state, values)

    def silent_trial_ids(self, study_id: int) -> list[int]:
        """The running trials without a recent heartbeat; trials that never had one do not count."""
        return [] if self.heartbeat_interval is None else self._get_stale_trial_ids(study_id)

    def fail_stale(self, trial_id: int) -> bool:
        """Mark a running trial as stale and failed in one transaction; False if it is no longer running."""
        running = (_TRIALS.c.trial_id == trial_id) & (_TRIALS.c.state == TrialState.RUNNING)
        fail = _TRIALS.update().where(running).values(state=TrialState.FAIL, datetime_complete=datetime.now())
        with self.engine.begin() as connection:
            if connection.execute(fail).rowcount != 1:
                return False
            connection.execute(_delete_attribute(trial_id, STALE))
            connection.execute(_ATTRIBUTES.insert().values(trial_id=trial_id, key=STALE, value_json="true"))
        return True

    def remove_owner(self, trial_id: int) -> None:
        """Delete the owner and the heartbeat of a trial, so that it never counts as stale."""
        with self.engine.begin() as connection:
            connection.execute(_delete_attribute(trial_id, OWNER))
            connection.execute(_HEARTBEATS.delete().where(_HEARTBEATS.c.trial_id == trial_id))

    def _get_prepared_new_trial(self, study_id: int, template_trial: FrozenTrial | None, session: Any) -> Any:
        """Optuna's; a running trial with an owner gets its first heartbeat in the same transaction."""
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
        """Optuna's, with two plain SQL statements instead of the ORM: creating a trial is six times as fast."""
        connection = session.connection()
        row = connection.execute(_SELECT_STATE, {"trial_id": trial_id}).one_or_none()
        known = None if row is None else self._stored.get((row.study_id, param_name), previous_distribution)
        if row is None or known is None:  # Optuna checks whether another process has stored a distribution
            super()._set_trial_param_without_commit(
                session, trial_id, param_name, param_value_internal, distribution, previous_distribution
            )
            if row is not None:
                self._stored[row.study_id, param_name] = distribution
            return
        self.check_trial_is_updatable(trial_id, row.state)
        check_distribution_compatibility(known, distribution)
        values = {
            "trial_id": trial_id,
            "param_name": param_name,
            "param_value": param_value_internal,
            "distribution_json": distribution_to_json(distribution),
        }
        connection.execute(_INSERT_PARAM, values)


def _delete_attribute(trial_id: int, key: str) -> sqlalchemy.Delete:
    return sqlalchemy.delete(_ATTRIBUTES).where((_ATTRIBUTES.c.trial_id == trial_id) & (_ATTRIBUTES.c.key == key))


def _connect_readonly(path: str) -> sqlite3.Connection:
    """A connection that cannot write.

    A write-ahead log needs a file beside it even for reading. If that file cannot be created (a read-only file system)
    and the log is empty, open the database as immutable.
    """
    for mode in ("mode=ro", "immutable=1"):
        uri = f"file:{quote(path)}?{mode}"
        connection = sqlite3.connect(uri, uri=True, timeout=BUSY_TIMEOUT_SECONDS, check_same_thread=False)
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


def _set_pragmas(connection: Any, _: object) -> None:
    """Use a write-ahead log and do not wait for the disk: a power cut can lose the last trials, but no others."""
    cursor = connection.cursor()
    for pragma in (f"busy_timeout = {BUSY_TIMEOUT_SECONDS * 1000}", "journal_mode = WAL", "synchronous = NORMAL"):
        cursor.execute(f"PRAGMA {pragma}")
    cursor.close()
