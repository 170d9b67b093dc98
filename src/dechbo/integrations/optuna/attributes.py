"""What dechbo stores in the system attributes of a study: long JSON, the seed and the graph learned last.

Attributes written by dechbo before 0.2 are refused with an error: nothing is migrated.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from typing import Any

import numpy as np
from optuna.study import Study

from dechbo.errors import StorageError
from dechbo.integrations.optuna.adapter import set_system_attribute, system_attributes
from dechbo.interactions import Interaction, Interactions

FORMAT = "dechbo:format"
FORMAT_VERSION = 2  # since dechbo 0.2
SEED = "dechbo:seed"
GRAPH = "dechbo:graph"

_PART_LENGTH = 900  # characters of JSON in one attribute: databases cut at 2045, and each quote counts twice
_SLOTS = 2  # the previous content stays complete while the next is written
_MIN_STORED = 0.01  # factors whose probability and share are both smaller are not stored


# ------------------------------------------------------------------------ JSON


def read_attributes(study: Study) -> dict[str, Any]:
    """The system attributes of a study; StorageError if another version of dechbo wrote them."""
    found = system_attributes(study)
    version = found.get(FORMAT)
    if version != FORMAT_VERSION and any(key.startswith("dechbo:") for key in found):
        written = "by dechbo before 0.2" if version is None else f"in format {version!r}"
        raise StorageError(
            f"study {study.study_name!r} was written {written}, this version reads format {FORMAT_VERSION} only: "
            "continue it with the version that wrote it, or start a new study under another name or in another "
            "storage (`dechbo export` with the old version and `dechbo import` with this one take the results along)"
        )
    return found


def write_attribute(study: Study, key: str, value: Any) -> None:
    """Write a short attribute."""
    _read_for_writing(study)
    set_system_attribute(study, key, value)


def write_json(study: Study, key: str, content: Any) -> None:
    """Write JSON of any length in parts. If the process dies halfway, the previous content stays readable.

    Two slots take turns: ``key:slot:part`` holds [serial number, digest, number of parts, text].
    """
    text = json.dumps(content, separators=(",", ":"))
    parts = [text[start : start + _PART_LENGTH] for start in range(0, len(text), _PART_LENGTH)]
    latest = _latest(_read_for_writing(study), key)
    serial = 0 if latest is None else latest[0] + 1
    for number, part in enumerate(parts):
        set_system_attribute(study, f"{key}:{serial % _SLOTS}:{number}", [serial, _digest(text), len(parts), part])


def _read_for_writing(study: Study) -> dict[str, Any]:
    """The attributes; writes their format before the first of them is written."""
    found = read_attributes(study)
    if FORMAT not in found:
        set_system_attribute(study, FORMAT, FORMAT_VERSION)
    return found


def read_json(study: Study, key: str) -> Any:
    """What ``write_json`` wrote last; None if there is nothing complete."""
    latest = _latest(read_attributes(study), key)
    return None if latest is None else latest[1]


def _latest(attributes: dict[str, Any], key: str) -> tuple[int, Any] | None:
    """The serial number and the content of the newer complete slot."""
    complete = [found for slot in range(_SLOTS) if (found := _read_slot(attributes, f"{key}:{slot}")) is not None]
    return max(complete, key=lambda found: found[0], default=None)


def _read_slot(attributes: dict[str, Any], slot: str) -> tuple[int, Any] | None:
    try:
        serial, digest, count, _ = attributes[f"{slot}:0"]
        text = "".join(str(attributes[f"{slot}:{number}"][3]) for number in range(int(count)))
        return (int(serial), json.loads(text)) if _digest(text) == digest else None
    except (KeyError, ValueError, TypeError, IndexError):
        return None


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:16]


# -------------------------------------------------------------- seed and graph


def study_seed(study: Study, given: int | None) -> int:
    """The seed of the study: the given one, else the stored one, else a new one. Stores what it returns."""
    stored = read_attributes(study).get(SEED)
    if given is None and isinstance(stored, int):
        return stored
    seed = int(np.random.SeedSequence().generate_state(1)[0]) if given is None else given
    if stored != seed:
        write_attribute(study, SEED, seed)
        if given is None:  # another worker may have stored a seed at the same time: all use the one that remains
            return int(read_attributes(study).get(SEED, seed))
    return seed


def learned_graph(study: Study) -> Interactions | None:
    """The interactions that the sampler learned last and stored with the study; None if there are none yet.

    This fits no model. ``DecHBOSampler.optimizer(study).interactions()`` learns again from all trials.
    """
    try:
        graph = read_json(study, GRAPH)
        names = [str(name) for name in graph["names"]]
        found = [
            Interaction(tuple(names if scope is None else (names[i] for i in scope)), float(probability), float(share))
            for scope, probability, share in graph["factors"]
        ]
        return Interactions(found, converged=bool(graph["converged"]))
    except (KeyError, ValueError, TypeError, IndexError):
        return None


def graph_evaluations(study: Study) -> int | None:
    """How many evaluations the stored graph was learned from; None if there is no graph."""
    try:
        return int(read_json(study, GRAPH)["evaluations"])
    except (KeyError, ValueError, TypeError):
        return None


def store_graph(study: Study, interactions: Interactions, names: Sequence[str], evaluations: int) -> None:
    """Store the graph that was learned from this number of evaluations, without its negligible factors."""
    index = {name: i for i, name in enumerate(names)}
    factors = [
        # null stands for all parameters
        [
            None if len(factor.scope) == len(names) else [index[name] for name in factor.scope],
            round(factor.probability, 4),
            round(factor.share, 4),
        ]
        for factor in interactions
        if factor.probability >= _MIN_STORED or factor.share >= _MIN_STORED
    ]
    graph = {"evaluations": evaluations, "converged": interactions.converged, "names": list(names), "factors": factors}
    write_json(study, GRAPH, graph)
