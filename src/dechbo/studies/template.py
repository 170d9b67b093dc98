"""Placeholders in the arguments of a command: {name} becomes a value, {{ and }} become braces.

Tested in test_objective.py.
"""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Collection, Mapping, Sequence
from typing import Any

from dechbo.errors import StudyError

ALL_PARAMETERS = "params"  # {params}: every parameter, as one JSON object
_MARK = "\ue000"  # a private character: stands around a hidden placeholder
_PIECES = re.compile(r"\{\{|\}\}|\{([^{}]*)\}|[{}]")


def split(command: str) -> list[str]:
    """The arguments of a command, split as a shell does; blanks and quotes in a placeholder belong to its name."""
    names: list[str] = []

    def hidden(piece: re.Match[str]) -> str:
        if piece.group(1) is None:
            return piece.group()
        names.append(piece.group())
        return f"{_MARK}{len(names) - 1}{_MARK}"

    arguments = shlex.split(_PIECES.sub(hidden, command.replace(_MARK, "")))
    return [re.sub(f"{_MARK}(\\d+){_MARK}", lambda mark: names[int(mark.group(1))], text) for text in arguments]


def placeholders(argument: str) -> list[str]:
    """The names in braces, in order."""
    names = []
    for piece in _PIECES.finditer(argument):
        if piece.group() in ("{", "}"):
            raise StudyError(f"argument {argument!r} has a single {piece.group()!r}: write {piece.group() * 2} for one")
        if piece.group(1) is not None:
            names.append(piece.group(1))
    return names


def arguments_for(arguments: Sequence[str], params: Mapping[str, Any], names: Collection[str]) -> list[str]:
    """The arguments with their values; one that names a parameter which is not there is left out.

    With it goes the option before it, if that stands alone: ``--depth {depth}`` goes as a whole.
    """
    answer: list[str] = []
    for k, argument in enumerate(arguments):
        used = placeholders(argument)
        if any(name in names and name not in params for name in used):
            before = arguments[k - 1] if k else ""
            if argument == f"{{{used[0]}}}" and before.startswith("-") and not placeholders(before) and answer:
                answer.pop()
        else:
            answer.append(substitute(argument, params))
    return answer


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
