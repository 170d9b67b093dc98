"""The command: a thin shell around the library."""

from __future__ import annotations

import math
import time
from typing import TYPE_CHECKING, Annotated

import typer

from dechbo.bench.commands import app as bench
from dechbo.report.commands import register as register_report
from dechbo.studies.commands import register

if TYPE_CHECKING:
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
    evaluations: Annotated[int, typer.Option("--evaluations", "-n", min=1, help="Number of evaluations.")] = 100,
    seed: Annotated[int, typer.Option(min=0, help="Same seed, same run.")] = 0,
    problem: Annotated[str, typer.Option(help="michalewicz-10, hartmann-6 or shekel-4.")] = "michalewicz-10",
    regret: Annotated[
        bool, typer.Option("--regret", help="Print R_n/n beside the theorem's bound at the end.")
    ] = False,
) -> None:
    """Minimise a test function of the paper, with a live display of the best value, the gap and the factors."""
    from rich.console import Console
    from rich.live import Live

    from dechbo.bench.problems import PROBLEMS
    from dechbo.errors import OptionError
    from dechbo.execution.outcome import Outcome
    from dechbo.optimizer import Optimizer
    from dechbo.studies.progress import Progress, ProgressPanel
    from dechbo.studies.run import Event

    if problem not in PROBLEMS:
        raise OptionError(f"--problem must be one of {', '.join(PROBLEMS)}, got {problem!r}")
    chosen = PROBLEMS[problem]
    optimizer = Optimizer(chosen.space, seed=seed)
    console, values, best = Console(), [], (0, math.inf)
    panel = ProgressPanel(
        chosen.name,
        direction="minimize",
        target=evaluations,
        dim=chosen.space.dim,
        note=f"The true minimum is {chosen.optimum:.4f}.",
    )
    with Live(console=console, refresh_per_second=8, get_renderable=lambda: panel.panel(console.width)):
        for number in range(evaluations):
            panel.update(Event("asking"))
            params = optimizer.ask()
            panel.update(Event("started", number, params, info=optimizer.info))
            panel.interactions = _factors(optimizer)
            began = time.perf_counter()
            value = chosen(params)
            optimizer.tell(params, value)
            values.append(value)
            best = min(best, (number, value), key=lambda found: found[1])
            outcome = Outcome(value, seconds=time.perf_counter() - began)
            panel.update(Event("finished", number, params, outcome), Progress(number + 1, 0, best, tuple(values)))
    console.print(
        f"\nbest value [bold]{best[1]:.4f}[/] after {evaluations} evaluations; "
        f"the true minimum is {chosen.optimum:.4f} (regret {chosen.regret(best[1]):.4f})"
    )
    if regret and chosen.optimum is not None:
        console.print(str(optimizer.regret_report(chosen.optimum)))


def _factors(optimizer: Optimizer) -> str:
    """The factors of the last ask."""
    from dechbo.studies.formatting import scope_label

    info, names = optimizer.info, optimizer.space.names
    if info is None or info.graph is None:
        return "none yet"
    larger = [scope_label([names[i] for i in scope], len(names)) for scope in info.graph.scopes if len(scope) > 1]
    return f"{len(info.graph.scopes)} factors: {', '.join(['each parameter alone', *larger])}"


def main() -> None:
    """Run the command; a DechboError is shown as its message, without a traceback."""
    import sys
    from io import TextIOWrapper

    from dechbo.errors import DechboError

    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper):  # a terminal without a character shows a replacement
            stream.reconfigure(errors="replace")
    try:
        app()
    except DechboError as error:
        typer.secho(f"dechbo: {error}", fg="red", err=True)
        raise SystemExit(2) from None
