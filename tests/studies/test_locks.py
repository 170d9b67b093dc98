"""Locks between processes."""

from __future__ import annotations

import errno
import fcntl
import os
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from dechbo.errors import StorageError
from dechbo.studies.locks import exclusive
from dechbo.studies.storage import checked_url


def file_url(folder: Path) -> str:
    return f"sqlite:///{folder}/study.db"


HOLD = """\
import sys, time
from dechbo.studies.locks import exclusive
from dechbo.studies.storage import checked_url
with exclusive(checked_url(sys.argv[1]), "test"):
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
        with exclusive(checked_url(url), "test"):
            got.set()

    taker = threading.Thread(target=take)
    taker.start()
    assert not got.wait(0.3)
    os.kill(holder.pid, signal.SIGKILL)
    assert got.wait(30)
    taker.join()
    holder.communicate()


def test_a_lock_that_cannot_be_opened(tmp_path: Path) -> None:
    address = checked_url(file_url(tmp_path))
    Path(f"{address.database}.lock").mkdir()
    with (
        pytest.raises(StorageError, match=r"study\.db\.lock cannot be opened: Is a directory"),
        exclusive(address, "x"),
    ):
        pass


def test_a_file_system_without_locks_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A soft lock, filelock's replacement, would outlive a killed process."""

    def missing(*_: object) -> None:
        raise OSError(errno.ENOSYS, os.strerror(errno.ENOSYS))

    monkeypatch.setattr(fcntl, "flock", missing)
    with (
        pytest.raises(StorageError, match=f"file system of {tmp_path} has no file locks: .*postgresql"),
        exclusive(checked_url(file_url(tmp_path)), "x"),
    ):
        pass
