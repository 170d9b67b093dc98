"""Trials as CSV: export all of them, import old results as a warm start."""

from __future__ import annotations

import csv
import io
import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from difflib import get_close_matches
from pathlib import Path
from typing import Any

from dechbo.errors import DataError, ParameterError, shortened
from dechbo.execution.outcome import Outcome
from dechbo.space import Categorical, Int, Parameter, Space
from dechbo.studies.rows import Row

CONSTRAINT = "constraint:"
OWN = ("number", "state", "value", "feasible", "seconds", "error")
NO_VALUES = {"nan", "failed", "fail", "none", "null", "inf", "-inf"}
PENDING = {"running", "asked", "waiting", "died"}
FAILED = {"failed", "fail", "pruned"}
MOST_ERRORS = 10


@dataclass(frozen=True)
class Old:
    """An old result, ready to be added."""

    line: int
    params: dict[str, Any]
    outcome: Outcome

    @property
    def key(self) -> str:
        """Equal for equal results."""
        return result_key(self.params, self.outcome.value, self.outcome.constraints)


@dataclass
class OldResults:
    """What a CSV file holds: good rows, what is wrong with the others, and what was passed over."""

    good: list[Old] = field(default_factory=list)
    bad: list[str] = field(default_factory=list)
    ignored: list[str] = field(default_factory=list)  # columns
    unfinished: int = 0  # rows of trials that have no result
    repeated: int = 0  # rows that say the same as one before


def own_column(name: str, space: Space) -> str:
    """The column of a fact that is no parameter; it gives way to a parameter of the same name."""
    return f"trial_{name}" if name in space.names else name


def result_key(params: Mapping[str, Any], value: float | None, constraints: Mapping[str, float]) -> str:
    """A text that is equal for equal results."""
    return json.dumps([sorted(params.items()), value, sorted(constraints.items())], default=str)


# --------------------------------------------------------------------- export


def to_csv(rows: Sequence[Row], space: Space) -> str:
    """All trials: number, state, value, feasibility, parameters, constraints, seconds, error."""
    limits = sorted({name for row in rows for name in row.constraints})
    before, after = OWN[:4], OWN[4:]
    page = io.StringIO()
    writer = csv.writer(page, lineterminator="\n")
    writer.writerow(
        [
            *(own_column(name, space) for name in before),
            *space.names,
            *(CONSTRAINT + name for name in limits),
            *(own_column(name, space) for name in after),
        ]
    )
    for row in rows:
        writer.writerow(
            [
                *(_cell(getattr(row, name)) for name in before),
                *(written(space[name], row.params.get(name)) for name in space.names),
                *(_cell(row.constraints.get(name)) for name in limits),
                *(_cell(getattr(row, name)) for name in after),
            ]
        )
    return page.getvalue()


def _cell(value: object) -> str:
    if value is None:
        return ""
    return value if isinstance(value, str) else json.dumps(value)


def written(parameter: Parameter, value: object) -> str:
    """The cell of a parameter's value: a text that would be read as something else, or not well, is JSON."""
    if not isinstance(value, str) or not isinstance(parameter, Categorical):
        return _cell(value)
    plain = value and value == value.strip() and value.isprintable() and _meant(parameter, value) == [value]
    return value if plain else json.dumps(value)


# --------------------------------------------------------------------- import


def read_results(path: Path, space: Space, *, value: str | None = None) -> OldResults:
    """The old results of a CSV file with a header; ``value`` names the column of the objective."""
    header, lines, separator = _table(path, space)
    column = value if value is not None else own_column("value", space)
    _check_header(path, header, column, space)
    results = OldResults()
    limits = [name for name in header if name.startswith(CONSTRAINT)]
    own = {own_column(name, space) for name in OWN}
    results.ignored = [n for n in header if n not in space.names and n not in limits and n != column and n not in own]
    seen: dict[str, set[str]] = {}  # the trial numbers of a result, if the file has any
    for line, cells in lines:
        try:
            if len(cells) != len(header):
                raise DataError(f"expected {len(header)} cells separated by {separator!r}, got {len(cells)}")
            row = dict(zip(header, cells, strict=True))
            old = _old(line, row, column, limits, space)
            if old is None:
                results.unfinished += 1
                continue
            number = row.get(own_column("number", space), "")
            if number in seen.setdefault(old.key, set()) or (seen[old.key] and not number):
                results.repeated += 1
                continue
            seen[old.key].add(number)
            results.good.append(old)
        except (DataError, ParameterError) as error:
            results.bad.append(f"{path}:{line}: {error}")
    return results


def complaint(bad: Sequence[str]) -> str:
    """All that is wrong, as one error."""
    more = f"\n… and {len(bad) - MOST_ERRORS} more" if len(bad) > MOST_ERRORS else ""
    rows = "1 row cannot" if len(bad) == 1 else f"{len(bad)} rows cannot"
    told = "\n".join(bad[:MOST_ERRORS])
    return f"{rows} be imported, so nothing was; --skip-bad imports the others\n{told}{more}"


def _table(path: Path, space: Space) -> tuple[list[str], list[tuple[int, list[str]]], str]:
    """Header, rows with their line numbers, and the separator: comma, semicolon or tab.

    Only the cells of choices keep the blanks around them.
    """
    try:
        with path.open(encoding="utf-8-sig", newline="") as file:  # line ends inside of cells as they are
            text = file.read()
    except OSError as error:
        raise DataError(f"{path}: cannot be read: {error.strerror}") from None
    except UnicodeDecodeError:
        raise DataError(f"{path}: expected a text file in UTF-8: save it as CSV, UTF-8") from None
    first = next(iter(text.splitlines()), "")
    separator = max(",;\t", key=lambda sign: (len({*first.split(sign)} & {*space.names}), first.count(sign)))
    try:
        reader = csv.reader(io.StringIO(text, newline=""), delimiter=separator, strict=True)
        rows = [(reader.line_num, cells) for cells in reader]
    except csv.Error as error:
        raise DataError(f"{path}: not a CSV file: {error}") from None
    rows = [(line, cells) for line, cells in rows if any(cell.strip() for cell in cells)]
    if not rows:
        raise DataError(f"{path}: expected a header and rows, got an empty file")
    header = [name if name in space.names else name.strip() for name in rows[0][1]]
    exact = [name in space.names and isinstance(space[name], Categorical) for name in header]
    exact += [False] * max(len(cells) for _, cells in rows)
    stripped = [
        (line, [cell if keep else cell.strip() for cell, keep in zip(cells, exact, strict=False)])
        for line, cells in rows[1:]
    ]
    return header, stripped, separator


def _check_header(path: Path, header: Sequence[str], column: str, space: Space) -> None:
    twice = sorted({name for name in header if name and header.count(name) > 1})
    if twice:
        raise DataError(f"{path}:1: the column {twice[0]!r} is there twice")
    missing = [name for name in space.names if name not in header]
    if missing:
        close = get_close_matches(missing[0], header, n=1)
        hint = f"; is {close[0]!r} meant to be {missing[0]!r}?" if close else f"; the columns are {shortened(header)}"
        raise DataError(f"{path}:1: no column for {', '.join(map(repr, missing))}{hint}")
    if column in space.names:
        raise DataError(f"{path}:1: {column!r} is a parameter, it cannot be the value too")
    if column not in header:
        others = [name for name in header if name not in space.names]
        raise DataError(
            f"{path}:1: no column {column!r} for the value; --value COLUMN names it, of {shortened(others)}"
        )


def _old(line: int, cells: Mapping[str, str], column: str, limits: Sequence[str], space: Space) -> Old | None:
    """One row; None where it is a trial without a result."""
    state = cells.get(own_column("state", space), "").lower()
    if state in PENDING and not cells[column]:
        return None
    if state in FAILED and not cells[column] and any(_lacks(space[name], cells[name]) for name in space.names):
        return None  # it failed before it had all parameters
    params = {name: native(name, space[name], cells[name]) for name in space.names}
    point = space.encode(params)
    if not space.allows(point):
        raise ParameterError(f"breaks the study's constraint {_broken(space, params)}")
    constraints = {name.removeprefix(CONSTRAINT): _limit(name, cells[name]) for name in limits if cells[name]}
    failed = state in FAILED and not cells[column]
    value = None if failed else _value(column, cells[column])
    return Old(line, params, Outcome(value, constraints if value is not None else {}))


def _lacks(parameter: Parameter, text: str) -> bool:
    """Whether a cell is empty that has to say something."""
    return not text and not (isinstance(parameter, Categorical) and _meant(parameter, text))


def _broken(space: Space, params: Mapping[str, Any]) -> str:
    """The constraint that is broken most."""
    excess = {
        str(linear): sum(c * params[name] for name, c in linear.coefficients.items()) - linear.upper
        for linear in space.constraints
    }
    return max(excess, key=lambda text: excess[text])


def native(name: str, parameter: Parameter, text: str) -> Any:
    """The value that a text means for this parameter."""
    if isinstance(parameter, Categorical):
        return _choice(name, parameter, text)
    try:
        number = float(text)
    except ValueError:
        raise ParameterError(f"{name}: expected a number, got {text!r}") from None
    if isinstance(parameter, Int) and number.is_integer():
        return int(number)
    return number


def _choice(name: str, parameter: Categorical, text: str) -> Any:
    meant = _meant(parameter, text) or _meant(parameter, text.strip())
    if len(meant) != 1:
        expected = ", ".join(written(parameter, choice) or "(empty)" for choice in parameter.choices)
        raise ParameterError(f"{name}: expected {'one' if not meant else 'only one'} of {expected}, got {text!r}")
    return meant[0]


def _meant(parameter: Categorical, text: str) -> list[Any]:
    """The choices that a cell may mean, the surest kind only.

    First a text as JSON, then anything else just as it is exported, then what people write: so that every choice has a
    cell of its own, if texts that look like another choice are JSON.
    """
    texts = [choice for choice in parameter.choices if isinstance(choice, str)]
    others = [choice for choice in parameter.choices if not isinstance(choice, str)]
    return (
        [choice for choice in texts if text.startswith('"') and _from_json(text) == choice]
        or [choice for choice in others if _cell(choice) == text]
        or [*(choice for choice in texts if choice == text), *(choice for choice in others if _says(text, choice))]
    )


def _from_json(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        return None


def _says(text: str, choice: bool | float | None) -> bool:
    if choice is None or isinstance(choice, bool):
        return text.lower() in {str(choice).lower(), *(("", "null") if choice is None else ())}
    try:
        return float(choice) == float(text)
    except ValueError:
        return False


def _value(column: str, text: str) -> float | None:
    if text.lower() in NO_VALUES:
        return None
    try:
        number = float(text)
    except ValueError:
        came = f"got {text!r}" if text else "the cell is empty"
        raise DataError(f"{column}: expected a number (nan for a failed experiment), {came}") from None
    return number if math.isfinite(number) else None


def _limit(name: str, text: str) -> float:
    try:
        number = float(text)
    except ValueError:
        number = math.nan
    if not math.isfinite(number):
        raise DataError(f"{name}: expected a finite number (feasible at or below 0), got {text!r}")
    return number
