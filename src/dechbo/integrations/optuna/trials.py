"""A history out of a study's trials: what was evaluated, what others evaluate now, what is being asked for."""

from __future__ import annotations

import contextlib
import math
from bisect import insort
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from itertools import count, islice
from statistics import median
from typing import Any

from optuna.trial import FrozenTrial, TrialState

from dechbo.data.evaluation import Evaluation, Params
from dechbo.errors import ParameterError
from dechbo.integrations.optuna.owners import OWNER, is_dead
from dechbo.integrations.optuna.spaces import Translation

DIED = "dechbo:died"  # system attribute: this trial died with its process; it is no evaluation, its retry is
INDEX = "dechbo:index"  # system attribute of a trial in the place of another: whose; a retry keeps it
RETRIES = "retry_history"  # Optuna's own: the trials that this one retries
FIXED = "fixed_params"  # Optuna's own: what enqueue_trial gave

MOMENT = 1.0  # seconds within which a trial that was begun has its owner written down; no process is back sooner

_CONSTRAINTS = "constraints"  # Optuna's own: a list under this key, or one number under each "constraints:<name>"


@dataclass
class TrialHistory:
    """Evaluations in the order of their trials; running trials by number, with what is known of their parameters."""

    evaluations: list[Evaluation] = field(default_factory=list)
    pending: list[tuple[int, Params]] = field(default_factory=list)
    asking: list[tuple[int, Params]] = field(default_factory=list)  # a live process asks for the rest right now


class Reader:
    """Turns trials into histories; remembers the parameters it has translated."""

    def __init__(self, translation: Translation) -> None:
        self.translation = translation
        self._known: dict[int, tuple[Mapping[str, Any], Params | None]] = {}

    def history(self, trials: Sequence[FrozenTrial], *, maximize: bool, own: int | None = None) -> TrialHistory:
        """The history as trial number ``own`` sees it, which is no part of it."""
        history = TrialHistory()
        retried = retried_numbers(trials)
        complete: list[float] = []  # values so far, sorted
        for trial in sorted(trials, key=lambda trial: trial.number):
            if trial.number == own or died(trial, retried):
                continue
            if trial.state == TrialState.RUNNING:
                self._add_running(history, trial)
            elif trial.state.is_finished():
                value = _value(trial, complete, maximize)
                if (params := self._all_params(trial)) is not None:
                    history.evaluations.append(_evaluation(params, value, trial.system_attrs))
                if trial.state == TrialState.COMPLETE and value is not None:
                    insort(complete, value)
        return history

    def _all_params(self, trial: FrozenTrial) -> Params | None:
        """The parameters of a trial in our space; None where some are missing or outside of their range."""
        known = self._known.get(trial._trial_id)
        if known is not None and known[0] == trial.params:
            return known[1]
        try:
            params: Params | None = self.translation.ours(trial.params)
        except ParameterError:
            params = None
        if params is not None and len(params) < len(self.translation.axes):
            params = None
        if trial.state.is_finished():
            self._known[trial._trial_id] = (dict(trial.params), params)
        return params

    def _add_running(self, history: TrialHistory, trial: FrozenTrial) -> None:
        params = self._all_params(trial)
        if params is not None:
            history.pending.append((trial.number, params))
        elif OWNER in trial.system_attrs:
            known = {**mapping(trial.system_attrs.get(FIXED)), **trial.params}
            with contextlib.suppress(ParameterError):  # it is in another space
                history.asking.append((trial.number, self.translation.ours(known)))


def died(trial: FrozenTrial, retried: set[int]) -> bool:
    """Whether a trial ended without an evaluation: with its process, or to be retried."""
    attrs = trial.system_attrs
    if trial.state == TrialState.RUNNING:
        return DIED in attrs or (OWNER in attrs and is_dead(attrs[OWNER]))
    return trial.state == TrialState.FAIL and (DIED in attrs or trial.number in retried)


def index_of(trial: FrozenTrial) -> int:
    """What the independent draws of a trial depend on: its number, but for a trial in the place of another."""
    return int(trial.system_attrs.get(INDEX, trial.number))


def retried_numbers(trials: Sequence[FrozenTrial]) -> set[int]:
    """The numbers of all trials that a later one retries, or has taken the place of."""
    last: dict[int, int] = {}
    for trial in trials:
        last[index_of(trial)] = max(last.get(index_of(trial), trial.number), trial.number)
    return named_retries(trials) | {trial.number for trial in trials if trial.number < last[index_of(trial)]}


def named_retries(trials: Sequence[FrozenTrial]) -> set[int]:
    """The numbers of all trials that another one retries."""
    return {number for trial in trials for number in _sequence(trial.system_attrs.get(RETRIES))}


def free_index(trials: Sequence[FrozenTrial], own: int) -> int:
    """The smallest index that no other trial has, or is about to take: those of trials that died are free again.

    So the trial that comes in place of one that died draws what that one drew.
    """
    retried = retried_numbers(trials)
    others = [trial for trial in trials if trial.number != own and not died(trial, retried)]
    settled = {index_of(trial) for trial in others if _is_settled(trial)}
    before = sum(trial.number < own and not _is_settled(trial) and is_fresh(trial) for trial in others)
    free = (index for index in count() if index not in settled)
    return next(islice(free, before, None))


def _is_settled(trial: FrozenTrial) -> bool:
    """Whether a trial has its index: a running one when its owner is written down, or if somebody gave it all."""
    return trial.state != TrialState.RUNNING or OWNER in trial.system_attrs or bool(trial.params)


def is_fresh(trial: FrozenTrial) -> bool:
    """Whether a trial was begun a moment ago, so that its owner may not be written down yet."""
    if trial.datetime_start is None:
        return False
    return abs((datetime.now() - trial.datetime_start).total_seconds()) < MOMENT


def _value(trial: FrozenTrial, complete: Sequence[float], maximize: bool) -> float | None:
    """The value of a finished trial; of a pruned one the last it reported, no better than the median before it."""
    if trial.state == TrialState.COMPLETE:
        return _finite(trial.value)
    reports = trial.intermediate_values
    if trial.state != TrialState.PRUNED or not reports:
        return None
    last = _finite(reports[max(reports)])
    if last is None or not complete:
        return last
    return min(last, median(complete)) if maximize else max(last, median(complete))


def _evaluation(params: Params, value: float | None, attrs: Mapping[str, Any]) -> Evaluation:
    constraints = constraints_of(attrs)
    if any(not c < math.inf for c in constraints.values()):  # NaN or infinitely wrong: no number says how far
        value = None
    finite = {name: c for name, c in constraints.items() if math.isfinite(c)}
    return Evaluation.of(dict(params), value, None, finite or None)


def constraints_of(attrs: Mapping[str, Any]) -> dict[str, float]:
    """The constraints of a trial by name, as ``set_constraint`` or a ``constraints_func`` left them; feasible <= 0."""
    found = {str(i): c for i, c in enumerate(_sequence(attrs.get(_CONSTRAINTS)))}
    prefix = f"{_CONSTRAINTS}:"
    found.update({key.removeprefix(prefix): c for key, c in attrs.items() if key.startswith(prefix)})
    return {name: float(found[name]) for name in sorted(found) if isinstance(found[name], (int, float))}


def _finite(value: float | None) -> float | None:
    return value if value is not None and math.isfinite(value) else None


def _sequence(value: object) -> Sequence[Any]:
    return value if isinstance(value, (list, tuple)) else ()


def mapping(value: object) -> Mapping[str, Any]:
    """``value`` if it is a dict, otherwise an empty one: attributes may hold anything."""
    return value if isinstance(value, Mapping) else {}
