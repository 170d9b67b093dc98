"""make_storage and its URLs: errors without secrets."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import optuna
import pytest

import dechbo
from dechbo.errors import StorageError
from dechbo.integrations.optuna.adapter import Database
from dechbo.studies import make_storage
from dechbo.studies.storage import absolute_url, error_reason, redacted_url
from dechbo.studies.storage import file_url as url_of


def file_url(folder: Path, name: str = "study.db") -> str:
    return f"sqlite:///{folder}/{name}"


def test_it_is_exported() -> None:
    assert dechbo.make_storage is make_storage


def test_the_heartbeat_can_be_set_and_left_out(tmp_path: Path) -> None:
    storage = make_storage(file_url(tmp_path), interval=2, grace=7)
    assert isinstance(storage, Database)
    assert (storage.heartbeat_interval, storage.grace_period) == (2, 7)
    without = make_storage(file_url(tmp_path), heartbeat=False)
    assert isinstance(without, Database)
    assert without.heartbeat_interval is None


@pytest.mark.parametrize("seconds", [0, -1, 1.5, True, "3"])
def test_the_seconds_of_a_heartbeat_are_checked(tmp_path: Path, seconds: int) -> None:
    with pytest.raises(StorageError, match="interval must be an integer number of seconds"):
        make_storage(file_url(tmp_path), interval=seconds)


@pytest.mark.parametrize("url", ["sqlite://", "sqlite:///:memory:", "sqlite:///file:x?mode=memory&uri=true"])
def test_a_study_in_memory_is_refused(url: str) -> None:
    with pytest.raises(StorageError, match="a file that outlives its process"):
        make_storage(url)


def test_paths_that_cannot_be_opened(tmp_path: Path) -> None:
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
        ("study.db", "a storage must be a URL such as sqlite:///study.db or postgresql://user@host/database"),
        ("", "a storage must be a URL such as"),
        (None, "a storage must be a URL such as sqlite:///study.db, got NoneType"),
        (
            "nosuchbase://me:hush@host/x",
            r"nosuchbase://me:\*\*\*@host/x has an unknown kind of database, 'nosuchbase'",
        ),
        ("mysql+nosuchdriver://me:hush@host/x", "an unknown kind of database"),
        ("postgresql://me:hush@host:port/x", "a storage must be a URL such as"),
    ],
)
def test_invalid_urls(url: str, message: str) -> None:
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
def test_a_redacted_url_has_no_secrets(url: str, expected: str) -> None:
    assert redacted_url(url).replace("%2A", "*") == expected
    assert "hush" not in redacted_url(url)


def test_the_message_of_a_driver_has_no_secrets() -> None:
    url = "postgresql://me:hush@host/x?sslpassword=quiet"
    error = RuntimeError("outer")
    error.__cause__ = ValueError("\nconnection of me with hush and quiet failed\nmore")
    assert error_reason(error, url) == "connection of me with *** and *** failed"


def test_relative_paths(tmp_path: Path) -> None:
    assert absolute_url("sqlite:///a.db", tmp_path) == f"sqlite:///{tmp_path}/a.db"
    assert absolute_url("sqlite:///:memory:", tmp_path) == "sqlite:///:memory:"
    assert absolute_url("postgresql://h/x", tmp_path) == "postgresql://h/x"


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
