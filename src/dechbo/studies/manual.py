"""Trials that are evaluated elsewhere: asked for and told by hand, or imported from old results.

Tested in test_commands.py and test_trial_csv.py.
"""

from __future__ import annotations

import math
import shlex
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dechbo.data.csv import parse_value
from dechbo.errors import OptionError, ParameterError, SpaceExhausted, StudyError
from dechbo.execution.outcome import Outcome
from dechbo.integrations.optuna import OWNER
from dechbo.integrations.optuna.trials import RETRACTED, evaluated
from dechbo.space import Space
from dechbo.studies import formatting
from dechbo.studies.storage import redacted_url
from dechbo.studies.store import StudyStore, own_evaluations
from dechbo.studies.terminal import plain, print_text
from dechbo.studies.trial_csv import OldResults, parse_limit, result_key
from dechbo.studies.trial_table import trial_rows

if TYPE_CHECKING:
    from optuna.trial import FrozenTrial
    from rich.console import Console


def import_results(study: StudyStore, results: OldResults) -> Iterator[str]:
    """Add the results that the study does not have yet; yields a report, line by line."""
    known = Counter(
        result_key(row.params, row.value, row.constraints if row.value is not None else {})
        for row in trial_rows(evaluated(study.trials), study.file.space.names)
    )
    new = []
    for old in results.good:
        if known[old.key]:
            known[old.key] -= 1  # a repeated result is known as often as it was repeated
        else:
            new.append(old)
    for old in new:
        study.add(old.params, old.outcome)
    yield f"{formatting.count(len(new), 'result')} imported into study {study.file.name!r} ({redacted_url(study.url)})"
    skipped = {
        "already in the study": len(results.good) - len(new),
        "repeated in the file": results.repeated,
        "trials without a result": results.unfinished,
    }
    for reason, rows in skipped.items():
        if rows:
            yield f"{formatting.count(rows, 'row')} skipped: {reason}"
    if results.ignored:
        yield f"columns not used: {', '.join(results.ignored)}"
    if results.bad:
        yield f"{formatting.count(len(results.bad), 'bad row')} left out:"
        yield from results.bad


def fixed_params(space: Space, given: Sequence[str], *, option: str = "--fix") -> dict[str, Any] | None:
    """The parameters of NAME=VALUE texts; None if there are none."""
    fixed: dict[str, Any] = {}
    for text in given:
        name, value = _pair(option, text, space.names)
        if name in fixed:
            raise ParameterError(f"{option} {text}: {name!r} is given twice")
        try:
            fixed[name] = parse_value(name, space[name], value)
        except ParameterError as error:
            raise ParameterError(f"{option} {text}: {error}") from None
    return fixed or None


def ask_trials(study: StudyStore, n: int, fixed: Mapping[str, Any] | None) -> list[FrozenTrial]:
    """Ask for ``n`` trials; fewer if the space has no more points, an error if it has none."""
    asked: list[FrozenTrial] = []
    try:
        while len(asked) < n:
            asked.append(study.ask(fixed=fixed))
    except SpaceExhausted:
        if not asked:
            where = "with these values of --fix" if fixed else "of this study"
            raise StudyError(f"no point is left: all points {where} are evaluated or asked for") from None
    return asked


def print_asked(
    study: StudyStore, asked: Sequence[FrozenTrial], path: Path, storage: str | None, console: Console
) -> None:
    """Show the trials to evaluate, and how to tell their values."""
    from rich.table import Table

    table = Table(box=None, padding=(0, 3, 0, 0), header_style="bold")
    table.add_column("parameter")
    for trial in asked:
        table.add_column(f"trial {trial.number}", justify="right")
    for name in study.file.space.names:
        table.add_row(
            plain(name),
            *(plain(formatting.setting(trial.params[name]) if name in trial.params else "–") for trial in asked),
        )
    console.print(table)
    command = shlex.join(["dechbo", "tell", str(path), str(asked[0].number)])
    more = "" if storage is None else f" --storage {shlex.quote(redacted_url(storage))}"
    print_text(console, f"\ntell its value:  {command} VALUE{more}\nif it failed:    {command} --failed{more}")


def tell_trial(
    study: StudyStore,
    number: int,
    value: float | None,
    constraints: Sequence[str],
    *,
    failed: bool,
    correct: bool = False,
) -> str:
    """Tell the outcome of a trial, or ``correct`` it; returns a line with the best so far."""
    if failed == (value is not None):
        raise OptionError("tell a VALUE, or --failed if the experiment gave none")
    trial = next((trial for trial in study.trials if trial.number == number), None)
    if trial is not None and not correct and trial.state.name == "RUNNING" and trial.system_attrs.get(OWNER):
        raise StudyError(f"trial {number} is being evaluated by `dechbo optimize`, which tells its value")
    if value is not None and not math.isfinite(value):
        value, failed = None, True
    pairs = [] if failed else [_pair("--constraint", text) for text in constraints]
    limits = {name: parse_limit(f"--constraint {name}", text) for name, text in pairs}
    outcome = Outcome(value, limits, "told as failed" if failed else None, 0.0)
    if correct:
        study.correct(number, outcome)
    else:
        study.tell(number, outcome)
    line = f"trial {number}: {'corrected to ' if correct else ''}{'failed' if failed else formatting.number(value)}"
    if any(limit > 0 for limit in limits.values()):
        line += ", infeasible"
    if number in _retracted(study):
        line += ", but the trial is retracted and does not count"
    return _with_best(study, number, line)


def retract_trials(study: StudyStore, numbers: Sequence[int], *, undo: bool) -> Iterator[str]:
    """Retract trials, or take them back in; yields a line for each."""
    known = {trial.number for trial in study.trials}
    if unknown := [number for number in numbers if number not in known]:
        raise StudyError(f"study {study.file.name!r} has no trial {unknown[0]}: nothing was retracted")
    for number in dict.fromkeys(numbers):
        if undo != (number in _retracted(study)):
            yield f"trial {number}: {'not retracted, nothing to undo' if undo else 'retracted already'}"
            continue
        study.retract(number, undo=undo)
        what = "counts again" if undo else "retracted: kept, but never modelled, and its point may come again"
        yield _with_best(study, number, f"trial {number}: {what}")


def retry_trials(study: StudyStore, numbers: Sequence[int], *, failed: bool) -> Iterator[str]:
    """Queue trials again: given ones, or all that ``failed``; yields a report."""
    if failed == bool(numbers):
        raise OptionError("give the numbers of trials, or --failed for all that failed")
    chosen = list(numbers)
    if failed:
        chosen = [trial.number for trial in own_evaluations(study.trials) if trial.state.name == "FAIL"]
    queued = [number for number in chosen if study.retry(number)]
    yield f"{formatting.count(len(queued), 'trial')} queued again, the results left out"
    if not chosen:
        yield "no trial of this study has failed, apart from those that were tried again already"
    elif len(queued) < len(chosen):
        yield f"{formatting.count(len(chosen) - len(queued), 'trial')} queued before already"
    if queued:
        yield "`dechbo optimize` or `dechbo ask` takes them first"


def enqueue_trial(study: StudyStore, given: Sequence[str]) -> str:
    """Queue a trial with the parameters of NAME=VALUE texts."""
    params = fixed_params(study.file.space, given, option="a setting")
    if params is None:
        raise OptionError("give at least one NAME=VALUE; the other parameters are chosen when the trial starts")
    number = study.enqueue(params)
    chosen = study.file.space.active(params) - params.keys()
    rest = f"; {formatting.count(len(chosen), 'other parameter')} chosen when it starts" if chosen else ""
    if same := [trial.number for trial in evaluated(study.trials) if trial.params == params]:
        rest = f"; trial {same[-1]} has these parameters, too, and both will count"
    return f"trial {number} queued{rest}; `dechbo optimize` or `dechbo ask` takes it first"


def _retracted(study: StudyStore) -> set[int]:
    return {trial.number for trial in study.trials if RETRACTED in trial.system_attrs}


def _with_best(study: StudyStore, number: int, line: str) -> str:
    best = study.best
    if best is None:
        return line
    if best.number == number:
        return f"{line}, the best so far"
    return f"{line}; best is {formatting.number(best.value)} (trial {best.number})"


def _pair(option: str, text: str, names: Sequence[str] = ()) -> tuple[str, str]:
    """The two sides of NAME=VALUE; a name of ``names`` may contain the sign itself."""
    known = [name for name in names if text.startswith(f"{name}=")]
    longest = max(known, key=len, default=None)
    name, sign, value = text.partition("=") if longest is None else (longest, "=", text[len(longest) + 1 :])
    if not sign or not name.strip() or not value.strip():
        raise OptionError(f"{option} takes NAME=VALUE, got {text!r}")
    return name if longest is not None else name.strip(), value
