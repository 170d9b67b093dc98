"""What a study was begun with, kept in the study itself and compared when it goes on."""

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
from dechbo.integrations.optuna.trials import FIXED, RETRIES, died, retried_numbers
from dechbo.space import Space
from dechbo.studies.database import NoTables
from dechbo.studies.objective import CommandObjective
from dechbo.studies.storage import make_storage, shown
from dechbo.studies.studyfile import StudyFile

KEPT = "dechbo:study"  # system attribute: how many parts; the parts are dechbo:study:0, …
OBJECTIVE = "dechbo:objective"  # in parts, too
_PART = 900  # characters of JSON in one attribute: databases may cut at 2045, quotes count twice


def identity_of(file: StudyFile, seed: int | None) -> dict[str, Any]:
    """What may not change while a study goes on; a ``seed`` that was given wins over the file's."""
    space = file.space.to_json()
    return {
        "direction": file.direction,
        "parameters": {entry["name"]: {k: v for k, v in entry.items() if k != "name"} for entry in space["parameters"]},
        "constraints": [str(line) for line in file.space.constraints],
        "factors": None if file.factors is None else [list(scope) for scope in file.factors],
        "seed": file.seed if seed is None else seed,
        "seed of the file": file.seed,
    }


@dataclass(frozen=True)
class Opened:
    """A study in its storage, and with what it goes on."""

    study: optuna.Study
    seed: int
    objective_changed: str | None


def opened_study(
    file: StudyFile,
    url: str,
    seed: int | None,
    alone: Callable[[], AbstractContextManager[None]],
    *,
    create: bool,
    readonly: bool,
    interval: int,
    grace: int,
) -> Opened:
    """Open the study of a file at ``url``, and settle with which settings it goes on; ``alone`` holds its lock."""
    where = shown(url)
    try:
        storage = make_storage(url, interval=interval, grace=grace, existing=not create, readonly=readonly)
        known = None if create else optuna.load_study(storage=storage, study_name=file.name)
    except (NoTables, KeyError):
        raise StudyError(f"there is no study {file.name!r} in {where} yet") from None
    if known is not None and (readonly or not _needs_writing(known, file, seed)):  # others may hold the lock for long
        now = settled(known, file, seed, where, write=False)
        return Opened(known, now, objective_change(known, file, write=False))
    with alone(), _quiet():
        direction = StudyDirection[file.direction.upper()]
        study = optuna.create_study(storage=storage, study_name=file.name, direction=direction, load_if_exists=True)
        if is_outdated(study, file, seed):
            study = renewed(study, file)
        return Opened(study, settled(study, file, seed, where), objective_change(study, file))


def settled(study: optuna.Study, file: StudyFile, seed: int | None, where: str, *, write: bool = True) -> int:
    """Keep the identity with a new study, compare it with that of an old one; the seed the study goes on with."""
    now, kept = identity_of(file, seed), _read(study, KEPT)
    if kept is None:
        if study.direction.name.lower() != file.direction:
            kept = {**now, "direction": study.direction.name.lower()}
            raise _changed(study.study_name, where, _differences(kept, now))
        if write:
            _write(study, KEPT, now)
        return int(now["seed"])
    differences = _changes(kept, now, seed)
    if differences and (write or not is_untouched(study)):
        raise _changed(study.study_name, where, differences)
    return int(kept["seed"])


def is_outdated(study: optuna.Study, file: StudyFile, seed: int | None) -> bool:
    """Whether a study was begun with other settings, and nothing has come of it yet."""
    kept = _read(study, KEPT)
    return kept is not None and bool(_changes(kept, identity_of(file, seed), seed)) and is_untouched(study)


def is_untouched(study: optuna.Study) -> bool:
    """Whether a study has no result, and nobody is at work on one; trials that wait or died do not count."""
    trials = study.get_trials(deepcopy=False)
    retried = retried_numbers(trials)
    return all(trial.state == TrialState.WAITING or died(trial, retried) for trial in trials)


def renewed(study: optuna.Study, file: StudyFile) -> optuna.Study:
    """The study, begun anew with the settings of the file; what was enqueued and still fits waits in it."""
    waiting = study.get_trials(states=(TrialState.WAITING, TrialState.RUNNING))  # those that run have died
    enqueued = [(given, trial.user_attrs) for trial in waiting if (given := _enqueued(trial, file.space)) is not None]
    attributes, storage = study.user_attrs, study._storage
    storage.delete_study(study._study_id)
    direction = StudyDirection[file.direction.upper()]
    anew = optuna.create_study(storage=storage, study_name=study.study_name, direction=direction)
    for name, value in attributes.items():
        anew.set_user_attr(name, value)
    for given, notes in enqueued:
        anew.enqueue_trial(given, user_attrs=notes)
    return anew


def objective_change(study: optuna.Study, file: StudyFile, *, write: bool = True) -> str | None:
    """Keep the objective with a study that has no result of another; a warning if it has."""
    now, kept = _objective_of(file), _read(study, OBJECTIVE)
    if now is None or now == kept:
        return None
    if kept is None or is_untouched(study):
        if write:
            _write(study, OBJECTIVE, now)
        return None
    return (
        f"the study was begun with another objective: {kept!r:.200}, now {now!r:.200}; its results count; take a new "
        "name or another storage if they should not"
    )


def _needs_writing(study: optuna.Study, file: StudyFile, seed: int | None) -> bool:
    """Whether something is to be kept with the study before it goes on."""
    kept, now = _read(study, OBJECTIVE), _objective_of(file)
    new = now is not None and now != kept and (kept is None or is_untouched(study))
    return new or _read(study, KEPT) is None or is_outdated(study, file, seed)


def _objective_of(file: StudyFile) -> str | None:
    if isinstance(file.objective, CommandObjective):
        return shlex.join(file.objective.arguments)
    return None if file.objective is None else file.objective.target


def _enqueued(trial: FrozenTrial, space: Space) -> dict[str, Any] | None:
    """What somebody enqueued, if it is in the space; None also for what a sampler suggested."""
    given = trial.system_attrs.get(FIXED)
    if not isinstance(given, Mapping):
        given = None if RETRIES in trial.system_attrs or trial.state == TrialState.RUNNING else trial.params
    if given is None or any(name not in space.names for name in given):
        return None
    try:
        for name, parameter in zip(space.names, space.parameters, strict=True):
            if name in given:
                parameter.encode(given[name])
        whole = len(given) == len(space.names)
        return dict(given) if not whole or space.allows(space.encode(given)) else None
    except ParameterError:
        return None


def _changes(kept: Mapping[str, Any], now: dict[str, Any], seed: int | None) -> list[str]:
    """What differs; a seed that was given on the command line stays with the study while the file's is the same."""
    same = seed is None and kept["seed of the file"] == now["seed of the file"]
    return _differences(kept, {**now, "seed": kept["seed"]} if same else now)


def _changed(name: str, where: str, differences: list[str]) -> StudyError:
    more = f" (and {len(differences) - 5} more)" if len(differences) > 5 else ""
    return StudyError(
        f"study {name!r} in {where} was begun with other settings: {'; '.join(differences[:5])}{more}. Take the old "
        "settings to go on with it, or begin a new study under another name or in another storage"
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
    return json.dumps(old, sort_keys=True) == json.dumps(new, sort_keys=True)  # 1 is not true


def _read(study: optuna.Study, key: str) -> Any:
    """What is kept; None if there is nothing, or not all of it."""
    attributes = study._storage.get_study_system_attrs(study._study_id)
    if not attributes.get(key):
        return None
    return json.loads("".join(attributes[f"{key}:{part}"] for part in range(attributes[key])))


def _write(study: optuna.Study, key: str, content: object) -> None:
    text = json.dumps(content)
    parts = [text[start : start + _PART] for start in range(0, len(text), _PART)]
    if study._storage.get_study_system_attrs(study._study_id).get(key):
        study._storage.set_study_system_attr(study._study_id, key, 0)  # what was there is no longer whole
    for number, part in enumerate(parts):
        study._storage.set_study_system_attr(study._study_id, f"{key}:{number}", part)
    study._storage.set_study_system_attr(study._study_id, key, len(parts))  # last: now it is whole


@contextmanager
def _quiet() -> Iterator[None]:
    """Optuna says nothing of a study that is created."""
    verbosity = optuna.logging.get_verbosity()
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    try:
        yield
    finally:
        optuna.logging.set_verbosity(verbosity)
