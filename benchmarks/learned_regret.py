"""Regret with the true graph, a learned graph and random trees, on the same functions.

    python benchmarks/learned_regret.py                 # d = 20, 10 seeds, 100 evaluations
    python benchmarks/learned_regret.py --seeds 5 --evaluations 200 --methods true learned random \\
        --results benchmarks/results/learned_regret_200.jsonl

Functions as in graph_recovery.py, without noise, to be maximised. The regret is relative to the best value that any
method found, after gradient ascent on the true function, in standard deviations of the function over random points.
The table also has sum_I sigma_I / sigma at the suggested points, with centred and with plain kernels.
Every finished run is appended to the results file at once; an interrupted run continues from there.
"""

from __future__ import annotations

import argparse
import itertools
import time
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from scipy.optimize import minimize

from dechbo import Float, ModelOptions, Optimizer, Space
from dechbo.acquisition import EnsembleUCB
from dechbo.bench.problems.overlapping import WaveSum
from dechbo.gp.additive import AdditivePosterior
from results_file import RESULTS, ResultsFile

RESULTS_FILE = RESULTS / "learned_regret.jsonl"
METHODS = ("true", "learned", "random", "true, plain kernels", "learned, plain kernels")


def deviation_ratio(optimizer: Optimizer, params: dict[str, float]) -> float:
    """sum_I sigma_I / sigma at the suggested point, by the heaviest member with small factors."""
    committee = optimizer._beliefs.committee(optimizer._history)
    parts = zip(committee.weights.tolist(), committee.posteriors, strict=True)
    small = [(weight, posterior) for weight, posterior in parts if isinstance(posterior, AdditivePosterior)]
    _, posterior = max(small, key=lambda part: part[0])
    point = optimizer.space.encode(params)
    apart = EnsembleUCB.of(posterior, 1.0).deviation(point)
    return apart / max(float(posterior.joint(point)[1][0]), 1e-12)


def run(method: str, dim: int, seed: int, evaluations: int) -> dict[str, object]:
    function = WaveSum.random(dim, seed)
    space = Space({f"x{i}": Float(0, 1) for i in range(dim)})
    kind, _, plain = method.partition(", ")
    graph = function.graph if kind == "true" else kind
    model = ModelOptions(centred=not plain)
    optimizer = Optimizer(space, graph=graph, seed=seed, direction="maximize", noise=0, model=model)
    start = time.perf_counter()
    ratios = []
    for _ in range(evaluations):
        params = optimizer.ask()
        assert optimizer.info is not None
        if optimizer.info.source != "initial design":
            ratios.append(deviation_ratio(optimizer, params))
        optimizer.tell(params, function(np.array(list(params.values()))))
    assert optimizer.best is not None
    best = optimizer.best.number_value
    start_point = np.array(list(optimizer.best.params.values()))
    reached = minimize(function.negative, start_point, bounds=[(0, 1)] * dim)
    return {
        "best": best,
        "ratio": round(float(np.median(ratios)), 3),
        "ceiling": max(best, -float(reached.fun)),
        "seconds": round(time.perf_counter() - start, 1),
    }


def summary(rows: list[dict[str, Any]]) -> str:
    ceilings: dict[tuple[int, int], float] = {}
    for row in rows:
        key = (row["dim"], row["seed"])
        ceilings[key] = max(ceilings.get(key, -np.inf), row["ceiling"])
    lines = [
        "| graph | runs | mean final regret | standard error | median | sum of deviations / joint | seconds a run |"
    ]
    lines.append("|---|---|---|---|---|---|---|")
    for method in METHODS:
        of = [row for row in rows if row["method"] == method]
        if of:
            regrets = np.array([ceilings[row["dim"], row["seed"]] - row["best"] for row in of])
            error = regrets.std(ddof=1) / np.sqrt(len(of)) if len(of) > 1 else np.nan
            seconds = np.mean([row["seconds"] for row in of])
            ratio = np.median([row["ratio"] for row in of])
            figures = f"{regrets.mean():.4f} | {error:.4f} | {np.median(regrets):.4f} | {ratio:.1f} | {seconds:.0f}"
            lines.append(f"| {method} | {len(of)} | {figures} |")
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--dim", type=int, default=20)
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--evaluations", type=int, default=100)
    parser.add_argument("--methods", nargs="+", choices=METHODS, default=METHODS)
    parser.add_argument("--results", type=Path, default=RESULTS_FILE)
    arguments = parser.parse_args()
    results = ResultsFile(arguments.results, ("method", "dim", "seed"))
    for seed, method in itertools.product(range(arguments.seeds), arguments.methods):
        case = {"method": method, "dim": arguments.dim, "seed": seed}
        results.add(case, partial(run, evaluations=arguments.evaluations))
    print(summary(results.rows))


if __name__ == "__main__":
    main()
