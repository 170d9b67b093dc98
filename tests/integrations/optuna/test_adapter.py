"""What depends on Optuna's internals: the supported versions, and the database with its tables."""

from __future__ import annotations

import contextlib
import pickle
import re
import threading
import tomllib
from pathlib import Path

import optuna
import pytest
import sqlalchemy
from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet

from dechbo import make_storage
from dechbo.integrations.optuna import OWNER, STALE, adapter
from dechbo.integrations.optuna.adapter import Database

ROOT = Path(__file__).parents[3]
PRIVATE = re.compile(
    r"optuna[\w.]*\._|\._(?:storage|study_id|trial_id|fixed_params|backend|rdb|fill_storage_url_template"
    r"|get_stale_trial_ids|get_prepared_new_trial|set_trial_param_without_commit)\b"
)


def supported_versions() -> SpecifierSet:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    (found,) = (Requirement(text) for text in project["dependencies"] if Requirement(text).name == "optuna")
    return found.specifier


def test_the_installed_optuna_is_supported() -> None:
    assert optuna.__version__ in supported_versions()


def test_the_supported_versions_have_two_ends() -> None:
    """A new series of Optuna may change its internals: it needs a look before anybody gets it."""
    assert sorted(one.operator for one in supported_versions()) == ["<", ">="]


def test_only_the_adapter_touches_what_is_private_in_optuna() -> None:
    package = ROOT / "src" / "dechbo"
    touching = [path for path in package.rglob("*.py") if PRIVATE.search(path.read_text(encoding="utf-8"))]
    assert touching == [package / "integrations" / "optuna" / "adapter.py"]


def file_url(folder: Path, name: str = "study.db") -> str:
    return f"sqlite:///{folder}/{name}"


def pragmas(storage: optuna.storages.BaseStorage) -> dict[str, object]:
    assert isinstance(storage, Database)
    with storage.engine.connect() as connection:
        names = ("journal_mode", "synchronous", "busy_timeout")
        return {name: connection.exec_driver_sql(f"PRAGMA {name}").scalar() for name in names}


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


def test_a_new_trial_with_an_owner_has_a_heartbeat(tmp_path: Path) -> None:
    storage = make_storage(file_url(tmp_path))
    assert isinstance(storage, Database)
    study = optuna.create_study(storage=storage)
    running = optuna.trial.TrialState.RUNNING
    for attributes in ({OWNER: "me"}, {}):
        template = optuna.trial.create_trial(state=running, system_attrs=attributes)
        storage.create_new_trial(adapter.study_id(study), template)
    with storage.engine.connect() as connection:
        beats = connection.execute(sqlalchemy.text("SELECT trial_id FROM trial_heartbeats")).scalars().all()
    assert beats == [1]  # not the other one: asked for by hand, it may take weeks


def test_only_one_of_two_threads_starts_a_waiting_trial(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    storage = make_storage(file_url(tmp_path))
    study = optuna.create_study(storage=storage)
    study.enqueue_trial({"x": 1})
    trial_id = adapter.trial_id(study.get_trials()[0])
    both = threading.Barrier(2)
    look = Database.check_trial_is_updatable

    def slow_look(self: Database, *arguments: object) -> None:
        look(self, *arguments)  # type: ignore[arg-type]
        with contextlib.suppress(threading.BrokenBarrierError):
            both.wait(0.5)  # both read before one writes, if they can

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


def test_a_study_created_after_a_deleted_one_may_have_other_parameters(tmp_path: Path) -> None:
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
    storage = adapter.storage_of(study)
    trial.suggest_float("x", 0, 1)
    study.tell(trial, 1.0)
    with pytest.raises(optuna.exceptions.UpdateFinishedTrialError):
        storage.set_trial_param(adapter.trial_id(trial), "x", 0.5, x)
    with pytest.raises(KeyError):
        adapter.database_of(study)._set_trial_param(999, "x", 0.5, x, x)


@pytest.mark.parametrize("in_memory", [True, False])
def test_only_a_running_trial_can_become_stale(tmp_path: Path, in_memory: bool) -> None:
    study = optuna.create_study(storage=None if in_memory else make_storage(file_url(tmp_path), heartbeat=False))
    dead, finished = study.ask(), study.ask()
    study.tell(finished, 1.0)
    assert [adapter.fail_stale(study, adapter.trial_id(trial)) for trial in (dead, dead, finished)] == [
        True,
        False,
        False,
    ]
    assert [trial.state.name for trial in study.trials] == ["FAIL", "COMPLETE"]
    assert [STALE in trial.system_attrs for trial in study.trials] == [True, False]
