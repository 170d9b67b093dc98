"""YAML as nodes that know their line: every error names the file, the line and the field.

Scalars are read as YAML 1.2 says: 1e-5 is a number, yes and off are texts. Nothing is ever constructed from a tag.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path
from typing import Any

import yaml

from dechbo.errors import StudyFileError, format_list

_PREFIX = "tag:yaml.org,2002:"
_PLAIN_TAGS = {_PREFIX + kind for kind in ("str", "int", "float", "bool", "null", "timestamp", "merge", "value")}
_WORDS = {"true": True, "True": True, "TRUE": True, "false": False, "False": False, "FALSE": False}
_NULLS = ("", "~", "null", "Null", "NULL")
_INT = re.compile(r"[-+]?[0-9]+")
_FLOAT = re.compile(r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?")
_SPECIAL = re.compile(r"([-+]?)\.(inf|Inf|INF)|\.(nan|NaN|NAN)")


@dataclass(frozen=True)
class Field:
    """A node of the file with its place: ``parameters.lr.low`` in line 7."""

    node: yaml.Node
    file: str
    path: str = ""

    @property
    def line(self) -> int:
        """The line, counted from 1."""
        return int(self.node.start_mark.line) + 1

    def error(self, message: str) -> StudyFileError:
        """An error that names this place."""
        return StudyFileError(f"{self.file}:{self.line}: {self.path + ': ' if self.path else ''}{message}")

    def child(self, node: yaml.Node, name: str) -> Field:
        """A field inside of this one."""
        return Field(node, self.file, f"{self.path}.{name}" if self.path else name)

    def fields(self) -> dict[str, Field]:
        """The fields of a mapping, by name; no name twice."""
        if not isinstance(self.node, yaml.MappingNode) or self.node.tag != _PREFIX + "map":
            raise self.error(f"expected a mapping (name: value), got {self.came}")
        found: dict[str, Field] = {}
        for key, value in self.node.value:
            if not isinstance(key, yaml.ScalarNode) or key.tag not in _PLAIN_TAGS:
                raise Field(key, self.file, self.path).error("expected a name before the colon, got something else")
            if key.value in found:
                first = found[key.value].line
                raise Field(key, self.file, self.child(value, key.value).path).error(
                    f"given twice, first in line {first}"
                )
            found[key.value] = self.child(value, key.value)
        return found

    def known(self, required: Iterable[str], optional: Iterable[str] = ()) -> dict[str, Field]:
        """The fields of a mapping that may hold these names only."""
        required, optional = list(required), list(optional)
        found = self.fields()
        for name, field in found.items():
            if name not in required and name not in optional:
                raise field.unknown("field", [*required, *optional])
        for name in required:
            if name not in found:
                raise self.error(f"{name!r} is missing")
        return found

    def unknown(self, what: str, names: Iterable[str]) -> StudyFileError:
        """The error of a name that is not among ``names``."""
        return self.error(f"unknown {what}{hint(self.path.rpartition('.')[2], names)}")

    def items(self) -> list[Field]:
        """The items of a list."""
        if not isinstance(self.node, yaml.SequenceNode) or self.node.tag != _PREFIX + "seq":
            raise self.error(f"expected a list, got {self.came}")
        return [Field(node, self.file, f"{self.path}[{i}]") for i, node in enumerate(self.node.value)]

    @property
    def is_list(self) -> bool:
        """Whether this is a list."""
        return isinstance(self.node, yaml.SequenceNode)

    def value(self) -> bool | int | float | str | None:
        """A single value, as YAML 1.2 reads it."""
        node = self.node
        if not isinstance(node, yaml.ScalarNode) or node.tag not in _PLAIN_TAGS:
            raise self.error(f"expected a single value, got {self.came}")
        return str(node.value) if node.style else _plain(node.value)

    def text(self) -> str:
        """A text that is not empty; a plain number or word is one too, as it stands in the file."""
        value = self.value()
        if value is None or value == "":
            raise self.error("expected a text, got nothing")
        return str(self.node.value)

    def number(self) -> float:
        """A number, whole where it is written so."""
        value = self.value()
        if isinstance(value, bool) or not isinstance(value, (int, float)):
            raise self.error(f"expected a number, got {self.came}")
        return value

    def whole(self, least: int | None = None) -> int:
        """A whole number."""
        value = self.value()
        if isinstance(value, float) and value.is_integer() and abs(value) < 2**53:
            value = int(value)
        if isinstance(value, bool) or not isinstance(value, int) or (least is not None and value < least):
            raise self.error(f"expected a whole number{'' if least is None else f' at least {least}'}, got {self.came}")
        return value

    def flag(self) -> bool:
        """True or false."""
        value = self.value()
        if not isinstance(value, bool):
            raise self.error(f"expected true or false, got {self.came}")
        return value

    def one_of(self, names: Iterable[str]) -> str:
        """One of a few words."""
        names, came = list(names), self.text()
        if came not in names:
            close = hint(came, names) if get_close_matches(came, names, n=1) else ""
            raise self.error(f"expected one of {', '.join(map(repr, names))}, got {came!r}{close}")
        return came

    @property
    def came(self) -> str:
        """What stands here, as an error message shows it."""
        if isinstance(self.node, yaml.ScalarNode) and self.node.tag in _PLAIN_TAGS:
            return f"{str(self.node.value)!r:.80}" if self.node.value else "nothing"
        if self.node.tag.startswith(_PREFIX + "python") or self.node.tag.startswith("!"):
            return f"the tag {self.node.tag.removeprefix(_PREFIX)!r}, which is never read"
        return {"map": "a mapping", "seq": "a list"}.get(self.node.tag.removeprefix(_PREFIX), f"a {self.node.tag}")


def read(path: Path, file: str) -> Field:
    """The root of a YAML file, called ``file`` in errors; only composed, nothing is constructed from it."""
    try:
        text = path.read_text(encoding="utf-8-sig")
    except OSError as error:
        raise StudyFileError(f"{file}: cannot be read: {error.strerror}") from None
    except UnicodeDecodeError as error:
        raise StudyFileError(
            f"{file}: expected a text file in UTF-8, got the byte {error.object[error.start]:#x}"
        ) from None
    try:
        node = yaml.compose(text, Loader=yaml.SafeLoader)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        line = mark.line + 1 if mark is not None else 1
        said = " ".join(part for part in (error.context, error.problem) if part)
        raise StudyFileError(f"{file}:{line}: not YAML: {said}") from None
    except yaml.reader.ReaderError as error:
        line = text.count("\n", 0, error.position) + 1
        raise StudyFileError(f"{file}:{line}: not YAML: the character {error.character!r} is not allowed") from None
    except RecursionError:
        raise StudyFileError(f"{file}: nested too deeply") from None
    if node is None:
        raise StudyFileError(f"{file}:1: the file is empty; `dechbo init` writes an example")
    return Field(node, file)


def hint(name: str, names: Iterable[str]) -> str:
    """The name that was meant, or the names there are."""
    known = list(names)
    close = get_close_matches(name, known, n=1)
    return f"; did you mean {close[0]!r}?" if close else f"; known are {format_list(known)}"


def _plain(text: str) -> Any:
    """A value without quotes, as YAML 1.2 reads it."""
    if text in _WORDS:
        return _WORDS[text]
    if text in _NULLS:
        return None
    if _INT.fullmatch(text):
        return int(text)
    if _FLOAT.fullmatch(text):
        return float(text)
    if _SPECIAL.fullmatch(text):
        return float(text.replace(".", ""))
    return text
