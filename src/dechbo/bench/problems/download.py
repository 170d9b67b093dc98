"""Download a published data file (tests: test_download.py)."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable
from http.client import HTTPException
from pathlib import Path
from urllib.request import urlopen

from rich.console import Console
from rich.progress import wrap_file

from dechbo.bench.problems.problem import ProblemUnavailable

Unpack = Callable[[Path], bytes]


def downloaded(url: str, target: Path, algorithm: str, digest: str, unpack: Unpack | None = None) -> Path:
    """The file ``target``, from ``url`` unless it is there already; ``unpack`` gives its content from what comes.

    It appears under its name only when it is complete and its checksum is right.
    """
    if target.is_file() and _digest(target, algorithm) == digest:
        return target
    target.parent.mkdir(parents=True, exist_ok=True)
    part = target.with_name(f"{target.name}.{os.getpid()}.part")
    try:
        _fetch(url, part, target.name)
        if unpack is not None:
            part.write_bytes(unpack(part))
        found = _digest(part, algorithm)
        if found != digest:
            raise ProblemUnavailable(
                f"{target.name} of {url} should have the {algorithm} sum {digest}, got {found}: try again"
            )
        os.replace(part, target)
    finally:
        part.unlink(missing_ok=True)
    return target


def _fetch(url: str, path: Path, name: str) -> None:
    try:
        with urlopen(url, timeout=30) as response, path.open("wb") as file:
            size = int(response.headers.get("Content-Length", 0))
            with wrap_file(response, size, description=name, console=Console(stderr=True)) as body:
                while chunk := body.read(1 << 16):
                    file.write(chunk)
    except (OSError, HTTPException) as error:
        raise ProblemUnavailable(
            f"{url} cannot be downloaded ({error}): get it on a machine with internet and put it into {path.parent}"
        ) from error


def _digest(path: Path, algorithm: str) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, lambda: hashlib.new(algorithm, usedforsecurity=False)).hexdigest()
