"""SMAC3: its facade for tuning ("smac", a random forest) and the one for black boxes ("smac-bb", a Gaussian process).

Parameters are ConfigSpace's; a number with steps becomes the number of the step. The initial points replace SMAC's
initial design; the rest is the facade's default (the one for tuning retrains every eighth ask). A failed evaluation
counts as the worst value so far.

Covered by ``tests/bench/test_peers.py``.
"""

from __future__ import annotations

import tempfile
from typing import Any

import peer_protocol
from ConfigSpace import Categorical, Configuration, ConfigurationSpace, Float, Integer
from smac import BlackBoxFacade, HyperparameterOptimizationFacade, Scenario
from smac.runhistory import TrialInfo, TrialValue

FACADES = {"smac": HyperparameterOptimizationFacade, "smac-bb": BlackBoxFacade}


def parameter(entry: dict[str, Any]) -> Any:
    """ConfigSpace's description of a parameter."""
    name = entry["name"]
    if entry["type"] == "categorical":
        return Categorical(name, list(range(len(entry["choices"]))))
    if _counted(entry):
        return Integer(name, (0, int((entry["high"] - entry["low"]) / entry["step"] + 1e-9)))
    kind = Float if entry["type"] == "float" else Integer
    return kind(name, (entry["low"], entry["high"]), log=entry["log"])


def _counted(entry: dict[str, Any]) -> bool:
    return entry["type"] != "categorical" and entry["step"] not in (None, 1)


class Smac(peer_protocol.PeerMethod):
    """A scenario driven through SMAC's ask and tell."""

    def __init__(self, setup: peer_protocol.Setup) -> None:
        self.space = setup.space
        self.configs = ConfigurationSpace(seed=setup.seed)
        self.configs.add([parameter(entry) for entry in setup.space])
        facade = FACADES[setup.method]
        scenario = Scenario(
            self.configs,
            deterministic=True,
            n_trials=setup.budget,
            seed=setup.seed,
            output_directory=tempfile.mkdtemp(prefix="dechbo-smac-"),
        )
        design = facade.get_initial_design(scenario, n_configs=0)
        self.smac = facade(scenario, _never, initial_design=design, overwrite=True, logging_level=50)
        self.asked: list[TrialInfo] = []
        self.worst: float | None = None
        self.options = {"facade": facade.__name__}

    def tell(self, params: peer_protocol.Params, value: float | None) -> None:
        coded = {entry["name"]: _coded(entry, params[entry["name"]]) for entry in self.space}
        config = Configuration(self.configs, values=coded)
        info = next((info for info in self.asked if dict(info.config) == dict(config)), None)
        if info is None:
            info = TrialInfo(config, seed=0)
        else:
            self.asked.remove(info)
        if value is not None:
            self.worst = value if self.worst is None else max(self.worst, value)
        if self.worst is not None:  # before the first value there is no worst one
            self.smac.tell(info, TrialValue(cost=self.worst if value is None else value))

    def ask(self) -> peer_protocol.Params:
        info = self.smac.ask()
        self.asked = [info]
        return {entry["name"]: _native(entry, info.config[entry["name"]]) for entry in self.space}


def _never(config: Any, seed: int = 0) -> float:
    raise RuntimeError("trials are evaluated outside")


def _coded(entry: dict[str, Any], value: Any) -> Any:
    if entry["type"] == "categorical":
        return next(k for k, choice in enumerate(entry["choices"]) if peer_protocol.same_choice(choice, value))
    return round((value - entry["low"]) / entry["step"]) if _counted(entry) else value


def _native(entry: dict[str, Any], value: Any) -> Any:
    if entry["type"] == "categorical":
        return entry["choices"][int(value)]
    return peer_protocol.nearest_legal(entry, entry["low"] + value * entry["step"] if _counted(entry) else value)


if __name__ == "__main__":
    peer_protocol.serve(Smac, ["smac", "ConfigSpace", "numpy"])
