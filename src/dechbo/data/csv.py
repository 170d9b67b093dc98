"""CSV tables: one reader for all, and parameter values as texts in cells."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Collection
from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from typing import Any

from dechbo.errors import DataError, ParameterError
from dechbo.space import Categorical, Int, Parameter


@dataclass(frozen=True)
class CsvTable:
    """The cells of a file as they stand there; lines without any text are left out."""

    header: list[str]
    rows: list[tuple[int, list[str]]]  # each with its line number
    separator: str

    def record(self, cells: list[str]) -> dict[str, str]:
        """The cells of a row by column."""
        if len(cells) != len(self.header):
            raise DataError(f"expected {len(self.header)} cells separated by {self.separator!r}, got {len(cells)}")
        return dict(zip(self.header, cells, strict=True))


def read_csv(path: str | PathLike[str], names: Collection[str] = ()) -> CsvTable:
    """Read a file with a header, separated by comma, semicolon or tab.

    Blanks around a column's name are dropped, unless ``names`` has it with them. The separator is the one that finds
    most of ``names`` in the header, then the most frequent one.
    """
    try:
        with Path(path).open(encoding="utf-8-sig", newline="") as file:  # line ends inside cells stay as they are
            text = file.read()
    except OSError as error:
        raise DataError(f"{path}: cannot be read: {error.strerror}") from None
    except UnicodeDecodeError:
        raise DataError(f"{path}: expected a text file in UTF-8: save it as CSV, UTF-8") from None
    first = next(iter(text.splitlines()), "")
    separator = max(",;\t", key=lambda sign: (len({*first.split(sign)} & {*names}), first.count(sign)))
    try:
        reader = csv.reader(io.StringIO(text, newline=""), delimiter=separator, strict=True)
        rows = [(reader.line_num, cells) for cells in reader]
    except csv.Error as error:
        raise DataError(f"{path}: not a CSV file: {error}") from None
    rows = [(line, cells) for line, cells in rows if any(cell.strip() for cell in cells)]
    if not rows:
        raise DataError(f"{path}: expected a header and rows, got an empty file")
    header = [name if name in names else name.strip() for name in rows[0][1]]
    twice = sorted({name for name in header if name and header.count(name) > 1})
    if twice:
        raise DataError(f"{path}:1: the column {twice[0]!r} is there twice")
    return CsvTable(header, rows[1:], separator)


def cell(value: object) -> str:
    """A value as a cell: texts as they are, nothing for None, all else as JSON."""
    if value is None:
        return ""
    return value if isinstance(value, str) else json.dumps(value)


def format_value(parameter: Parameter, value: object) -> str:
    """A parameter's value as a cell; a text that would not be read back as it is becomes JSON."""
    if not isinstance(value, str) or not isinstance(parameter, Categorical):
        return cell(value)
    plain = value and value == value.strip() and value.isprintable() and matching_choices(parameter, value) == [value]
    return value if plain else json.dumps(value)


def parse_value(name: str, parameter: Parameter, text: str) -> Any:
    """The value that a text means for a parameter."""
    if isinstance(parameter, Categorical):
        found = matching_choices(parameter, text) or matching_choices(parameter, text.strip())
        if len(found) != 1:
            expected = ", ".join(format_value(parameter, choice) or "(empty)" for choice in parameter.choices)
            raise ParameterError(f"{name}: expected {'only ' if found else ''}one of {expected}, got {text!r}")
        return found[0]
    try:
        number = float(text)
    except ValueError:
        raise ParameterError(f"{name}: expected a number, got {text!r}") from None
    return int(number) if isinstance(parameter, Int) and number.is_integer() else number


def matching_choices(parameter: Categorical, text: str) -> list[Any]:
    """The choices that a cell may mean.

    JSON texts come first, then other values exactly as ``cell`` writes them, then what people write. So every choice
    has a cell of its own, as long as texts that look like another choice are written as JSON.
    """
    texts = [choice for choice in parameter.choices if isinstance(choice, str)]
    others = [choice for choice in parameter.choices if not isinstance(choice, str)]
    return (
        [choice for choice in texts if text.startswith('"') and _from_json(text) == choice]
        or [choice for choice in others if cell(choice) == text]
        or [*(choice for choice in texts if choice == text), *(choice for choice in others if _means(text, choice))]
    )


def _from_json(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        return None


def _means(text: str, choice: bool | float | None) -> bool:
    if choice is None or isinstance(choice, bool):
        return text.lower() in {str(choice).lower(), *(("", "null") if choice is None else ())}
    try:
        return float(choice) == float(text)
    except ValueError:
        return False
