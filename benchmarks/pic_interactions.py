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
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from dechbo import Optimizer, Space
from dechbo.bench.problems import Problem, problem
from dechbo.bench.records import Run, RunRecord, machine
from dechbo.bench.runner import initial_params
from dechbo.data.evaluation import Evaluation
from dechbo.gp import Ensemble
from dechbo.interactions import THOROUGH, Interaction, Interactions, interactions_of, sobol_shares
from dechbo.models.builder import ModelBuilder
from dechbo.models.options import ModelOptions
from dechbo.structure import StructureOptions

RESULTS = Path(__file__).parent / "results"
PAGE = Path(__file__).parent / "pic_interactions.md"
INITIAL, TOTAL = 10, 100
READING = """\
## How to read this

- **Signal × noise is true.** The mean prediction of a Gaussian process depends on the two variances by their ratio
  only, so what one of them does depends on the other. 150 random settings are enough to find that, with a
  probability of 100 %; the lengthscales act alone as far as these settings tell.
- **A hundred evaluations of 1,811 parameters tell nothing about single inducing inputs.** Their coordinates share what
  the model cannot explain otherwise; another seed names others, most chains have not converged, and hardly an
  interaction is likelier than not. The kernel's own interaction is not found from these points, which the search has
  crowded around the best ones.
"""  # of the figures of 2026-11-18
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


@dataclass(frozen=True)
class Learned:
    """The interactions found, and the share of every factor in the variance, single parameters included."""

    found: Interactions
    shares: dict[tuple[str, ...], float]

    @classmethod
    def of(cls, space: Space, evaluations: Sequence[Evaluation], options: StructureOptions) -> Learned:
        builder = ModelBuilder(space, "learned", 0, -1.0, options=ModelOptions(structure=options))
        model = builder.structure_model(evaluations, [space.encode(each.params) for each in evaluations])
        assert isinstance(model.gp, Ensemble)
        shares: dict[tuple[str, ...], float] = {}
        for weight, member in zip(model.gp.weights, model.gp.members, strict=True):
            for scope, share in sobol_shares(member, model.data).items():
                names = tuple(space.names[i] for i in scope)
                shares[names] = shares.get(names, 0.0) + weight * share
        return cls(interactions_of(model, space.names), shares)


def effects(learned: Learned) -> list[str]:
    """The shares of single parameters, of the inducing inputs together, and of interactions."""
    single = {scope[0]: share for scope, share in learned.shares.items() if len(scope) == 1}
    kernel = sorted(((share, name) for name, share in single.items() if name in NAMES), reverse=True)
    lines = [f"| {NAMES[name]} | {share:.1%} |" for share, name in kernel if share >= 0.01]
    if len(kernel) > len(lines):
        rest = sum(share for share, _ in kernel if share < 0.01)
        lines.append(f"| {len(kernel) - len(lines)} others of the kernel, together | {rest:.1%} |")
    if len(single) > len(NAMES):
        inducing = [share for name, share in single.items() if name not in NAMES]
        lines.append(f"| 1,800 coordinates of inducing inputs, together | {sum(inducing):.1%} |")
        lines.append(f"| the largest of these | {max(inducing):.1%} |")
    together = sum(share for scope, share in learned.shares.items() if len(scope) > 1)
    return ["| effect | share of the variance |", "|---|---|", *lines, f"| interactions, together | {together:.1%} |"]


def likely(found: Interactions) -> list[str]:
    """Interactions with a probability of at least 0.5."""
    pairs = [each for each in found if len(each.scope) > 1 and each.probability >= 0.5]
    if not pairs:
        best = max((each for each in found if len(each.scope) > 1), key=lambda each: each.probability, default=None)
        names = "" if best is None else " × ".join(NAMES.get(name, name) for name in best.scope)
        most = "" if best is None else f" The likeliest, {names}, has a probability of {best.probability:.0%}."
        return [f"No interaction is likelier than not.{most}"]
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
    told = [Evaluation.of(space.native(row), value) for row, value in zip(rows, values, strict=True)]
    learned = Learned.of(space, told, THOROUGH)
    found = learned.found
    page += [*effects(learned), "", *likely(found), "", f"Chains {'' if found.converged else 'not '}converged.", ""]
    for record in records:
        optimizer = repeated(record)
        learned = Learned.of(optimizer.space, optimizer.evaluations, StructureOptions())
        found = learned.found
        page += [
            f"## All 1,811, from the 100 evaluations of the run with seed {record.run.seed}",
            "",
            f"Best validation error {record.final_regret:.4f}. Likely interactions: {counts(found)}. Chains "
            f"{'' if found.converged else 'not '}converged.",
            "",
            *effects(learned),
            "",
            *likely(Interactions(found[:60], converged=found.converged)),
            "",
        ]
        print(f"seed {record.run.seed}: {counts(found)}", flush=True)
    PAGE.write_text("\n".join(page).rstrip() + "\n\n" + READING, encoding="utf-8")
    print(f"written to {PAGE.name}")


if __name__ == "__main__":
    main()
