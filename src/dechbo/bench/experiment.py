"""An experiment: all runs of problems x methods x seeds that have no record yet (tests: test_commands.py)."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from rich.console import Console

from dechbo.bench import methods, paper, problems
from dechbo.bench.parallel import run_all
from dechbo.bench.progress import BenchProgress
from dechbo.bench.records import FINISHED, BenchError, Journal, Run, RunRecord, read_unavailable, write_unavailable
from dechbo.errors import DechboError, OptionError


def available_problems(text: str, *, skip_missing: bool = False, console: Console | None = None) -> tuple[str, ...]:
    """The problems of a comma-separated list of suites and problems, after building each one once.

    A missing package or data file is an error here, before any run, unless ``skip_missing``.
    """
    available = []
    for name in problems.parse_names(text):
        try:
            problems.problem(name, 0)
            available.append(name)
        except DechboError as error:
            if not skip_missing:
                raise BenchError(f"{name}: {error} (--skip-missing leaves it out)") from error
            (console or Console()).print(f"left out {name}: {error}", style="yellow", markup=False)
    if not available:
        raise OptionError(f"no problem is left of {text!r}")
    return tuple(available)


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
    first_seed: int = 0,
    force: bool = False,
    retry: bool = False,
    console: Console | None = None,
) -> bool:
    """Execute the missing runs of ``seeds`` seeds; True if every run has a record now, whatever its status."""
    console = console or Console()
    available = _available_methods(method_names, results, console)
    wanted = [
        Run(problem, method, seed, initial, evaluations)
        for seed in range(first_seed, first_seed + seeds)
        for problem in problem_names
        for method in available
    ]
    runs = [run for run in wanted if force or _is_missing(run, results, retry)]
    if force:
        for one in runs:
            with Journal(results, one) as journal:
                journal.remove()
    with BenchProgress(console, runs, workers, skipped=len(wanted) - len(runs)) as progress:
        try:
            run_all(runs, results, workers=workers, cpu_limit=cpu_limit, progress=progress)
        except KeyboardInterrupt:
            stopped = True
        else:
            stopped = False
    for one, status in progress.unfinished:
        console.print(f"{one.key}: {status}", style="yellow", markup=False, soft_wrap=True)
    if stopped:
        console.print("stopped; every finished evaluation is saved: run the same command again to continue")
        return False
    console.print(f"{len(wanted)} runs have their records under {results}", markup=False)
    return all(one.path(results).exists() for one in wanted)


def run_paper_problems(
    names: Sequence[str], *, seeds: int, workers: int, evaluations: int, results: Path, console: Console | None = None
) -> None:
    """Execute the missing runs on the paper's three functions; an interruption is an error."""
    done = run(
        paper.PROBLEMS,
        names,
        seeds=seeds,
        workers=workers,
        evaluations=evaluations,
        initial=10,
        cpu_limit=None,
        results=results,
        console=console,
    )
    if not done:
        raise BenchError("some runs have no record yet: run the same command again to continue")


def _is_missing(run: Run, results: Path, retry: bool) -> bool:
    path = run.path(results)
    return not path.exists() or (retry and RunRecord.read(path).status != FINISHED)


def _available_methods(names: Sequence[str], results: Path, console: Console) -> list[str]:
    """The methods that can run on this machine; the others are reported, and recorded for the tables."""
    reasons = read_unavailable(results)
    available = []
    for name in names:
        reason = methods.unavailable_reason(name)
        if reason is None:
            available.append(name)
            reasons.pop(name, None)
        else:
            reasons[name] = reason
            console.print(f"{name} is unavailable: {reason}", style="yellow", markup=False, soft_wrap=True)
    write_unavailable(results, reasons)
    if not available:
        raise BenchError(f"none of {', '.join(names)} can run on this machine: see dechbo bench peers")
    return available
