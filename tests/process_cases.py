"""What became of worker processes: for the tests of all that starts some."""

from __future__ import annotations

import time

import psutil


def alive(pid: int) -> bool:
    """Whether a process runs; one that ended and only waits for its parent does not."""
    try:
        return psutil.Process(pid).status() not in (psutil.STATUS_ZOMBIE, psutil.STATUS_DEAD)
    except psutil.NoSuchProcess:
        return False


def gone(pid: int) -> bool:
    """Whether a process ends within some time."""
    for _ in range(200):
        if not alive(pid):
            return True
        time.sleep(0.05)
    return False


def children() -> list[int]:
    """The worker processes of this process."""
    found = []
    for process in psutil.Process().children():
        try:
            if "dechbo.execution.child" in " ".join(process.cmdline()):
                found.append(process.pid)
        except psutil.NoSuchProcess:
            continue
    return found
