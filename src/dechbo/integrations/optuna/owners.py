"""Who runs a trial, and whether that process is gone."""

from __future__ import annotations

import json
import os
import socket
from functools import cache
from pathlib import Path
from typing import Any

OWNER = "dechbo:owner"  # system attribute of a trial: the process that runs it, as ``this_process`` says

_FIRST_NAMESPACE = "pid:[4026531836]"  # of every Linux machine itself, as opposed to containers on it


def this_process() -> str:
    """Which process this is, as JSON text: its host, boot, process number and start time."""
    me = {**_machine(), "pid": os.getpid(), "started": _started(os.getpid())}
    return json.dumps({name: value for name, value in me.items() if value is not None}, sort_keys=True)


def is_dead(owner: str) -> bool:
    """Whether the process that ``this_process`` described ran on this very host and is gone.

    False whenever that cannot be known from here: another host or container, a text that says nothing.
    """
    try:
        known = json.loads(owner)
        pid = int(known["pid"])
    except (TypeError, ValueError, KeyError, OverflowError):
        return False
    here = _machine()
    if pid <= 0 or os.name != "posix" or any(known.get(name) != here[name] for name in ("host", "namespace")):
        return False
    if known.get("boot") != here["boot"]:  # the same machine, started again since?
        return (
            here["namespace"] == _FIRST_NAMESPACE
            and here["machine"] is not None
            and known.get("machine") == here["machine"]
        )
    return _is_gone(pid, known.get("started"))


def _is_gone(pid: int, started: object) -> bool:
    """Whether no process has this number, or one that started at another time."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return True
    except (PermissionError, OverflowError):  # somebody else's process has the number, or no process can have it
        return False
    now = _started(pid)
    return _is_zombie(pid) or (started is not None and now is not None and now != started)


@cache
def _machine() -> dict[str, str | None]:
    return {
        "host": socket.gethostname(),
        "machine": _content("/etc/machine-id"),
        "boot": _content("/proc/sys/kernel/random/boot_id"),
        "namespace": _link("/proc/self/ns/pid"),  # process numbers mean nothing in another container
    }


def _stat(pid: int) -> list[str] | None:
    """The fields of /proc/<pid>/stat from the third on; the second, a name, may hold anything."""
    text = _content(f"/proc/{pid}/stat")
    return None if text is None else text.rpartition(")")[2].split()


def _started(pid: int) -> int | None:
    """When a process started, in clock ticks since boot; None where the system does not say."""
    fields = _stat(pid)
    return None if fields is None else int(fields[19])


def _is_zombie(pid: int) -> bool:
    fields: Any = _stat(pid) or ["?"]
    return fields[0] in ("Z", "X")


def _content(path: str) -> str | None:
    try:
        return Path(path).read_text(encoding="utf-8", errors="replace").strip() or None
    except OSError:
        return None


def _link(path: str) -> str | None:
    try:
        return os.readlink(path)
    except OSError:
        return None
