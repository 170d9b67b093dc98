"""What the learned graph says of PIC-1811: the runs of the default, and the eleven kernel hyperparameters alone.

    DECHBO_DATA=… python benchmarks/pic_interactions.py --seeds 3

The points of a run are not in its record, so each run is repeated from its seed with the recorded values (a minute and
a half each); then the graph over all 1,811 hyperparameters is learned from its 100 evaluations. For the kernel alone,
the inducing inputs stay at those of the best run, and 150 settings of the other eleven are drawn at random. Writes
benchmarks/pic_interactions.md.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from dechbo import Optimizer, Space
from dechbo.bench.problems import Problem, problem
from dechbo.bench.records import Run, RunRecord, machine
from dechbo.bench.runner import initial_params
from dechbo.interactions import Interaction, Interactions, from_table

RESULTS = Path(__file__).parent / "results"
PAGE = Path(__file__).parent / "pic_interactions.md"
INITIAL, TOTAL = 10, 100
SETTINGS = 150
NAMES = {"signal": "signal variance", "noise": "noise variance", **{f"l{j}": f"lengthscale {j}" for j in range(1, 10)}}


def repeated(record: RunRecord) -> Optimizer:
    """The optimizer after the run of ``record``."""
    run, space = record.run, problem(record.run.problem, record.run.seed).space
    optimizer = Optimizer(space, seed=run.seed, n_initial=run.initial)
    for params, value in zip(initial_params(space, run), record.values, strict=False):
        optimizer.tell(params, value)
    for value in record.values[run.initial :]:
        optimizer.tell(optimizer.ask(), value)
    best = optimizer.best
    assert best is not None
    if dict(best.params) != dict(record.best_params or {}):
        raise SystemExit(f"{run.key}: repeated on another machine or version, it asks for other points")
    return optimizer


def in_kernel(scope: Sequence[str]) -> int:
    """How many parameters of a scope belong to the kernel."""
    return sum(name in NAMES for name in scope)


def line(found: Interaction) -> str:
    names = " × ".join(NAMES.get(name, name) for name in found.scope)
    return f"| {names} | {found.share:.1%} | {found.probability:.0%} |"


def effects(found: Interactions) -> list[str]:
    """The shares of single parameters, of the inducing inputs together, and of interactions."""
    single = {each.scope[0]: each.share for each in found if len(each.scope) == 1}
    kernel = sorted(((share, name) for name, share in single.items() if name in NAMES), reverse=True)
    inducing = sum(share for name, share in single.items() if name not in NAMES)
    together = sum(each.share for each in found if len(each.scope) > 1)
    lines = [f"| {NAMES[name]} | {share:.1%} |" for share, name in kernel]
    if len(single) > len(NAMES):
        lines.append(f"| all 1,800 coordinates of inducing inputs | {inducing:.1%} |")
    return ["| alone | share of the variance |", "|---|---|", *lines, f"| interactions | {together:.1%} |"]


def likely(found: Interactions) -> list[str]:
    """Interactions with a probability of at least 0.5."""
    pairs = [each for each in found if len(each.scope) > 1 and each.probability >= 0.5]
    if not pairs:
        return ["No interaction is likelier than not: no evidence for any."]
    return ["| interaction | share of the variance | probability |", "|---|---|---|", *map(line, pairs)]


def counts(found: Interactions) -> str:
    """How many likely interactions there are of each kind."""
    pairs = [each for each in found if len(each.scope) > 1 and each.probability >= 0.5]
    kinds = [(in_kernel(each.scope), len(each.scope)) for each in pairs]
    inside, outside = sum(k == n for k, n in kinds), sum(k == 0 for k, _ in kinds)
    return f"{inside} within the kernel, {len(kinds) - inside - outside} across, {outside} among inducing inputs"


def kernel_settings(instance: Problem, record: RunRecord) -> tuple[Space, list[dict[str, Any]], list[float]]:
    """Random settings of the kernel, with the inducing inputs of the best point, and their values."""
    space = Space({name: instance.space[name] for name in NAMES})
    rng = np.random.default_rng(1811)
    rows = [space.decode(rng.random(space.dim)) for _ in range(SETTINGS)]
    values = []
    for k, row in enumerate(rows):
        values.append(instance({**(record.best_params or {}), **row}))
        print(f"\r{k + 1} of {SETTINGS} settings of the kernel", end="", flush=True)
    print()
    return space, rows, values


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=3)
    seeds = parser.parse_args().seeds
    runs = [Run("pic-1811", "dechbo", seed, INITIAL, TOTAL - INITIAL) for seed in range(seeds)]
    records = [RunRecord.read(run.path(RESULTS)) for run in runs]
    best = min(records, key=lambda record: record.final_regret)
    page = [
        "# What the learned graph says of PIC-1811",
        "",
        f"Made by `python benchmarks/pic_interactions.py --seeds {seeds}` on {machine()['cpu']}, {machine()['cores']} "
        "cores. The objective is the validation error of a sparse GP with 1,811 hyperparameters "
        "([docs/problems.md](../docs/problems.md)); its runs are those of [table2.md](table2.md).",
        "",
        "## The kernel alone",
        "",
        f"{SETTINGS} random settings of the eleven kernel hyperparameters; the inducing inputs stay at those of the "
        f"best run (seed {best.run.seed}).",
        "",
    ]
    space, rows, values = kernel_settings(problem("pic-1811", best.run.seed), best)
    found = from_table(rows, values, space)
    page += [*effects(found), "", *likely(found), "", f"Chains {'' if found.converged else 'not '}converged.", ""]
    for record in records:
        optimizer = repeated(record)
        found = optimizer.interactions()
        page += [
            f"## All 1,811, from the 100 evaluations of the run with seed {record.run.seed}",
            "",
            f"Best validation error {record.final_regret:.4f}. Likely interactions: {counts(found)}. Chains "
            f"{'' if found.converged else 'not '}converged.",
            "",
            *effects(found),
            "",
            *likely(Interactions(found[:60], converged=found.converged)),
            "",
        ]
        print(f"seed {record.run.seed}: {counts(found)}", flush=True)
    PAGE.write_text("\n".join(page).rstrip() + "\n", encoding="utf-8")
    print(f"written to {PAGE.name}")


if __name__ == "__main__":
    main()
