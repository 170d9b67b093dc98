"""Saved runs: plain JSON, written whole or not at all, checked when read."""

from __future__ import annotations

import json
import os
import tempfile
from os import PathLike
from pathlib import Path
from typing import Any

from dechbo.errors import StudyFileError

FORMAT = "dechbo run"
VERSION = 1


def write(path: str | PathLike[str], content: dict[str, Any]) -> None:
    """Write beside the target and rename, so that a crash leaves the old file or the new one, never half of one."""
    target = Path(path)
    try:
        text = json.dumps({"format": FORMAT, "version": VERSION, **content}, indent=1, allow_nan=False)
    except (TypeError, ValueError) as error:
        raise StudyFileError(f"this run cannot be written as plain JSON: {error}") from error
    handle, temporary = tempfile.mkstemp(dir=target.parent, prefix=f".{target.name}.")
    try:
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, target)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise


def read(path: str | PathLike[str]) -> dict[str, Any]:
    """The content of a saved run."""
    try:
        content = json.loads(Path(path).read_text(encoding="utf-8"))
    except json.JSONDecodeError as error:
        raise StudyFileError(f"{path} is not a saved run: not JSON ({error})") from error
    if not isinstance(content, dict) or content.get("format") != FORMAT:
        raise StudyFileError(f'{path} is not a saved run: it has no "format": "{FORMAT}"')
    if content.get("version") != VERSION:
        raise StudyFileError(
            f"{path} has version {content.get('version')}, expected {VERSION}: use the dechbo that wrote it"
        )
    return content
