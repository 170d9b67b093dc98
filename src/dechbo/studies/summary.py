"""What came out of a study, for a person: best parameters, interactions, trials, and what to do next."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dechbo.errors import DechboError
from dechbo.integrations.optuna.trials import evaluated, is_feasible
from dechbo.interactions import Interaction
from dechbo.studies import words
from dechbo.studies.rows import Row, rows_of
from dechbo.studies.storage import redacted_url
from dechbo.studies.store import StudyStore

if TYPE_CHECKING:
    from rich.console import Console

    from dechbo.studies.session import Wish

NO_MATPLOTLIB = "no picture: it needs matplotlib; `pip install matplotlib`, then the same command draws it"


def ending(study: StudyStore, wish: Wish, console: Console, *, next_target: int | None, brief: bool = False) -> None:
    """The end of ``dechbo optimize``: what was found, where it is, how to go on."""
    found = study.best
    best = None if found is None else rows_of([found], study.file.space.names)[0]
    if best is None:
        _print(console, "no trial succeeded yet: nothing to show")
    else:
        best_table(study, best, console, copy=not brief)
        if not brief:
            _course(study, console)
    if study.failed:
        _print(console, f"\nfailed: {study.failed} of {words.count(study.finished, 'trial')}")
    if not brief and best is not None:
        _interactions(study, console)
        if not wish.no_picture:
            _picture(study, wish, console)
    _print(console, f"\nstored in  {redacted_url(study.url)}")
    log = getattr(study.file.objective, "log", None)
    if isinstance(log, Path) and log.exists() and log.stat().st_size:
        _print(console, f"output in  {_near(log)}")
    _next(wish, console, next_target, best is not None)


def best_table(study: StudyStore, best: Row, console: Console, *, copy: bool = True) -> None:
    """The best trial as a table, and its parameters to copy."""
    from rich.table import Table

    title = f"best value {words.number(best.value)}  (trial {best.number}, {study.file.direction})"
    _print(console, f"\n{title}", style="bold green")
    table = Table(box=None, show_header=False, padding=(0, 2, 0, 2))
    for name, value in best.params.items():
        table.add_row(name, words.setting(value))
    for name, value in best.constraints.items():
        table.add_row(f"constraint {name}", f"{words.number(value)}  (feasible at or below 0)", style="dim")
    console.print(table)
    if not copy:
        return
    _print(console, "\nto copy, as YAML:", style="dim")
    _print(console, words.as_yaml(best.params))
    _print(console, "as JSON:", style="dim")
    _print(console, words.as_json(best.params))


def interaction_lines(found: Sequence[Interaction], dim: int) -> list[str]:
    """The interactions worth a line, in words."""
    lines = [words.in_words(interaction, dim) for interaction in words.strongest(found)]
    return lines or ["no interaction found: each parameter acts on its own, as far as these trials show"]


def given_factors(study: StudyStore) -> str | None:
    """Why this study learns no interactions; None if it does."""
    if study.file.factors is not None:
        factors = ", ".join(words.together(scope) for scope in study.file.factors)
        return f"the study file gives the factors, so none are learned: {factors}"
    if study.file.options.get("graph") == "random":
        return "the study uses random graphs (options.graph: random), so no interactions are learned"
    return None


def trials_table(rows: Sequence[Row], best: int | None, console: Console, *, params: Sequence[str] = ()) -> None:
    """Trials as a table, the best one marked, with a column for each parameter of ``params``."""
    from rich.table import Table

    limited = any(row.constraints for row in rows)
    table = Table(box=None, padding=(0, 2, 0, 0), header_style="bold")
    columns = ["trial", "state", "value", *(["feasible"] if limited else [])]
    for name in columns:
        table.add_column(name, justify="right" if name == "trial" else "left", no_wrap=True)
    for name in params:
        table.add_column(_text(name), overflow="fold")
    table.add_column("time", justify="right", no_wrap=True)
    table.add_column("")
    for row in rows:
        style = "bold green" if row.number == best else {"failed": "red", "died": "dim"}.get(row.state, "")
        verdict = "" if row.feasible is None else ("yes" if row.feasible else "no")
        took = "" if row.seconds is None else words.duration(row.seconds)
        note = row.error or ("best" if row.number == best else "")
        value = "" if row.value is None else words.number(row.value)
        cells = [str(row.number), row.state, value, *([verdict] if limited else [])]
        chosen = [_text(words.setting(row.params[name]) if name in row.params else "") for name in params]
        table.add_row(*cells, *chosen, took, _text(note), style=style)
    console.print(table)


def _text(text: str) -> Any:
    from rich.text import Text

    return Text(text, overflow="ellipsis")


def _course(study: StudyStore, console: Console) -> None:
    values = [trial.value if is_feasible(trial) else None for trial in evaluated(study.trials)]
    course = words.bests(values, study.file.direction)
    if len(course) > 1:
        line = words.sparkline(course, min(60, console.width - 40))
        _print(console, f"\nbest so far  {words.number(course[0])} {line} {words.number(course[-1])}")


def _interactions(study: StudyStore, console: Console) -> None:
    given = given_factors(study)
    _print(console, "\nwhat acts together", style="bold")
    if given is not None:
        _print(console, f"  {given}")
        return
    try:
        found = study.optimizer().interactions()
    except DechboError as error:
        _print(console, f"  not known: {error}")
        return
    lines = interaction_lines(found, study.file.space.dim)
    for line in lines[:5]:
        _print(console, textwrap.fill(line, console.width - 1, initial_indent="  ", subsequent_indent="    "))
    if len(lines) > 5:
        _print(console, f"  and {len(lines) - 5} more", style="dim")


def _picture(study: StudyStore, wish: Wish, console: Console) -> None:
    from dechbo.studies.picture import draw

    path = wish.picture or study.file.path.with_name(f"{study.file.name}.png")
    try:
        path.write_bytes(draw(study))
    except ImportError:
        _print(console, f"\n{NO_MATPLOTLIB}", style="yellow")
    except OSError as error:
        _print(console, f"\nno picture: {_near(path)} cannot be written: {error.strerror}", style="yellow")
    except Exception as error:  # a picture is no reason to lose the end of a long study
        _print(console, f"\nno picture: {error!r}", style="yellow")
    else:
        _print(console, f"\npicture    {_near(path)}")


def _near(path: Path) -> str:
    """A path as seen from here, where that is shorter."""
    try:
        return str(path.relative_to(Path.cwd()))
    except ValueError:
        return str(path)


def _next(wish: Wish, console: Console, next_target: int | None, found: bool) -> None:
    commands = {wish.command(trials=next_target): "go on" if next_target is None else "more trials"}
    if found:
        commands[wish.other("best", "--json")] = "for programs"
        commands[wish.other("trials")] = "all trials"
        commands[wish.other("interactions")] = "interactions"
    else:
        commands[wish.other("trials")] = "what happened"
    _print(console, "next")
    for command, what in commands.items():
        _print(console, f"  {what:<16}{command}")


def _print(console: Console, text: str, style: str | None = None) -> None:
    """Exactly this text, whatever its brackets, and never folded: paths and commands are to be copied."""
    console.print(text, style=style, markup=False, highlight=False, soft_wrap=True)
