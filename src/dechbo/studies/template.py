"""Placeholders in the arguments of a command: {name} becomes a value, {{ and }} become braces.

Tested in test_objective.py.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

from dechbo.errors import StudyError

ALL_PARAMETERS = "params"  # {params}: every parameter, as one JSON object
_PIECES = re.compile(r"\{\{|\}\}|\{([^{}]*)\}|[{}]")


def placeholders(argument: str) -> list[str]:
    """The names in braces, in order."""
    names = []
    for piece in _PIECES.finditer(argument):
        if piece.group() in ("{", "}"):
            raise StudyError(f"argument {argument!r} has a single {piece.group()!r}: write {piece.group() * 2} for one")
        if piece.group(1) is not None:
            names.append(piece.group(1))
    return names


def substitute(argument: str, params: Mapping[str, Any]) -> str:
    """The argument with its placeholders replaced; placeholders inside the values stay as they are."""

    def replacement(piece: re.Match[str]) -> str:
        name = piece.group(1)
        if name is None:
            return piece.group()[0]
        if name == ALL_PARAMETERS and ALL_PARAMETERS not in params:
            return json.dumps(dict(params))
        value = params[name]
        return value if isinstance(value, str) else json.dumps(value)

    return _PIECES.sub(replacement, argument)
