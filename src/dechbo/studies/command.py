"""Running one command: no shell, a process group of its own, a time limit that ends all of it.

Covered by tests/studies/test_objective.py.
"""

from __future__ import annotations

import json
import math
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import IO

from dechbo.execution.child import exit_reason
from dechbo.execution.outcome import Outcome
from dechbo.studies.pruning import CurveReporter, step_of

MAX_OUTPUT = 64 * 1024  # bytes at the end of the output that are read
STEP_SECONDS = 0.1  # between two looks for steps that a command printed
MAX_QUOTED = 1500  # characters of output in the text of a failure


def run_command(
    arguments: Sequence[str],
    folder: Path,
    environment: Mapping[str, str],
    *,
    timeout: float | None = None,
    reporter: CurveReporter | None = None,
) -> Outcome:
    """Run it and read its value; ``reporter`` takes the steps that it prints on the way."""
    reporter = reporter or CurveReporter(None, None)
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
            code = _waited(process, timeout, output, reporter)
        except subprocess.TimeoutExpired:
            _kill(process)
        except _Pruned:
            _kill(process)
            sys.stdout.write(_tail(output))
            return Outcome(None, pruned=True, curve=dict(reporter.curve))
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
    return replace(outcome_of_output(text), curve=dict(reporter.curve))


class _Pruned(Exception):
    """The pruner wants the command to end."""


def _waited(process: subprocess.Popen[bytes], timeout: float | None, output: IO[bytes], reporter: CurveReporter) -> int:
    """The exit code; reads the steps that the command prints until then."""
    deadline = math.inf if timeout is None else time.monotonic() + timeout
    read, rest = 0, b""
    while True:
        code = None
        with suppress(subprocess.TimeoutExpired):
            code = process.wait(min(STEP_SECONDS, max(0.0, deadline - time.monotonic())))
        new = os.pread(output.fileno(), MAX_OUTPUT, read)
        while new:
            read += len(new)
            *lines, rest = (rest + new).split(b"\n")
            for line in [*lines, *([rest] if code is not None else [])]:
                step = step_of(line.decode("utf-8", errors="replace"))
                if step is not None and reporter.report(*step) and code is None:
                    raise _Pruned
            rest = rest[-MAX_OUTPUT:]
            new = os.pread(output.fileno(), MAX_OUTPUT, read)
        if code is not None:
            return code
        if time.monotonic() >= deadline:
            raise subprocess.TimeoutExpired(process.args, timeout or 0.0)


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
    except (ValueError, RecursionError):
        result = None
    if step_of(last) is not None:  # the last step is the value
        result = {"value": result["value"]}
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
