"""``dechbo bench …``: run methods on problems side by side, and show what came out."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

app = typer.Typer(no_args_is_help=True, help="Compare methods on problems with known optima, side by side.")

Results = Annotated[Path, typer.Option("--results", help="Where runs and their records are kept.")]
Workers = Annotated[int, typer.Option("--workers", min=1, help="Processes at a time, one thread each.")]
RESULTS = Path("benchmarks/results")


@app.command()
def run(
    suite: Annotated[str, typer.Argument(help="A suite (table1, …) or problems, separated by commas.")],
    methods: Annotated[
        str, typer.Option("--methods", "-m", help="Methods, or groups of them, with commas.")
    ] = "dechbo",
    seeds: Annotated[int, typer.Option(min=1, help="Seeds 0, 1, … of every problem and method.")] = 5,
    workers: Workers = 2,
    evaluations: Annotated[int, typer.Option(min=1, help="Evaluations that a method may choose.")] = 150,
    initial: Annotated[int, typer.Option(min=1, help="Given points before, the same for every method.")] = 10,
    cpu_limit: Annotated[
        float | None, typer.Option(min=0.1, help="CPU seconds that a method may use in a run.")
    ] = None,
    results: Results = RESULTS,
    force: Annotated[bool, typer.Option("--force", help="Make runs anew that are there already.")] = False,
    retry: Annotated[bool, typer.Option("--retry", help="Make runs anew that crashed or ran out of time.")] = False,
    skip_missing: Annotated[
        bool, typer.Option("--skip-missing", help="Leave out problems whose package or data is missing.")
    ] = False,
) -> None:
    """Make every run that is not there yet; stop it whenever you like, the same command goes on."""
    from dechbo.bench import campaign

    done = campaign.run(
        campaign.problems_of(suite, skip_missing=skip_missing),
        campaign.chosen(methods),
        seeds=seeds,
        workers=workers,
        evaluations=evaluations,
        initial=initial,
        cpu_limit=cpu_limit,
        results=results,
        force=force,
        retry=retry,
    )
    if not done:
        raise typer.Exit(1)


@app.command()
def peers(
    install: Annotated[
        list[str] | None, typer.Option("--install", help="A peer, an environment, or all; may be repeated.")
    ] = None,
) -> None:
    """List today's peers, their versions, and why one is absent; --install makes their environments."""
    from rich.console import Console
    from rich.table import Table

    from dechbo.bench.peers import ENVIRONMENTS, PEERS
    from dechbo.bench.peers import install as install_peer
    from dechbo.bench.records import BenchError

    console = Console()
    wanted = list(ENVIRONMENTS) if install == ["all"] else install or []
    for name in wanted:
        console.print(f"installing {name} …")
        try:
            install_peer(name)
        except BenchError as error:
            console.print(f"[red]{error}[/]")
    versions = {name: e.versions() for name, e in ENVIRONMENTS.items() if e.python is not None}
    table = Table("method", "called", "environment", "state")
    for peer in PEERS.values():
        absent = peer.absent()
        known = ", ".join(f"{name} {version}" for name, version in versions.get(peer.environment, {}).items())
        state = f"[green]{known or 'Optuna of this environment'}[/]" if absent is None else f"[yellow]{absent}[/]"
        table.add_row(peer.name, peer.label, peer.environment, state)
    console.print(table)


Seeds = Annotated[int, typer.Option("--seeds", min=1, help="Seeds 0, 1, …; the paper has 5 runs.")]
Show = Annotated[bool, typer.Option("--show", help="Make no runs: show what the records say.")]
Evaluations = Annotated[int, typer.Option("--evaluations", min=1, help="Evaluations of a run; the paper has 150.")]


@app.command()
def table1(
    seeds: Seeds = 5,
    workers: Workers = 2,
    evaluations: Evaluations = 150,
    results: Results = RESULTS,
    out: Annotated[Path, typer.Option(help="The page to write.")] = Path("benchmarks/table1.md"),
    show: Show = False,
) -> None:
    """Table 1 of the paper: make the missing runs of its rows and ours; peers are shown if they have been run."""
    from rich.console import Console

    from dechbo.bench import campaign, paper

    if not show:
        campaign.run_rows(paper.ROWS, seeds=seeds, workers=workers, evaluations=evaluations, results=results)
    table = paper.table1(results, seeds=seeds, evaluations=evaluations)
    Console().print(campaign.shown(table))
    out.parent.mkdir(parents=True, exist_ok=True)
    command = f"dechbo bench table1 --seeds {seeds}" + (f" --evaluations {evaluations}" if evaluations != 150 else "")
    out.write_text(paper.markdown(table, command), encoding="utf-8")
    typer.echo(f"written to {out}")


@app.command()
def fig1(
    seeds: Seeds = 5,
    workers: Workers = 2,
    evaluations: Evaluations = 150,
    results: Results = RESULTS,
    out: Annotated[Path, typer.Option(help="The figure to write.")] = Path("benchmarks/fig1.png"),
    show: Show = False,
) -> None:
    """Figure 1 of the paper: time on Shekel (a) and regret on Shekel, Hartmann and Michalewicz (b to d)."""
    from dechbo.bench import campaign, figures, paper

    if not show:
        wanted = tuple(dict.fromkeys((*paper.TIMED, *paper.DRAWN)))
        campaign.run_rows(wanted, seeds=seeds, workers=workers, evaluations=evaluations, results=results)
    out.parent.mkdir(parents=True, exist_ok=True)
    out.write_bytes(figures.fig1(paper.table1(results, seeds=seeds, evaluations=evaluations)))
    typer.echo(f"written to {out}")


@app.command()
def report(
    results: Results = RESULTS,
    out: Annotated[Path, typer.Option(help="The folder to write.")] = Path("benchmarks/report"),
    suite: Annotated[str | None, typer.Option(help="Only these problems: a suite or a comma list.")] = None,
    methods: Annotated[str | None, typer.Option("--methods", "-m", help="Only these methods.")] = None,
    evaluations: Evaluations = 150,
    initial: Annotated[int, typer.Option(min=1, help="Given points of the runs to report.")] = 10,
) -> None:
    """Draw regret curves, average ranks and times per ask of all records, as PNG and in one page."""
    from dechbo.bench import report as reporting

    page = reporting.write(
        results,
        out,
        problems=None if suite is None else reporting.problem_names(suite),
        methods=None if methods is None else reporting.chosen(methods),
        initial=initial,
        evaluations=evaluations,
    )
    typer.echo(f"written to {page}")
