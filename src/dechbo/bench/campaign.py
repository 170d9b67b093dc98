"""A campaign: all runs of problems × methods × seeds that are not there yet."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from rich.console import Console
from rich.table import Table

from dechbo.bench import methods, paper, problems
from dechbo.bench.methods import chosen
from dechbo.bench.parallel import run_all
from dechbo.bench.progress import Progress
from dechbo.bench.records import FINISHED, BenchError, Journal, Record, Run, absent, write_absent
from dechbo.errors import DechboError, OptionError

__all__ = ["chosen", "problems_of", "run", "run_rows", "shown"]


def problems_of(text: str, *, skip_missing: bool = False, console: Console | None = None) -> tuple[str, ...]:
    """The problems of a comma list of suites and problems, each tried once: better now than in a worker."""
    found: dict[str, None] = {}
    for part in (part.strip() for part in text.split(",")):
        if part in problems.SUITES:
            found.update(dict.fromkeys(name.lower() for name in problems.SUITES[part]))
        elif part.lower() in {name.lower() for name in problems.names()}:
            found[part.lower()] = None
        elif part:
            raise OptionError(
                f"no suite or problem is called {part!r}; suites are {', '.join(problems.SUITES)}, "
                f"problems {', '.join(problems.names())}"
            )
    usable = []
    for name in found:
        try:
            problems.problem(name, 0)
            usable.append(name)
        except DechboError as error:
            if not skip_missing:
                raise BenchError(f"{name}: {error} (--skip-missing leaves it out)") from error
            (console or Console()).print(f"[yellow]left out {name}: {error}[/]")
    if not usable:
        raise OptionError(f"no problem is left of {text!r}")
    return tuple(usable)


def run(
    problem_names: Sequence[str],
    method_names: Sequence[str],
    *,
    seeds: int,
    workers: int,
    evaluations: int,
    initial: int,
    cpu_limit: float | None,
    results: Path,
    force: bool = False,
    retry: bool = False,
    console: Console | None = None,
) -> bool:
    """Make what is missing; True if every run has its record now, whatever its status."""
    console = console or Console()
    present = _present(method_names, results, console)
    wanted = [
        Run(problem, method, seed, initial, evaluations)
        for seed in range(seeds)
        for problem in problem_names
        for method in present
    ]
    runs = [run for run in wanted if force or _is_missing(run, results, retry)]
    if force:
        for one in runs:
            with Journal(results, one) as journal:
                journal.remove()
    with Progress(console, runs, workers, skipped=len(wanted) - len(runs)) as progress:
        try:
            run_all(runs, results, workers=workers, cpu_limit=cpu_limit, progress=progress)
        except KeyboardInterrupt:
            stopped = True
        else:
            stopped = False
    for one, status in progress.troubles:
        console.print(f"[yellow]{one.key}: {status}[/]", soft_wrap=True)
    if stopped:
        console.print("stopped; every finished evaluation is kept: the same command goes on from there")
        return False
    console.print(f"{len(wanted)} runs have their records under {results}")
    return all(one.path(results).exists() for one in wanted)


def _is_missing(run: Run, results: Path, retry: bool) -> bool:
    path = run.path(results)
    return not path.exists() or (retry and Record.read(path).status != FINISHED)


def _present(names: Sequence[str], results: Path, console: Console) -> list[str]:
    """The methods that can run here; absent peers are said so, and kept for the tables."""
    reasons = absent(results)
    here = []
    for name in names:
        reason = methods.absent(name)
        if reason is None:
            here.append(name)
            reasons.pop(name, None)
        else:
            reasons[name] = reason
            console.print(f"[yellow]{name} is absent: {reason}[/]", soft_wrap=True)
    write_absent(results, reasons)
    if not here:
        raise BenchError(f"none of {', '.join(names)} can run here: see dechbo bench peers")
    return here


def run_rows(
    names: Sequence[str], *, seeds: int, workers: int, evaluations: int, results: Path, console: Console | None = None
) -> None:
    """Make the missing runs of the paper's three functions; a stop ends the command."""
    settings = {"seeds": seeds, "workers": workers, "evaluations": evaluations, "initial": 10, "results": results}
    if not run(paper.PROBLEMS, names, cpu_limit=None, console=console, **settings):  # type: ignore[arg-type]
        raise BenchError("not every run has its record: the same command goes on where it was")


def shown(table: paper.Table1) -> Table:
    """Table 1 for the terminal."""
    made = Table(title=f"Table 1: mean final regret over {table.seeds} seeds [95 %], the paper's beside")
    made.add_column("method")
    for problem in paper.PROBLEMS:
        made.add_column(problem.capitalize(), justify="right")
        made.add_column("paper", justify="right", style="dim")
    for name in table.rows:
        cells = [methods.label(name)]
        for k, problem in enumerate(paper.PROBLEMS):
            summary = table.cell(name, problem)
            mean = None if summary is None else summary.mean
            cells.append("–" if mean is None else f"{mean.value:.4f} [dim]{mean.low:.2f}–{mean.high:.2f}[/]")
            cells.append(f"{paper.PRINTED[name][k]:.4f}" if name in paper.PRINTED else "")
        made.add_row(*cells, style="bold" if name == "dechbo" else None)
    return made
