"""Experiments that happen elsewhere: asked for and told by hand, or made long ago and imported."""

from __future__ import annotations

import math
import shlex
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dechbo.errors import DataError, OptionError, ParameterError, SpaceExhausted, StudyError
from dechbo.execution.outcome import Outcome
from dechbo.integrations.optuna import OWNER
from dechbo.integrations.optuna.trials import constraints_of
from dechbo.space import Space
from dechbo.studies import words
from dechbo.studies.csvfiles import OldResults, complaint, native, read_results, result_key
from dechbo.studies.opened import OpenStudy
from dechbo.studies.rows import evaluated
from dechbo.studies.storage import shown

if TYPE_CHECKING:
    from optuna.trial import FrozenTrial
    from rich.console import Console


def old_results(path: Path, space: Space, *, value: str | None, skip_bad: bool) -> OldResults:
    """The results of a CSV file; an error if some are bad and that is not allowed."""
    results = read_results(path, space, value=value)
    if results.bad and not skip_bad:
        raise DataError(complaint(results.bad))
    return results


def take_over(study: OpenStudy, results: OldResults) -> Iterator[str]:
    """Add the results that are not there yet; what was done, line by line."""
    there = Counter(
        result_key(trial.params, trial.value if trial.state.name == "COMPLETE" else None, _limits(trial))
        for trial in evaluated(study.trials)
    )
    new = []
    for old in results.good:
        if there[old.key]:
            there[old.key] -= 1  # a result that was repeated is there as often
        else:
            new.append(old)
    for old in new:
        study.add(old.params, old.outcome)
    yield f"{words.count(len(new), 'result')} imported into study {study.file.name!r} ({shown(study.url)})"
    if len(new) < len(results.good):
        yield f"{words.count(len(results.good) - len(new), 'row')} passed over: there already"
    if results.repeated:
        yield f"{words.count(results.repeated, 'row')} passed over: the same as one before"
    if results.unfinished:
        yield f"{words.count(results.unfinished, 'row')} passed over: trials without a result"
    if results.ignored:
        yield f"columns not used: {', '.join(results.ignored)}"
    if results.bad:
        yield f"{words.count(len(results.bad), 'bad row')} left out:"
        yield from results.bad


def _limits(trial: FrozenTrial) -> dict[str, float]:
    return constraints_of(trial.system_attrs) if trial.state.name == "COMPLETE" else {}


def fixed_of(study: OpenStudy, given: Sequence[str]) -> dict[str, Any] | None:
    """NAME=VALUE texts as parameters; None if there are none."""
    fixed: dict[str, Any] = {}
    for text in given:
        name, value = _pair("--fix", text)
        try:
            fixed[name] = native(name, study.file.space[name], value)
        except ParameterError as error:
            raise ParameterError(f"--fix {text}: {error}") from None
    return fixed or None


def ask_for(study: OpenStudy, n: int, fixed: Mapping[str, Any] | None) -> list[FrozenTrial]:
    """At most ``n`` experiments to make: fewer if no more are left, and an error if none is."""
    asked: list[FrozenTrial] = []
    try:
        while len(asked) < n:
            asked.append(study.ask(fixed=fixed))
    except SpaceExhausted:
        if not asked:
            where = "with these values of --fix" if fixed else "of this study"
            raise StudyError(f"no experiment is left: all points {where} are evaluated or asked for") from None
    return asked


def show_asked(
    study: OpenStudy, asked: Sequence[FrozenTrial], path: Path, storage: str | None, console: Console
) -> None:
    """The experiments to make, and how to tell what they gave."""
    from rich.table import Table

    table = Table(box=None, padding=(0, 3, 0, 0), header_style="bold")
    table.add_column("parameter")
    for trial in asked:
        table.add_column(f"trial {trial.number}", justify="right")
    for name in study.file.space.names:
        table.add_row(name, *(words.setting(trial.params[name]) for trial in asked))
    console.print(table)
    where = [] if storage is None else ["--storage", shown(storage)]
    command = shlex.join(["dechbo", "tell", str(path), str(asked[0].number)])
    more = f" {shlex.join(where)}" if where else ""
    console.print(
        f"\nwhen it is measured:  {command} VALUE{more}\nif it gives none:     {command} --failed{more}",
        markup=False,
        highlight=False,
        soft_wrap=True,
    )


def told(study: OpenStudy, number: int, value: float | None, constraints: Sequence[str], *, failed: bool) -> str:
    """Tell an outcome; what is known now."""
    if failed == (value is not None):
        raise OptionError("tell a VALUE, or --failed if the experiment gave none")
    trial = next((trial for trial in study.trials if trial.number == number), None)
    if trial is not None and trial.state.name == "RUNNING" and trial.system_attrs.get(OWNER):
        raise StudyError(f"trial {number} is evaluated by a process (dechbo optimize): it is told there")
    if value is not None and not math.isfinite(value):
        value, failed = None, True
    limits = {} if failed else {name: _number(text) for name, text in (_pair("--constraint", c) for c in constraints)}
    study.tell(number, Outcome(value, limits, "told as failed" if failed else None, 0.0))
    best = study.best
    said = f"trial {number}: {'failed' if failed else words.number(value)}"
    if any(limit > 0 for limit in limits.values()):
        said += ", infeasible"
    if best is None:
        return said
    if best.number == number:
        return f"{said}, the best so far"
    return f"{said}; best is {words.number(best.value)} (trial {best.number})"


def _pair(option: str, text: str) -> tuple[str, str]:
    name, sign, value = text.partition("=")
    if not sign or not name.strip() or not value.strip():
        raise OptionError(f"{option} takes NAME=VALUE, got {text!r}")
    return name.strip(), value


def _number(text: str) -> float:
    try:
        number = float(text)
    except ValueError:
        number = math.nan
    if not math.isfinite(number):
        raise OptionError(f"--constraint takes a finite number (feasible at or below 0), got {text!r}")
    return number
