"""Table 2 and Figure 2 of the paper: hyperparameters of a sparse GP and of a CNN, beside the printed figures.

Tests: tests/bench/test_table2.py.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from rich.markup import escape
from rich.table import Table

from dechbo.bench import methods, paper
from dechbo.bench.records import Run, RunRecord
from dechbo.bench.statistics import mean_interval, paired_difference
from dechbo.errors import OptionError

INITIAL = 10  # of the evaluations of a run


@dataclass(frozen=True)
class Experiment:
    """One of the two rows of Table 2."""

    name: str
    problem: str
    quantity: str  # what the method minimises
    methods: tuple[str, ...]
    evaluations: int  # of a run, initial points included
    printed: Mapping[str, float]  # of the paper
    remark: str


PIC = Experiment(
    "pic",
    "pic-1811",
    "validation RMSE",
    ("dechbo", "paper-mf2", "paper-mf3", "add-gp-ucb", "rembo", "random", "optuna-tpe"),
    100,
    {"paper-mf2": 4.0879, "paper-mf3": 4.0437, "add-gp-ucb": 4.1774, "rembo": 9.9100},
    "All 1,811 hyperparameters of a PIC sparse GP on 45,730 proteins: five-fold validation error.",
)
_CNN_METHODS = ("dechbo", "paper-mf2", "paper-mf3", "add-gp-ucb", "gp-ucb", "random", "optuna-tpe")
_CNN_PRINTED = {"paper-mf2": 0.0950, "paper-mf3": 0.1107, "add-gp-ucb": 0.1068}
CNN = Experiment(
    "cnn",
    "cnn-6",
    "validation error",
    _CNN_METHODS,
    40,
    _CNN_PRINTED,
    "Six hyperparameters of a CNN on CIFAR-10, at a small scale (docs/problems.md). The paper's figures, of whole "
    "trainings on 45,000 images, are not comparable.",
)
CNN_FULL = Experiment(
    "cnn-full",
    "cnn-6-full",
    "validation error",
    _CNN_METHODS,
    40,
    _CNN_PRINTED,
    "Six hyperparameters of a CNN on CIFAR-10, at the scale of the paper.",
)
EXPERIMENTS = {experiment.name: experiment for experiment in (PIC, CNN, CNN_FULL)}


def experiment(name: str, *, full: bool = False) -> Experiment:
    """The experiment "pic" or "cnn"; with ``full``, the latter at the scale of the paper."""
    if name not in ("pic", "cnn"):
        raise OptionError(f"--problem must be pic or cnn, got {name!r}")
    if full and name == "pic":
        raise OptionError("--full is for --problem cnn: pic has no small scale")
    return EXPERIMENTS["cnn-full" if full else name]


@dataclass(frozen=True)
class ExperimentRecords:
    """The records of an experiment: of ``seeds`` seeds and runs of ``evaluations`` evaluations."""

    experiment: Experiment
    evaluations: int
    seeds: int
    records: Mapping[str, Mapping[int, RunRecord]] = field(default_factory=dict)  # method -> seed -> record

    @classmethod
    def read(
        cls,
        results: Path,
        experiment: Experiment,
        *,
        seeds: int,
        evaluations: int | None = None,
        wanted: Sequence[str] = (),
    ) -> ExperimentRecords:
        """Of the ``wanted`` methods; if none is named, of those of the experiment."""
        total = evaluations or experiment.evaluations
        records: dict[str, dict[int, RunRecord]] = {}
        for method in wanted or experiment.methods:
            for seed in range(seeds):
                path = Run(experiment.problem, method, seed, INITIAL, total - INITIAL).path(results)
                if path.exists():
                    records.setdefault(method, {})[seed] = RunRecord.read(path)
        return cls(experiment, total, seeds, records)

    @property
    def all_records(self) -> list[RunRecord]:
        """Every record, method by method."""
        return [record for group in self.records.values() for record in group.values()]

    def finals(self, method: str) -> dict[int, float]:
        """The best value of every seed."""
        return {seed: record.final_regret for seed, record in self.records.get(method, {}).items()}

    @property
    def reported(self) -> tuple[str, ...]:
        """The names of what the problem reports of a best point."""
        return tuple(dict.fromkeys(name for record in self.all_records for name in record.report))

    def mean_report(self, method: str, name: str) -> float | None:
        """The mean over the seeds of a reported figure."""
        known = [record.report[name] for record in self.records[method].values() if name in record.report]
        return float(np.mean(known)) if known else None


def _head(rows: ExperimentRecords) -> list[str]:
    measured = ("default better by (95 %)", "s an ask", "s an evaluation", "peak MiB", "runs")
    return [rows.experiment.quantity, *rows.reported, "paper", *measured]


def _cells(rows: ExperimentRecords, method: str) -> list[str]:
    """The cells of a method after its label."""
    printed = rows.experiment.printed.get(method)
    paper_figure = "" if printed is None else f"{printed:.4f}"
    group = list(rows.records.get(method, {}).values())
    if not group:
        return ["–", *("–" for _ in rows.reported), paper_figure, "", "", "", "", "0"]
    finals = rows.finals(method)
    reports = [rows.mean_report(method, name) for name in rows.reported]
    gap = None if method == "dechbo" else paired_difference(finals, rows.finals("dechbo"))
    asks = np.concatenate([record.ask_seconds for record in group])
    evaluations = np.concatenate([record.evaluation_seconds for record in group])
    peaks = [record.peak_memory for record in group if record.peak_memory is not None]
    unfinished = sum(not record.finished for record in group)
    return [
        mean_interval(list(finals.values())).text(),
        *("–" if value is None else f"{value:.4g}" for value in reports),
        paper_figure,
        "" if gap is None else gap.text(3),
        f"{asks.mean():.2g}" if len(asks) else "–",
        f"{evaluations.mean():.2g}",
        f"{max(peaks)}" if peaks else "–",
        f"{len(group)}" + (f" ({unfinished} not finished)" if unfinished else ""),
    ]


def rich_table(rows: ExperimentRecords) -> Table:
    """One experiment for the terminal."""
    table = Table(title=f"Table 2, {rows.experiment.name}: {rows.seeds} seeds of {rows.evaluations} evaluations")
    table.add_column("method")
    for name in _head(rows):
        table.add_column(name, justify="right")
    for method in dict.fromkeys((*rows.experiment.methods, *rows.records)):
        cells = map(escape, _cells(rows, method))
        table.add_row(methods.label(method), *cells, style="bold" if method == "dechbo" else None)
    return table


def markdown(experiments: Sequence[ExperimentRecords]) -> str:
    """The page of Table 2."""
    lines = [
        "# Table 2: hyperparameters of a sparse GP and of a CNN",
        "",
        "Mean over seeds of the best value of a run, its 95 % interval by Student's t in brackets; then, for the same",
        "point, figures that no method saw. *Better by* is the mean of the paired differences to the default, with its",
        f"interval. The first {INITIAL} evaluations of a run are the same for every method. Seconds are by the clock,",
        "in one thread, and the machine may have been busy; the peak memory is that of a process, which may have made",
        "several runs before.",
    ]
    for rows in experiments:
        head = _head(rows)
        named = dict.fromkeys((*rows.experiment.methods, *rows.records))
        command = f"dechbo bench table2 --problem {rows.experiment.name.removesuffix('-full')} --seeds {rows.seeds}"
        command += " --full" if rows.experiment.name.endswith("-full") else ""
        command += f" --evaluations {rows.evaluations}" if rows.evaluations != rows.experiment.evaluations else ""
        lines += [
            "",
            f"## {rows.experiment.name}",
            "",
            f"{rows.experiment.remark} {rows.evaluations} evaluations.",
            "",
            "| method | " + " | ".join(head) + " |",
            "|" + "---|" * (len(head) + 1),
            *(f"| {methods.label(name)} | " + " | ".join(_cells(rows, name)) + " |" for name in named),
            "",
            *paper.provenance(rows.all_records, command),
        ]
    return "\n".join(lines).rstrip() + "\n"
