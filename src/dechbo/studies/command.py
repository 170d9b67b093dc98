"""Running one command: no shell, a process group of its own, a time limit that ends all of it.

Covered by tests/studies/test_objective.py.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import IO

from dechbo.execution.child import exit_reason
from dechbo.execution.outcome import Outcome

MAX_OUTPUT = 64 * 1024  # bytes at the end of the output that are read
MAX_QUOTED = 1500  # characters of output in the text of a failure


def run_command(
    arguments: Sequence[str], folder: Path, environment: Mapping[str, str], *, timeout: float | None = None
) -> Outcome:
    """Run it and read its value."""
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
                process_group=0,  # to end it with its children; it stays in the session that ends with the worker
            )
        except (OSError, ValueError) as error:  # ValueError: a NUL character in an argument
            return Outcome.failure(f"the command {arguments[0]!r} cannot be started: {error}")
        code: int | None = None
        try:
            code = process.wait(timeout)
        except subprocess.TimeoutExpired:
            _kill(process)
        except BaseException:
            _kill(process)
            raise
        text, complaint = _tail(output), _tail(errors)
    sys.stdout.write(text)
    sys.stderr.write(complaint)
    if code is None:
        return Outcome.failure(f"stopped after {timeout:g} s (timeout){_quoted(complaint or text)}")
    if code != 0:
        reason = f"failed with exit code {code}" if code > 0 else exit_reason(code)
        return Outcome.failure(f"the command {reason}{_quoted(complaint or text)}")
    return outcome_of_output(text)


def outcome_of_output(text: str) -> Outcome:
    """What a command printed: its last line that is not empty, a number or a JSON object."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    if not lines:
        return Outcome.failure("the command printed nothing: its last line must be the value")
    last = lines[-1]
    try:
        return Outcome.of_result(float(last))
    except ValueError:
        pass
    try:
        result = json.loads(last)
    except ValueError:
        result = None
    if not isinstance(result, dict):
        return Outcome.failure(
            f'the command\'s last line must be a number or {{"value": …, "constraints": […]}}, got {last!r:.200}'
        )
    return Outcome.of_result(result)


def _kill(process: subprocess.Popen[bytes]) -> None:
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def _tail(file: IO[bytes]) -> str:
    size = file.seek(0, os.SEEK_END)
    file.seek(max(0, size - MAX_OUTPUT))
    return file.read().decode("utf-8", errors="replace")


def _quoted(text: str) -> str:
    end = text.strip()[-MAX_QUOTED:]
    return f"; its last output:\n{end}" if end else ""
