"""All methods on all problems: mean final values, average ranks, and paired differences from one method.

It takes whatever records there are. On a problem, the methods with at least MIN_SEEDS seeds are ranked within each seed
that all of them have; the others are shown without a rank. Where k of M methods are ranked, a rank r counts as
1 + (r - 1) (M - 1) / (k - 1), so that averages over different problems can be compared. Tests: test_ranking.py.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from rich.table import Table
from scipy import stats

from dechbo.bench import methods, paper, problems
from dechbo.bench.records import RunRecord
from dechbo.bench.statistics import (
    Comparison,
    Finals,
    Summary,
    compare,
    final_regrets,
    paired_difference,
    summarise,
)

Array = NDArray[np.float64]

MIN_SEEDS = 3  # of a method, to be ranked on a problem where another one has as many
UNRANKED = "†"
COMPARED = (
    "dechbo",
    "random",
    "optuna-tpe",
    "optuna-cmaes",
    "optuna-gp",
    "botorch-logei",
    "botorch-ucb",
    "turbo-1",
)  # with records on most problems


@dataclass(frozen=True)
class Ranking:
    """The rows are ``problems``, the columns ``methods``."""

    problems: tuple[str, ...]
    methods: tuple[str, ...]
    records: tuple[RunRecord, ...]  # one budget a problem
    summaries: dict[tuple[str, str], Summary]
    finals: Finals
    seeds: dict[str, tuple[int, ...]]  # on which the methods of a problem are ranked
    ranks: Array  # (problems, methods), NaN where not ranked

    @property
    def average(self) -> Array:
        """(methods,) mean rank over the problems where a method is ranked; NaN without any."""
        return _column_means(self.ranks)

    @property
    def counts(self) -> NDArray[np.int64]:
        """(methods,) the number of problems where a method is ranked."""
        return np.asarray(np.isfinite(self.ranks).sum(axis=0))

    @property
    def cpu_seconds(self) -> Array:
        """(methods,) CPU seconds of all asks of a run, geometric mean over the problems where a method is ranked."""
        times = np.full(self.ranks.shape, np.nan)
        for row, column in zip(*np.nonzero(np.isfinite(self.ranks)), strict=True):
            summary = self.summaries[self.problems[row], self.methods[column]]
            times[row, column] = np.log(max(summary.run_seconds, 1e-4))
        return np.exp(_column_means(times))

    @property
    def longest_asks(self) -> Array:
        """(methods,) the longest ask over the mean ask of a run, in CPU time: geometric mean over runs; NaN without."""
        logs: list[list[float]] = [[] for _ in self.methods]
        for record in self.records:
            asks = np.array(record.ask_cpu)
            if len(asks) and asks.mean() > 0:
                logs[self.methods.index(record.run.method)].append(float(np.log(asks.max() / asks.mean())))
        return np.array([np.exp(np.mean(part)) if part else np.nan for part in logs])

    def against(self, control: str) -> dict[str, Comparison]:
        """Wilcoxon's test of ``control`` and each other method, over the problems where both are ranked, with Holm."""
        if control not in self.methods or not self.counts[self.methods.index(control)]:
            return {}
        ranked = [name for name, count in zip(self.methods, self.counts, strict=True) if count]
        chosen = self.ranks[:, [self.methods.index(name) for name in ranked]]
        return {test.second: test for test in compare(chosen, ranked, control=control)}


def _column_means(values: Array) -> Array:
    known = np.isfinite(values)
    counts = known.sum(axis=0)
    totals = np.where(known, values, 0.0).sum(axis=0)
    return np.asarray(np.divide(totals, counts, out=np.full(len(counts), np.nan), where=counts > 0))


def rank(records: Iterable[RunRecord], *, names: Sequence[str], suite: Sequence[str], first_seed: int = 0) -> Ranking:
    """Rank the methods ``names`` on the problems ``suite``, by the seeds from ``first_seed`` on, a hundred at most."""
    wanted = [
        record
        for record in records
        if record.run.method in names
        and record.run.problem in suite
        and first_seed <= record.run.seed < first_seed + 100
    ]
    known = tuple(_one_budget(wanted))
    finals = final_regrets(known)
    rows = tuple(name for name in suite if name in finals)
    columns = tuple(name for name in names if any(name in finals[problem] for problem in rows))
    ranks = np.full((len(rows), len(columns)), np.nan)
    seeds: dict[str, tuple[int, ...]] = {}
    for row, problem in enumerate(rows):
        ranked, seeds[problem] = _ranked(finals, problem)
        if len(ranked) < 2 or not seeds[problem]:
            continue
        values = [[finals[problem][method][seed] for method in ranked] for seed in seeds[problem]]
        mean = stats.rankdata(np.array(values), axis=1).mean(axis=0)
        ranks[row, [columns.index(method) for method in ranked]] = 1 + (mean - 1) * (len(columns) - 1) / (
            len(ranked) - 1
        )
    return Ranking(rows, columns, known, summarise(known), finals, seeds, ranks)


def _one_budget(records: Sequence[RunRecord]) -> Iterable[RunRecord]:
    """The records of the budget that most records of a problem have; of two, the larger."""
    counts = Counter((r.run.problem, r.run.total, r.run.initial) for r in records)
    best: dict[str, tuple[int, int, int]] = {}
    for (problem, total, initial), count in counts.items():
        best[problem] = max(best.get(problem, (0, 0, 0)), (count, total, initial))
    return (r for r in records if (r.run.total, r.run.initial) == best[r.run.problem][1:])


def _ranked(finals: Finals, problem: str) -> tuple[list[str], tuple[int, ...]]:
    """The methods that have enough seeds, and the seeds that all of them have."""
    by_method = finals[problem]
    enough = min(MIN_SEEDS, max(map(len, by_method.values())))
    ranked = [method for method, by_seed in by_method.items() if len(by_seed) >= enough]
    return ranked, tuple(sorted(set.intersection(*(set(by_method[method]) for method in ranked))))


# ------------------------------------------------------------------- tables


def table_rows(ranking: Ranking, control: str) -> list[list[str]]:
    """A row of mean final values and numbers of seeds per problem, then average rank, tests and times."""
    rows = []
    for row, problem in enumerate(ranking.problems):
        run = next(record.run for record in ranking.records if record.run.problem == problem)
        cells = [_cell(ranking, row, column) for column in range(len(ranking.methods))]
        rows.append([f"{problems.title(problem)}, {run.initial} + {run.evaluations}", *cells])
    tests = ranking.against(control)
    average = [f"{value:.2f}" if np.isfinite(value) else "–" for value in ranking.average]
    rows.append(["average rank", *average])
    rows.append(["problems ranked", *map(str, ranking.counts.tolist())])
    rows.append(
        [f"Wilcoxon against {control}: p, Holm's in brackets", *(_test(tests.get(name)) for name in ranking.methods)]
    )
    for heading, values in (("CPU s a run", ranking.cpu_seconds), ("longest ask / mean ask", ranking.longest_asks)):
        rows.append([heading, *(f"{value:.3g}" if np.isfinite(value) else "–" for value in values)])
    return rows


def _cell(ranking: Ranking, row: int, column: int) -> str:
    problem, method = ranking.problems[row], ranking.methods[column]
    summary = ranking.summaries.get((problem, method))
    if summary is None:
        return "–"
    unfinished = summary.crashed + summary.out_of_time
    notes = [str(summary.runs), *([f"{unfinished} unfinished"] if unfinished else [])]
    mark = "" if np.isfinite(ranking.ranks[row, column]) else UNRANKED
    return f"{summary.mean.value:.4g} ({', '.join(notes)}){mark}"


def _test(test: Comparison | None) -> str:
    return "" if test is None else f"{test.p:.2g} ({test.adjusted:.2g})"


def difference_rows(ranking: Ranking, control: str) -> list[list[str]]:
    """A row per problem: the mean of control - method over common seeds, its interval, and their number."""
    others = [name for name in ranking.methods if name != control]
    rows = []
    for problem in ranking.problems:
        by_method = ranking.finals[problem]
        if control not in by_method:
            continue
        cells = []
        for name in others:
            gap = paired_difference(by_method[control], by_method.get(name, {}))
            count = len(set(by_method[control]) & set(by_method.get(name, {})))
            text = "–" if gap is None else f"{gap.text(3)} ({count})"
            cells.append(f"**{text}**" if gap is not None and gap.low > 0 else text)
        rows.append([problems.title(problem), *cells])
    return rows


def markdown(ranking: Ranking, control: str, command: str) -> str:
    """Both tables as a page."""
    labels = [methods.label(name) for name in ranking.methods]
    others = [methods.label(name) for name in ranking.methods if name != control]
    differences = difference_rows(ranking, control)
    lines = [
        "# Ranks of all methods",
        "",
        "Mean final regret of each method (the mean final value where the optimum is unknown), and the number of",
        f"seeds in brackets. On each problem, methods with at least {MIN_SEEDS} seeds are ranked within each seed that",
        f"all of them have (1 is best); {UNRANKED} marks the others. Where a method is missing, ranks are stretched to",
        "the full number of methods. Wilcoxon's signed-rank test compares two methods over the problems where both",
        "are ranked, with Holm's correction. CPU seconds are those of all asks of a run, geometric mean over problems;",
        "the longest ask of a run is compared with the mean one in CPU time, geometric mean over runs.",
        "",
        *_markdown_table(["problem", *labels], table_rows(ranking, control)),
        "",
    ]
    if differences:
        lines += [
            f"## Differences from {methods.label(control)}",
            "",
            "Mean of its final value minus that of the other method over the seeds that both have, the 95 % interval",
            "of it by Student's t, and the number of these seeds. Below 0 it is better; where the whole interval lies",
            "above 0 the cell is **bold**.",
            "",
            *_markdown_table(["problem", *others], differences),
            "",
        ]
    lines += paper.provenance(ranking.records, command)
    return "\n".join(lines).rstrip() + "\n"


def _markdown_table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    return ["| " + " | ".join(row) + " |" for row in (head, ["---"] * len(head), *rows)]


def rich_table(ranking: Ranking, control: str) -> Table:
    """The table of mean final values for the terminal."""
    table = Table("problem", title="Mean final regret or value (seeds), and average ranks")
    for name in ranking.methods:
        table.add_column(name, justify="right", style="bold" if name == control else None, no_wrap=True)
    for row in table_rows(ranking, control):
        table.add_row(*row)
    return table
