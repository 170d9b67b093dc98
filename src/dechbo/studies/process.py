"""Running one command: no shell, its own process group, a time limit that ends all of it."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import IO

from dechbo.studies.outcome import Outcome

TAIL = 64 * 1024  # bytes of output that are looked at
ERROR_TAIL = 1500  # characters of standard error in a failure


def run_command(
    arguments: Sequence[str],
    folder: Path,
    environment: Mapping[str, str],
    *,
    timeout: float | None = None,
    started: Callable[[int], None] | None = None,
) -> Outcome:
    """Run it and read its value; ``started`` is told its process group."""
    # files, not pipes: a process that the command leaves behind cannot keep us waiting, nor fill our memory
    with tempfile.TemporaryFile() as output, tempfile.TemporaryFile() as errors:
        try:
            process = subprocess.Popen(
                list(arguments),
                cwd=folder,
                env=dict(environment),
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=errors,
                start_new_session=True,
            )
        except (OSError, ValueError) as error:  # ValueError: a NUL character in an argument
            return Outcome.failure(f"the command {arguments[0]!r} cannot be started: {error}")
        code: int | None = None
        try:
            if started is not None:
                started(process.pid)
            code = process.wait(timeout)
        except subprocess.TimeoutExpired:
            kill_group(process.pid)
            process.wait()
        except BaseException:
            kill_group(process.pid)
            process.wait()
            raise
        text, complaint = _tail(output), _tail(errors)
    sys.stdout.write(text)
    sys.stderr.write(complaint)
    if code is None:
        return Outcome.failure(f"stopped after {timeout:g} s (timeout){_ending(complaint or text)}")
    if code != 0:
        return Outcome.failure(f"the command {_reason(code)}{_ending(complaint or text)}")
    return Outcome.of_output(text)


def kill_group(group: int) -> None:
    """End every process of a group at once."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(group, signal.SIGKILL)


def death(code: int) -> str:
    """How a process ended, in words."""
    return f"died with {_signal_name(-code)}" if code < 0 else f"ended with exit code {code}"


def _reason(code: int) -> str:
    return death(code) if code < 0 else f"failed with exit code {code}"


def _signal_name(number: int) -> str:
    try:
        return f"signal {number} ({signal.Signals(number).name})"
    except ValueError:
        return f"signal {number}"


def _tail(file: IO[bytes]) -> str:
    size = file.seek(0, os.SEEK_END)
    file.seek(max(0, size - TAIL))
    return file.read().decode("utf-8", errors="replace")


def _ending(text: str) -> str:
    kept = text.strip()[-ERROR_TAIL:]
    return f"; its last output:\n{kept}" if kept else ""
