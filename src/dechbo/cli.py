"""The command: a thin shell around the library."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from dechbo.bench.commands import app as bench
from dechbo.report.commands import register as register_report
from dechbo.studies.commands import register

if TYPE_CHECKING:
    from rich.console import RenderableType

    from dechbo.bench.problems import Problem
    from dechbo.optimizer import Optimizer

app = typer.Typer(
    add_completion=False,
    no_args_is_help=True,
    help="Optimise expensive black boxes with many parameters, by factor graphs and max-sum (DEC-HBO).",
)
register(app)
register_report(bench)
app.add_typer(bench, name="bench")


def _version(wanted: bool) -> None:
    if wanted:
        from dechbo import __version__

        typer.echo(f"dechbo {__version__}")
        raise typer.Exit


@app.callback()
def _options(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Show the version and exit.")
    ] = False,
) -> None: ...


@app.command()
def demo(
    evaluations: Annotated[int, typer.Option("--evaluations", "-n", min=1, help="How many evaluations to make.")] = 100,
    seed: Annotated[int, typer.Option(min=0, help="Same seed, same run.")] = 0,
    problem: Annotated[str, typer.Option(help="michalewicz-10, hartmann-6 or shekel-4.")] = "michalewicz-10",
    regret: Annotated[
        bool, typer.Option("--regret", help="Print R_n/n beside the theorem's bound at the end.")
    ] = False,
) -> None:
    """Minimise a test function of the paper, with a live display of best value, gap and factors."""
    from rich.console import Console
    from rich.live import Live

    from dechbo.bench.problems import PROBLEMS
    from dechbo.errors import OptionError
    from dechbo.optimizer import Optimizer

    if problem not in PROBLEMS:
        raise OptionError(f"--problem is one of {', '.join(PROBLEMS)}, got {problem!r}")
    chosen = PROBLEMS[problem]
    optimizer = Optimizer(chosen.space, seed=seed)
    console = Console()
    bests: list[float] = []
    with Live(console=console, refresh_per_second=8) as live:
        for _ in range(evaluations):
            params = optimizer.ask()
            optimizer.tell(params, chosen(params))
            assert optimizer.best is not None
            bests.append(optimizer.best.number_value)
            live.update(_display(chosen, optimizer, bests, evaluations))
    console.print(
        f"\nbest value [bold]{bests[-1]:.4f}[/] after {evaluations} evaluations; "
        f"the true minimum is {chosen.optimum:.4f} (regret {chosen.regret(bests[-1]):.4f})"
    )
    if regret and chosen.optimum is not None:
        console.print(str(optimizer.regret_report(chosen.optimum)))


def _display(problem: Problem, optimizer: Optimizer, bests: list[float], evaluations: int) -> RenderableType:
    from rich.console import Group
    from rich.panel import Panel
    from rich.progress import BarColumn, Progress, TextColumn
    from rich.table import Table

    from dechbo.studies.words import sparkline

    info, names = optimizer.info, optimizer.space.names
    assert info is not None
    bar = Progress(TextColumn("{task.completed:>4.0f} of {task.total:.0f} evaluations"), BarColumn(bar_width=40))
    bar.add_task("", total=evaluations, completed=len(bests))
    facts = Table.grid(padding=(0, 2))
    facts.add_row("best value", f"[bold green]{bests[-1]:.4f}[/]   (true minimum {problem.optimum:.4f})")
    facts.add_row("best so far", sparkline(bests, 60))
    if info.graph is None:
        facts.add_row("this point", "from the initial design")
    else:
        proof = f"{info.gap:.2e}   (within {info.gap:.2%} of the best on its grid)"
        if not info.certified:
            proof = "none: " + (
                "this point looks elsewhere, where the model can say less"
                if info.source == "elsewhere"
                else "one factor holds all parameters, this point was found off the grid"
            )
        elif info.gap == 0:
            proof = "0   (proven best on its grid)"
        more = [" ".join(names[i] for i in scope) for scope in info.graph.scopes if 1 < len(scope) < len(names)]
        more += ["all together"] if any(len(scope) == len(names) for scope in info.graph.scopes) else []
        facts.add_row("gap", proof)
        facts.add_row("factors", f"{len(info.graph.scopes)}: " + ", ".join(["each parameter alone", *more]))
        facts.add_row("beta", f"{info.beta:.2f}")
        facts.add_row("this ask", f"{1000 * info.seconds:.0f} ms")
    return Panel(Group(bar, facts), title=f"dechbo · {problem.name}", width=100)


def main() -> None:
    """Run the command; an error made on purpose is shown as one line, not as a traceback."""
    import sys
    from io import TextIOWrapper

    from dechbo.errors import DechboError

    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper):  # a terminal that lacks a character shows another one
            stream.reconfigure(errors="replace")
    try:
        app()
    except DechboError as error:
        typer.secho(f"dechbo: {error}", fg="red", err=True)
        raise SystemExit(2) from None
