"""A YAML file as data for pydantic, and errors that name the file, the line and the field.

ruamel.yaml composes the nodes and reads scalars as YAML 1.2 does: 1e-5 is a number, yes and off are texts. By hand:
the line of a field, and a refusal of every tag, so that a file never builds an object. Tested in test_studyfile.py.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from contextlib import suppress
from decimal import Decimal, InvalidOperation
from difflib import get_close_matches
from pathlib import Path
from typing import Any

from pydantic import ValidationError
from pydantic_core import ErrorDetails, PydanticCustomError
from ruamel.yaml import YAML
from ruamel.yaml.error import MarkedYAMLError
from ruamel.yaml.nodes import MappingNode, Node, ScalarNode, SequenceNode
from ruamel.yaml.reader import ReaderError

from dechbo.errors import StudyFileError, format_list

_PREFIX = "tag:yaml.org,2002:"
_READ = {_PREFIX + kind for kind in ("bool", "int", "float", "null")}  # others are texts
_SCALARS = _READ | {_PREFIX + kind for kind in ("str", "timestamp", "merge", "value")}
_TAGGED = object()  # stands for a node with a tag of its own: nothing accepts it

_MAPPINGS = ("model_type", "model_attributes_type", "dict_type", "union_tag_not_found")
_MESSAGES = {  # by pydantic's type of error; ", got …" follows
    **dict.fromkeys(_MAPPINGS, "expected a mapping (name: value)"),
    "list_type": "expected a list",
    "string_type": "expected a text",
    "string_too_short": "expected a text",
    "string_too_long": "expected at most {max_length} characters",
    "too_short": "expected at least one entry",
    "int_type": "expected a whole number",
    "float_type": "expected a number",
    "finite_number": "expected a finite number",
    "greater_than": "expected a number above {gt:g}",
    "greater_than_equal": "expected a number at least {ge:g}",
    "bool_type": "expected true or false",
    "literal_error": "expected one of {allowed}",
    "union_tag_invalid": "expected one of {allowed}",
    "expected": "expected {what}",
}


class WrittenInt(int):
    """A whole number that remembers its text."""

    text = ""


class WrittenFloat(float):
    """A number that remembers its text."""

    text = ""


def as_text(value: object) -> object:
    """The text of a number as it is written; any other value unchanged."""
    return getattr(value, "text", value)


def as_whole(value: object) -> object:
    """The int of a float such as 1e3 or 1e18, by its text if it has one; any other value unchanged."""
    if not isinstance(value, float) or not value.is_integer():
        return value
    if abs(value) < 2**53:
        return int(value)
    try:
        exact = Decimal(getattr(value, "text", "").replace("_", ""))
    except InvalidOperation:
        return value
    return int(exact) if exact == exact.to_integral_value() else value


def wrong(message: str, *at: str | int) -> PydanticCustomError:
    """A validation error with this message; ``at`` leads from the validated value to the field that is wrong."""
    return PydanticCustomError("wrong", "{message}", {"message": message, "at": at})


def expected(what: str, *at: str | int) -> PydanticCustomError:
    """A validation error that also shows what the file has instead."""
    return PydanticCustomError("expected", "expected {what}", {"what": what, "at": at})


def hint(name: str, names: Iterable[str]) -> str:
    """The end of an error on an unknown name: the closest known name, or all of them."""
    known = list(names)
    close = get_close_matches(name, known, n=1)
    return f"; did you mean {close[0]!r}?" if close else f"; known are {format_list(known)}"


class YamlSource:
    """A YAML file, called ``file`` in errors. ``data`` holds plain dicts, lists and values."""

    def __init__(self, path: Path, file: str) -> None:
        self._file = file
        self._yaml = YAML(typ="safe", pure=True)
        self._yaml.composer.warn_double_anchors = False  # they are valid YAML
        self._seen: dict[int, Any] = {}  # by node: an alias gives the same data again
        try:
            self._root = self._compose(path)
            self.data = self._read(self._root, "")
        except RecursionError:
            raise StudyFileError(f"{file}: nested too deeply") from None

    def explain(self, error: ValidationError) -> StudyFileError:
        """All errors that pydantic found, in the order of their lines."""
        found = [self._explained(detail) for detail in error.errors(include_url=False, include_input=False)]
        return StudyFileError("\n".join(f"{self._file}:{line}: {text}" for line, text in sorted(set(found))))

    def _compose(self, path: Path) -> Node:
        try:
            text = path.read_text(encoding="utf-8-sig")
        except OSError as error:
            raise StudyFileError(f"{self._file}: cannot be read: {error.strerror}") from None
        except UnicodeDecodeError as error:
            byte = error.object[error.start]
            raise StudyFileError(f"{self._file}: expected a text file in UTF-8, got the byte {byte:#x}") from None
        try:
            root: Node | None = self._yaml.compose(text)
        except MarkedYAMLError as error:
            mark = error.problem_mark or error.context_mark
            reason = " ".join(part for part in (error.context, error.problem) if part)
            raise self._error(1 if mark is None else mark.line + 1, f"not YAML: {reason}") from None
        except ReaderError as error:
            line = text.count("\n", 0, error.position) + 1
            raise self._error(line, f"not YAML: the character {chr(error.character)!r} is not allowed") from None
        if root is None:
            raise self._error(1, "the file is empty; `dechbo init` writes an example")
        return root

    def _read(self, node: Node, path: str) -> Any:
        """The data of a node."""
        if id(node) not in self._seen:
            if isinstance(node, MappingNode) and node.tag == _PREFIX + "map":
                self._seen[id(node)] = self._mapping(node, path)
            elif isinstance(node, SequenceNode) and node.tag == _PREFIX + "seq":
                self._seen[id(node)] = [self._read(item, f"{path}[{k}]") for k, item in enumerate(node.value)]
            elif isinstance(node, ScalarNode) and node.tag in _SCALARS:
                self._seen[id(node)] = self._scalar(node)
            else:
                self._seen[id(node)] = _TAGGED
        return self._seen[id(node)]

    def _scalar(self, node: ScalarNode) -> bool | int | float | str | None:
        value = node.value
        if node.tag in _READ:
            with suppress(ValueError):  # "!!int x"
                value = self._yaml.constructor.construct_object(node)
        if isinstance(value, (int, float)) and not isinstance(value, bool):
            value = WrittenInt(value) if isinstance(value, int) else WrittenFloat(value)
            value.text = node.value
        return value  # type: ignore[no-any-return]

    def _mapping(self, node: MappingNode, path: str) -> dict[str, Any]:
        data: dict[str, Any] = {}
        lines: dict[str, int] = {}
        for key, value in node.value:
            if not isinstance(key, ScalarNode) or key.tag not in _SCALARS:
                raise self._error(_line(key), "expected a name before the colon, got something else", path)
            place = f"{path}.{key.value}" if path else key.value
            if key.value in data:
                raise self._error(_line(key), f"given twice, first in line {lines[key.value]}", place)
            data[key.value], lines[key.value] = self._read(value, place), _line(key)
        return data

    def _explained(self, detail: ErrorDetails) -> tuple[int, str]:
        """The line and the text of an error: the field, what is expected, what the file has."""
        kind, context = detail["type"], detail.get("ctx", {})
        more = ("type",) if kind == "union_tag_invalid" else context.get("at", ())
        node, path, line = self._find((*detail["loc"], *more))
        if kind == "missing":
            message = f"{detail['loc'][-1]!r} is missing"
        elif kind == "union_tag_not_found" and isinstance(node, MappingNode):
            message = "'type' is missing: float, int or categorical"
        elif kind == "wrong":
            message = context["message"]
        else:
            names = re.findall("'(.*?)'", context.get("expected", context.get("expected_tags", "")))
            expectation = _MESSAGES.get(kind, detail["msg"]).format(allowed=", ".join(map(repr, names)), **context)
            message = f"{expectation}, got {_shown(node)}"
            if get_close_matches(str(node.value), names, n=1):
                message += hint(str(node.value), names)
        return line, f"{path}: {message}" if path else message

    def _find(self, place: tuple[str | int, ...]) -> tuple[Node, str, int]:
        """The node at a place of the data, its path and line; parts that the file lacks name a branch of a union."""
        node, path, line = self._root, "", _line(self._root)
        for part in place:
            if isinstance(node, MappingNode):
                for key, value in node.value:
                    if key.value == part:
                        node, path, line = value, f"{path}.{part}" if path else str(part), _line(key)
                        break
            elif isinstance(node, SequenceNode) and isinstance(part, int) and part < len(node.value):
                node = node.value[part]
                path, line = f"{path}[{part}]", _line(node)
        return node, path, line

    def _error(self, line: int, message: str, path: str = "") -> StudyFileError:
        return StudyFileError(f"{self._file}:{line}: {path + ': ' if path else ''}{message}")


def _line(node: Node) -> int:
    return int(node.start_mark.line) + 1


def _shown(node: Node) -> str:
    """A node as an error message shows it."""
    if isinstance(node, ScalarNode) and node.tag in _SCALARS:
        quoted = "the text " if node.style else ""
        return f"{quoted}{str(node.value)!r:.80}" if node.value else "nothing"
    if node.value == []:
        return "nothing"
    kinds = {_PREFIX + "map": "a mapping", _PREFIX + "seq": "a list"}
    return kinds.get(str(node.tag), f"the tag {str(node.tag).removeprefix(_PREFIX)!r}, which is never read")
