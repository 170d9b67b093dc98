"""What each part of the default is worth: the regret without each member, each kind of proposal and each score.

    python benchmarks/ablation.py                            # missing runs, then the table
    python benchmarks/ablation.py --problems Waves-40 Levy-10 --variants default "no max-sum"
    python benchmarks/ablation.py --show                     # only the table

Without forecasts, leave-one-out densities alone weigh the members, in full.

Problems are those on which settings are chosen, with seeds of 100 and more: suites "families" and "choice", and the
functions with many optima. A finished run is one line of ``results/ablation.jsonl``. The table has, for every part, the
geometric mean over problems of (regret without it / regret of the default), where both are at least ``FLOOR`` of
the range from the best initial value to the optimum, its 95 % interval by Student's t over problems, and how many runs
were worse or better without it. All rows share the default's runs, and so their luck: the last row compares
them with the mean of all runs without a part. The member ``sparse`` is not part of the default, and is added.
"""

from __future__ import annotations

import argparse
import itertools
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np

from dechbo import ModelOptions, Optimizer, SearchOptions, Space
from dechbo.bench import problems
from dechbo.bench.records import Run
from dechbo.bench.runner import initial_params
from dechbo.bench.statistics import mean_interval
from dechbo.models import committee
from dechbo.models.committee import LEAVE_ONE_OUT_SHARE, predictive_weights
from dechbo.models.options import ALL_MEMBERS, MEMBERS
from dechbo.search.options import ACQUISITIONS, PROPOSALS
from many_optima import PROBLEMS as MANY_OPTIMA
from many_optima import unit_space
from results_file import RESULTS, ResultsFile

RESULTS_FILE = RESULTS / "ablation.jsonl"
KEY = ("problem", "variant", "seed")
FLOOR = 1e-4
SHORT = ("Overlapping-50", "Waves-40", "Bumps-6-in-100", "Ackley-6-in-100", "Mixed-20", "Steps-15", "Ellipsoid-30")
SHORT_BUDGET, BUDGET = (20, 100), (10, 150)  # initial points and evaluations
BUDGETS = {"Powell-24": (10, 90)}
NAMES = (
    *("wells", "aligned", "peaks", "waves", "hills", "valleys", "rosenbrock-5", "ackley-6"),
    *("Rotated-Ripples-10", "Rotated-Rosenbrock-10", "Noisy-12"),
    *SHORT,
    *("Levy-10", "Ackley-20", "Rosenbrock-20", "Overlapping-20", "Powell-24"),
)

Function = Callable[[Mapping[str, Any]], float]


def _without(everything: tuple[str, ...], name: str) -> tuple[str, ...]:
    return tuple(each for each in everything if each != name)


VARIANTS: dict[str, dict[str, Any]] = {
    "default": {},
    **{f"no {name}": {"model": ModelOptions(members=_without(MEMBERS, name))} for name in MEMBERS},
    **{f"no {name}": {"search": SearchOptions(proposals=_without(PROPOSALS, name))} for name in PROPOSALS},
    **{f"no {name}": {"search": SearchOptions(acquisitions=_without(ACQUISITIONS, name))} for name in ACQUISITIONS},
    "no warp": {"model": ModelOptions(warp=False)},
    "no forecasts": {},
    "nothing, with sparse": {"model": ModelOptions(members=ALL_MEMBERS)},
}


def load(name: str, seed: int) -> tuple[Space, Function, Function, float]:
    """The space, the function, the one that judges, and its minimum."""
    if name in MANY_OPTIMA:
        value, dim, minimum = MANY_OPTIMA[name](seed)
        function = lambda params: value(np.array([params[f"x{i}"] for i in range(dim)]))  # noqa: E731
        return unit_space(dim), function, function, minimum
    problem = problems.problem(name, seed)
    return problem.space, problem, problem.noise_free or problem, problem.optimum or 0.0


def run(problem: str, variant: str, seed: int) -> dict[str, float]:
    """The regret at the best value seen, the best initial regret, and the CPU seconds of one run."""
    if variant == "no forecasts":
        weights = lambda left_out, _: predictive_weights(left_out / LEAVE_ONE_OUT_SHARE)  # noqa: E731
        with mock.patch.object(committee, "predictive_weights", weights):
            return regret(problem, "default", seed)
    return regret(problem, variant, seed)


def regret(problem: str, variant: str, seed: int) -> dict[str, float]:
    """The same, for a variant that options describe."""
    space, function, judge, minimum = load(problem, seed)
    initial, evaluations = BUDGETS.get(problem, SHORT_BUDGET if problem in SHORT else BUDGET)
    optimizer = Optimizer(space, seed=seed, n_initial=initial, **VARIANTS[variant])
    started, seen = time.process_time(), []
    for params in initial_params(space, Run(problem.lower(), "dechbo", seed, initial, evaluations)):
        seen.append((function(params), judge(params)))
        optimizer.tell(params, seen[-1][0])
    first = min(seen)[1] - minimum
    for _ in range(evaluations):
        params = optimizer.ask()
        seen.append((function(params), judge(params)))
        optimizer.tell(params, seen[-1][0])
    return {
        "regret": float(min(seen)[1] - minimum),
        "initial": float(first),
        "seconds": round(time.process_time() - started, 1),
    }


def summary(rows: list[dict[str, Any]], variant: str) -> str:
    """One line of the table."""
    ends = {(row["problem"], row["seed"]): row for row in rows if row["variant"] == variant}
    ours = {(row["problem"], row["seed"]): row for row in rows if row["variant"] == "default"}
    logs: dict[str, list[float]] = {}
    worse = better = 0
    for case in sorted(ends.keys() & ours.keys()):
        floor = FLOOR * ours[case]["initial"]
        without, default = (max(row[case]["regret"], floor) for row in (ends, ours))
        logs.setdefault(case[0], []).append(float(np.log(without / default)))
        worse += without > 1.02 * default
        better += without < default / 1.02
    if not logs:
        return f"| {variant} | – | – | – |"
    means = [float(np.mean(part)) for part in logs.values()]
    seconds = float(np.mean([ends[case]["seconds"] for case in ends]))
    runs = f"{worse} / {better} of {sum(map(len, logs.values()))}"
    return f"| {variant} | {with_interval(means)} | {runs} | {seconds:.0f} |"


def with_interval(logs: list[float]) -> str:
    """The geometric mean and its 95 % interval, from logarithms."""
    found = mean_interval(logs)
    if len(logs) < 2 or not any(logs):
        return f"{np.exp(found.value):.2f}"
    return f"{np.exp(found.value):.2f} [{np.exp(found.low):.2f}, {np.exp(found.high):.2f}]"


def of_all(rows: list[dict[str, Any]]) -> str:
    """The geometric mean over problems of (regret of the default / geometric mean of those without a part)."""
    cases: dict[tuple[str, int], dict[str, float]] = {}
    for row in rows:
        regret = max(row["regret"], FLOOR * row["initial"])
        cases.setdefault((row["problem"], row["seed"]), {})[row["variant"]] = float(np.log(regret))
    logs: dict[str, list[float]] = {}
    for (problem, _), values in cases.items():
        others = [value for variant, value in values.items() if variant.startswith("no ")]
        if others and "default" in values:
            logs.setdefault(problem, []).append(values["default"] - float(np.mean(others)))
    means = [float(np.mean(part)) for part in logs.values()]
    return f"| nothing, relative to the mean of the others | {with_interval(means)} | – | – |" if means else ""


def main() -> None:
    """Make the missing runs and print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=2)
    parser.add_argument("--first-seed", type=int, default=100)
    parser.add_argument("--problems", nargs="+", default=list(NAMES), choices=list(NAMES))
    parser.add_argument("--variants", nargs="+", default=list(VARIANTS), choices=list(VARIANTS))
    parser.add_argument("--results", type=Path, default=RESULTS_FILE)
    parser.add_argument("--show", action="store_true", help="only print the table")
    arguments = parser.parse_args()
    results = ResultsFile(arguments.results, KEY)
    seeds = range(arguments.first_seed, arguments.first_seed + arguments.seeds)
    if not arguments.show:
        for seed, problem, variant in itertools.product(seeds, arguments.problems, arguments.variants):
            results.add({"problem": problem, "variant": variant, "seed": seed}, run)
    rows = [row for row in results.rows if row["seed"] in seeds and row["problem"] in arguments.problems]
    print("| without | regret, relative | runs worse / better | CPU s a run |\n|---|---|---|---|")
    for variant in arguments.variants:
        print(summary(rows, variant))
    print(of_all(rows))


if __name__ == "__main__":
    main()
