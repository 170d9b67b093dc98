"""SMAC3's facade for tuning with conditions, driven by JSON lines of ``conditional.py``, in its own environment."""

from __future__ import annotations

import json
import sys
import tempfile
from typing import Any

from ConfigSpace import (
    AndConjunction,
    Categorical,
    Configuration,
    ConfigurationSpace,
    Float,
    InCondition,
    Integer,
)
from smac import HyperparameterOptimizationFacade, Scenario
from smac.runhistory import TrialInfo, TrialValue


def build(entries: list[dict[str, Any]], seed: int) -> ConfigurationSpace:
    """The space with its conditions."""
    space = ConfigurationSpace(seed=seed)
    made = {}
    for entry in entries:
        name = entry["name"]
        if entry["type"] == "categorical":
            made[name] = Categorical(name, entry["choices"])
        else:
            kind = Float if entry["type"] == "float" else Integer
            made[name] = kind(name, (entry["low"], entry["high"]), log=entry["log"])
    space.add(list(made.values()))
    for entry in entries:
        conditions = [InCondition(made[entry["name"]], made[p], c) for p, c in entry.get("when", {}).items()]
        if conditions:
            space.add(conditions[0] if len(conditions) == 1 else AndConjunction(*conditions))
    return space


def never(config: Any, seed: int = 0) -> float:
    raise RuntimeError("trials are evaluated outside")


def main() -> None:
    setup = json.loads(sys.stdin.readline())
    space = build(setup["space"], setup["seed"])
    folder = tempfile.mkdtemp(prefix="dechbo-smac-")
    scenario = Scenario(
        space, deterministic=True, n_trials=setup["budget"], seed=setup["seed"], output_directory=folder
    )
    design = HyperparameterOptimizationFacade.get_initial_design(scenario, n_configs=0)
    smac = HyperparameterOptimizationFacade(scenario, never, initial_design=design, overwrite=True, logging_level=50)
    print("{}", flush=True)
    asked: TrialInfo | None = None
    for line in sys.stdin:
        message = json.loads(line)
        if "ask" in message:
            asked = smac.ask()
            plain = {k: v.item() if hasattr(v, "item") else v for k, v in dict(asked.config).items()}
            print(json.dumps(plain), flush=True)
            continue
        info = asked if asked is not None else TrialInfo(Configuration(space, values=message["params"]), seed=0)
        smac.tell(info, TrialValue(cost=message["value"]))
        asked = None
        print("{}", flush=True)


if __name__ == "__main__":
    main()
