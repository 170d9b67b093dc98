"""The same suggestions, bit for bit: record what fixed seeds ask for, and compare after a change.

    python benchmarks/suggestions.py --record   # writes results/suggestions.json
    python benchmarks/suggestions.py            # exits 1 and names the first difference in each case that changed

Floats are written in hexadecimal. A record holds for one machine and one set of versions: other processors and BLAS
builds round differently. After a change of behaviour, or on another machine, record at the parent commit first.
"""

from __future__ import annotations

import argparse
import itertools
import json
import math
import os
import platform
import sys
import tempfile
from collections.abc import Callable, Iterable, Mapping
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np

from dechbo import (
    Categorical,
    Exact,
    FactorGraph,
    Float,
    Int,
    MaxSum,
    ModelOptions,
    Optimizer,
    SearchOptions,
    Space,
    TheoryOptions,
    minimize,
)
from dechbo.baselines import GPUCB, REMBO, AddGPUCB, AddMES, RandomSearch, SobolSearch

FILE = Path(__file__).parent / "results" / "suggestions.json"
Params = dict[str, Any]
Parameters = dict[str, Float | Int | Categorical]


def floats(dim: int) -> Space:
    return Space({f"x{i}": Float(-2.0, 3.0) for i in range(dim)})


MIXED: Parameters = {
    "lr": Float(1e-5, 1.0, log=True),
    "layers": Int(1, 8),
    "act": Categorical(["relu", "tanh", "gelu"]),
    "drop": Float(0.0, 1.0, step=0.05),
    "width": Int(8, 512, log=True),
    "mix": Float(0.0, 1.0),
}
FINITE: Parameters = {"a": Int(1, 4), "b": Categorical(["u", "v", "w"]), "c": Int(0, 2)}
LIMITED: Parameters = {"a": Float(0.0, 1.0), "b": Float(0.0, 1.0), "c": Float(0.0, 1.0), "d": Int(0, 5)}


def objective(params: Mapping[str, Any]) -> float:
    """A sum of overlapping terms over whatever the parameters are."""
    units = [_unit(value) for value in params.values()]
    chain = sum(math.sin(3 * a + 2 * b) * (a - b) for a, b in itertools.pairwise(units))
    return chain + sum((u - 0.3) ** 2 for u in units)


def _unit(value: object) -> float:
    if isinstance(value, str):
        return 0.1 * (sum(map(ord, value)) % 11)
    number = float(value)  # type: ignore[arg-type]
    return math.atan(number) if abs(number) < 100 else math.log(abs(number)) / 10


def sum_of_squares(x: Any) -> float:
    return float(((np.asarray(x) - 0.3) ** 2).sum())


def run(method: Any, evaluations: int) -> list[Params]:
    asked = []
    for _ in range(evaluations):
        params = method.ask()
        method.tell(params, objective(params))
        asked.append(params)
    return asked


def batches(method: Optimizer, rounds: int, size: int) -> list[Params]:
    asked = []
    for _ in range(rounds):
        points = method.ask(size)
        asked += points
        for params in points:
            method.tell(params, objective(params))
    return asked


def delayed(method: Optimizer, evaluations: int, behind: int) -> list[Params]:
    asked: list[Params] = []
    for k in range(evaluations):
        asked.append(method.ask())
        if k >= behind:
            method.tell(asked[k - behind], objective(asked[k - behind]))
    return asked


def failing(method: Optimizer, evaluations: int) -> list[Params]:
    asked = []
    for k in range(evaluations):
        params = method.ask()
        method.tell(params, None if k % 5 == 3 else objective(params))
        asked.append(params)
    return asked


def told_constraints(method: Optimizer, evaluations: int) -> list[Params]:
    asked = []
    for _ in range(evaluations):
        params = method.ask()
        a, b = params["x0"], params["x1"]
        method.tell(params, objective(params), constraints={"disc": a * a + b * b - 2.0, "wave": math.sin(3 * a) - b})
        asked.append(params)
    return asked


def fixed(method: Optimizer, evaluations: int) -> list[Params]:
    asked = []
    for k in range(evaluations):
        params = method.ask(fixed={"layers": 3} if k % 2 else None)
        method.tell(params, objective(params))
        asked.append(params)
    return asked


def resumed(space: Space, evaluations: int) -> list[Params]:
    first = Optimizer(space, seed=5)
    asked = run(first, evaluations)
    with tempfile.TemporaryDirectory() as folder:
        first.save(Path(folder) / "run.json")
        second = Optimizer.load(Path(folder) / "run.json")
    return asked + run(second, 4)


def replayed(space: Space, evaluations: int) -> list[Params]:
    first = Optimizer(space, seed=6)
    run(first, evaluations)
    second = Optimizer(space, seed=6)
    second.replay(first.evaluations, [dict.fromkeys(space.names, 0.25)])
    return [second.ask()]


def given_graph(dim: int) -> FactorGraph:
    return FactorGraph(dim, (*((i,) for i in range(dim)), *((i, i + 1) for i in range(dim - 1)), (0, 2, 4)))


def minimized(**options: Any) -> list[Params]:
    found = minimize(sum_of_squares, [(-1.0, 2.0)] * 3, n_calls=16, rng=3, **options)
    return [{"x": x.tolist()} for x in found.x_iters]


CASES: dict[str, Callable[[], list[Params]]] = {
    "float learned": lambda: run(Optimizer(floats(6), seed=0), 45),
    "float learned, stuck": lambda: run(Optimizer(floats(2), seed=1), 40),
    "float random": lambda: run(Optimizer(floats(5), graph="random", seed=2), 24),
    "float given": lambda: run(Optimizer(floats(5), graph=given_graph(5), seed=3), 24),
    "float maximize": lambda: run(Optimizer(floats(3), direction="maximize", seed=4), 22),
    "float noisy": lambda: run(Optimizer(floats(3), noise=0.01, seed=4), 24),
    "float noise-free": lambda: run(Optimizer(floats(3), noise=0, seed=4), 24),
    "float squared exponential": lambda: run(Optimizer(floats(4), model=ModelOptions(kernel="se"), seed=4), 22),
    "float factors": lambda: run(Optimizer(floats(4), search=SearchOptions(score="factors"), seed=5), 22),
    "float plain kernels": lambda: run(Optimizer(floats(4), model=ModelOptions(centred=False), seed=5), 22),
    "float small factors": lambda: run(
        Optimizer(floats(5), model=ModelOptions(members=("smooth", "rough")), max_factor_size=2, seed=5), 22
    ),
    "float no warp": lambda: run(Optimizer(floats(2), model=ModelOptions(warp=False), seed=1), 24),
    "float theory": lambda: run(Optimizer(floats(3), theory=TheoryOptions(beta="theory"), seed=6), 18),
    "float theory-factor": lambda: run(
        Optimizer(floats(3), theory=TheoryOptions(beta="theory-factor", delta=0.2), seed=6), 18
    ),
    "float beta": lambda: run(Optimizer(floats(3), theory=TheoryOptions(beta=0.5), seed=6), 20),
    "float exact": lambda: run(Optimizer(floats(4), graph="random", maximizer=Exact(), seed=7), 18),
    "float max-sum": lambda: run(Optimizer(floats(4), maximizer=MaxSum(rounds=10, damping=0.3), seed=7), 18),
    "float twelve": lambda: run(Optimizer(floats(12), seed=8), 24),
    "mixed learned": lambda: run(Optimizer(Space(MIXED), seed=9), 34),
    "mixed random": lambda: run(Optimizer(Space(MIXED), graph="random", seed=9), 20),
    "mixed fixed": lambda: fixed(Optimizer(Space(MIXED), seed=10), 22),
    "mixed failing": lambda: failing(Optimizer(Space(MIXED), seed=11), 24),
    "finite": lambda: run(Optimizer(Space(FINITE), seed=12), 36),
    "finite noisy": lambda: run(Optimizer(Space(FINITE), noise=0.1, seed=12), 24),
    "known constraints": lambda: run(
        Optimizer(Space(LIMITED, constraints=["a + b <= 1", "c + 0.1 * d <= 0.9"]), seed=13), 24
    ),
    "told constraints": lambda: told_constraints(Optimizer(floats(3), seed=14), 20),
    "batches": lambda: batches(Optimizer(floats(4), seed=15), 7, 4),
    "delayed": lambda: delayed(Optimizer(floats(4), seed=16), 24, 3),
    "delayed mixed": lambda: delayed(Optimizer(Space(MIXED), seed=16), 20, 2),
    "resumed": lambda: resumed(floats(4), 17),
    "replayed": lambda: replayed(floats(4), 17),
    "paper 1": lambda: run(Optimizer.paper(floats(5), max_factor_size=1, seed=17), 22),
    "paper 2": lambda: run(Optimizer.paper(floats(5), max_factor_size=2, seed=17), 22),
    "paper 3": lambda: run(Optimizer.paper(floats(6), max_factor_size=3, seed=18), 32),
    "paper mixed": lambda: run(Optimizer.paper(Space(MIXED), seed=18), 22),
    "baseline gp-ucb": lambda: run(GPUCB(floats(4), seed=19), 24),
    "baseline add-gp-ucb": lambda: run(AddGPUCB(floats(6), seed=19), 24),
    "baseline add-gp-ucb, groups": lambda: run(AddGPUCB(floats(6), group_size=2, seed=19), 30),
    "baseline add-mes-g": lambda: run(AddMES(floats(4), samples="gumbel", seed=20), 20),
    "baseline add-mes-r": lambda: run(AddMES(floats(4), samples="functions", seed=20), 20),
    "baseline rembo": lambda: run(REMBO(floats(8), seed=21), 24),
    "baseline random": lambda: run(RandomSearch(Space(MIXED), seed=22), 12),
    "baseline sobol": lambda: run(SobolSearch(Space(MIXED), seed=22), 12),
    "baseline mixed": lambda: run(AddGPUCB(Space(MIXED), seed=23), 20),
    "minimize": lambda: minimized(),
    "minimize, workers": lambda: minimized(workers=2),
}


def exact(value: Any) -> Any:
    """Plain JSON in which no bit of a float is lost."""
    if isinstance(value, Mapping):
        return {name: exact(part) for name, part in value.items()}
    if isinstance(value, (list, tuple)):
        return [exact(part) for part in value]
    return float(value).hex() if isinstance(value, (float, np.floating)) else value


def fingerprint() -> dict[str, str]:
    packages = ("numpy", "scipy", "numba")
    return {"machine": platform.machine(), "processor": _processor(), **{name: version(name) for name in packages}}


def _processor() -> str:
    lines = Path("/proc/cpuinfo").read_text().splitlines() if Path("/proc/cpuinfo").exists() else []
    return next((line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")), "unknown")


def difference(before: Iterable[Any], now: Iterable[Any]) -> str | None:
    """Where two sequences of suggestions part, or None."""
    old, new = list(before), list(now)
    for k, (one, other) in enumerate(zip(old, new, strict=False)):
        if one != other:
            return f"suggestion {k}: recorded {one}, now {other}"
    return None if len(old) == len(new) else f"recorded {len(old)} suggestions, now {len(new)}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--record", action="store_true", help="write the record instead of comparing with it")
    parser.add_argument("--cases", default="", help="only cases whose names contain this text")
    chosen = parser.parse_args()
    names = [name for name in CASES if chosen.cases in name]
    known = json.loads(FILE.read_text()) if FILE.exists() else {"suggestions": {}}
    if not chosen.record and known.get("fingerprint") != fingerprint():
        print(f"warning: recorded on {known.get('fingerprint')}, this is {fingerprint()}", file=sys.stderr)
    changed = 0
    for name in names:
        made = exact(CASES[name]())
        if chosen.record:
            known["suggestions"][name] = made
            verdict = f"recorded {len(made)}"
        else:
            parted = difference(known["suggestions"].get(name, []), made)
            changed += parted is not None
            verdict = parted or f"the same {len(made)} suggestions"
        print(f"{name}: {verdict}", flush=True)
    if chosen.record:
        known["fingerprint"] = fingerprint()
        FILE.write_text(json.dumps(known, separators=(",", ":")) + "\n")
    else:
        print(f"{len(names) - changed} of {len(names)} cases the same")
    sys.exit(1 if changed else 0)


if __name__ == "__main__":
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    main()
