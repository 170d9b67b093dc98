"""Trials as plain rows, for tables, JSON and CSV."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from optuna.trial import FrozenTrial, TrialState

from dechbo.integrations.optuna import OWNER
from dechbo.integrations.optuna.trials import (
    best_trial,
    constraints_of,
    evaluated,
    is_feasible,
    is_stale,
    retried_numbers,
)
from dechbo.studies import words
from dechbo.studies.store import IMPORTED

NAMES = {
    TrialState.COMPLETE: "complete",
    TrialState.FAIL: "failed",
    TrialState.PRUNED: "pruned",
    TrialState.RUNNING: "running",
    TrialState.WAITING: "waiting",
}


@dataclass(frozen=True)
class Row:
    """A trial in plain values."""

    number: int
    state: str  # complete, imported, failed, died, pruned, running, asked (by hand, to be told) or waiting
    value: float | None
    feasible: bool | None  # None where there is no value
    params: dict[str, Any]
    constraints: dict[str, float]
    seconds: float | None
    error: str | None  # its most telling line

    def to_json(self) -> dict[str, Any]:
        """Plain JSON."""
        return dict(self.__dict__)


def rows_of(trials: Sequence[FrozenTrial], names: Sequence[str]) -> list[Row]:
    """All trials by number, with their parameters in the order of ``names``."""
    retried = retried_numbers(trials)
    return [_row(trial, names, retried) for trial in trials]


@dataclass(frozen=True)
class Standing:
    """How far a study has come, whichever process evaluated its trials."""

    finished: int = 0  # without old results
    failed: int = 0
    best: tuple[int, float] | None = None  # number and value
    values: tuple[float | None, ...] = ()  # of all results by number; None where it is not feasible


def standing(trials: Sequence[FrozenTrial], direction: str) -> Standing:
    """What the trials of a study amount to."""
    results = evaluated(trials)
    own = [trial for trial in results if IMPORTED not in trial.system_attrs]
    values = tuple(trial.value if is_feasible(trial) else None for trial in results)
    best = best_trial(results, direction)
    failed = sum(trial.state == TrialState.FAIL for trial in own)
    return Standing(len(own), failed, None if best is None else (best.number, float(best.value or 0.0)), values)


def _row(trial: FrozenTrial, names: Sequence[str], retried: set[int]) -> Row:
    complete = trial.state == TrialState.COMPLETE
    error = trial.user_attrs.get("error")
    return Row(
        number=trial.number,
        state=_state(trial, retried),
        value=trial.value if complete else None,
        feasible=is_feasible(trial) if complete else None,
        params={name: trial.params[name] for name in names if name in trial.params},
        constraints=constraints_of(trial),
        seconds=_seconds(trial),
        error=None if error is None else words.essence(str(error)),
    )


def _state(trial: FrozenTrial, retried: set[int]) -> str:
    if is_stale(trial, retried):
        return "died"
    if IMPORTED in trial.system_attrs and trial.state == TrialState.COMPLETE:
        return "imported"
    if trial.state == TrialState.RUNNING and not trial.system_attrs.get(OWNER):
        return "asked"
    return NAMES[trial.state]


def _seconds(trial: FrozenTrial) -> float | None:
    told = trial.user_attrs.get("seconds")
    return float(told) if isinstance(told, (int, float)) and told > 0 else None
