"""What a study found, as the terminal shows it: best parameters, interactions, trials, and next commands.

Tested in test_commands.py.
"""

from __future__ import annotations

import json
import textwrap
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from rich.cells import cell_len

from dechbo.errors import DechboError, format_list
from dechbo.interactions import Interaction, Interactions, strongest
from dechbo.studies import formatting
from dechbo.studies.stopping import expected_outlook
from dechbo.studies.storage import redacted_url
from dechbo.studies.store import StudyStore
from dechbo.studies.terminal import plain, print_text, printable
from dechbo.studies.trial_table import TrialRow, feasible_values, trial_rows

if TYPE_CHECKING:
    from rich.console import Console

    from dechbo.studies.optimize import OptimizeArguments

MAX_INTERACTIONS_SHOWN = 5
MAX_REPEATED = 12  # parameters that are shown as a table, as YAML and as JSON; more are shown once
MAX_CURVE_WIDTH = 16  # of a learning curve in the list of trials
MAX_NAME_WIDTH = 18  # of a parameter over its column
MIN_NOTE_WIDTH = 24  # of the last column, which holds errors
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
        _print_outlook(study, console)
        if not arguments.no_picture:
            _draw_picture(study, arguments.picture, console)
    print_text(console, f"\nstored in  {redacted_url(study.url)}")
    log = getattr(study.file.objective, "log", None)
    if isinstance(log, Path) and log.exists() and log.stat().st_size:
        print_text(console, f"output in  {_relative(log)}")
    exhausted = getattr(study, "exhausted", None) is not None
    _print_next(arguments, console, next_target, found=best is not None, exhausted=exhausted, failed=study.failed > 0)


def print_best(study: StudyStore, best: TrialRow, console: Console, *, copy: bool = True) -> None:
    """The best trial as a table, and its parameters to copy; where there are many, only those to copy."""
    from rich.table import Table

    title = f"best value {formatting.number(best.value)}  (trial {best.number}, {study.file.direction})"
    print_text(console, f"\n{title}", style="bold green")
    table = Table(box=None, show_header=False, padding=(0, 2, 0, 2))
    once = copy and len(best.params) > MAX_REPEATED
    for name, value in () if once else best.params.items():
        table.add_row(plain(name), plain(formatting.setting(value)))
    for name, value in best.constraints.items():
        limit = f"{formatting.number(value)}  (feasible at or below 0)"
        table.add_row(plain(f"constraint {name}"), plain(limit), style="dim")
    if table.row_count:
        console.print(table)
    if not copy:
        return
    print_text(console, "\nto copy, as YAML:", style="dim")
    print_text(console, formatting.as_yaml(best.params))
    if once:
        return
    print_text(console, "as JSON:", style="dim")
    print_text(console, json.dumps(best.params, ensure_ascii=False))


def interaction_lines(found: Sequence[Interaction], dim: int, *, weak: bool = False) -> list[str]:
    """The strongest interactions as sentences; ``weak`` also shows those with less than 1 % of the variance."""
    everything = strongest(found, min_share=0.0)
    shown = everything if weak else strongest(found)
    by_share = sorted(shown, key=lambda interaction: -interaction.share)  # the order that a reader can see
    converged = getattr(found, "converged", True)
    lines = [formatting.interaction_sentence(interaction, dim, converged=converged) for interaction in by_share]
    if not shown:
        limit = "" if weak else " of 1% of the variance or more"
        lines.append(f"no evidence of interactions{limit} in the trials so far")
    if hidden := len(everything) - len(shown):
        lines.append(f"{formatting.count(hidden, 'weaker one')} with less than 1% of the variance not shown (--all)")
    if not converged:
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
    """Trials as a table, the best one marked, with a column for each parameter of ``params`` that fits."""
    from rich.table import Table

    constrained = any(row.constraints for row in rows)
    facts = [_facts_of(row, constrained, row.number == best) for row in rows]
    heads = ["trial", "state", "value", *(["feasible"] if constrained else []), "time", ""]
    widths = [max([len(head), *(len(fact[k]) for fact in facts)]) + 2 for k, head in enumerate(heads)]
    columns = {
        name: [formatting.setting(row.params[name]) if name in row.params else "" for row in rows] for name in params
    }
    shown = _fitting(columns, console.width - sum(widths[:-1]) - min(widths[-1], MIN_NOTE_WIDTH))
    table = Table(box=None, padding=(0, 2, 0, 0), header_style="bold")
    for name in heads[:-2]:
        table.add_column(name, justify="right" if name == "trial" else "left", no_wrap=True)
    for name, width in shown.items():
        table.add_column(plain(name), overflow="ellipsis", no_wrap=True, width=width)
    table.add_column("time", justify="right", no_wrap=True)
    table.add_column("")
    for k, (row, fact) in enumerate(zip(rows, facts, strict=True)):
        style = (
            "bold green"
            if row.number == best
            else {"failed": "red", **dict.fromkeys(("stale", "retracted", "retried"), "dim")}.get(row.state, "")
        )
        cells = [*fact[:-2], *(columns[name][k] for name in shown), *fact[-2:]]
        table.add_row(*map(plain, cells), style=style)
    console.print(table)
    if hidden := [name for name in params if name not in shown]:
        many = formatting.count(len(hidden), "more parameter")
        print_text(console, f"… {many} in a wider window, or with --json: {format_list(hidden)}", style="dim")


def _facts_of(row: TrialRow, constrained: bool, best: bool) -> list[str]:
    """The cells of a trial without its parameters."""
    verdict = "" if row.feasible is None else ("yes" if row.feasible else "no")
    value = "" if row.value is None else formatting.number(row.value)
    seconds = "" if row.seconds is None else formatting.duration(row.seconds)
    note = row.error or ("best" if best else "")
    if row.curve:
        note = f"{formatting.sparkline(list(row.curve.values()), MAX_CURVE_WIDTH)} {note}".rstrip()
    return [str(row.number), row.state, value, *([verdict] if constrained else []), seconds, note]


def _fitting(columns: Mapping[str, Sequence[str]], room: int) -> dict[str, int]:
    """The first columns that fit into ``room``, with their widths; a long name is cut, a value is not."""
    shown: dict[str, int] = {}
    for name, cells in columns.items():
        widest = max([cell_len(printable(cell)) for cell in cells], default=0)
        width = max(widest, min(cell_len(printable(name)), MAX_NAME_WIDTH))
        room -= width + 2
        if room < 0 and shown:
            break
        shown[name] = width
    return shown


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


def _print_outlook(study: StudyStore, console: Console) -> None:
    """How much improvement the model still expects."""
    try:
        found = expected_outlook(study, study.file.stopping.no_gain)
    except DechboError:  # no model, or nothing feasible yet
        return
    print_text(console, f"\nmore to gain?  {found}")


def _draw_picture(study: StudyStore, path: Path | None, console: Console) -> None:
    from dechbo.studies.picture import checked_format, study_picture

    path = path or study.file.path.with_name(f"{study.file.name}.png")
    try:
        path.write_bytes(study_picture(study, checked_format(path)))
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


def _print_next(
    arguments: OptimizeArguments,
    console: Console,
    next_target: int | None,
    *,
    found: bool,
    exhausted: bool,
    failed: bool,
) -> None:
    """The next commands; more trials are none where no point is left."""
    more = {"continue" if next_target is None else "more trials": arguments.command(trials=next_target)}
    commands = {} if exhausted else more
    if found:
        commands["for programs"] = arguments.other("best", "--json")
        commands["all trials"] = arguments.other("trials")
        commands["interactions"] = arguments.other("interactions")
    else:
        commands["what happened"] = arguments.other("trials")
    if failed:
        commands["failed again"] = arguments.other("retry", "--failed")
    print_text(console, "next")
    for what, command in commands.items():
        print_text(console, f"  {what:<16}{command}")
