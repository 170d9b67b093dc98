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

from dechbo.data.csv import CsvTable, cell, format_value, matching_choices, parse_value, read_csv
from dechbo.errors import DataError, ParameterError, format_list
from dechbo.execution.outcome import Outcome
from dechbo.space import Categorical, Parameter, Space
from dechbo.studies.old_results import as_records, is_database, json_rows, optuna_rows
from dechbo.studies.storage import redacted_url
from dechbo.studies.trial_table import TrialRow

CONSTRAINT_PREFIX = "constraint:"
TRIAL_COLUMNS = ("number", "state", "value", "feasible", "seconds", "error")
NO_VALUES = {"nan", "failed", "fail", "none", "null", "inf", "-inf"}
PARAMETER_PREFIXES = ("params.", "params_", "config.", "config/", "parameters.")  # MLflow, Optuna, W&B
VALUE_PREFIXES = ("metrics.", "metrics_", "summary.", "summary/")
STATE_COLUMNS = ("State", "status", "Status")
UNFINISHED_STATES = {"running", "asked", "waiting", "stale", "scheduled", "pending", "queued"}
LEFT_OUT_STATES = {"retracted", "retried"}  # with or without a value
FAILED_STATES = {"failed", "fail", "pruned", "crashed", "killed"}
MAX_ERRORS_SHOWN = 10


@dataclass(frozen=True)
class OldResult:
    """An old result, ready to be imported."""

    line: int
    params: dict[str, Any]
    outcome: Outcome

    @property
    def key(self) -> str:
        """Equal for equal results."""
        return result_key(self.params, self.outcome.value, self.outcome.constraints)


@dataclass
class OldResults:
    """The content of a CSV file: good rows, what is wrong with the others, and what is skipped."""

    good: list[OldResult] = field(default_factory=list)
    bad: list[str] = field(default_factory=list)
    ignored: list[str] = field(default_factory=list)  # columns
    unfinished: int = 0  # rows of trials that have no result
    repeated: int = 0  # rows that repeat an earlier one

    def check(self) -> None:
        """Raise a DataError that lists the bad rows, if there are any."""
        if self.bad:
            rows = "1 row cannot" if len(self.bad) == 1 else f"{len(self.bad)} rows cannot"
            shown = "\n".join(self.bad[:MAX_ERRORS_SHOWN])
            more = f"\n… and {len(self.bad) - MAX_ERRORS_SHOWN} more" if len(self.bad) > MAX_ERRORS_SHOWN else ""
            raise DataError(f"{rows} be imported, so nothing was; --skip-bad imports the others\n{shown}{more}")


def trial_column(name: str, space: Space) -> str:
    """The column of a fact about the trial; renamed where a parameter has the same name."""
    return f"trial_{name}" if name in space.names else name


def result_key(params: Mapping[str, Any], value: float | None, constraints: Mapping[str, float]) -> str:
    """A text that is equal for equal results."""
    return json.dumps([sorted(params.items()), value, sorted(constraints.items())], default=str)


# --------------------------------------------------------------------- export


def to_csv(rows: Sequence[TrialRow], space: Space) -> str:
    """All trials: number, state, value, feasibility, parameters, constraints, seconds, error."""
    constraints = sorted({name for row in rows for name in row.constraints})
    before, after = TRIAL_COLUMNS[:4], TRIAL_COLUMNS[4:]
    page = io.StringIO()
    writer = csv.writer(page, lineterminator="\n")
    writer.writerow(
        [
            *(trial_column(name, space) for name in before),
            *space.names,
            *(CONSTRAINT_PREFIX + name for name in constraints),
            *(trial_column(name, space) for name in after),
        ]
    )
    for row in rows:
        writer.writerow(
            [
                *(cell(getattr(row, name)) for name in before),
                *(format_value(space[name], row.params.get(name)) for name in space.names),
                *(cell(row.constraints.get(name)) for name in constraints),
                *(cell(getattr(row, name)) for name in after),
            ]
        )
    return page.getvalue()


# --------------------------------------------------------------------- import


def read_results(path: Path, space: Space, *, value: str | None = None) -> OldResults:
    """Read the old results of a CSV file with a header; ``value`` names the column of the objective."""
    return results_of(path, read_csv(path, space.names), space, value=value)


def read_source(source: str, space: Space, *, value: str | None = None, study: str | None = None) -> OldResults:
    """Read old results of any kind: CSV, an Optuna database, or the JSON of Ax or scikit-optimize."""
    if not is_database(source) and Path(source).suffix.lower() != ".json":
        return read_results(Path(source), space, value=value)
    rows = optuna_rows(source, study) if is_database(source) else json_rows(Path(source), space, value)
    header, cells = as_records(rows, space)
    table = CsvTable(header, list(enumerate(cells, 1)), ",")
    name = "value" if "value" not in space.names else None
    path = Path(redacted_url(source) if "://" in source else source)
    return results_of(path, table, space, value=name)


def results_of(path: Path, given: CsvTable, space: Space, *, value: str | None = None) -> OldResults:
    """The old results of a table."""
    table = CsvTable(_renamed(given.header, space, value), given.rows, given.separator)
    header, column = table.header, value if value is not None else trial_column("value", space)
    _check_header(path, header, column, space)
    used = {*space.names, column, *(trial_column(name, space) for name in TRIAL_COLUMNS)}
    results = OldResults(ignored=[n for n in header if n not in used and not n.startswith(CONSTRAINT_PREFIX)])
    seen: dict[str, set[str]] = {}  # for each result, the trial numbers that the file gives
    for line, cells in table.rows:
        try:
            record = _record(table, cells, space)
            old = _old_result(line, record, column, space)
        except (DataError, ParameterError) as error:
            results.bad.append(f"{path}:{line}: {error}")
            continue
        if old is None:
            results.unfinished += 1
            continue
        number = record.get(trial_column("number", space), "")
        numbers = seen.setdefault(old.key, set())
        if number in numbers or (numbers and not number):
            results.repeated += 1
        else:
            numbers.add(number)
            results.good.append(old)
    return results


def _renamed(header: Sequence[str], space: Space, value: str | None) -> list[str]:
    """The header with the names of this study, for files of MLflow (params.lr, metrics.loss), W&B and Optuna."""
    answer = list(header)
    wanted = [*space.names, *([value] if value else [])]
    for name in wanted:
        if name not in answer:
            prefixes = PARAMETER_PREFIXES if name in space.names else VALUE_PREFIXES
            found = next((prefix + name for prefix in prefixes if prefix + name in answer), None)
            if found is not None:
                answer[answer.index(found)] = name
    state = trial_column("state", space)
    if state not in answer:
        found = next((name for name in STATE_COLUMNS if name in answer and name not in space.names), None)
        answer = [state if name == found else name for name in answer]
    return answer


def _check_header(path: Path, header: Sequence[str], column: str, space: Space) -> None:
    missing = [name for name in space.names if name not in header]
    if missing:
        close = get_close_matches(missing[0], header, n=1)
        hint = f"; is {close[0]!r} meant to be {missing[0]!r}?" if close else f"; the columns are {format_list(header)}"
        raise DataError(f"{path}:1: no column for {', '.join(map(repr, missing))}{hint}")
    if column in space.names:
        raise DataError(f"{path}:1: {column!r} is a parameter, it cannot be the value too")
    if column not in header:
        others = [name for name in header if name not in space.names]
        raise DataError(
            f"{path}:1: no column {column!r} for the value; --value COLUMN names it, of {format_list(others)}"
        )


def _record(table: CsvTable, cells: list[str], space: Space) -> dict[str, str]:
    """The cells by column; only those of categorical parameters keep the blanks around them."""
    exact = {name for name in space.names if isinstance(space[name], Categorical)}
    return {name: text if name in exact else text.strip() for name, text in table.record(cells).items()}


def _old_result(line: int, record: Mapping[str, str], column: str, space: Space) -> OldResult | None:
    """The result of one row; None for a trial without a result."""
    state = record.get(trial_column("state", space), "").lower()
    if state in LEFT_OUT_STATES or (state in UNFINISHED_STATES and not record[column]):
        return None
    failed = state in FAILED_STATES and not record[column]
    given = {name: record[name] for name in space.names}
    if space.conditions:  # a cell may be empty where the parameter is not there
        given = {name: text for name, text in given.items() if not (space[name].when and not text)}
    if failed and any(_is_missing(space[name], text) for name, text in given.items()):
        return None  # it failed before it had all parameters
    params = {name: parse_value(name, space[name], text) for name, text in given.items()}
    if not space.allows(space.encode(params)):
        raise ParameterError(f"breaks the study's constraint {_most_violated(space, params)}")
    limits = {
        name.removeprefix(CONSTRAINT_PREFIX): parse_limit(name, text)
        for name, text in record.items()
        if name.startswith(CONSTRAINT_PREFIX) and text
    }
    value = None if failed else _value(column, record[column])
    return OldResult(line, params, Outcome(value, limits if value is not None else {}))


def _is_missing(parameter: Parameter, text: str) -> bool:
    return not text and not (isinstance(parameter, Categorical) and matching_choices(parameter, text))


def _most_violated(space: Space, params: Mapping[str, Any]) -> str:
    excess = {
        str(linear): sum(c * params[name] for name, c in linear.coefficients.items()) - linear.upper
        for linear in space.constraints
    }
    return max(excess, key=lambda text: excess[text])


def _value(column: str, text: str) -> float | None:
    if text.lower() in NO_VALUES:
        return None
    try:
        number = float(text)
    except ValueError:
        came = f"got {text!r}" if text else "the cell is empty"
        raise DataError(f"{column}: expected a number (nan for a failed experiment), {came}") from None
    return number if math.isfinite(number) else None


def parse_limit(name: str, text: str) -> float:
    """The value of a constraint."""
    try:
        number = float(text)
    except ValueError:
        number = math.nan
    if not math.isfinite(number):
        raise DataError(f"{name}: expected a finite number (feasible at or below 0), got {text!r}")
    return number
