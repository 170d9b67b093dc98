"""make_storage: SQLite with a write-ahead log, errors without secrets; locks between processes."""

from __future__ import annotations

import contextlib
import os
import pickle
import signal
import subprocess
import sys
import threading
from pathlib import Path

import optuna
import pytest
import sqlalchemy

import dechbo
from dechbo.errors import StorageError
from dechbo.integrations.optuna import OWNER
from dechbo.studies import make_storage, shown
from dechbo.studies.database import Database
from dechbo.studies.locks import exclusive
from dechbo.studies.storage import absolute, checked, reason
from dechbo.studies.storage import file_url as url_of


def pragmas(storage: optuna.storages.BaseStorage) -> dict[str, object]:
    assert isinstance(storage, Database)
    with storage.engine.connect() as connection:
        names = ("journal_mode", "synchronous", "busy_timeout")
        return {name: connection.exec_driver_sql(f"PRAGMA {name}").scalar() for name in names}


def file_url(folder: Path, name: str = "study.db") -> str:
    return f"sqlite:///{folder}/{name}"


def test_it_is_exported() -> None:
    assert dechbo.make_storage is make_storage


def test_sqlite_has_a_write_ahead_log_also_after_pickling(tmp_path: Path) -> None:
    storage = make_storage(file_url(tmp_path))
    expected = {"journal_mode": "wal", "synchronous": 1, "busy_timeout": 60_000}
    assert pragmas(storage) == expected
    again = pickle.loads(pickle.dumps(storage))
    assert pragmas(again) == expected
    study = optuna.create_study(storage=storage, study_name="s")
    study.add_trial(optuna.trial.create_trial(value=1.0))
    assert optuna.load_study(storage=again, study_name="s").best_value == 1.0
    assert again.heartbeat_interval == 10


def test_every_thread_has_the_settings(tmp_path: Path) -> None:
    storage = make_storage(file_url(tmp_path))
    found: list[dict[str, object]] = []
    threads = [threading.Thread(target=lambda: found.append(pragmas(storage))) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [settings["synchronous"] for settings in found] == [1, 1, 1]


def test_the_heartbeat_can_be_set_and_left_out(tmp_path: Path) -> None:
    storage = make_storage(file_url(tmp_path), interval=2, grace=7)
    assert isinstance(storage, Database)
    assert (storage.heartbeat_interval, storage.grace_period) == (2, 7)
    without = make_storage(file_url(tmp_path), heartbeat=False)
    assert isinstance(without, Database)
    assert without.heartbeat_interval is None


@pytest.mark.parametrize("seconds", [0, -1, 1.5, True, "3"])
def test_the_seconds_of_a_heartbeat_are_checked(tmp_path: Path, seconds: int) -> None:
    with pytest.raises(StorageError, match="interval is a whole number of seconds"):
        make_storage(file_url(tmp_path), interval=seconds)


def test_a_trial_with_an_owner_is_born_with_a_heartbeat(tmp_path: Path) -> None:
    storage = make_storage(file_url(tmp_path))
    assert isinstance(storage, Database)
    study = optuna.create_study(storage=storage)
    running = optuna.trial.TrialState.RUNNING
    for attributes in ({OWNER: "me"}, {}):
        template = optuna.trial.create_trial(state=running, system_attrs=attributes)
        storage.create_new_trial(study._study_id, template)
    with storage.engine.connect() as connection:
        beats = connection.execute(sqlalchemy.text("SELECT trial_id FROM trial_heartbeats")).scalars().all()
    assert beats == [1]  # the other is asked for by hand, and may take weeks


def test_a_waiting_trial_is_taken_by_one_of_two_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    storage = make_storage(file_url(tmp_path))
    study = optuna.create_study(storage=storage)
    study.enqueue_trial({"x": 1})
    trial_id = study.get_trials()[0]._trial_id
    both = threading.Barrier(2)
    look = Database.check_trial_is_updatable

    def slow_look(self: Database, *arguments: object) -> None:
        look(self, *arguments)  # type: ignore[arg-type]
        with contextlib.suppress(threading.BrokenBarrierError):
            both.wait(0.5)  # both look before one writes, if they can

    monkeypatch.setattr(Database, "check_trial_is_updatable", slow_look)
    running = optuna.trial.TrialState.RUNNING
    taken: list[bool] = []
    threads = [
        threading.Thread(target=lambda: taken.append(storage.set_trial_state_values(trial_id, running)))
        for _ in range(2)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(taken) == [False, True]
    assert study.get_trials()[0].datetime_start is not None


def test_enqueued_trials_are_run_once_by_several_threads(tmp_path: Path) -> None:
    study = optuna.create_study(storage=make_storage(file_url(tmp_path)))
    for i in range(20):
        study.enqueue_trial({"x": i})
    seen: list[int] = []

    def objective(trial: optuna.Trial) -> float:
        seen.append(trial.suggest_int("x", 0, 19))
        return 0.0

    verbosity = optuna.logging.get_verbosity()
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    study.optimize(objective, n_trials=20, n_jobs=2)
    optuna.logging.set_verbosity(verbosity)
    assert sorted(seen) == list(range(20))


def test_a_study_in_the_place_of_a_deleted_one_may_have_other_parameters(tmp_path: Path) -> None:
    storage = make_storage(file_url(tmp_path))
    for choices in (("a", "b"), ("c", "d")):
        study = optuna.create_study(storage=storage, study_name="s")
        for choice in choices:
            distribution = optuna.distributions.CategoricalDistribution(choices)
            study.add_trial(
                optuna.trial.create_trial(value=1.0, params={"x": choice}, distributions={"x": distribution})
            )
        assert [trial.params["x"] for trial in study.trials] == list(choices)
        optuna.delete_study(study_name="s", storage=storage)


def test_parameters_are_written_as_optuna_does(tmp_path: Path) -> None:
    """Same tables, same checks: a changed range is refused, a finished trial cannot be changed."""
    study = optuna.create_study(storage=make_storage(file_url(tmp_path), heartbeat=False), study_name="s")
    for _ in range(3):
        trial = study.ask()
        trial.suggest_float("x", 0, 1)
        trial.suggest_categorical("c", ["a", "b"])
        study.tell(trial, 1.0)
    theirs = optuna.storages.RDBStorage(file_url(tmp_path))
    plain = optuna.load_study(storage=theirs, study_name="s")
    assert [t.params for t in plain.trials] == [t.params for t in study.trials]
    assert [t.distributions for t in plain.trials] == [t.distributions for t in study.trials]
    theirs.engine.dispose()
    trial = study.ask()
    with pytest.raises(ValueError, match="does not support dynamic value space"):
        trial.suggest_categorical("c", ["a", "z"])
    x = optuna.distributions.FloatDistribution(0, 1)
    storage = study._storage
    trial.suggest_float("x", 0, 1)
    study.tell(trial, 1.0)
    with pytest.raises(optuna.exceptions.UpdateFinishedTrialError):
        storage.set_trial_param(trial._trial_id, "x", 0.5, x)
    with pytest.raises(KeyError):
        Database._set_trial_param(storage._backend, 999, "x", 0.5, x, x)  # type: ignore[attr-defined]


@pytest.mark.parametrize("url", ["sqlite://", "sqlite:///:memory:", "sqlite:///file:x?mode=memory&uri=true"])
def test_a_study_in_memory_is_refused(url: str) -> None:
    with pytest.raises(StorageError, match="a file that outlives its process"):
        make_storage(url)


def test_places_that_cannot_be_opened(tmp_path: Path) -> None:
    with pytest.raises(StorageError, match=rf"there is no folder {tmp_path}/none"):
        make_storage(file_url(tmp_path, "none/study.db"))
    with pytest.raises(StorageError, match="is a folder"):
        make_storage(f"sqlite:///{tmp_path}")
    (tmp_path / "text.db").write_text("this is no database, whatever its name says" * 20)
    with pytest.raises(StorageError, match=r"text\.db cannot be opened: file is not a database"):
        make_storage(file_url(tmp_path, "text.db"))


@pytest.mark.parametrize(
    ("url", "message"),
    [
        ("study.db", "a storage is a URL such as sqlite:///study.db"),
        ("", "a storage is a URL such as"),
        (None, "a storage is a URL such as sqlite:///study.db, got NoneType"),
        (
            "nosuchbase://me:hush@host/x",
            r"nosuchbase://me:\*\*\*@host/x: no such kind .* is known, 'nosuchbase'",
        ),
        ("mysql+nosuchdriver://me:hush@host/x", "no such kind of database is known"),
        ("postgresql://me:hush@host:port/x", "a storage is a URL such as"),
    ],
)
def test_urls_that_mean_nothing(url: str, message: str) -> None:
    with pytest.raises(StorageError, match=message) as caught:
        make_storage(url)
    assert "hush" not in str(caught.value)
    assert caught.value.__cause__ is None
    assert caught.value.__suppress_context__ or caught.value.__context__ is None


def test_a_driver_that_is_not_installed_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "psycopg", None)  # as if it were not installed
    with pytest.raises(StorageError, match=r'needs the package .psycopg.: pip install "dechbo\[postgres\]"') as caught:
        make_storage("postgresql://me:hush@host/x")
    assert "hush" not in str(caught.value)


@pytest.mark.parametrize(
    ("url", "expected"),
    [
        ("sqlite:////a/b.db", "sqlite:////a/b.db"),
        ("postgresql://me:hush@host/x", "postgresql://me:***@host/x"),
        ("postgresql://me:hu%40sh@host:5432/x?sslmode=require", "postgresql://me:***@host:5432/x?sslmode=require"),
        ("postgresql://host/x?user=me&password=hush", "postgresql://host/x?password=***&user=me"),
        ("mysql://host/x?passwd=hush&ssl_key=hush", "mysql://host/x?passwd=***&ssl_key=***"),
        ("pg//me:hush@host", "pg//***@host"),
        ("://me:hush@ho@st", "://***@st"),
        ("nonsense?password=hush&a=1", "nonsense?password=***&a=1"),
    ],
)
def test_a_url_is_shown_without_its_secrets(url: str, expected: str) -> None:
    assert shown(url).replace("%2A", "*") == expected
    assert "hush" not in shown(url)


def test_what_a_driver_says_is_shown_without_secrets() -> None:
    url = "postgresql://me:hush@host/x?sslpassword=quiet"
    error = RuntimeError("outer")
    error.__cause__ = ValueError("\nconnection of me with hush and quiet failed\nmore")
    assert reason(error, url) == "connection of me with *** and *** failed"


def test_relative_paths(tmp_path: Path) -> None:
    assert absolute("sqlite:///a.db", tmp_path) == f"sqlite:///{tmp_path}/a.db"
    assert absolute("sqlite:///:memory:", tmp_path) == "sqlite:///:memory:"
    assert absolute("postgresql://h/x", tmp_path) == "postgresql://h/x"


def test_a_relative_path_is_made_absolute(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    storage = make_storage("sqlite:///here.db")
    monkeypatch.chdir("/")
    optuna.create_study(storage=storage, study_name="s")
    assert (tmp_path / "here.db").exists()
    assert not Path("/here.db").exists()


def test_a_path_with_special_characters_is_no_template(tmp_path: Path) -> None:
    name = "odd {x} what? 100%40 é.db"
    make_storage(url_of(tmp_path / name))
    assert (tmp_path / name).exists()


def test_processes_that_create_the_same_storage_at_once(tmp_path: Path) -> None:
    code = f"import dechbo, optuna; dechbo.make_storage({file_url(tmp_path)!r})"
    processes = [subprocess.Popen([sys.executable, "-c", code], stderr=subprocess.PIPE, text=True) for _ in range(3)]
    errors = [process.communicate()[1] for process in processes]
    assert [process.returncode for process in processes] == [0, 0, 0], errors


HOLD = """\
import sys, time
from dechbo.studies.locks import exclusive
from dechbo.studies.storage import checked
with exclusive(checked(sys.argv[1]), "test"):
    print("held", flush=True)
    time.sleep(60)
"""


def test_a_lock_ends_with_the_process_that_holds_it(tmp_path: Path) -> None:
    url = file_url(tmp_path)
    holder = subprocess.Popen([sys.executable, "-c", HOLD, url], stdout=subprocess.PIPE, text=True)
    assert holder.stdout is not None
    assert holder.stdout.readline() == "held\n"
    got = threading.Event()

    def take() -> None:
        with exclusive(checked(url), "test"):
            got.set()

    taker = threading.Thread(target=take)
    taker.start()
    assert not got.wait(0.3)
    os.kill(holder.pid, signal.SIGKILL)
    assert got.wait(30)
    taker.join()
    holder.communicate()


def test_a_lock_that_cannot_be_opened(tmp_path: Path) -> None:
    address = checked(file_url(tmp_path))
    Path(f"{address.database}.lock").mkdir()
    with (
        pytest.raises(StorageError, match=r"study\.db\.lock cannot be opened: Is a directory"),
        exclusive(address, "x"),
    ):
        pass
