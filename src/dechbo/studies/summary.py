"""What a study found, as the terminal shows it: best parameters, interactions, trials, and next commands.

Tested in test_commands.py.
"""

from __future__ import annotations

import json
import textwrap
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from dechbo.errors import DechboError
from dechbo.interactions import Interaction, Interactions, strongest
from dechbo.studies import formatting
from dechbo.studies.storage import redacted_url
from dechbo.studies.store import StudyStore
from dechbo.studies.trial_table import TrialRow, feasible_values, trial_rows

if TYPE_CHECKING:
    from rich.console import Console
    from rich.text import Text

    from dechbo.studies.optimize import OptimizeArguments

MAX_INTERACTIONS_SHOWN = 5
NO_MATPLOTLIB = "no picture: it needs matplotlib; `pip install matplotlib`, then the same command draws it"


def print_summary(
    study: StudyStore, arguments: OptimizeArguments, console: Console, *, next_target: int | None, brief: bool = False
) -> None:
    """The end of ``dechbo optimize``: what was found, where it is stored, and how to continue."""
    best = study.best
    if best is None:
        print_text(console, "no trial succeeded yet: nothing to show")
    else:
        print_best(study, trial_rows([best], study.file.space.names)[0], console, copy=not brief)
        if not brief:
            _print_history(study, console)
    if study.failed:
        print_text(console, f"\nfailed: {study.failed} of {formatting.count(study.finished, 'trial')}")
    if not brief and best is not None:
        _print_interactions(study, console)
        if not arguments.no_picture:
            _draw_picture(study, arguments.picture, console)
    print_text(console, f"\nstored in  {redacted_url(study.url)}")
    log = getattr(study.file.objective, "log", None)
    if isinstance(log, Path) and log.exists() and log.stat().st_size:
        print_text(console, f"output in  {_relative(log)}")
    _print_next(arguments, console, next_target, best is not None)


def print_best(study: StudyStore, best: TrialRow, console: Console, *, copy: bool = True) -> None:
    """The best trial as a table, and its parameters to copy."""
    from rich.table import Table

    title = f"best value {formatting.number(best.value)}  (trial {best.number}, {study.file.direction})"
    print_text(console, f"\n{title}", style="bold green")
    table = Table(box=None, show_header=False, padding=(0, 2, 0, 2))
    for name, value in best.params.items():
        table.add_row(name, formatting.setting(value))
    for name, value in best.constraints.items():
        table.add_row(f"constraint {name}", f"{formatting.number(value)}  (feasible at or below 0)", style="dim")
    console.print(table)
    if not copy:
        return
    print_text(console, "\nto copy, as YAML:", style="dim")
    print_text(console, formatting.as_yaml(best.params))
    print_text(console, "as JSON:", style="dim")
    print_text(console, json.dumps(best.params, ensure_ascii=False))


def interaction_lines(found: Sequence[Interaction], dim: int, *, weak: bool = False) -> list[str]:
    """The strongest interactions as sentences; ``weak`` also shows those with less than 1 % of the variance."""
    everything = strongest(found, min_share=0.0)
    shown = everything if weak else strongest(found)
    lines = [formatting.interaction_sentence(interaction, dim) for interaction in shown]
    if not shown:
        limit = "" if weak else " of 1% of the variance or more"
        lines.append(f"no evidence of interactions{limit} in the trials so far")
    if hidden := len(everything) - len(shown):
        lines.append(f"{formatting.count(hidden, 'weaker one')} with less than 1% of the variance not shown (--all)")
    if not getattr(found, "converged", True):
        lines.append("This is rough: the chains behind the probabilities do not agree yet. More trials help.")
    return lines


def why_not_learned(study: StudyStore) -> str | None:
    """Why this study learns no interactions; None if it does."""
    if study.file.factors is not None:
        factors = ", ".join(map(formatting.scope_label, study.file.factors))
        return f"given in the study file: {factors}"
    if study.file.options.get("graph") == "random":
        return "not learned: the study file has options.graph: random"
    return None


def print_trials(rows: Sequence[TrialRow], best: int | None, console: Console, *, params: Sequence[str] = ()) -> None:
    """Trials as a table, the best one marked, with a column for each parameter of ``params``."""
    from rich.table import Table

    constrained = any(row.constraints for row in rows)
    table = Table(box=None, padding=(0, 2, 0, 0), header_style="bold")
    for name in ["trial", "state", "value", *(["feasible"] if constrained else [])]:
        table.add_column(name, justify="right" if name == "trial" else "left", no_wrap=True)
    for name in params:
        table.add_column(_text(name), overflow="fold")
    table.add_column("time", justify="right", no_wrap=True)
    table.add_column("")
    for row in rows:
        style = "bold green" if row.number == best else {"failed": "red", "stale": "dim"}.get(row.state, "")
        verdict = "" if row.feasible is None else ("yes" if row.feasible else "no")
        value = "" if row.value is None else formatting.number(row.value)
        seconds = "" if row.seconds is None else formatting.duration(row.seconds)
        note = row.error or ("best" if row.number == best else "")
        cells = [str(row.number), row.state, value, *([verdict] if constrained else [])]
        settings = [_text(formatting.setting(row.params[name]) if name in row.params else "") for name in params]
        table.add_row(*cells, *settings, seconds, _text(note), style=style)
    console.print(table)


def _text(text: str) -> Text:
    from rich.text import Text

    return Text(text, overflow="ellipsis")


def _print_history(study: StudyStore, console: Console) -> None:
    best = formatting.running_best(feasible_values(study.trials), study.file.direction)
    if len(best) > 1:
        line = formatting.sparkline(best, min(60, console.width - 40))
        print_text(console, f"\nbest so far  {formatting.number(best[0])} {line} {formatting.number(best[-1])}")


def _print_interactions(study: StudyStore, console: Console) -> None:
    print_text(console, "\nInteractions", style="bold")
    reason = why_not_learned(study)
    if reason is not None:
        print_text(console, f"  {reason}")
        return
    try:
        found = study.optimizer().interactions()
    except DechboError as error:
        print_text(console, f"  not known: {error}")
        return
    shown = Interactions(strongest(found, MAX_INTERACTIONS_SHOWN), converged=found.converged)
    for line in interaction_lines(shown, study.file.space.dim):
        print_text(console, textwrap.fill(line, console.width - 1, initial_indent="  ", subsequent_indent="    "))
    if (more := len(strongest(found)) - len(shown)) > 0:
        print_text(console, f"  and {more} more", style="dim")


def _draw_picture(study: StudyStore, path: Path | None, console: Console) -> None:
    from dechbo.studies.picture import study_picture

    path = path or study.file.path.with_name(f"{study.file.name}.png")
    try:
        path.write_bytes(study_picture(study))
    except ImportError:
        print_text(console, f"\n{NO_MATPLOTLIB}", style="yellow")
    except OSError as error:
        print_text(console, f"\nno picture: {_relative(path)} cannot be written: {error.strerror}", style="yellow")
    except Exception as error:  # a failed picture must not hide the results of a long study
        print_text(console, f"\nno picture: {error!r}", style="yellow")
    else:
        print_text(console, f"\npicture    {_relative(path)}")


def _relative(path: Path) -> str:
    """A path relative to the current folder, if it is inside."""
    return str(path.relative_to(Path.cwd()) if path.is_relative_to(Path.cwd()) else path)


def _print_next(arguments: OptimizeArguments, console: Console, next_target: int | None, found: bool) -> None:
    commands = {"continue" if next_target is None else "more trials": arguments.command(trials=next_target)}
    if found:
        commands["for programs"] = arguments.other("best", "--json")
        commands["all trials"] = arguments.other("trials")
        commands["interactions"] = arguments.other("interactions")
    else:
        commands["what happened"] = arguments.other("trials")
    print_text(console, "next")
    for what, command in commands.items():
        print_text(console, f"  {what:<16}{command}")


def print_text(console: Console, text: str, style: str | None = None) -> None:
    """Print the text as it is and unwrapped: people copy paths and commands from it."""
    console.print(text, style=style, markup=False, highlight=False, soft_wrap=True)
