"""What is kept with a study, in its system attributes: the seed, and the graph learned last."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from optuna.study import Study

from dechbo.interactions import Interaction

SEED = "dechbo:seed"
GRAPH = "dechbo:graph"

_SLOTS = 2  # the graph before the latest one stays whole while the latest is written
_PART = 900  # characters of JSON in one attribute: databases may cut at 2045, quotes count twice
_FAINT = 0.01  # factors with less probability and less share are not worth keeping


def seed_of(study: Study, given: int | None) -> int:
    """The study's seed: a given one wins and is kept, otherwise the kept one, otherwise one is drawn and kept."""
    kept = _attributes(study).get(SEED)
    if given is None and isinstance(kept, int):
        return kept
    seed = int(np.random.SeedSequence().generate_state(1)[0]) if given is None else given
    if kept != seed:
        study._storage.set_study_system_attr(study._study_id, SEED, seed)
        if given is None:  # another worker may have been as fast: all take the one that stayed
            return int(_attributes(study).get(SEED, seed))
    return seed


def learned_graph(study: Study) -> list[Interaction] | None:
    """Which parameters act together, as it was learned last and kept with the study; None before the first time.

    It costs no model: ``DecHBOSampler.optimizer(study).interactions()`` learns anew from all trials.
    """
    kept = _latest(_attributes(study))
    return None if kept is None else _interactions(kept)


def evaluations_behind(study: Study) -> int | None:
    """How many evaluations the kept graph was learned from; None where there is none."""
    kept = _latest(_attributes(study))
    return None if kept is None else int(kept["evaluations"])


def keep_graph(study: Study, interactions: Sequence[Interaction], names: Sequence[str], evaluations: int) -> None:
    """Write the graph in parts, none of which belongs to another graph's reading."""
    index = {name: i for i, name in enumerate(names)}
    strong = [i for i in interactions if i.probability >= _FAINT or i.share >= _FAINT]
    factors = [
        # null stands for all parameters
        [None if len(i.scope) == len(names) else [index[n] for n in i.scope], _short(i.probability), _short(i.share)]
        for i in strong
    ]
    content = {"evaluations": evaluations, "names": list(names), "factors": factors}
    text = json.dumps(content, separators=(",", ":"))
    parts = [text[k : k + _PART] for k in range(0, len(text), _PART)]
    mark = hashlib.sha256(text.encode()).hexdigest()[:16]
    slot = _next_slot(_attributes(study))
    for k, part in enumerate(parts):
        study._storage.set_study_system_attr(study._study_id, f"{GRAPH}:{slot}:{k}", [mark, len(parts), part])


def _next_slot(attributes: Mapping[str, Any]) -> int:
    """The slot that does not hold the latest graph."""
    kept = {slot: graph for slot in range(_SLOTS) if (graph := _read(attributes, slot)) is not None}
    if not kept:
        return 0
    return (max(kept, key=lambda slot: int(kept[slot]["evaluations"])) + 1) % _SLOTS


def _latest(attributes: Mapping[str, Any]) -> dict[str, Any] | None:
    whole = [graph for slot in range(_SLOTS) if (graph := _read(attributes, slot)) is not None]
    return max(whole, key=lambda graph: int(graph["evaluations"]), default=None)


def _read(attributes: Mapping[str, Any], slot: int) -> dict[str, Any] | None:
    """The graph in a slot; None where it is not whole."""
    try:
        mark, count, _ = attributes[f"{GRAPH}:{slot}:0"]
        parts = [attributes[f"{GRAPH}:{slot}:{k}"] for k in range(int(count))]
        text = "".join(str(part[2]) for part in parts)
        if hashlib.sha256(text.encode()).hexdigest()[:16] != mark:
            return None
        graph = json.loads(text)
        _interactions(graph)
        int(graph["evaluations"])
        return dict(graph)
    except (KeyError, ValueError, TypeError, IndexError):
        return None


def _interactions(graph: Mapping[str, Any]) -> list[Interaction]:
    names = [str(name) for name in graph["names"]]
    return [
        Interaction(tuple(names if scope is None else (names[i] for i in scope)), float(probability), float(share))
        for scope, probability, share in graph["factors"]
    ]


def _attributes(study: Study) -> dict[str, Any]:
    return study._storage.get_study_system_attrs(study._study_id)


def _short(number: float) -> float:
    return round(number, 4)
