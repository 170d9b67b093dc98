"""Small studies for the tests of the Optuna sampler."""

from __future__ import annotations

import logging
import math
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import optuna
from optuna.distributions import BaseDistribution, CategoricalDistribution, FloatDistribution, IntDistribution

from dechbo.integrations.optuna import DecHBOSampler
from dechbo.models.options import ModelOptions
from dechbo.search.grids import Granularity
from dechbo.search.options import SearchOptions
from dechbo.structure import StructureOptions

QUICK: dict[str, Any] = {
    "model": ModelOptions(structure=StructureOptions(sweeps=1, rounds=1)),
    "search": SearchOptions(granularity=Granularity(work=1e5, polish_steps=3)),
}
MIXED: dict[str, BaseDistribution] = {
    "x": FloatDistribution(0, 1),
    "y": FloatDistribution(1e-3, 1, log=True),
    "n": IntDistribution(1, 6),
    "c": CategoricalDistribution(["a", None]),
}


@contextmanager
def listening() -> Iterator[list[str]]:
    """The sampler's log messages; silences Optuna's other messages."""
    said: list[str] = []
    handler = logging.Handler()
    handler.emit = lambda record: said.append(record.getMessage())  # type: ignore[method-assign]
    logging.getLogger("optuna.dechbo").addHandler(handler)
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    try:
        yield said
    finally:
        optuna.logging.set_verbosity(optuna.logging.INFO)
        logging.getLogger("optuna.dechbo").removeHandler(handler)


def sampler(**more: Any) -> DecHBOSampler:
    return DecHBOSampler(**{"seed": 3, "n_startup_trials": 4, **QUICK, **more})


def mixed(params: dict[str, Any]) -> float:
    return float((params["x"] - 0.3) ** 2 + math.log(params["y"]) ** 2 / 20 + 0.1 * params["n"] * (params["c"] == "a"))


def sampler_of(study: optuna.Study) -> DecHBOSampler:
    assert isinstance(study.sampler, DecHBOSampler)
    return study.sampler


def suggest(trial: optuna.Trial, name: str, distribution: BaseDistribution) -> Any:
    if isinstance(distribution, CategoricalDistribution):
        return trial.suggest_categorical(name, distribution.choices)
    if isinstance(distribution, IntDistribution):
        return trial.suggest_int(
            name, distribution.low, distribution.high, step=distribution.step, log=distribution.log
        )
    assert isinstance(distribution, FloatDistribution)
    return trial.suggest_float(name, distribution.low, distribution.high, step=distribution.step, log=distribution.log)


def objective(trial: optuna.Trial) -> float:
    for name, distribution in MIXED.items():
        suggest(trial, name, distribution)
    return mixed(trial.params)


def params_of(study: optuna.Study) -> list[dict[str, Any]]:
    return [trial.params for trial in study.trials]
