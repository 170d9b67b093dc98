"""Second thoughts about finished trials: retracted ones are kept but never modelled, corrected ones have a new value.

A storage of Optuna does not change a finished trial, so they are user attributes of the study, one for each trial:
``study.set_user_attr("dechbo:retracted:17", True)`` and ``study.set_user_attr("dechbo:corrected:17", {"value": 0.3})``.
Each is written at once or not at all. ``revised`` applies them to trials that were read.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Mapping, Sequence
from typing import Any

from optuna.study import Study
from optuna.trial import FrozenTrial, TrialState, create_trial

from dechbo.errors import ParameterError, StudyError
from dechbo.integrations.optuna import adapter
from dechbo.integrations.optuna.trials import (
    CONSTRAINT,
    INDEX,
    NOISE,
    RETRACTED,
    RETRIES,
    STATE_NAMES,
    as_sequence,
    index_of,
    numbers_in_retries,
)

CORRECTED = "dechbo:corrected"
OF_ONE_RUN = ("error", "seconds", NOISE, RETRACTED)  # user attributes that a retry does not keep


def retract(study: Study, number: int, *, undo: bool = False) -> None:
    """Leave a trial out of the model and of the best; it stays in the study. ``undo`` takes it back in."""
    _trial(study, number)
    study.set_user_attr(f"{RETRACTED}:{number}", not undo)


def correct(study: Study, number: int, value: float | None, constraints: Mapping[str, float] | None = None) -> None:
    """Replace the value of a finished trial; None says that it failed. Constraints not given stay as they are."""
    trial = _trial(study, number)
    if not trial.state.is_finished():
        raise StudyError(f"trial {number} is {STATE_NAMES[trial.state]}: tell its value, there is none to correct")
    numbers = [] if value is None else [value]
    if any(isinstance(n, bool) or not math.isfinite(n) for n in [*numbers, *(constraints or {}).values()]):
        raise ParameterError(f"trial {number}: a corrected value needs to be a finite number, or None, got {value!r}")
    change: dict[str, Any] = {"value": None if value is None else float(value)}
    if constraints is not None:
        change["constraints"] = {name: float(c) for name, c in constraints.items()}
    study.set_user_attr(f"{CORRECTED}:{number}", change)


def retry(study: Study, number: int) -> bool:
    """Queue a finished trial again and leave its result out; False if it is queued already, and that counts.

    A failed trial is left out as soon as the new one exists, which is one transaction. A complete one is retracted
    first: a process that dies in between leaves it retracted, and the same call queues it.
    """
    trial = _trial(study, number)
    if not trial.state.is_finished():
        raise StudyError(f"trial {number} is {STATE_NAMES[trial.state]}: only a finished trial can be tried again")
    now = {current.number: current for current in current_trials(study)}
    if number in numbers_in_retries([current for current in now.values() if RETRACTED not in current.system_attrs]):
        return False
    if now[number].state != TrialState.FAIL:
        retract(study, number)
    attributes = {
        INDEX: index_of(trial),
        **{name: value for name, value in trial.system_attrs.items() if not name.startswith(CONSTRAINT)},
        RETRIES: [*as_sequence(trial.system_attrs.get(RETRIES)), number],
    }
    for name in (adapter.OWNER, adapter.STALE):
        attributes.pop(name, None)
    study.add_trial(
        create_trial(
            state=TrialState.WAITING,
            params=dict(trial.params),
            distributions=dict(trial.distributions),
            user_attrs={k: v for k, v in trial.user_attrs.items() if k not in OF_ONE_RUN},
            system_attrs=attributes,
        )
    )
    return True


def revised(study: Study, trials: Sequence[FrozenTrial]) -> list[FrozenTrial]:
    """The trials with retractions and corrections applied; those without any are the same objects."""
    attributes = {
        key: value for key, value in adapter.user_attributes(study).items() if key.startswith((RETRACTED, CORRECTED))
    }
    return [_revised(trial, attributes) for trial in trials]


def current_trials(study: Study) -> list[FrozenTrial]:
    """All trials of a study as they count now."""
    return revised(study, study.get_trials(deepcopy=False))


def _revised(trial: FrozenTrial, attributes: Mapping[str, Any]) -> FrozenTrial:
    change = attributes.get(f"{CORRECTED}:{trial.number}")
    retracted = attributes.get(f"{RETRACTED}:{trial.number}", trial.user_attrs.get(RETRACTED))
    if change is None and not retracted:
        return trial
    new = copy.copy(trial)
    new.system_attrs = dict(trial.system_attrs)
    if retracted:
        new.system_attrs[RETRACTED] = True
    if change is not None and trial.state.is_finished():
        _correct(new, change if isinstance(change, Mapping) else {"value": change})
    return new


def _correct(trial: FrozenTrial, change: Mapping[str, Any]) -> None:
    value = change.get("value")
    known = isinstance(value, (int, float)) and not isinstance(value, bool) and math.isfinite(value)
    trial.state = TrialState.COMPLETE if known else TrialState.FAIL
    trial.values = [float(value)] if known else None  # type: ignore[arg-type]
    trial.user_attrs = {**trial.user_attrs, CORRECTED: True}
    if known:
        trial.user_attrs.pop("error", None)
    if isinstance(change.get("constraints"), Mapping):
        kept = {name: c for name, c in trial.system_attrs.items() if not name.startswith(CONSTRAINT)}
        trial.system_attrs = kept | {f"{CONSTRAINT}{name}": c for name, c in change["constraints"].items()}


def _trial(study: Study, number: int) -> FrozenTrial:
    for trial in study.get_trials(deepcopy=False):
        if trial.number == number:
            return trial
    raise StudyError(f"study {study.study_name!r} has no trial {number}")
