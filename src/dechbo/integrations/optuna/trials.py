"""The trials of a study as a history: evaluations, pending points, and trials that lack parameters."""

from __future__ import annotations

import contextlib
import math
from bisect import insort
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from itertools import count, islice
from statistics import median
from typing import Any

from optuna.trial import FrozenTrial, TrialState

from dechbo.data.evaluation import Evaluation, Params
from dechbo.errors import ParameterError
from dechbo.integrations.optuna.adapter import OWNER, STALE, trial_id
from dechbo.integrations.optuna.processes import is_dead
from dechbo.integrations.optuna.spaces import Translation

INDEX = "dechbo:index"  # system attribute: the index of the trial that this one replaces; a retry keeps it
RETRIES = "retry_history"  # Optuna's own: the numbers of the trials that this one retries
FIXED = "fixed_params"  # Optuna's own: what enqueue_trial gave
RETRACTED = "dechbo:retracted"  # system attribute that ``revisions`` adds: the result must not count
NOISE = "dechbo:noise"  # user attribute: the known variance of a value, such as that of a mean of repeats
CONSTRAINT = "constraints:"  # Optuna's own: the prefix of a constraint's name

STATE_NAMES = {
    TrialState.COMPLETE: "complete",
    TrialState.FAIL: "failed",
    TrialState.PRUNED: "pruned",
    TrialState.RUNNING: "running",
    TrialState.WAITING: "waiting",
}

OWNER_DELAY_SECONDS = 1.0  # a trial has its owner within this time of its start; a restart takes longer


@dataclass
class TrialHistory:
    """Evaluations in the order of their trials; running trials by number, with the parameters they have."""

    evaluations: list[Evaluation] = field(default_factory=list)
    pending: list[tuple[int, Params]] = field(default_factory=list)
    incomplete: list[tuple[int, Params]] = field(default_factory=list)  # a live process is choosing the rest


class HistoryReader:
    """Translates trials into histories; caches the parameters of finished trials."""

    def __init__(self, translation: Translation) -> None:
        self.translation = translation
        self._cache: dict[int, tuple[Mapping[str, Any], Params | None]] = {}

    def history(self, trials: Sequence[FrozenTrial], *, maximize: bool, own: int | None = None) -> TrialHistory:
        """The history without trial number ``own``, which asks for it."""
        history = TrialHistory()
        retried = retried_numbers(trials)
        complete: list[float] = []  # values so far, sorted
        for trial in sorted(trials, key=lambda trial: trial.number):
            if trial.number == own or is_stale(trial, retried):
                continue
            if trial.state == TrialState.RUNNING:
                self._add_running(history, trial)
            elif trial.state.is_finished():
                value = _value(trial, complete, maximize)
                if (params := self._all_params(trial)) is not None:
                    history.evaluations.append(_evaluation(params, value, trial))
                if trial.state == TrialState.COMPLETE and value is not None:
                    insort(complete, value)
        return history

    def _all_params(self, trial: FrozenTrial) -> Params | None:
        """The parameters of a trial in our space; None if some are missing or out of range."""
        cached = self._cache.get(trial_id(trial))
        if cached is not None and cached[0] == trial.params:
            return cached[1]
        try:
            params: Params | None = self.translation.from_optuna(trial.params)
        except ParameterError:
            params = None
        if params is not None and not self.translation.is_complete(params):
            params = None
        if trial.state.is_finished():
            self._cache[trial_id(trial)] = (dict(trial.params), params)
        return params

    def _add_running(self, history: TrialHistory, trial: FrozenTrial) -> None:
        params = self._all_params(trial)
        if params is not None:
            history.pending.append((trial.number, params))
        elif OWNER in trial.system_attrs:
            known = {**as_mapping(trial.system_attrs.get(FIXED)), **trial.params}
            with contextlib.suppress(ParameterError):  # the trial belongs to another space
                history.incomplete.append((trial.number, self.translation.from_optuna(known)))


# -------------------------------------------------------- which trials count


def is_stale(trial: FrozenTrial, retried: set[int]) -> bool:
    """Whether a trial is no evaluation: its process died, another trial retries it, or it was retracted."""
    attrs = trial.system_attrs
    if RETRACTED in attrs:
        return True
    if trial.state == TrialState.RUNNING:
        return STALE in attrs or (OWNER in attrs and is_dead(attrs[OWNER]))
    return trial.state == TrialState.FAIL and (STALE in attrs or trial.number in retried)


def is_feasible(trial: FrozenTrial) -> bool:
    """Whether a trial has a value and satisfies all constraints."""
    counts = trial.state == TrialState.COMPLETE and RETRACTED not in trial.system_attrs
    return counts and all(c <= 0 for c in constraints_of(trial).values())


def evaluated(trials: Sequence[FrozenTrial]) -> list[FrozenTrial]:
    """The finished trials, including failed ones, without stale ones."""
    retried = retried_numbers(trials)
    return [trial for trial in trials if trial.state.is_finished() and not is_stale(trial, retried)]


def best_trial(trials: Iterable[FrozenTrial], direction: str) -> FrozenTrial | None:
    """The best feasible trial, the first of equals; None if there is none.

    ``Study.best_trial`` raises in that case, and reads the storage again.
    """
    sign = -1.0 if direction == "maximize" else 1.0
    return min(filter(is_feasible, trials), key=lambda trial: sign * float(trial.value or 0.0), default=None)


def constraints_of(trial: FrozenTrial) -> dict[str, float]:
    """The constraints of a trial, sorted by name; feasible at or below 0."""
    found = trial.constraints
    return {name: float(found[name]) for name in sorted(found) if isinstance(found[name], (int, float))}


# ------------------------------------------------------- retries and indices


def index_of(trial: FrozenTrial) -> int:
    """What the independent samples of a trial depend on: its number, or that of the trial it replaces."""
    return int(trial.system_attrs.get(INDEX, trial.number))


def retried_numbers(trials: Sequence[FrozenTrial]) -> set[int]:
    """The numbers of all trials that a later one retries or replaces."""
    last: dict[int, int] = {}
    for trial in trials:
        last[index_of(trial)] = max(last.get(index_of(trial), trial.number), trial.number)
    return numbers_in_retries(trials) | {trial.number for trial in trials if trial.number < last[index_of(trial)]}


def numbers_in_retries(trials: Sequence[FrozenTrial]) -> set[int]:
    """The numbers of all trials that another one retries explicitly."""
    return {number for trial in trials for number in as_sequence(trial.system_attrs.get(RETRIES))}


def free_index(trials: Sequence[FrozenTrial], own: int) -> int:
    """The smallest index that no other trial has or is about to take. The indices of stale trials are free.

    So a trial that replaces a stale one samples what that one sampled.
    """
    retried = retried_numbers(trials)
    others = [trial for trial in trials if trial.number != own and not is_stale(trial, retried)]
    settled = {index_of(trial) for trial in others if _has_index(trial)}
    before = sum(trial.number < own and not _has_index(trial) and started_just_now(trial) for trial in others)
    free = (index for index in count() if index not in settled)
    return next(islice(free, before, None))


def _has_index(trial: FrozenTrial) -> bool:
    """Whether the index of a trial is final: a running one gets its owner or its parameters after its index."""
    return trial.state != TrialState.RUNNING or OWNER in trial.system_attrs or bool(trial.params)


def started_just_now(trial: FrozenTrial) -> bool:
    """Whether a trial started so recently that its owner may not be stored yet."""
    if trial.datetime_start is None:
        return False
    return abs((datetime.now() - trial.datetime_start).total_seconds()) < OWNER_DELAY_SECONDS


# --------------------------------------------------------------------- values


def _value(trial: FrozenTrial, complete: Sequence[float], maximize: bool) -> float | None:
    """The value of a finished trial; for a pruned one its last report, but no better than the median before it."""
    if trial.state == TrialState.COMPLETE:
        return _finite(trial.value)
    reports = trial.intermediate_values
    if trial.state != TrialState.PRUNED or not reports:
        return None
    last = _finite(reports[max(reports)])
    if last is None or not complete:
        return last
    return min(last, median(complete)) if maximize else max(last, median(complete))


def _evaluation(params: Params, value: float | None, trial: FrozenTrial) -> Evaluation:
    constraints = constraints_of(trial)
    if any(not c < math.inf for c in constraints.values()):  # NaN or infinity: the violation has no size
        value = None
    finite = {name: c for name, c in constraints.items() if math.isfinite(c)}
    noise = trial.user_attrs.get(NOISE)
    known = isinstance(noise, (int, float)) and not isinstance(noise, bool) and 0 <= noise < math.inf
    return Evaluation.of(dict(params), value, noise if known else None, finite or None)


def _finite(value: float | None) -> float | None:
    return value if value is not None and math.isfinite(value) else None


def as_sequence(value: object) -> Sequence[Any]:
    """``value`` if it is a list, otherwise an empty one: attributes may hold anything."""
    return value if isinstance(value, (list, tuple)) else ()


def as_mapping(value: object) -> Mapping[str, Any]:
    """``value`` if it is a dict, otherwise an empty one: attributes may hold anything."""
    return value if isinstance(value, Mapping) else {}
