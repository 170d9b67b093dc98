"""Trials as rows of plain values, for tables, JSON and CSV. Tested in test_commands.py and test_trial_csv.py."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from optuna.trial import FrozenTrial, TrialState

from dechbo.integrations.optuna import OWNER, STALE
from dechbo.integrations.optuna.trials import (
    RETRACTED,
    STATE_NAMES,
    constraints_of,
    evaluated,
    is_feasible,
    is_stale,
    numbers_in_retries,
    retried_numbers,
)
from dechbo.studies import formatting
from dechbo.studies.store import IMPORTED


@dataclass(frozen=True)
class TrialRow:
    """A trial in plain values."""

    number: int
    state: str  # complete, imported, failed, retracted, retried, stale, pruned, running, asked (by hand) or waiting
    value: float | None
    feasible: bool | None  # None where there is no value
    params: dict[str, Any]
    constraints: dict[str, float]
    seconds: float | None
    error: str | None  # one line
    curve: dict[int, float] = field(default_factory=dict)  # values by step, on the way


def trial_rows(trials: Sequence[FrozenTrial], names: Sequence[str]) -> list[TrialRow]:
    """All trials by number, with their parameters in the order of ``names``."""
    retried, again = retried_numbers(trials), numbers_in_retries(trials)
    return [_row(trial, names, retried, again) for trial in trials]


def feasible_values(trials: Sequence[FrozenTrial]) -> list[float | None]:
    """The values of the evaluated trials in their order; None for a trial that failed or is not feasible."""
    return [trial.value if is_feasible(trial) else None for trial in evaluated(trials)]


def _row(trial: FrozenTrial, names: Sequence[str], retried: set[int], again: set[int]) -> TrialRow:
    complete = trial.state == TrialState.COMPLETE
    error = trial.user_attrs.get("error")
    seconds = trial.user_attrs.get("seconds")
    return TrialRow(
        number=trial.number,
        state=_state(trial, retried, again),
        value=trial.value if complete else None,
        feasible=is_feasible(trial) if complete else None,
        params={name: trial.params[name] for name in names if name in trial.params},
        constraints=constraints_of(trial),
        seconds=float(seconds) if isinstance(seconds, (int, float)) and seconds > 0 else None,
        error=None if error is None else formatting.error_summary(str(error)),
        curve=dict(sorted(trial.intermediate_values.items())),
    )


def _state(trial: FrozenTrial, retried: set[int], again: set[int]) -> str:
    if is_stale(trial, retried):
        if trial.number in again and STALE not in trial.system_attrs and trial.state.is_finished():
            return "retried"
        return "retracted" if RETRACTED in trial.system_attrs else "stale"
    if IMPORTED in trial.system_attrs and trial.state == TrialState.COMPLETE:
        return "imported"
    if trial.state == TrialState.RUNNING and not trial.system_attrs.get(OWNER):
        return "asked"
    return STATE_NAMES[trial.state]
