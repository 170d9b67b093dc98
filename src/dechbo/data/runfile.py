"""Saved runs: plain JSON, written whole or not at all, checked when read."""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np

from dechbo.errors import StudyFileError

FORMAT = "dechbo run"
VERSION = 2


def write(path: str | PathLike[str], content: dict[str, Any]) -> None:
    """Write beside the target and rename, so that a crash leaves the old file or the new one, never half of one."""
    target = Path(path)
    try:
        text = json.dumps({"format": FORMAT, "version": VERSION, **content}, indent=1, allow_nan=False, default=_plain)
    except (TypeError, ValueError) as error:
        raise StudyFileError(f"this run cannot be written as plain JSON: {error}") from error
    handle, temporary = tempfile.mkstemp(dir=target.parent, prefix=f".{target.name}.")
    try:
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        umask = os.umask(0)
        os.umask(umask)
        os.chmod(temporary, 0o666 & ~umask)  # as any other file of the user, not private as temporary files are
        os.replace(temporary, target)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise


def _plain(value: object) -> object:
    """NumPy's numbers as Python's."""
    if isinstance(value, np.generic):
        return value.item()
    raise TypeError(f"{value!r} is not plain data")


@contextmanager
def damage_reported(path: str | PathLike[str]) -> Iterator[None]:
    """Turn whatever a damaged file causes into one clear error."""
    try:
        yield
    except (KeyError, IndexError, TypeError, AttributeError, ValueError) as error:
        raise StudyFileError(f"{path} is a saved run, but damaged: {type(error).__name__} {error}") from error


def read(path: str | PathLike[str]) -> dict[str, Any]:
    """The content of a saved run."""
    try:
        content = json.loads(Path(path).read_text(encoding="utf-8"))
    except (json.JSONDecodeError, UnicodeDecodeError) as error:
        raise StudyFileError(f"{path} is not a saved run: not JSON ({error})") from error
    if not isinstance(content, dict) or content.get("format") != FORMAT:
        raise StudyFileError(f'{path} is not a saved run: it has no "format": "{FORMAT}"')
    if content.get("version") != VERSION:
        raise StudyFileError(
            f"{path} has format {content.get('version')}, and dechbo 0.2 reads format {VERSION}: load it with the "
            "dechbo that wrote it, or start a new Optimizer and tell it what stands under 'evaluations'"
        )
    return content
