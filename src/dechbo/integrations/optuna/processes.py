"""Identify a process across hosts, and tell whether it has ended.

psutil tells whether a process exists. Boot ids, PID namespaces and the time from boot to the start of a process are
read from Linux directly: psutil offers none of them.
"""

from __future__ import annotations

import json
import os
import socket
from functools import cache
from pathlib import Path

import psutil

SAME_START_SECONDS = 0.5  # start times that differ by less belong to the same process
_START_FIELD = 19  # of /proc/PID/stat after the name: "starttime" in proc(5), in clock ticks
_HOST_NAMESPACE = "pid:[4026531836]"  # the PID namespace of every Linux host, as opposed to its containers


def this_process() -> str:
    """The identity of this process as JSON: host, boot, process id and start time."""
    me = {**_machine(), "pid": os.getpid(), "started": _seconds_from_boot(psutil.Process())}
    return json.dumps({name: value for name, value in me.items() if value is not None}, sort_keys=True)


def is_dead(process: str) -> bool:
    """Whether the process that ``this_process`` identified ran on this host and has ended.

    False if this host cannot know: the process belongs to another host or container, or the text is malformed.
    """
    try:
        known = json.loads(process)
        pid = int(known["pid"])
    except (TypeError, ValueError, KeyError, OverflowError):
        return False
    here = _machine()
    if pid <= 0 or any(known.get(name) != here[name] for name in ("host", "namespace")):
        return False
    if known.get("boot") != here["boot"]:  # the same machine after a reboot?
        return (
            here["namespace"] == _HOST_NAMESPACE
            and here["machine"] is not None
            and known.get("machine") == here["machine"]
        )
    try:
        found = psutil.Process(pid)
        if found.status() in (psutil.STATUS_ZOMBIE, psutil.STATUS_DEAD):
            return True
        started = known.get("started")
        if not isinstance(started, (int, float)):
            return False
        return abs(started - _seconds_from_boot(found)) >= SAME_START_SECONDS  # another process has this id now
    except psutil.NoSuchProcess:
        return True
    except (psutil.AccessDenied, OverflowError):
        return False


def _seconds_from_boot(process: psutil.Process) -> float:
    """Seconds from boot to the start of a process; on Linux, a change of the clock does not alter them.

    psutil gives the time of day, for which some of its releases remember the boot time and others read it again.
    """
    stat = _content(f"/proc/{process.pid}/stat")
    if stat is None:  # not Linux, or the process has ended
        return round(process.create_time() - psutil.boot_time(), 2)
    fields = stat.rpartition(")")[2].split()  # the name in parentheses may contain spaces
    return round(int(fields[_START_FIELD]) / os.sysconf("SC_CLK_TCK"), 2)


@cache
def _machine() -> dict[str, str | None]:
    return {
        "host": socket.gethostname(),
        "machine": _content("/etc/machine-id"),
        "boot": _content("/proc/sys/kernel/random/boot_id"),
        "namespace": _link("/proc/self/ns/pid"),  # process ids are only valid within their namespace
    }


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
