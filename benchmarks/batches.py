"""What parallel evaluations cost: the regret of one point at a time, of batches of four, and of four workers.

    python benchmarks/batches.py              # missing runs, then the table
    python benchmarks/batches.py --fantasies  # the same beside fantasies
    python benchmarks/batches.py --no-bound   # batches of four also without the bound
    python benchmarks/batches.py --show

Batches: ``ask(4)``, then four values. Workers: four points are always pending, and the value of one of them, drawn at
random, comes back before the next ask. All have the same initial points and the same number of evaluations, on the
problems on which settings are chosen, with seeds of 100 and more. ``near`` is the share of points that lie within 0.01
of another one that was pending at the same time, in every coordinate of the unit cube.

The default conditions deviations on pending points and keeps their means. Fantasies are the alternative: values of the
pending points are drawn from the posterior ``FANTASIES`` times, each draw conditions means and deviations and has a
threshold of its own, and the expected improvement is averaged over the draws.
"""

from __future__ import annotations

import argparse
import itertools
from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
from numpy.typing import NDArray

from ablation import Function, load
from dechbo import Optimizer, SearchOptions
from dechbo.acquisition.score import LogExpectedImprovement
from dechbo.bench.records import Run
from dechbo.bench.runner import initial_params
from dechbo.gp.additive import solve_lower
from dechbo.gp.posterior import JointPosterior, WeightedPosterior
from dechbo.models.committee import Committee
from dechbo.search import decision
from dechbo.search.options import ACQUISITIONS
from results_file import RESULTS, ResultsFile

Array = NDArray[np.float64]
RESULTS_FILE = RESULTS / "batches.jsonl"
KEY = ("problem", "way", "seed")
WAYS = ("one at a time", "batches of 4", "4 workers")
NAMES = ("wells", "waves", "Rotated-Ripples-10", "Noisy-12", "Mixed-20", "Waves-40", "Levy-10", "Overlapping-50")
INITIAL, EVALUATIONS, PARALLEL, NEAR = 20, 100, 4, 0.01
FANTASIES = 4
WITHOUT_BOUND = "batches of 4, no bound"  # one point of a batch comes from the bound otherwise
WITH_FANTASIES = ("batches of 4, fantasies", "4 workers, fantasies")
DECIDING = Committee.deciding


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


def fantasy(posterior: JointPosterior, points: Array, normals: Array) -> JointPosterior:
    """The posterior given drawn values at ``points`` too.

    L z = y, and a value drawn given all before it has a standard normal z.
    """
    longer: Any = posterior.with_pending(points)
    z = np.append(posterior.L.T @ posterior.alpha, normals)
    drawn: JointPosterior = replace(longer, alpha=solve_lower(longer.L, z, transposed=True))
    return drawn


def deciding(committee: Committee, pending: Array | None = None) -> list[WeightedPosterior]:
    """The members that decide, each with ``FANTASIES`` draws; the same normal numbers for all members."""
    chosen = DECIDING(committee)
    if pending is None or len(pending) == 0:
        return chosen
    normals = np.random.default_rng([len(committee.data), len(pending)]).standard_normal((FANTASIES, len(pending)))
    return [(weight / FANTASIES, fantasy(posterior, pending, row)) for weight, posterior in chosen for row in normals]


class FantasyImprovement(LogExpectedImprovement):
    """log sum_m w_m E[max(f_m - y*_m, 0)], y*_m at least the best mean of fantasy m at its points."""

    @cached_property
    def fantasies(self) -> list[LogExpectedImprovement]:
        """The improvement of every fantasy."""
        bests = [float(member.joint(member.X)[0].max()) for _, member in self.members]
        pairs = zip(self.members, bests, strict=True)
        return [LogExpectedImprovement([one], max(self.threshold, best)) for one, best in pairs]

    def values(self, points: Array) -> Array:
        """At ``points`` (n, d)."""
        total: Array = np.logaddexp.reduce([one.values(points) for one in self.fantasies], axis=0)
        return total

    def gradients(self, points: Array) -> tuple[Array, Array]:
        """The values, and their gradients."""
        parts = [one.gradients(points) for one in self.fantasies]
        logs = np.array([values for values, _ in parts])
        total: Array = np.logaddexp.reduce(logs, axis=0)
        return total, np.einsum("mn,mnd->nd", np.exp(logs - total), np.array([slopes for _, slopes in parts]))


def run(problem: str, way: str, seed: int) -> dict[str, float]:
    """The regret of one run and the share of near twins, with fantasies if ``way`` says so."""
    with ExitStack() as patches:
        if way in WITH_FANTASIES:
            patches.enter_context(mock.patch.object(Committee, "deciding", deciding))
            patches.enter_context(mock.patch.object(decision, "LogExpectedImprovement", FantasyImprovement))
        scores = ("improvement",) if way == WITHOUT_BOUND else ACQUISITIONS
        return parallel_regret(problem, way.partition(", ")[0], seed, scores)


def parallel_regret(problem: str, way: str, seed: int, scores: tuple[str, ...]) -> dict[str, float]:
    """The same, by the package as it is."""
    space, function, judge, minimum = load(problem, seed)
    search = SearchOptions(acquisitions=scores)
    runs = Runs(Optimizer(space, seed=seed, n_initial=INITIAL, search=search), function, judge)
    for params in initial_params(space, Run(problem.lower(), "dechbo", seed, INITIAL, EVALUATIONS)):
        runs.tell(params)
    rng, pending = np.random.default_rng([seed, 4]), list[dict[str, Any]]()
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
    parser.add_argument("--first-seed", type=int, default=100)
    parser.add_argument("--problems", nargs="+", default=list(NAMES), choices=list(NAMES))
    parser.add_argument("--results", type=Path, default=RESULTS_FILE)
    parser.add_argument("--fantasies", action="store_true", help="also with fantasies")
    parser.add_argument("--no-bound", action="store_true", help="also batches of four without the bound")
    parser.add_argument("--show", action="store_true", help="only print the table")
    arguments = parser.parse_args()
    results = ResultsFile(arguments.results, KEY)
    ways = (*WAYS, *((WITHOUT_BOUND,) if arguments.no_bound else ()), *(WITH_FANTASIES if arguments.fantasies else ()))
    seeds = range(arguments.first_seed, arguments.first_seed + arguments.seeds)
    if not arguments.show:
        for seed, problem, way in itertools.product(seeds, arguments.problems, reversed(ways)):
            results.add({"problem": problem, "way": way, "seed": seed}, run)
    print(f"| problem | {' | '.join(ways)} | near: {', '.join(ways[1:])} |")
    print("|---" * (len(ways) + 2) + "|")
    for problem in arguments.problems:
        here = [row for row in results.rows if row["problem"] == problem and row["seed"] in seeds]
        rows = {way: [row for row in here if row["way"] == way] for way in ways}
        means = [f"{np.mean([row['regret'] for row in rows[way]]):.3g}" if rows[way] else "–" for way in ways]
        near = [f"{np.mean([row['near'] for row in rows[way]]):.0%}" if rows[way] else "–" for way in ways[1:]]
        print(f"| {problem} | {' | '.join(means)} | {', '.join(near)} |")


if __name__ == "__main__":
    main()
