"""The baselines, two spaces, two functions and a loop: shared by the tests of this folder."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import numpy as np

from dechbo.baselines import GPUCB, REMBO, AddGPUCB, AddMES, Baseline, RandomSearch, SobolSearch
from dechbo.space import Categorical, Float, Int, Space

Told = list[tuple[dict[str, Any], float]]

MODELLED: dict[str, Callable[..., Any]] = {
    "gp-ucb": GPUCB,
    "add-gp-ucb": AddGPUCB,
    "add-gp-ucb in pairs": partial(AddGPUCB, group_size=2),
    "add-mes-g": AddMES,
    "add-mes-r": partial(AddMES, samples="functions", features=100),
    "add-mes-r in pairs": partial(AddMES, samples="functions", features=100, group_size=2),
    "rembo": partial(REMBO, embeddings=2),
}
BASELINES: dict[str, Callable[..., Any]] = {**MODELLED, "random": RandomSearch, "sobol": SobolSearch}
MIXED = Space({"a": Float(1e-4, 1, log=True), "n": Int(1, 9), "c": Categorical(["u", "v", "w"]), "b": Float(-2, 3)})
CUBE = Space({f"x{i}": Float(-1, 2) for i in range(4)})


def mixed_value(params: Mapping[str, Any]) -> float:
    log = math.log10(params["a"])
    return float((log + 2) ** 2 + 0.3 * abs(params["n"] - 4) + (params["c"] == "v") + params["b"] ** 2)


def quadratic(params: Mapping[str, Any]) -> float:
    """Separable, with the minimum 0 away from the centre and from the faces."""
    return float(sum((x - 0.3 * i) ** 2 for i, x in enumerate(params.values())))


def random_start(space: Space, value: Callable[[Mapping[str, Any]], float], count: int = 10, seed: int = 5) -> Told:
    rng = np.random.default_rng(seed)
    points = [space.decode(space.from_uniform(rng.random(space.dim))) for _ in range(count)]
    return [(point, value(point)) for point in points]


def run(method: Baseline, value: Callable[[Mapping[str, Any]], float], asks: int) -> Told:
    done: Told = []
    for _ in range(asks):
        params = method.ask()
        done.append((params, value(params)))
        method.tell(*done[-1])
    return done
