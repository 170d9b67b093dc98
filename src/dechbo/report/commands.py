"""``dechbo bench report`` (tests: test_page.py)."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from dechbo.bench.commands import RESULTS, Evaluations, Results


def register(bench: typer.Typer) -> None:
    """Add the command to ``dechbo bench``."""
    bench.command()(report)


def report(
    results: Results = RESULTS,
    out: Annotated[Path, typer.Option(help="The folder to write.")] = Path("benchmarks/report"),
    suite: Annotated[
        str | None, typer.Option(help="A suite or a comma-separated list of problems; all if left out.")
    ] = None,
    methods: Annotated[str | None, typer.Option("--methods", "-m", help="Methods or groups; all if left out.")] = None,
    evaluations: Evaluations = 150,
    initial: Annotated[int, typer.Option(min=1, help="Number of initial points of the runs.")] = 10,
) -> None:
    """Draw regret, average ranks and time per ask of all records, as PNG files and in one HTML page."""
    from dechbo.bench.methods import parse_methods
    from dechbo.bench.problems import parse_names
    from dechbo.report import page

    path = page.write(
        results,
        out,
        problems=None if suite is None else parse_names(suite),
        methods=None if methods is None else parse_methods(methods),
        initial=initial,
        evaluations=evaluations,
    )
    typer.echo(f"written to {path}")
