"""HEBO (Cowen-Rivers et al. 2022), plain ("hebo") and with its random decompositions ("hebo-rd").

Parameters have HEBO's types: num, pow for log scales, int, pow_int, step_int for steps, cat for categories (by index).
The initial points replace its random samples, so its model chooses every other point. MACE and NSGA-II are defaults.

Covered by ``tests/bench/test_peers.py``.
"""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pandas as pd
import peer_protocol
import torch
from hebo.design_space.design_space import DesignSpace
from hebo.optimizers.hebo import HEBO

# HEBO's default settings of its GP, and a random decomposition with E = 0.2 for each fit
DECOMPOSED = {
    "lr": 0.01,
    "num_epochs": 100,
    "verbose": False,
    "noise_lb": 8e-4,
    "pred_likeli": False,
    "rd": True,
    "E": 0.2,
}


def parameter(entry: dict[str, Any]) -> dict[str, Any]:
    """HEBO's description of a parameter; a float with steps becomes the number of the step."""
    name = {"name": entry["name"]}
    if entry["type"] == "categorical":
        return {**name, "type": "cat", "categories": [str(k) for k in range(len(entry["choices"]))]}
    if entry["type"] == "float" and entry["step"] is not None:
        return {**name, "type": "int", "lb": 0, "ub": int((entry["high"] - entry["low"]) / entry["step"] + 1e-9)}
    bounds = {"lb": entry["low"], "ub": entry["high"]}
    if entry["type"] == "float":
        return {**name, "type": "pow" if entry["log"] else "num", **bounds}
    if entry["step"] != 1:
        return {**name, "type": "step_int", "step": entry["step"], **bounds}
    return {**name, "type": "pow_int" if entry["log"] else "int", **bounds}


class Hebo(peer_protocol.PeerMethod):
    """A suggestion depends on seed and history only: each ask seeds every random number generator."""

    def __init__(self, setup: peer_protocol.Setup) -> None:
        torch.set_num_threads(1)
        self.space, self.seed, self.n_told = setup.space, setup.seed, 0
        space = DesignSpace().parse([parameter(entry) for entry in setup.space])
        config = DECOMPOSED if setup.method == "hebo-rd" else None
        self.hebo = HEBO(space, rand_sample=setup.n_initial, scramble_seed=setup.seed, model_config=config)
        self.options = {"rand_sample": setup.n_initial, "model_config": config}

    def tell(self, params: peer_protocol.Params, value: float | None) -> None:
        self.n_told += 1
        row = {entry["name"]: [self._coded(entry, params[entry["name"]])] for entry in self.space}
        self.hebo.observe(pd.DataFrame(row), np.array([[np.nan if value is None else value]]))

    def ask(self) -> peer_protocol.Params:
        seed = (1_000_003 * self.seed + self.n_told) % 2**32
        random.seed(seed)
        np.random.seed(seed)  # noqa: NPY002  (HEBO draws from the global generator)
        torch.manual_seed(seed)
        row = self.hebo.suggest(n_suggestions=1).iloc[0]
        return {entry["name"]: self._native(entry, row[entry["name"]]) for entry in self.space}

    @staticmethod
    def _coded(entry: dict[str, Any], value: Any) -> Any:
        if entry["type"] == "categorical":
            return str(next(k for k, choice in enumerate(entry["choices"]) if peer_protocol.same_choice(choice, value)))
        if entry["type"] == "float" and entry["step"] is not None:
            return round((value - entry["low"]) / entry["step"])
        return value

    @staticmethod
    def _native(entry: dict[str, Any], value: Any) -> Any:
        if entry["type"] == "categorical":
            return entry["choices"][int(value)]
        if entry["type"] == "float" and entry["step"] is not None:
            value = entry["low"] + value * entry["step"]
        return peer_protocol.nearest_legal(entry, value)


if __name__ == "__main__":
    peer_protocol.serve(Hebo, ["HEBO", "torch", "gpytorch", "numpy", "pymoo"])
