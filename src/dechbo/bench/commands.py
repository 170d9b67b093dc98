"""``dechbo bench …``: compare methods on test problems. ``dechbo bench report`` is in ``report.commands``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

app = typer.Typer(no_args_is_help=True, help="Compare methods on test problems.")

Results = Annotated[Path, typer.Option("--results", help="Folder of the runs and their records.")]
Workers = Annotated[int, typer.Option("--workers", min=1, help="Number of processes, one thread each.")]
RESULTS = Path("benchmarks/results")
RANKED_SUITE, RANKS_PAGE = "all", Path("benchmarks/ranks.md")


@app.command()
def run(
    suite: Annotated[str, typer.Argument(help="A suite (table1, …) or a comma-separated list of problems.")],
    methods: Annotated[
        str, typer.Option("--methods", "-m", help="Comma-separated list of methods or groups of methods.")
    ] = "dechbo",
    seeds: Annotated[int, typer.Option(min=1, help="Number of seeds of every problem and method.")] = 5,
    first_seed: Annotated[int, typer.Option(min=0, help="The first seed: 100 or more to choose settings.")] = 0,
    workers: Workers = 2,
    evaluations: Annotated[int, typer.Option(min=1, help="Number of evaluations that the method chooses.")] = 150,
    initial: Annotated[int, typer.Option(min=1, help="Number of initial points, the same for every method.")] = 10,
    cpu_limit: Annotated[float | None, typer.Option(min=0.1, help="CPU seconds that a method may use per run.")] = None,
    results: Results = RESULTS,
    force: Annotated[bool, typer.Option("--force", help="Repeat runs that have a record.")] = False,
    retry: Annotated[bool, typer.Option("--retry", help="Repeat runs that crashed or ran out of time.")] = False,
    skip_missing: Annotated[
        bool, typer.Option("--skip-missing", help="Skip problems whose package or data is missing.")
    ] = False,
) -> None:
    """Execute the runs that have no record yet. After an interruption the same command continues."""
    from dechbo.bench import experiment
    from dechbo.bench.methods import parse_methods

    done = experiment.run(
        experiment.available_problems(suite, skip_missing=skip_missing),
        parse_methods(methods),
        seeds=seeds,
        first_seed=first_seed,
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
        list[str] | None, typer.Option("--install", help="A peer, an environment or all; repeatable.")
    ] = None,
) -> None:
    """List the peers with their versions or the reason why they are unavailable; --install creates environments."""
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
            console.print(str(error), style="red", markup=False)
    versions = {name: e.versions() for name, e in ENVIRONMENTS.items() if e.python is not None}
    table = Table("method", "label", "environment", "state")
    for peer in PEERS.values():
        reason = peer.unavailable_reason()
        known = ", ".join(f"{name} {version}" for name, version in versions.get(peer.environment, {}).items())
        state = f"[green]{known or 'Optuna of this environment'}[/]" if reason is None else f"[yellow]{reason}[/]"
        table.add_row(peer.name, peer.label, peer.environment, state)
    console.print(table)


Seeds = Annotated[int, typer.Option("--seeds", min=1, help="Number of seeds; the paper has 5 runs.")]
Show = Annotated[bool, typer.Option("--show", help="Execute no runs, show the existing records.")]
Evaluations = Annotated[int, typer.Option("--evaluations", min=1, help="Evaluations per run; the paper has 150.")]


@app.command()
def table1(
    seeds: Seeds = 5,
    workers: Workers = 2,
    evaluations: Evaluations = 150,
    results: Results = RESULTS,
    out: Annotated[Path, typer.Option(help="The page to write.")] = Path("benchmarks/table1.md"),
    show: Show = False,
) -> None:
    """Table 1 of the paper: execute missing runs of its methods and dechbo's, and show them with the peers' records."""
    from rich.console import Console

    from dechbo.bench import experiment, paper

    if not show:
        experiment.run_paper_problems(
            paper.ROWS, seeds=seeds, workers=workers, evaluations=evaluations, results=results
        )
    table = paper.table1(results, seeds=seeds, evaluations=evaluations)
    Console().print(paper.rich_table(table))
    out.parent.mkdir(parents=True, exist_ok=True)
    command = f"dechbo bench table1 --seeds {seeds}" + (f" --evaluations {evaluations}" if evaluations != 150 else "")
    out.write_text(paper.markdown(table, command), encoding="utf-8")
    typer.echo(f"written to {out}")


@app.command()
def ranks(
    suite: Annotated[str, typer.Argument(help="A suite or a comma-separated list of problems.")] = RANKED_SUITE,
    methods: Annotated[
        str | None, typer.Option("--methods", "-m", help="Methods or groups; if left out, those run on most problems.")
    ] = None,
    control: Annotated[str, typer.Option(help="The method that the others are compared with.")] = "dechbo",
    first_seed: Annotated[int, typer.Option(min=0, help="The first seed; up to a hundred are read.")] = 0,
    results: Results = RESULTS,
    out: Annotated[
        Path | None,
        typer.Option(
            help=f"The page to write, with a figure beside it; {RANKS_PAGE} for all problems, none for others.",
            show_default=False,
        ),
    ] = None,
) -> None:
    """Mean final values and average ranks of all methods that have records.

    The page, with a figure of rank against CPU time, is that of all problems, unless --out names another.
    """
    from rich.console import Console

    from dechbo.bench import figures, problems, ranking
    from dechbo.bench.methods import parse_methods
    from dechbo.bench.records import BenchError, load_records

    ranked = ranking.rank(
        load_records(results),
        names=ranking.COMPARED if methods is None else parse_methods(methods),
        suite=problems.parse_names(suite),
        first_seed=first_seed,
    )
    if not ranked.records:
        raise BenchError(f"there are no such records under {results}: create some with dechbo bench run …")
    width = 32 + 21 * len(ranked.methods)  # a narrow terminal breaks the lines
    Console(width=max(Console().width, width)).print(ranking.rich_table(ranked, control))
    options = f" --methods {methods}" if methods is not None else ""
    options += f" --first-seed {first_seed}" if first_seed else ""
    if out is None and suite != RANKED_SUITE:
        return
    out = out or RANKS_PAGE
    out.parent.mkdir(parents=True, exist_ok=True)
    out.write_text(ranking.markdown(ranked, control, f"dechbo bench ranks {suite}{options}"), encoding="utf-8")
    out.with_suffix(".png").write_bytes(figures.ranks_against_time(ranked))
    typer.echo(f"written to {out} and {out.with_suffix('.png')}")


@app.command()
def fig1(
    seeds: Seeds = 5,
    workers: Workers = 2,
    evaluations: Evaluations = 150,
    results: Results = RESULTS,
    out: Annotated[Path, typer.Option(help="The figure to write.")] = Path("benchmarks/fig1.png"),
    show: Show = False,
) -> None:
    """Figure 1 of the paper: time on Shekel (a), regret on Shekel, Hartmann and Michalewicz (b to d)."""
    from dechbo.bench import experiment, figures, paper

    if not show:
        wanted = tuple(dict.fromkeys((*paper.TIMED, *paper.DRAWN)))
        experiment.run_paper_problems(wanted, seeds=seeds, workers=workers, evaluations=evaluations, results=results)
    out.parent.mkdir(parents=True, exist_ok=True)
    out.write_bytes(figures.fig1(paper.table1(results, seeds=seeds, evaluations=evaluations)))
    typer.echo(f"written to {out}")


Data = Annotated[
    Path | None, typer.Option("--data", help="Folder of the data files; if left out, $DECHBO_DATA.", show_default=False)
]
Seeds2 = Annotated[int, typer.Option("--seeds", min=1, help="Number of seeds.")]
OUT2 = Path("benchmarks/table2.md")


@app.command()
def table2(
    problem: Annotated[str, typer.Option("--problem", help="pic or cnn.")],
    methods: Annotated[
        str | None, typer.Option("--methods", "-m", help="Methods or groups; if left out, those of the paper and ours.")
    ] = None,
    evaluations: Annotated[
        int | None,
        typer.Option(min=11, help="Evaluations per run, 10 initial ones included; if left out, 100 (pic) or 40 (cnn)."),
    ] = None,
    seeds: Seeds2 = 3,
    full: Annotated[bool, typer.Option("--full", help="The CNN at the scale of the paper, for a GPU.")] = False,
    workers: Workers = 2,
    data: Data = None,
    results: Results = RESULTS,
    out: Annotated[Path, typer.Option(help="The page to write, with both experiments.")] = OUT2,
    show: Show = False,
) -> None:
    """Table 2 of the paper: tune a sparse GP with 1,811 hyperparameters (pic) or a CNN (cnn). It can be interrupted."""
    import os

    from rich.console import Console

    from dechbo.bench import experiment, problems, table2
    from dechbo.bench.methods import parse_methods
    from dechbo.bench.problems.problem import DATA

    wanted = table2.experiment(problem, full=full)
    names = wanted.methods if methods is None else parse_methods(methods)
    total = evaluations or wanted.evaluations
    if data is not None:
        os.environ[DATA] = str(data.expanduser().resolve())
    if not show:
        problems.problem(wanted.problem)  # a missing package or data file is an error here, before any run
        done = experiment.run(
            (wanted.problem,),
            names,
            seeds=seeds,
            workers=workers,
            evaluations=total - table2.INITIAL,
            initial=table2.INITIAL,
            cpu_limit=None,
            results=results,
        )
        if not done:
            raise typer.Exit(1)
    rows = table2.ExperimentRecords.read(results, wanted, seeds=seeds, evaluations=total, wanted=names)
    Console(width=max(Console().width, 150)).print(table2.rich_table(rows))
    others = [e for name, e in table2.EXPERIMENTS.items() if name != wanted.name]
    pages = [rows, *(table2.ExperimentRecords.read(results, other, seeds=seeds) for other in others)]
    out.parent.mkdir(parents=True, exist_ok=True)
    out.write_text(table2.markdown([page for page in pages if page is rows or page.records]), encoding="utf-8")
    typer.echo(f"written to {out}")


@app.command()
def data(folder: Annotated[Path, typer.Argument(help="The folder to fill; set DECHBO_DATA to it afterwards.")]) -> None:
    """Download the published data of the real problems: proteins (3 MB) and CIFAR-10 (170 MB)."""
    from dechbo.bench.problems import cifar10, pic

    for path in (pic.download(folder / "protein"), cifar10.download(folder / "cifar10")):
        typer.echo(f"{path} is there")
    typer.echo(f"now: export DECHBO_DATA={folder}")


@app.command()
def fig2(
    seeds: Seeds2 = 3,
    results: Results = RESULTS,
    out: Annotated[Path, typer.Option(help="The figure to write.")] = Path("benchmarks/fig2.png"),
) -> None:
    """Figure 2 of the paper from the records of table2: error of the CNN (a) and of the sparse GP (b)."""
    from dechbo.bench import figures, table2

    panels = [
        table2.ExperimentRecords.read(results, experiment, seeds=seeds) for experiment in (table2.CNN, table2.PIC)
    ]
    out.parent.mkdir(parents=True, exist_ok=True)
    out.write_bytes(figures.fig2(panels))
    typer.echo(f"written to {out}")
