"""Evaluations that fail in a part of the space, or at random: how many, and what is found.

    python benchmarks/failures.py [--seeds 4] [--evaluations 40]

Regret of the best success and the number of failures, for dechbo, Optuna's TPE and random search. A failure tells its
method nothing but that.
"""

from __future__ import annotations

import argparse
import time
import zlib
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import optuna

from dechbo import Categorical, Float, Int, Optimizer, Space

Params = Mapping[str, Any]
INITIAL = 8


def cliff(p: Params) -> float | None:
    """Better and better up to a cliff: a learning rate, say."""
    if p["a"] + 0.5 * p["b"] > 1.0:
        return None
    return float(2 - p["a"] - 0.5 * p["b"] + (p["c"] - 0.3) ** 2 + (p["d"] - 0.6) ** 2 + 0.5 * (p["a"] - p["e"]) ** 2)


def edge(p: Params) -> float | None:
    """A tenth of the space fails, far from the optimum."""
    if p["drop"] > 0.45:
        return None
    return float((p["lr"] + 3) ** 2 + 0.3 * (p["layers"] - 3) ** 2 + (p["act"] == "relu") + p["drop"])


def hollow(p: Params) -> float | None:
    """Half of the space fails, between two basins."""
    x = np.array([p["x"], p["y"], p["z"]])
    if 0.15 < np.abs(x - 0.5).max() < 0.4:
        return None
    return float(((x - 0.55) ** 2).sum() * 4 + np.sin(9 * x).sum() / 9)


def at_random(p: Params) -> float | None:
    """A sixth of the evaluations fails, whatever the parameters are."""
    if zlib.crc32(repr(sorted(p.items())).encode()) % 6 == 0:
        return None
    x = np.array(list(p.values()))
    return float(((x - 0.4) ** 2).sum() + 0.3 * np.sin(8 * x[0]) * np.sin(8 * x[1]))


UNIT = Float(0.0, 1.0)
CASES: dict[str, tuple[Space, Callable[[Params], float | None], float]] = {
    "cliff": (Space(dict.fromkeys("abcde", UNIT)), cliff, 1.0),
    "edge": (
        Space({"lr": Float(-5, 0), "layers": Int(1, 8), "act": Categorical(["relu", "tanh"]), "drop": Float(0, 0.5)}),
        edge,
        0.0,
    ),
    "hollow": (Space(dict.fromkeys("xyz", UNIT)), hollow, -0.3289074),
    "at random": (Space(dict.fromkeys("abcdef", UNIT)), at_random, -0.2301208),
}


def by_dechbo(space: Space, function: Callable[[Params], float | None], n: int, seed: int) -> list[float | None]:
    optimizer = Optimizer(space, seed=seed, n_initial=INITIAL)
    values = []
    for _ in range(n):
        params = optimizer.ask()
        values.append(function(params))
        optimizer.tell(params, values[-1])
    return values


def by_tpe(space: Space, function: Callable[[Params], float | None], n: int, seed: int) -> list[float | None]:
    study = optuna.create_study(sampler=optuna.samplers.TPESampler(seed=seed, n_startup_trials=INITIAL))
    values: list[float | None] = []
    for _ in range(n):
        trial = study.ask()
        params: dict[str, Any] = {}
        for name, kind in zip(space.names, space.parameters, strict=True):
            if isinstance(kind, Categorical):
                params[name] = trial.suggest_categorical(name, kind.choices)
            elif isinstance(kind, Int):
                params[name] = trial.suggest_int(name, kind.low, kind.high)
            elif isinstance(kind, Float):
                params[name] = trial.suggest_float(name, kind.low, kind.high)
        values.append(function(params))
        if values[-1] is None:
            study.tell(trial, state=optuna.trial.TrialState.FAIL)
        else:
            study.tell(trial, values[-1])
    return values


def at_random_points(space: Space, function: Callable[[Params], float | None], n: int, seed: int) -> list[float | None]:
    rng = np.random.default_rng(seed)
    return [function(space.decode(space.from_uniform(rng.random(space.dim)))) for _ in range(n)]


METHODS = {"dechbo": by_dechbo, "Optuna TPE": by_tpe, "random search": at_random_points}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=4)
    parser.add_argument("--evaluations", type=int, default=40)
    parser.add_argument("--methods", nargs="*", default=list(METHODS))
    args = parser.parse_args()
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    print(f"| failures | method | regret | mean | failures of {args.evaluations} | longest row of them | CPU s a run |")
    print("|---|---|---|---|---|---|---|")
    for case, (space, function, optimum) in CASES.items():
        for method in args.methods:
            began = time.process_time()
            runs = [METHODS[method](space, function, args.evaluations, seed) for seed in range(args.seeds)]
            seconds = (time.process_time() - began) / args.seeds
            regrets = [min(v for v in run if v is not None) - optimum for run in runs]
            failed = [sum(v is None for v in run) for run in runs]
            rows = [max(map(len, "".join("x" if v is None else " " for v in run).split()), default=0) for run in runs]
            print(
                f"| {case} | {method} | {', '.join(f'{r:.2g}' for r in regrets)} | {np.mean(regrets):.2g} | "
                f"{', '.join(map(str, failed))} | {', '.join(map(str, rows))} | {seconds:.2g} |",
                flush=True,
            )


if __name__ == "__main__":
    main()
