"""Identify processes and tell whether they have ended, with real processes."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import psutil
import pytest

from dechbo.integrations.optuna import is_dead, processes, this_process

# the file alone: the package takes a second to import
CODE = f"import runpy; print(runpy.run_path({processes.__file__!r})['this_process'](), flush=True); input()"


def changed(owner: str, **values: Any) -> str:
    return json.dumps({**json.loads(owner), **values})


def test_a_process_is_alive_until_it_is_killed() -> None:
    with subprocess.Popen([sys.executable, "-c", CODE], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as p:
        assert p.stdout is not None
        owner = p.stdout.readline()
        assert json.loads(owner)["pid"] == p.pid
        assert not is_dead(owner)
        # another process with the same id
        assert is_dead(changed(owner, started=json.loads(owner)["started"] - 1))
        p.send_signal(signal.SIGKILL)
        p.stdout.read()  # wait for its end; it may still be a zombie
        p.wait()
    assert is_dead(owner)


def test_a_zombie_is_dead() -> None:
    with subprocess.Popen([sys.executable, "-c", CODE], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as p:
        assert p.stdout is not None
        owner = p.stdout.readline()
        p.kill()
        while Path(f"/proc/{p.pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z":
            pass
        assert is_dead(owner)


def test_this_process_is_alive() -> None:
    assert not is_dead(this_process())
    assert this_process() == this_process()


@pytest.mark.parametrize("step", [-3600.0, -1.0, 1.0, 3600.0])
def test_a_step_of_the_clock_kills_nobody(monkeypatch: pytest.MonkeyPatch, step: float) -> None:
    """After a step psutil returns another boot time, and some of its releases add the old one to start times."""
    with subprocess.Popen([sys.executable, "-c", CODE], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as p:
        assert p.stdout is not None
        owner, mine, boot = p.stdout.readline(), this_process(), psutil.boot_time()
        monkeypatch.setattr(psutil, "boot_time", lambda: boot + step)
        assert not is_dead(owner)
        assert not is_dead(mine)
        assert this_process() == mine
        assert is_dead(changed(owner, started=json.loads(owner)["started"] + step))  # another process with the same id
        p.kill()
    assert is_dead(owner)


def test_the_start_where_proc_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    started, content = json.loads(this_process())["started"], processes._content
    monkeypatch.setattr(processes, "_content", lambda path: None if path.endswith("/stat") else content(path))
    mine = this_process()
    assert json.loads(mine)["started"] == pytest.approx(started, abs=1.5)  # psutil's boot time has whole seconds
    assert not is_dead(mine)


def test_a_name_with_spaces_and_parentheses_hides_no_field(monkeypatch: pytest.MonkeyPatch) -> None:
    fields = " ".join(str(number) for number in range(4, 53))
    monkeypatch.setattr(processes, "_content", lambda path: f"7 (a) b (c) S {fields}")
    assert processes._seconds_from_boot(psutil.Process()) == 22 / os.sysconf("SC_CLK_TCK")  # proc(5): the 22nd


def test_tiny_differences_and_unreadable_starts_are_the_same_process() -> None:
    started = json.loads(this_process())["started"]
    assert not is_dead(changed(this_process(), started=started + 0.02))
    assert not is_dead(changed(this_process(), started="soon"))


@pytest.mark.parametrize(
    "elsewhere", [{"host": "another-host"}, {"namespace": "pid:[1]"}, {"boot": "x", "machine": "y"}, {"pid": -1}]
)
def test_processes_of_other_hosts_are_not_dead(elsewhere: dict[str, Any]) -> None:
    gone = changed(this_process(), started=0)
    assert is_dead(gone)
    assert not is_dead(changed(gone, **elsewhere))


@pytest.mark.parametrize("text", ["", "{}", "[]", "null", "nonsense", '{"pid": "x"}', '{"pid": 1e400}', None, 7])
def test_malformed_text_is_not_dead(text: Any) -> None:
    assert not is_dead(text)


def test_processes_from_before_a_reboot_are_dead(monkeypatch: pytest.MonkeyPatch) -> None:
    here = {"host": "h", "machine": "m", "boot": "2", "namespace": "pid:[4026531836]"}
    monkeypatch.setattr(processes, "_machine", lambda: here)
    before = json.dumps({**here, "boot": "1", "pid": 1, "started": 5})
    assert is_dead(before)
    assert not is_dead(changed(before, machine="another"))
    # containers on one machine share its machine id
    monkeypatch.setattr(processes, "_machine", lambda: {**here, "namespace": "pid:[7]"})
    assert not is_dead(changed(before, namespace="pid:[7]"))
