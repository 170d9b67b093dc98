"""The commands around a study file: optimize, best, trials, interactions, export, import, ask, tell, init."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from rich.console import Console

    from dechbo.studies.store import StudyStore

Study = Annotated[Path, typer.Argument(help="The study file, YAML.", metavar="STUDY.YAML", show_default=False)]
Storage = Annotated[
    str | None, typer.Option("--storage", metavar="URL", help="Where trials are kept, instead of the file's.")
]
Json = Annotated[bool, typer.Option("--json", help="JSON for programs, nothing else.")]


def optimize(
    study: Study,
    trials: Annotated[
        int | None, typer.Option("--trials", "-n", min=1, metavar="N", help="Trials in all, instead of the file's.")
    ] = None,
    workers: Annotated[
        int | None,
        typer.Option("--workers", "-w", min=1, metavar="K", help="Evaluations side by side; 1 if not given."),
    ] = None,
    storage: Storage = None,
    seed: Annotated[
        int | None, typer.Option("--seed", min=0, metavar="S", help="Of a new study, instead of the file's.")
    ] = None,
    timeout: Annotated[
        float | None, typer.Option("--timeout", min=0, metavar="SECONDS", help="Begin no trial after so long.")
    ] = None,
    ray: Annotated[
        str | None,
        typer.Option("--ray", metavar="ADDRESS", help="Evaluate on a Ray cluster: auto, local or ray://host:10001."),
    ] = None,
    keep_going: Annotated[
        bool, typer.Option("--keep-going", help="Do not stop when the first evaluations all fail.")
    ] = False,
    picture: Annotated[
        Path | None, typer.Option("--picture", metavar="FILE.png", help="Where the picture goes at the end.")
    ] = None,
    no_picture: Annotated[bool, typer.Option("--no-picture", help="Draw none.")] = False,
) -> None:
    """Run a study, or go on with it, with a live display.

    Ctrl-C ends it cleanly, the same command goes on.

    Example: dechbo optimize study.yaml --workers 2 --trials 100
    """
    from dechbo.studies.session import Wish, optimize

    wish = Wish(study, trials, workers, storage, seed, timeout, ray, keep_going, picture, no_picture)
    raise typer.Exit(optimize(wish, _console()))


def best(study: Study, storage: Storage = None, as_json: Json = False) -> None:
    """Show the best parameters so far.

    Example: dechbo best study.yaml --json
    """
    from dechbo.studies.rows import rows_of
    from dechbo.studies.summary import best_table

    opened = _open(study, storage, readonly=True)
    found = opened.best
    if found is None:
        typer.echo(f"no feasible trial yet in study {opened.file.name!r} ({opened.finished} finished)", err=True)
        raise typer.Exit(1)
    row = rows_of([found], opened.file.space.names)[0]
    if as_json:
        _print_json({"study": opened.file.name, "direction": opened.file.direction, **row.to_json()})
    else:
        best_table(opened, row, _console())


def trials(
    study: Study,
    last: Annotated[int | None, typer.Option("--last", min=1, metavar="N", help="Only the latest N.")] = None,
    storage: Storage = None,
    params: Annotated[bool, typer.Option("--params", help="Show the parameters too; --json always does.")] = False,
    as_json: Json = False,
) -> None:
    """List the trials: state, value, time, errors.

    Example: dechbo trials study.yaml --last 20
    """
    from dechbo.studies.rows import rows_of
    from dechbo.studies.summary import trials_table

    opened = _open(study, storage, readonly=True)
    rows = rows_of(opened.trials, opened.file.space.names)
    chosen = rows if last is None else rows[-last:]
    if as_json:
        _print_json([row.to_json() for row in chosen])
    elif not chosen:
        typer.echo("no trials yet")
    else:
        found = opened.best
        shown = opened.file.space.names if params else ()
        trials_table(chosen, found.number if found is not None else None, _console(), params=shown)


def interactions(
    study: Study,
    storage: Storage = None,
    stored: Annotated[
        bool, typer.Option("--stored", help="As learned last during the run, at once, without a new model.")
    ] = False,
    as_json: Json = False,
) -> None:
    """Say which parameters act together, and how sure that is.

    Example: dechbo interactions study.yaml
    """
    from dechbo.integrations.optuna import learned_graph
    from dechbo.studies.summary import given_factors, interaction_lines

    opened = _open(study, storage, readonly=True)
    given = given_factors(opened)
    if given is not None:
        from dechbo.errors import StudyError

        raise StudyError(given)
    if stored:
        kept = learned_graph(opened.study)
        if kept is None:
            typer.echo("none learned yet: a graph is kept once the model has chosen a trial", err=True)
            raise typer.Exit(1)
        found = kept
    else:
        found = opened.optimizer().interactions()
    if as_json:
        _print_json([{"parameters": list(i.scope), "probability": i.probability, "share": i.share} for i in found])
        return
    for line in interaction_lines(found, opened.file.space.dim):
        typer.echo(line)


def export(
    study: Study,
    csv: Annotated[str, typer.Option("--csv", metavar="FILE", help="The file to write; - for standard output.")],
    storage: Storage = None,
) -> None:
    """Write all trials as CSV.

    Example: dechbo export study.yaml --csv trials.csv
    """
    from dechbo.errors import OptionError
    from dechbo.studies.csvfiles import to_csv
    from dechbo.studies.rows import rows_of

    opened = _open(study, storage, readonly=True)
    rows = rows_of(opened.trials, opened.file.space.names)
    text = to_csv(rows, opened.file.space)
    if csv == "-":
        typer.echo(text, nl=False)
        return
    try:
        Path(csv).write_text(text, encoding="utf-8", newline="")
    except OSError as error:
        raise OptionError(f"--csv {csv} cannot be written: {error.strerror}") from None
    typer.echo(f"{len(rows)} trials written to {csv}")


def import_(
    study: Study,
    results: Annotated[
        Path,
        typer.Argument(help="A CSV file with a column per parameter and one for the value.", metavar="RESULTS.CSV"),
    ],
    value: Annotated[
        str | None, typer.Option("--value", metavar="COLUMN", help="The column of the value; 'value' if not given.")
    ] = None,
    storage: Storage = None,
    skip_bad: Annotated[bool, typer.Option("--skip-bad", help="Import the good rows, name the others.")] = False,
) -> None:
    """Take old results from CSV as a warm start.

    Example: dechbo import study.yaml old.csv --value loss
    """
    from dechbo.studies.laboratory import old_results, take_over
    from dechbo.studies.store import StudyStore
    from dechbo.studies.studyfile import StudyFile

    file = StudyFile.read(study)
    old = old_results(results, file.space, value=value, skip_bad=skip_bad)  # first: a bad file creates no study
    for line in take_over(StudyStore(file, storage=storage), old):
        typer.echo(line)


def ask(
    study: Study,
    n: Annotated[int, typer.Option("-n", min=1, metavar="N", help="How many experiments to make side by side.")] = 1,
    fix: Annotated[
        list[str] | None, typer.Option("--fix", metavar="NAME=VALUE", help="Hold a parameter; may be repeated.")
    ] = None,
    storage: Storage = None,
    as_json: Json = False,
) -> None:
    """Ask for the next experiment, to be made by hand.

    Example: dechbo ask study.yaml -n 2
    """
    from dechbo.studies.laboratory import ask_for, fixed_of, show_asked

    opened = _open(study, storage, create=True)
    asked = ask_for(opened, n, fixed_of(opened, fix or []))
    if as_json:
        _print_json([{"number": trial.number, "params": trial.params} for trial in asked])
    else:
        show_asked(opened, asked, study, storage, _console())
    if len(asked) < n:
        typer.echo(f"{len(asked)} of {n}: no more experiments are left, all others are made or asked for", err=True)


def tell(
    study: Study,
    number: Annotated[int, typer.Argument(help="The number that ask gave.", metavar="NUMBER")],
    value: Annotated[float | None, typer.Argument(help="What was measured.", metavar="VALUE")] = None,
    constraint: Annotated[
        list[str] | None,
        typer.Option("--constraint", metavar="NAME=VALUE", help="Feasible at or below 0; may be repeated."),
    ] = None,
    failed: Annotated[bool, typer.Option("--failed", help="The experiment gave no value.")] = False,
    storage: Storage = None,
) -> None:
    """Tell the value of an experiment that was asked for.

    Example: dechbo tell study.yaml 3 0.71 --constraint cost=-2.5
    """
    from dechbo.studies.laboratory import told

    opened = _open(study, storage)
    typer.echo(told(opened, number, value, constraint or [], failed=failed))


def init(
    file: Annotated[Path, typer.Argument(help="The file to write.", metavar="[FILE]")] = Path("study.yaml"),
    force: Annotated[bool, typer.Option("--force", help="Write over a file that is there.")] = False,
) -> None:
    """Write a commented study file that runs as it is.

    A small train.py comes with it, unless there is one.

    Example: dechbo init my-study.yaml
    """
    from dechbo.studies.starter import write

    for path in write(file, force=force):
        typer.echo(f"written: {path}")
    typer.echo(f"try it:  dechbo optimize {file}")


def register(app: typer.Typer) -> None:
    """Add the commands to ``dechbo``."""
    app.command("init")(init)
    app.command("optimize")(optimize)
    app.command("best")(best)
    app.command("trials")(trials)
    app.command("interactions")(interactions)
    app.command("export")(export)
    app.command("import")(import_)
    app.command("ask")(ask)
    # -1.5 is a value here, not an option
    app.command("tell", context_settings={"ignore_unknown_options": True})(tell)


def _open(study: Path, storage: str | None, *, create: bool = False, readonly: bool = False) -> StudyStore:
    from dechbo.studies.store import StudyStore
    from dechbo.studies.studyfile import StudyFile

    return StudyStore(StudyFile.read(study), storage=storage, create=create, readonly=readonly)


def _console() -> Console:
    import sys

    from rich.console import Console

    terminal = sys.stdout.isatty()
    return Console(width=None if terminal else 120, force_terminal=None if terminal else False)


def _print_json(content: Any) -> None:
    typer.echo(json.dumps(content, indent=2, ensure_ascii=False))
