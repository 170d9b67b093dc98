"""What parallel evaluations cost: the regret of one point at a time, of batches of four, and of four workers.

    python benchmarks/batches.py              # missing runs, then the table
    python benchmarks/batches.py --show

Batches: ``ask(4)``, then four values. Workers: four points are always pending, and the value of one of them, drawn at
random, comes back before the next ask. All have the same initial points and the same number of evaluations, on the
problems on which settings are chosen, with seeds of 100 and more. ``near`` is the share of points that lie within 0.01
of another one that was pending at the same time, in every coordinate of the unit cube.
"""

from __future__ import annotations

import argparse
import itertools
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from ablation import Function, load
from dechbo import Optimizer
from dechbo.bench.records import Run
from dechbo.bench.runner import initial_params
from results_file import RESULTS, ResultsFile

RESULTS_FILE = RESULTS / "batches.jsonl"
KEY = ("problem", "way", "seed")
WAYS = ("one at a time", "batches of 4", "4 workers")
NAMES = ("wells", "waves", "Rotated-Ripples-10", "Noisy-12", "Mixed-20", "Waves-40", "Levy-10", "Overlapping-50")
INITIAL, EVALUATIONS, PARALLEL, NEAR = 20, 100, 4, 0.01


class Runs:
    """Values told, and how near pending points were to each other."""

    def __init__(self, optimizer: Optimizer, function: Function, judge: Function) -> None:
        self.optimizer, self.function, self.judge = optimizer, function, judge
        self.seen: list[tuple[float, float]] = []
        self.near = 0

    def tell(self, params: Mapping[str, Any]) -> None:
        """Evaluate ``params`` and tell its value."""
        self.seen.append((self.function(params), self.judge(params)))
        self.optimizer.tell(dict(params), self.seen[-1][0])

    def compare(self, params: Mapping[str, Any], pending: list[dict[str, Any]]) -> None:
        """Count ``params`` if a pending point is near."""
        encode = self.optimizer.space.encode
        here = encode(params)
        self.near += any(np.abs(encode(other) - here).max() < NEAR for other in pending)


def run(problem: str, way: str, seed: int) -> dict[str, float]:
    """The regret of one run and the share of near twins."""
    space, function, judge, minimum = load(problem, seed)
    runs = Runs(Optimizer(space, seed=seed, n_initial=INITIAL), function, judge)
    for params in initial_params(space, Run(problem.lower(), "dechbo", seed, INITIAL, EVALUATIONS)):
        runs.tell(params)
    rng, pending = np.random.default_rng([seed, 4]), []
    for _ in range(EVALUATIONS if way != "batches of 4" else 0):
        params = runs.optimizer.ask()
        runs.compare(params, pending)
        pending.append(params)
        if len(pending) == (PARALLEL if way == "4 workers" else 1):
            runs.tell(pending.pop(int(rng.integers(len(pending)))))
    for params in pending:
        runs.tell(params)
    for _ in range(EVALUATIONS // PARALLEL if way == "batches of 4" else 0):
        batch = runs.optimizer.ask(PARALLEL)
        for k, params in enumerate(batch):
            runs.compare(params, batch[:k])
        for params in batch:
            runs.tell(params)
    return {"regret": float(min(runs.seen)[1] - minimum), "near": runs.near / EVALUATIONS}


def main() -> None:
    """Make the missing runs and print one line per problem."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=2)
    parser.add_argument("--problems", nargs="+", default=list(NAMES), choices=list(NAMES))
    parser.add_argument("--results", type=Path, default=RESULTS_FILE)
    parser.add_argument("--show", action="store_true", help="only print the table")
    arguments = parser.parse_args()
    results = ResultsFile(arguments.results, KEY)
    if not arguments.show:
        for seed, problem, way in itertools.product(
            range(100, 100 + arguments.seeds), arguments.problems, reversed(WAYS)
        ):
            results.add({"problem": problem, "way": way, "seed": seed}, run)
    print(f"| problem | {' | '.join(WAYS)} | near: batches, workers |\n|---|---|---|---|---|")
    for problem in arguments.problems:
        rows = {way: [row for row in results.rows if (row["problem"], row["way"]) == (problem, way)] for way in WAYS}
        means = [f"{np.mean([row['regret'] for row in rows[way]]):.3g}" if rows[way] else "–" for way in WAYS]
        near = [f"{np.mean([row['near'] for row in rows[way]]):.0%}" if rows[way] else "–" for way in WAYS[1:]]
        print(f"| {problem} | {' | '.join(means)} | {', '.join(near)} |")


if __name__ == "__main__":
    main()
