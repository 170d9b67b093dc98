"""The commands on a study file: optimize, best, trials, interactions, export, import, ask, tell, init."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from rich.console import Console

    from dechbo.studies.store import StudyStore

Study = Annotated[Path, typer.Argument(help="The study file, YAML.", metavar="STUDY.YAML", show_default=False)]
Storage = Annotated[
    str | None, typer.Option("--storage", metavar="URL", help="Where the trials are stored; overrides the file.")
]
Json = Annotated[bool, typer.Option("--json", help="Print JSON only, for programs.")]


def optimize(
    study: Study,
    trials: Annotated[
        int | None, typer.Option("--trials", "-n", min=1, metavar="N", help="Trials in total; overrides the file.")
    ] = None,
    workers: Annotated[
        int | None,
        typer.Option("--workers", "-w", min=1, metavar="K", help="Parallel evaluations; 1 by default."),
    ] = None,
    storage: Storage = None,
    seed: Annotated[
        int | None, typer.Option("--seed", min=0, metavar="S", help="Seed of a new study; overrides the file.")
    ] = None,
    timeout: Annotated[
        float | None, typer.Option("--timeout", min=0, metavar="SECONDS", help="Start no trial after this time.")
    ] = None,
    ray: Annotated[
        str | None,
        typer.Option("--ray", metavar="ADDRESS", help="Evaluate on a Ray cluster: auto, local or ray://host:10001."),
    ] = None,
    engine: Annotated[
        str | None,
        typer.Option(
            "--engine",
            metavar="NAME",
            help="Where suggestions are computed: local, processes, or ray (at --ray's address); overrides the file.",
        ),
    ] = None,
    parts: Annotated[
        int | None,
        typer.Option("--parts", min=1, metavar="P", help="Parts of the factor graph for --engine processes or ray."),
    ] = None,
    keep_going: Annotated[bool, typer.Option("--keep-going", help="Do not stop when evaluations fail.")] = False,
    stop: Annotated[
        list[str] | None,
        typer.Option("--stop", metavar="RULE", help="no-gain, target=0.1, time=2h, evaluations=50 or never."),
    ] = None,
    picture: Annotated[
        Path | None,
        typer.Option("--picture", metavar="FILE", help="Where to save the final picture: .png, .pdf, .svg or .jpg."),
    ] = None,
    no_picture: Annotated[bool, typer.Option("--no-picture", help="Draw no picture.")] = False,
) -> None:
    """Run or continue a study, with a live display.

    Ctrl-C stops it cleanly; the same command continues.

    Example: dechbo optimize study.yaml --workers 2 --trials 100
    """
    from dechbo.studies.optimize import OptimizeArguments, optimize

    arguments = OptimizeArguments(
        study,
        trials,
        workers,
        storage,
        seed,
        timeout,
        ray,
        keep_going,
        picture,
        no_picture,
        engine=engine,
        parts=parts,
        stop=tuple(stop or ()),
    )
    raise typer.Exit(optimize(arguments, _console()))


def best(study: Study, storage: Storage = None, as_json: Json = False) -> None:
    """Show the best parameters so far.

    Example: dechbo best study.yaml --json
    """
    from dechbo.studies.recommendation import print_recommendation, recommendation
    from dechbo.studies.summary import print_best
    from dechbo.studies.trial_table import trial_rows

    store = _open(study, storage, readonly=True)
    found = store.best
    if found is None:
        typer.echo(f"no feasible trial yet in study {store.file.name!r} ({store.finished} finished)", err=True)
        raise typer.Exit(1)
    row = trial_rows([found], store.file.space.names)[0]
    recommended = recommendation(store)
    if as_json:
        more = {} if recommended is None else {"recommended": asdict(recommended)}
        _print_json({"study": store.file.name, "direction": store.file.direction, **asdict(row), **more})
    else:
        print_best(store, row, _console())
        print_recommendation(recommended, row, _console())


def trials(
    study: Study,
    last: Annotated[int | None, typer.Option("--last", min=1, metavar="N", help="Show the latest N only.")] = None,
    storage: Storage = None,
    params: Annotated[bool, typer.Option("--params", help="Show the parameters, too; --json always does.")] = False,
    as_json: Json = False,
) -> None:
    """List the trials: state, value, time, errors.

    Example: dechbo trials study.yaml --last 20
    """
    from dechbo.studies.summary import print_trials
    from dechbo.studies.trial_table import trial_rows

    store = _open(study, storage, readonly=True)
    rows = trial_rows(store.trials, store.file.space.names)
    chosen = rows if last is None else rows[-last:]
    if as_json:
        _print_json([asdict(row) for row in chosen])
    elif not chosen:
        typer.echo("no trials yet")
    else:
        found = store.best
        shown = store.file.space.names if params else ()
        print_trials(chosen, found.number if found is not None else None, _console(), params=shown)


def interactions(
    study: Study,
    storage: Storage = None,
    stored: Annotated[
        bool, typer.Option("--stored", help="Show what the run learned last, without fitting a new model.")
    ] = False,
    weak: Annotated[
        bool, typer.Option("--all", help="Also show interactions with less than 1% of the variance.")
    ] = False,
    as_json: Json = False,
) -> None:
    """Show which parameters interact: the share of the variance that it explains, and how probable it is.

    Example: dechbo interactions study.yaml
    """
    from dechbo.errors import StudyError
    from dechbo.integrations.optuna import learned_graph
    from dechbo.studies.summary import interaction_lines, why_not_learned

    store = _open(study, storage, readonly=True)
    reason = why_not_learned(store)
    if reason is not None:
        raise StudyError(reason)
    found = learned_graph(store.study) if stored else store.optimizer().interactions()
    if found is None:
        typer.echo("none learned yet: interactions are stored once a model suggests a trial", err=True)
        raise typer.Exit(1)
    if as_json:
        rows = [{"parameters": list(i.scope), "probability": i.probability, "share": i.share} for i in found]
        _print_json({"converged": found.converged, "interactions": rows})
        return
    for line in interaction_lines(found, store.file.space.dim, weak=weak):
        typer.echo(line)


def export(
    study: Study,
    csv: Annotated[str, typer.Option("--csv", metavar="FILE", help="File to write; - for standard output.")],
    storage: Storage = None,
) -> None:
    """Write all trials as CSV.

    Example: dechbo export study.yaml --csv trials.csv
    """
    from dechbo.errors import OptionError
    from dechbo.studies.trial_csv import to_csv
    from dechbo.studies.trial_table import trial_rows

    store = _open(study, storage, readonly=True)
    rows = trial_rows(store.trials, store.file.space.names)
    text = to_csv(rows, store.file.space)
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
        str,
        typer.Argument(help="A CSV file, an Optuna database, or JSON of Ax or scikit-optimize.", metavar="RESULTS"),
    ],
    value: Annotated[
        str | None, typer.Option("--value", metavar="COLUMN", help="Column or metric of the value; 'value' by default.")
    ] = None,
    storage: Storage = None,
    from_study: Annotated[
        str | None, typer.Option("--study", metavar="NAME", help="Study of an Optuna database with several.")
    ] = None,
    skip_bad: Annotated[bool, typer.Option("--skip-bad", help="Import the good rows and list the others.")] = False,
) -> None:
    """Import old results as a warm start: CSV (also of MLflow and W&B), an Optuna database, Ax or scikit-optimize.

    Example: dechbo import study.yaml old.csv --value loss
    """
    from dechbo.studies.manual import import_results
    from dechbo.studies.store import StudyStore
    from dechbo.studies.studyfile import StudyFile
    from dechbo.studies.trial_csv import read_source

    file = StudyFile.read(study)
    old = read_source(results, file.space, value=value, study=from_study)  # first: a bad file creates no study
    if not skip_bad:
        old.check()
    for line in import_results(StudyStore(file, storage=storage), old):
        typer.echo(line)


def ask(
    study: Study,
    n: Annotated[int, typer.Option("-n", min=1, metavar="N", help="Number of trials to evaluate in parallel.")] = 1,
    fix: Annotated[
        list[str] | None, typer.Option("--fix", metavar="NAME=VALUE", help="Fix a parameter; may be repeated.")
    ] = None,
    storage: Storage = None,
    as_json: Json = False,
) -> None:
    """Ask for the next trial, to evaluate it by hand.

    Example: dechbo ask study.yaml -n 2
    """
    from dechbo.studies.manual import ask_trials, fixed_params, print_asked

    store = _open(study, storage, create=True)
    asked = ask_trials(store, n, fixed_params(store.file.space, fix or []))
    if as_json:
        _print_json([{"number": trial.number, "params": trial.params} for trial in asked])
    else:
        print_asked(store, asked, study, storage, _console())
    if len(asked) < n:
        typer.echo(f"{len(asked)} of {n}: all other points are evaluated or asked for already", err=True)


def tell(
    study: Study,
    number: Annotated[int, typer.Argument(help="The trial's number, as printed by ask.", metavar="NUMBER")],
    value: Annotated[float | None, typer.Argument(help="The measured value.", metavar="VALUE")] = None,
    constraint: Annotated[
        list[str] | None,
        typer.Option("--constraint", metavar="NAME=VALUE", help="Feasible at or below 0; may be repeated."),
    ] = None,
    failed: Annotated[bool, typer.Option("--failed", help="The trial failed and has no value.")] = False,
    correct: Annotated[bool, typer.Option("--correct", help="Replace the value of a finished trial.")] = False,
    storage: Storage = None,
) -> None:
    """Tell the value of a trial that was asked for, or correct a wrong one.

    Example: dechbo tell study.yaml 3 0.71 --constraint cost=-2.5
    """
    from dechbo.studies.manual import tell_trial

    store = _open(study, storage)
    typer.echo(tell_trial(store, number, value, constraint or [], failed=failed, correct=correct))


def retract(
    study: Study,
    numbers: Annotated[list[int], typer.Argument(help="The trials' numbers.", metavar="NUMBER…")],
    undo: Annotated[bool, typer.Option("--undo", help="Let them count again.")] = False,
    storage: Storage = None,
) -> None:
    """Leave trials out: they stay in the history, but are never modelled, and their points may come again.

    Example: dechbo retract study.yaml 17
    """
    from dechbo.studies.manual import retract_trials

    for line in retract_trials(_open(study, storage), numbers, undo=undo):
        typer.echo(line)


def retry(
    study: Study,
    numbers: Annotated[list[int] | None, typer.Argument(help="The trials' numbers.", metavar="[NUMBER…]")] = None,
    failed: Annotated[bool, typer.Option("--failed", help="All trials that failed.")] = False,
    storage: Storage = None,
) -> None:
    """Evaluate trials again: their results are left out, and their parameters are queued.

    Example: dechbo retry study.yaml --failed
    """
    from dechbo.studies.manual import retry_trials

    for line in retry_trials(_open(study, storage), numbers or [], failed=failed):
        typer.echo(line)


def enqueue(
    study: Study,
    settings: Annotated[list[str], typer.Argument(help="Parameters of the trial.", metavar="NAME=VALUE…")],
    storage: Storage = None,
) -> None:
    """Queue a trial of your own; parameters that you leave out are chosen when it starts.

    Example: dechbo enqueue study.yaml lr=0.1 layers=3
    """
    from dechbo.studies.manual import enqueue_trial

    typer.echo(enqueue_trial(_open(study, storage, create=True), settings))


def init(
    file: Annotated[Path, typer.Argument(help="File to write.", metavar="[FILE]")] = Path("study.yaml"),
    force: Annotated[bool, typer.Option("--force", help="Overwrite an existing file.")] = False,
) -> None:
    """Write a commented study file that runs as it is.

    It comes with a small train.py, unless there is one already.

    Example: dechbo init my-study.yaml
    """
    from dechbo.studies.starter import write

    for path in write(file, force=force):
        typer.echo(f"written: {path}")
    typer.echo(f"try it:  dechbo optimize {file}")


def doctor(
    study: Annotated[Path | None, typer.Argument(help="A study file to look at, too.", metavar="[STUDY.YAML]")] = None,
    storage: Storage = None,
    as_json: Json = False,
) -> None:
    """Show versions, threads, caches and the state of the storage, for a bug report.

    Example: dechbo doctor study.yaml
    """
    from dechbo.studies.doctor import report

    lines = list(report(study, storage))
    if as_json:
        _print_json(dict(lines))
        return
    for name, found in lines:
        typer.echo(f"{name:<18}{found}")


def register(app: typer.Typer) -> None:
    """Add the commands to ``dechbo``."""
    for command in (init, optimize, best, trials, interactions, export, import_, ask, enqueue, retract, retry, doctor):
        app.command(command.__name__.rstrip("_"))(command)
    # -1.5 is a value here, not an option
    app.command("tell", context_settings={"ignore_unknown_options": True})(tell)


def _open(study: Path, storage: str | None, *, create: bool = False, readonly: bool = False) -> StudyStore:
    from dechbo.studies.store import StudyStore
    from dechbo.studies.studyfile import StudyFile

    return StudyStore(StudyFile.read(study), storage=storage, create=create, readonly=readonly)


def _console() -> Console:
    from dechbo.studies.terminal import text_console

    return text_console()


def _print_json(content: Any) -> None:
    typer.echo(json.dumps(content, indent=2, ensure_ascii=False))
