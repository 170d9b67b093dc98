"""Table 1 and Figure 1 of the paper: the printed figures next to the same figures from records.

Tests: tests/bench/test_paper.py.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from rich.markup import escape
from rich.table import Table

from dechbo.bench import methods
from dechbo.bench.records import Run, RunRecord, read_unavailable
from dechbo.bench.statistics import Summary, summarise

PROBLEMS = ("hartmann-6", "shekel-4", "michalewicz-10")

# regrets of Table 1, means over 5 runs of 150 iterations, in the order of PROBLEMS
PRINTED: dict[str, tuple[float, float, float]] = {
    "paper-mf2": (1.1436, 7.0538, 4.4944),
    "paper-mf3": (0.7904, 1.4295, 1.2367),
    "add-gp-ucb": (1.7898, 3.8338, 2.9870),
    "add-mes-g": (0.7268, 4.4951, 4.8227),
    "add-mes-r": (1.0372, 2.6858, 3.3296),
    "rembo": (1.5843, 5.1677, 4.0524),
}
BEST_PRINTED = tuple(min(column) for column in zip(*PRINTED.values(), strict=True))

ROWS = (
    "dechbo",
    "paper-mf1",
    "paper-mf2",
    "paper-mf3",
    "add-gp-ucb",
    "add-mes-g",
    "add-mes-r",
    "rembo",
    "gp-ucb",
    "random",
)
TIMED = ("gp-ucb", "add-gp-ucb", "paper-mf2", "paper-mf3", "dechbo")  # Figure 1a, and the default
DRAWN = ("paper-mf2", "paper-mf3", "add-gp-ucb", "add-mes-g", "add-mes-r", "dechbo")  # Figures 1b to 1d


@dataclass(frozen=True)
class Table1:
    """The methods of Table 1, and a summary of each problem and method that has runs."""

    rows: tuple[str, ...]
    summaries: dict[tuple[str, str], Summary]
    unavailable: dict[str, str]  # method -> reason
    records: tuple[RunRecord, ...]
    seeds: int

    def cell(self, method: str, problem: str) -> Summary | None:
        """The summary of a method on a problem; None without runs."""
        return self.summaries.get((problem, method))


def table1(results: Path, *, seeds: int, initial: int = 10, evaluations: int = 150) -> Table1:
    """Table 1 from records: the paper's methods and dechbo's, then every peer with runs or a reason for having none."""
    known = []
    for problem in PROBLEMS:
        for method in (*ROWS, *methods.GROUPS["peers"]):
            for seed in range(seeds):
                path = Run(problem, method, seed, initial, evaluations).path(results)
                if path.exists():
                    known.append(RunRecord.read(path))
    reasons = read_unavailable(results)
    with_runs = {record.run.method for record in known}
    peers = tuple(name for name in methods.GROUPS["peers"] if name in with_runs or name in reasons)
    return Table1((*ROWS, *peers), summarise(known), reasons, tuple(known), seeds)


def markdown(table: Table1, command: str) -> str:
    """Table 1 in Markdown: regrets with intervals, the paper's regrets, and how to reproduce the table."""
    titles = [problem.capitalize() for problem in PROBLEMS]
    head = ["method", *(f"{title} | paper" for title in titles), "CPU s a run", "runs"]
    count = len(" | ".join(head).split(" | "))
    lines = [
        "# Table 1: final regret",
        "",
        "Mean over seeds of min f - f*, its 95 % interval by Student's t in brackets, then the median. The columns",
        "*paper* repeat the paper's figures. Every method gets the same initial points for a seed. A run that crashed",
        "or ran out of time counts with the regret that it reached; such runs are listed in the last column.",
        "",
        "| " + " | ".join(head) + " |",
        "|" + "---|" * count,
        *("| " + " | ".join(_row(table, method)) + " |" for method in table.rows),
        "| *the paper's best row* | " + " | ".join(f" | {best:.4f}" for best in BEST_PRINTED) + " | | |",
        "",
        *_verdict(table),
        *_missing_and_unfinished(table),
        *provenance(table.records, command),
    ]
    return "\n".join(lines).rstrip() + "\n"


def rich_table(table: Table1) -> Table:
    """Table 1 for the terminal."""
    title = f"Table 1: mean final regret over {table.seeds} seeds [95 %], the paper's beside"
    rendered = Table(title=title)
    rendered.add_column("method")
    for problem in PROBLEMS:
        rendered.add_column(problem.capitalize(), justify="right")
        rendered.add_column("paper", justify="right", style="dim")
    for name in table.rows:
        cells = [methods.label(name)]
        for k, problem in enumerate(PROBLEMS):
            summary = table.cell(name, problem)
            cells.append("–" if summary is None else escape(summary.mean.text()))
            cells.append(f"{PRINTED[name][k]:.4f}" if name in PRINTED else "")
        rendered.add_row(*cells, style="bold" if name == "dechbo" else None)
    return rendered


def _row(table: Table1, method: str) -> list[str]:
    cells = [methods.label(method)]
    summaries = [table.cell(method, problem) for problem in PROBLEMS]
    for k, summary in enumerate(summaries):
        printed = PRINTED.get(method)
        paper = "" if printed is None else f"{printed[k]:.4f}"
        cells.append(("unavailable" if method in table.unavailable else "–") if summary is None else _figures(summary))
        cells.append(paper)
    with_runs = [summary for summary in summaries if summary is not None]
    cells.append(", ".join(f"{s.run_seconds:.3g}" for s in with_runs) or "–")
    cells.append(", ".join(_count(s) for s in with_runs) or "–")
    return cells


def _figures(summary: Summary) -> str:
    return f"{summary.mean.text()}; {summary.median:.3g}"


def _count(summary: Summary) -> str:
    crashed = f" ({summary.crashed} crashed)" if summary.crashed else ""
    return f"{summary.runs}{crashed}" + (f" ({summary.out_of_time} out of time)" if summary.out_of_time else "")


def _verdict(table: Table1) -> list[str]:
    """The default compared with the paper's best method on each function."""
    lines = []
    for problem, best in zip(PROBLEMS, BEST_PRINTED, strict=True):
        summary = table.cell("dechbo", problem)
        if summary is not None:
            reached = "at or below" if summary.mean.value <= best else "**above**"
            lines.append(
                f"- {problem}: the default's mean {summary.mean.value:.4g} is {reached} the paper's best {best}"
            )
    return ["The default and the paper's best row on each function:", "", *lines, ""] if lines else []


def _missing_and_unfinished(table: Table1) -> list[str]:
    lines = [f"- {methods.label(name)} ({name}): {reason}" for name, reason in table.unavailable.items()]
    unfinished = [f"- {r.run.key}: {r.status}" for r in table.records if not r.finished]
    missing = ["Unavailable:", "", *lines, ""] if lines else []
    return missing + (["Not finished:", "", *unfinished, ""] if unfinished else [])


def provenance(records: Sequence[RunRecord], command: str) -> list[str]:
    """The command, the machine, the dates and the versions, as lines of Markdown."""
    if not records:
        return [f"Made by `{command}`; there are no records yet."]
    machines = sorted({f"{r.machine.get('cpu')}, {r.machine.get('cores')} cores" for r in records if r.machine})
    dates = sorted({record.date for record in records if record.date})
    versions: dict[str, set[str]] = {}
    for record in records:
        for name, version in record.versions.items():
            versions.setdefault(name, set()).add(version)
    shown = ", ".join(f"{name} {' / '.join(sorted(found))}" for name, found in versions.items())
    span = dates[0] if dates[:1] == dates[-1:] else f"{dates[0]} to {dates[-1]}"
    return [f"Made by `{command}` on {'; '.join(machines)}, one thread a run, {span}.", "", f"Versions: {shown}."]
