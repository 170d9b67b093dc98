"""How well the committee forecasts the next value, by the rule that weighs its members.

    python benchmarks/weights.py                             # missing runs, then the table
    python benchmarks/weights.py --problems Levy-10 hills    # some problems
    python benchmarks/weights.py --show                      # only the table

A run of the default on a development problem (see ``ablation.py``) is cut into stretches of ten evaluations. The
members fitted before a stretch give a log density to each of its values, given the values before it. A rule weighs the
members by what was known then: these densities up to the value, those of the two stretches before, and the members'
leave-one-out densities at the fit. The table has the mean log density of the mixture for each rule, over the values of
a run and then over the runs, in units of the standardised values; a density below e^-8 counts as that. A finished run
is one line of ``results/weights.jsonl``.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ablation import BUDGET, BUDGETS, NAMES, SHORT, SHORT_BUDGET, load
from dechbo import Optimizer
from dechbo.bench.records import Run
from dechbo.bench.runner import initial_params
from dechbo.gp.additive import leave_one_out
from dechbo.models.committee import LEAVE_ONE_OUT_SHARE, MIN_FORECAST, MIN_WEIGHT, SMOOTHING
from dechbo.models.fits import FORECAST_BLOCKS, cold_size
from dechbo.models.options import MEMBERS
from results_file import RESULTS, ResultsFile

Array = NDArray[np.float64]
Rule = Callable[[Array, Array, int], Array]  # of forecasts (m, k), sums of leave-one-out densities (m,), evaluations

RESULTS_FILE = RESULTS / "weights.jsonl"
KEY = ("problem", "seed")
WORST = -8.0  # nats
STEPS = 30  # of the iteration for stacked weights


def run(problem: str, seed: int) -> dict[str, Any]:
    """The densities of every stretch of one run: leave-one-out sums (m,), then forecasts (m, 10) of its values."""
    space, function, _, _ = load(problem, seed)
    initial, evaluations = BUDGETS.get(problem, SHORT_BUDGET if problem in SHORT else BUDGET)
    optimizer = Optimizer(space, seed=seed, n_initial=initial)
    for params in initial_params(space, Run(problem.lower(), "dechbo", seed, initial, evaluations)):
        optimizer.tell(params, function(params))
    left_out: list[list[float]] = []
    forecasts: list[list[list[float]]] = []
    for n in range(initial, initial + evaluations):
        params = optimizer.ask()
        if cold_size(n) == n:
            state = optimizer._beliefs.state
            assert state.committee is not None
            assert state.fits.cold is not None
            if left_out:  # what the cold fit before this one forecast for the values since
                forecasts.append(np.round(state.fits.cold.earlier[-1], 4).tolist())
            sums = [leave_one_out(p.L, p.alpha).sum() for p in state.committee[1].posteriors]
            left_out.append(np.round(sums, 3).tolist())
        optimizer.tell(params, function(params))
    return {"first": initial, "left_out": left_out[: len(forecasts)], "forecasts": forecasts}


def powers(power: float, least: float, share: float) -> Rule:
    """Products of densities to a power, as the committee has them with the power 1."""

    def weights(forecasts: Array, left_out: Array, n: int) -> Array:
        totals = power * (share * left_out + np.maximum(forecasts, least).sum(axis=1))
        shares = np.exp(totals - totals.max())
        answer: Array = (n * shares / shares.sum() + SMOOTHING) / (n + SMOOTHING * len(shares))
        return answer

    return weights


def stacked(prior: float) -> Rule:
    """The mixture that would have forecast best, with ``prior`` values of each member on top (a Dirichlet prior)."""

    def weights(forecasts: Array, _: Array, __: int) -> Array:
        densities = np.exp(np.maximum(forecasts, WORST))
        many, k = densities.shape
        answer: Array = np.full(many, 1 / many)
        for _step in range(STEPS):
            parts = answer[:, None] * densities
            answer = (prior + (parts / parts.sum(axis=0)).sum(axis=1)) / (many * prior + k)
        return answer

    return weights


RULES: dict[str, Rule] = {
    "the committee's": powers(1.0, MIN_FORECAST, LEAVE_ONE_OUT_SHARE),
    "leave-one-out alone": lambda forecasts, left_out, n: powers(1.0, 0.0, 1.0)(forecasts[:, :0], left_out, n),
    "forecasts of at least -5 nats": powers(1.0, -5.0, LEAVE_ONE_OUT_SHARE),
    **{f"the same to the power {power}": powers(power, -5.0, LEAVE_ONE_OUT_SHARE) for power in (0.3, 0.1, 0.05)},
    "stacked forecasts": stacked(1.0),
    "equal": lambda forecasts, left_out, n: np.full(len(left_out), 1 / len(left_out)),
    **{
        f"only {name}": lambda forecasts, left_out, n, k=k: np.eye(len(MEMBERS))[k]  # type: ignore[misc]
        for k, name in enumerate(MEMBERS)
    },
}


def mean_density(row: dict[str, Any], rule: Rule) -> float:
    """The mean log density that the mixture gave to the values of a run."""
    stretches = [np.array(part) for part in row["forecasts"]]
    found = []
    for k, (own, left_out) in enumerate(zip(stretches, row["left_out"], strict=True)):
        before = stretches[max(0, k - FORECAST_BLOCKS) : k]
        for j in range(own.shape[1]):
            known = np.hstack([*before, own[:, :j]])
            weights = rule(known, np.array(left_out), row["first"] + 10 * k + j)
            counting = weights >= min(MIN_WEIGHT, weights.max())
            logs = np.log(weights[counting] / weights[counting].sum()) + own[counting, j]
            found.append(max(WORST, float(np.logaddexp.reduce(logs))))
    return float(np.mean(found))


def main() -> None:
    """Make the missing runs and print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seed", type=int, default=120, help="100 or more")
    parser.add_argument("--problems", nargs="+", default=list(NAMES), choices=list(NAMES))
    parser.add_argument("--results", type=Path, default=RESULTS_FILE)
    parser.add_argument("--show", action="store_true", help="only print the table")
    arguments = parser.parse_args()
    results = ResultsFile(arguments.results, KEY)
    if not arguments.show:
        for problem in arguments.problems:
            results.add({"problem": problem, "seed": arguments.seed}, run)
    rows = [row for row in results.rows if row["problem"] in arguments.problems]
    usual = [mean_density(row, RULES["the committee's"]) for row in rows]
    print(f"| weights | nats a value, mean of {len(rows)} runs | runs better / worse |\n|---|---|---|")
    for name, rule in RULES.items():
        densities = [mean_density(row, rule) for row in rows]
        better = sum(own > other for own, other in zip(densities, usual, strict=True))
        worse = sum(own < other for own, other in zip(densities, usual, strict=True))
        print(f"| {name} | {np.mean(densities):.2f} | {better} / {worse} |")


if __name__ == "__main__":
    main()
