"""What a study was begun with, kept in the study itself and compared when it goes on."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import optuna

from dechbo.errors import StudyError
from dechbo.studies.studyfile import StudyFile

KEPT = "dechbo:study"  # system attribute: how many parts; the parts are dechbo:study:0, …
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


def settled(study: optuna.Study, file: StudyFile, seed: int | None, where: str) -> int:
    """Keep the identity with a new study, compare it with that of an old one; the seed the study goes on with."""
    now = identity_of(file, seed)
    kept = _read(study)
    if kept is None:
        if study.direction.name.lower() != file.direction:
            kept = {**now, "direction": study.direction.name.lower()}
            raise _changed(study.study_name, where, _differences(kept, now))
        _write(study, now)
        return int(now["seed"])
    if seed is None and kept["seed of the file"] == now["seed of the file"]:
        now["seed"] = kept["seed"]  # begun with another one than the file's, on the command line
    else:
        now["seed of the file"] = kept["seed of the file"]
    differences = _differences(kept, now)
    if differences:
        raise _changed(study.study_name, where, differences)
    return int(kept["seed"])


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


def _read(study: optuna.Study) -> dict[str, Any] | None:
    attributes = study._storage.get_study_system_attrs(study._study_id)
    if KEPT not in attributes:
        return None
    kept: dict[str, Any] = json.loads("".join(attributes[f"{KEPT}:{part}"] for part in range(attributes[KEPT])))
    return kept


def _write(study: optuna.Study, identity: Mapping[str, Any]) -> None:
    text = json.dumps(identity)
    parts = [text[start : start + _PART] for start in range(0, len(text), _PART)]
    for number, part in enumerate(parts):
        study._storage.set_study_system_attr(study._study_id, f"{KEPT}:{number}", part)
    study._storage.set_study_system_attr(study._study_id, KEPT, len(parts))  # last: now it is whole
