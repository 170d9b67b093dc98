"""What a learned graph does for the regret: the same runs with the true graph, a learned one and random trees.

    python benchmarks/learned_regret.py                 # d = 20, 10 seeds, 100 evaluations
    python benchmarks/learned_regret.py --seeds 5 --evaluations 200 --methods true learned random \\
        --record benchmarks/results/learned_regret_200.jsonl

Functions as in graph_recovery.py, without noise, to be maximised. The regret is taken to the best value that any method
found and that coordinate ascent from there reached on the true function, in standard deviations of the function over
random points. Beside it stands sum_I sigma_I / sigma at the suggested points, with centred and with plain kernels.
Every finished run is appended to the record at once, and a run that was stopped goes on where it was.
"""

from __future__ import annotations

import argparse
import itertools
import time
from functools import partial
from pathlib import Path

import numpy as np
from scipy.optimize import minimize

from dechbo import Float, Optimizer, Space
from dechbo.acquisition import EnsembleUCB
from dechbo.bench.problems.overlapping import WaveSum
from records import RESULTS, Record

RECORD = RESULTS / "learned_regret.jsonl"
METHODS = ("true", "learned", "random", "true, plain kernels", "learned, plain kernels")


def deviation_ratio(optimizer: Optimizer, params: dict[str, float]) -> float:
    """sum_I sigma_I / sigma at the suggested point."""
    model = optimizer._models.latest[1]
    posterior = model.gp.condition(model.data)
    point = optimizer.space.encode(params)
    apart = EnsembleUCB.of(posterior, 1.0).deviation(point)
    return apart / max(float(posterior.joint(point)[1][0]), 1e-12)


def run(method: str, dim: int, seed: int, evaluations: int) -> dict[str, object]:
    function = WaveSum.random(dim, seed)
    space = Space({f"x{i}": Float(0, 1) for i in range(dim)})
    kind, _, plain = method.partition(", ")
    graph = function.graph if kind == "true" else kind
    optimizer = Optimizer(space, graph=graph, seed=seed, direction="maximize", noise=0, centred=not plain)
    start = time.perf_counter()
    ratios = []
    for _ in range(evaluations):
        params = optimizer.ask()
        if optimizer.info.source != "initial design":
            ratios.append(deviation_ratio(optimizer, params))
        optimizer.tell(params, function(np.array(list(params.values()))))
    best = np.array(list(optimizer.best.params.values()))
    reached = minimize(function.negative, best, bounds=[(0, 1)] * dim)
    return {
        "best": optimizer.best.value,
        "ratio": round(float(np.median(ratios)), 3),
        "ceiling": max(optimizer.best.value, -float(reached.fun)),
        "seconds": round(time.perf_counter() - start, 1),
    }


def summary(rows: list[dict]) -> str:
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
    parser.add_argument("--record", type=Path, default=RECORD)
    arguments = parser.parse_args()
    record = Record(arguments.record, ("method", "dim", "seed"))
    for seed, method in itertools.product(range(arguments.seeds), arguments.methods):
        case = {"method": method, "dim": arguments.dim, "seed": seed}
        record.add(case, partial(run, evaluations=arguments.evaluations))
    print(summary(record.rows))


if __name__ == "__main__":
    main()
