"""The settings a study was started with: stored with the study, and compared when it is opened again.

Covered by tests/studies/test_run.py.
"""

from __future__ import annotations

import json
import shlex
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from typing import Any

import optuna
from optuna.study import StudyDirection
from optuna.trial import FrozenTrial, TrialState

from dechbo.errors import ParameterError, StudyError
from dechbo.integrations.optuna.adapter import NoTables, storage_of
from dechbo.integrations.optuna.attributes import read_json, write_json
from dechbo.integrations.optuna.trials import FIXED, RETRIES, is_stale, retried_numbers
from dechbo.space import Space
from dechbo.studies.objective import CommandObjective
from dechbo.studies.storage import make_storage, redacted_url
from dechbo.studies.studyfile import StudyFile

SETTINGS = "dechbo:settings"
OBJECTIVE = "dechbo:objective"
MAX_DIFFERENCES = 5  # differences that an error lists


@dataclass(frozen=True)
class LoadedStudy:
    """A study in its storage, and the seed it continues with."""

    study: optuna.Study
    seed: int
    objective_changed: str | None  # a warning: some results are from another objective


def load_study(
    file: StudyFile,
    url: str,
    seed: int | None,
    lock: Callable[[], AbstractContextManager[None]],
    *,
    create: bool,
    readonly: bool,
    interval: int,
    grace: int,
) -> LoadedStudy:
    """Open the study of a file at ``url``, or create it, and check its settings; ``lock`` is the lock of the study."""
    where = redacted_url(url)
    try:
        storage = make_storage(url, interval=interval, grace=grace, existing=not create, readonly=readonly)
        known = None if create else optuna.load_study(storage=storage, study_name=file.name)
    except (NoTables, KeyError):
        raise StudyError(f"there is no study {file.name!r} in {where} yet") from None
    if known is not None and (readonly or not _needs_writing(known, file, seed)):  # others may hold the lock for long
        checked = check_settings(known, file, seed, where, write=False)
        return LoadedStudy(known, checked, check_objective(known, file, write=False))
    with lock(), _quiet():
        direction = StudyDirection[file.direction.upper()]
        study = optuna.create_study(storage=storage, study_name=file.name, direction=direction, load_if_exists=True)
        if _is_outdated(study, file, seed):
            study = _recreate(study, file)
        return LoadedStudy(study, check_settings(study, file, seed, where), check_objective(study, file))


def check_settings(study: optuna.Study, file: StudyFile, seed: int | None, where: str, *, write: bool = True) -> int:
    """Store the settings of a new study, compare those of an existing one; returns the seed to continue with."""
    now, stored = _settings_of(file, seed), read_json(study, SETTINGS)
    if stored is None:
        if study.direction.name.lower() != file.direction:
            stored = {**now, "direction": study.direction.name.lower()}
            raise _settings_error(study.study_name, where, _differences(stored, now))
        if write:
            write_json(study, SETTINGS, now)
        return int(now["seed"])
    changes = _changes(stored, now, seed)
    if changes and (write or not _has_no_results(study)):
        raise _settings_error(study.study_name, where, changes)
    return int(stored["seed"])


def check_objective(study: optuna.Study, file: StudyFile, *, write: bool = True) -> str | None:
    """Store the objective of a study without results; a warning if its results are from another one."""
    now, stored = _objective_of(file), read_json(study, OBJECTIVE)
    if now is None or now == stored:
        return None
    if stored is None or _has_no_results(study):
        if write:
            write_json(study, OBJECTIVE, now)
        return None
    return (
        f"the study was started with another objective: {stored!r:.200}, now {now!r:.200}. Its results still count; "
        "use a new name or another storage to start without them"
    )


def _settings_of(file: StudyFile, seed: int | None) -> dict[str, Any]:
    """What must not change while a study continues; a given ``seed`` overrides the file's."""
    space = file.space.to_json()
    return {
        "direction": file.direction,
        "parameters": {entry["name"]: {k: v for k, v in entry.items() if k != "name"} for entry in space["parameters"]},
        "constraints": [str(line) for line in file.space.constraints],
        "factors": None if file.factors is None else [list(scope) for scope in file.factors],
        "seed": file.seed if seed is None else seed,
        "seed of the file": file.seed,
    }


def _objective_of(file: StudyFile) -> str | None:
    if isinstance(file.objective, CommandObjective):
        return shlex.join(file.objective.arguments)
    return None if file.objective is None else file.objective.target


def _needs_writing(study: optuna.Study, file: StudyFile, seed: int | None) -> bool:
    """Whether settings or objective have to be stored before the study continues."""
    stored, now = read_json(study, OBJECTIVE), _objective_of(file)
    new = now is not None and now != stored and (stored is None or _has_no_results(study))
    return new or read_json(study, SETTINGS) is None or _is_outdated(study, file, seed)


def _is_outdated(study: optuna.Study, file: StudyFile, seed: int | None) -> bool:
    """Whether a study was started with other settings but has no results yet."""
    stored = read_json(study, SETTINGS)
    return stored is not None and bool(_changes(stored, _settings_of(file, seed), seed)) and _has_no_results(study)


def _has_no_results(study: optuna.Study) -> bool:
    """Whether a study has neither finished nor running trials; waiting and stale ones do not count."""
    trials = study.get_trials(deepcopy=False)
    retried = retried_numbers(trials)
    return all(trial.state == TrialState.WAITING or is_stale(trial, retried) for trial in trials)


def _recreate(study: optuna.Study, file: StudyFile) -> optuna.Study:
    """The study, created again with the settings of the file; enqueued trials that fit are enqueued again."""
    waiting = study.get_trials(states=(TrialState.WAITING, TrialState.RUNNING))  # the running ones are stale
    enqueued = [(given, trial.user_attrs) for trial in waiting if (given := _enqueued(trial, file.space)) is not None]
    name, attributes, storage = study.study_name, study.user_attrs, storage_of(study)
    optuna.delete_study(study_name=name, storage=storage)
    new = optuna.create_study(storage=storage, study_name=name, direction=StudyDirection[file.direction.upper()])
    for key, value in attributes.items():
        new.set_user_attr(key, value)
    for given, trial_attributes in enqueued:
        new.enqueue_trial(given, user_attrs=trial_attributes)
    return new


def _enqueued(trial: FrozenTrial, space: Space) -> dict[str, Any] | None:
    """What a user enqueued, if it is in the space; None also for what a sampler suggested."""
    given = trial.system_attrs.get(FIXED)
    if not isinstance(given, Mapping):
        given = None if RETRIES in trial.system_attrs or trial.state == TrialState.RUNNING else trial.params
    if given is None or any(name not in space.names for name in given):
        return None
    try:
        for name, parameter in zip(space.names, space.parameters, strict=True):
            if name in given:
                parameter.encode(given[name])
        complete = set(given) >= space.active(given)
        return dict(given) if not complete or space.allows(space.encode(given)) else None
    except ParameterError:
        return None


def _changes(stored: Mapping[str, Any], now: dict[str, Any], seed: int | None) -> list[str]:
    """What differs; a seed from the command line stays with the study as long as the file's seed is the same."""
    same = seed is None and stored["seed of the file"] == now["seed of the file"]
    return _differences(stored, {**now, "seed": stored["seed"]} if same else now)


def _settings_error(name: str, where: str, differences: list[str]) -> StudyError:
    more = f" (and {len(differences) - MAX_DIFFERENCES} more)" if len(differences) > MAX_DIFFERENCES else ""
    return StudyError(
        f"study {name!r} in {where} was started with other settings: {'; '.join(differences[:MAX_DIFFERENCES])}{more}. "
        "Restore the old settings to continue it, or start a new study under another name or in another storage"
    )


def _differences(old: Mapping[str, Any], new: Mapping[str, Any]) -> list[str]:
    found = []
    for field in ("direction", "constraints", "factors", "seed"):
        if old[field] != new[field]:
            found.append(f"{field} was {json.dumps(old[field])}, is {json.dumps(new[field])}")
    before, after = old["parameters"], new["parameters"]
    found += [f"parameter {name!r} is gone" for name in before if name not in after]
    found += [f"parameter {name!r} is new" for name in after if name not in before]
    for name in before:
        if name in after and not _same(before[name], after[name]):
            found.append(f"parameter {name!r} was {json.dumps(before[name])}, is {json.dumps(after[name])}")
    return found


def _same(old: object, new: object) -> bool:
    return json.dumps(old, sort_keys=True) == json.dumps(new, sort_keys=True)  # unlike ==, tells 1 from true


@contextmanager
def _quiet() -> Iterator[None]:
    """Silence Optuna's message about a new study."""
    verbosity = optuna.logging.get_verbosity()
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    try:
        yield
    finally:
        optuna.logging.set_verbosity(verbosity)
