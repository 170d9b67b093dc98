"""The progress of a run: a live panel in a terminal, one line per trial in a log."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from dechbo import compiled
from dechbo.execution.outcome import Outcome
from dechbo.interactions import Interaction, strongest
from dechbo.optimizer import AskInfo
from dechbo.studies import formatting
from dechbo.studies.pace import Pace
from dechbo.studies.terminal import plain, printable

if TYPE_CHECKING:
    from optuna.trial import FrozenTrial
    from rich.console import RenderableType

    from dechbo.studies.run import Event

MAX_PANEL_WIDTH = 110
CTRL_C = "Ctrl-C stops after the running trials; the same command continues later."
COMPILING = "Compiling the inner loops of the models: about half a minute, once on a machine."


@dataclass(frozen=True)
class Progress:
    """How far a study has come, whichever process evaluated its trials."""

    finished: int = 0  # without imported results
    failed: int = 0
    best: tuple[int, float] | None = None  # number and value
    values: tuple[float | None, ...] = ()  # of all results by number; None where it failed or is not feasible


def progress_of(trials: Sequence[FrozenTrial], direction: str) -> Progress:
    """The progress that the trials of a study show."""
    from dechbo.integrations.optuna.trials import best_trial
    from dechbo.studies.store import own_evaluations
    from dechbo.studies.trial_table import feasible_values

    own, best = own_evaluations(trials), best_trial(trials, direction)
    return Progress(
        finished=len(own),
        failed=sum(trial.state.name == "FAIL" for trial in own),
        best=None if best is None or best.value is None else (best.number, best.value),
        values=tuple(feasible_values(trials)),
    )


class ProgressPanel:
    """The state of a run as plain data, fed by its events; ``panel`` and ``log_line`` show it."""

    def __init__(
        self,
        name: str,
        *,
        direction: str,
        target: int,
        dim: int,
        progress: Progress | None = None,
        interactions: str | Sequence[Interaction] = (),
        workers: int = 1,
        note: str = CTRL_C,
        clock: Callable[[], float] = time.monotonic,
        compiling: Callable[[], bool] = compiled.is_compiling,
    ) -> None:
        self.name, self.direction, self.target, self.dim = name, direction, target, dim
        self.progress = progress or Progress()
        self.interactions = interactions
        self.running: dict[int, float] = {}  # start time of each trial
        self.failures: Counter[tuple[str, str]] = Counter()  # of this run, by kind
        self.interrupted = False
        self.last: str = ""
        self.info: AskInfo | None = None
        self._note_text = note
        self._clock = clock
        self._asking: float | None = None  # since when
        self._compiling = compiling
        self._pace = Pace(workers, clock())
        self._before, self._own = self.progress.finished, 0  # trials finished before this run, and by it

    def update(self, event: Event, progress: Progress | None = None) -> None:
        """Take in an event, and the progress after it if known."""
        if progress is not None:
            self.progress = progress
        now = self._clock()
        asked_at, self._asking = self._asking, now if event.kind == "asking" else None
        if event.kind == "started":
            assert event.number is not None
            self.running[event.number] = now
            self.info = event.info
            if asked_at is not None and event.info is not None:
                by_model = event.info.source != "initial design"
                self._pace.asked(self.progress.finished, now - asked_at, by_model=by_model)
        elif event.kind in ("finished", "failed"):
            assert event.number is not None
            assert event.outcome is not None
            self.running.pop(event.number, None)
            self._own += 1
            self._pace.evaluated(event.outcome.seconds, now)
            self._finish(event.number, event.outcome)

    def _finish(self, number: int, outcome: Outcome) -> None:
        took = formatting.duration(outcome.seconds)
        if outcome.pruned:
            self.last = f"trial {number}: pruned after {took}"
        elif outcome.value is None:
            self.failures[formatting.error_kind(outcome.error)] += 1
            self.last = f"trial {number} failed after {took}: {formatting.error_summary(outcome.error)}"
        else:
            remark = ", infeasible" if _violated(outcome) else ""
            self.last = f"trial {number}: {formatting.number(outcome.value)} in {took}{remark}"

    @property
    def seconds_left(self) -> float | None:
        """An estimate from asks and evaluations apart; None before two trials have ended."""
        left = self._pace.seconds_left(self.progress.finished, self.target)
        others = max(0, self.progress.finished - self._before - self._own)  # finished by other processes meanwhile
        return None if left is None else left * self._own / max(1, self._own + others)

    @property
    def best_values(self) -> list[float]:
        """The best value after each trial."""
        return formatting.running_best(self.progress.values, self.direction)

    def log_line(self, event: Event) -> str:
        """A finished trial as one line of a log."""
        assert event.outcome is not None
        outcome, left, now = event.outcome, self.seconds_left, self.progress
        value = "pruned" if outcome.pruned else "failed" if outcome.failed else formatting.number(outcome.value)
        parts = [
            f"trial {event.number:<5} {value:<12}",
            f"best {formatting.number(now.best and now.best[1]):<12}",
            f"{formatting.duration(outcome.seconds):<8}",
            f"{now.finished} of {self.target}",
        ]
        if left is not None and now.finished < self.target:
            parts.append(f"{self._at_least}{formatting.duration(left)} left")
        if outcome.failed:
            parts.append(formatting.error_summary(outcome.error))
        elif _violated(outcome):
            parts.append(f"infeasible: {_violated(outcome)}")
        return "  ".join(parts)

    # ------------------------------------------------------------------ the panel

    def panel(self, width: int = 80) -> RenderableType:
        """The live display."""
        from rich.console import Group
        from rich.panel import Panel
        from rich.table import Table
        from rich.text import Text

        width = min(width, MAX_PANEL_WIDTH)
        facts = Table.grid(padding=(0, 2), expand=True)  # else lines are cut without an ellipsis
        facts.add_column(style="dim", no_wrap=True, min_width=12)
        facts.add_column(overflow="ellipsis", no_wrap=True, ratio=1)
        for name, text in self._facts(width - 24).items():
            facts.add_row(name, plain(text) if isinstance(text, str) else text)
        title = Text.assemble(("dechbo", "bold"), " · ", printable(self.name))
        note = Text(self._note(), style="yellow" if self.interrupted else "dim")
        return Group(Panel(facts, title=title, title_align="left", width=width, padding=(0, 1)), note)

    def _facts(self, room: int) -> dict[str, RenderableType]:
        """The lines of the panel, by name; each has ``room`` characters."""
        from rich.progress_bar import ProgressBar
        from rich.table import Table
        from rich.text import Text

        bar = ProgressBar(self.target, min(self.progress.finished, self.target), width=max(10, min(30, room - 34)))
        trials = Table.grid(padding=(0, 2))
        trials.add_row(f"{self.progress.finished} of {self.target}", bar, Text(self._time_left(), style="dim"))
        facts: dict[str, RenderableType] = {"trials": trials, "best so far": self._best(room)}
        if self.last:
            facts["last"] = self.last
        facts["running"] = self._running()
        facts["gap"] = formatting.certificate(self.info)
        facts["interactions"] = self._interactions()
        if self.progress.failed:
            facts["failed"] = plain(self._failures(), "red")
        return facts

    def _best(self, room: int) -> RenderableType:
        from rich.text import Text

        if self.progress.best is None:
            return "none yet"
        number, value = self.progress.best
        best, where = formatting.number(value), f"  trial {number}  "
        line = formatting.sparkline(self.best_values, max(0, min(40, room - len(best) - len(where))))
        return Text.assemble((best, "bold green"), (where, "dim"), (line, "green"))

    def _time_left(self) -> str:
        left = self.seconds_left
        if left is None or self.progress.finished >= self.target:
            return ""
        return f"{self._at_least or 'about '}{formatting.duration(max(left, 1.0))} left"

    @property
    def _at_least(self) -> str:
        return "more than " if self._pace.is_lower_bound else ""

    def _running(self) -> str:
        now = self._clock()
        parts = [f"trial {n} for {formatting.duration(max(now - t, 0.1))}" for n, t in list(self.running.items())[:3]]
        parts += [f"{len(self.running) - 3} more"] if len(self.running) > 3 else []
        if self._asking is not None:
            waited = now - self._asking
            parts.append("choosing the next point" + (f" for {formatting.duration(waited)}" if waited > 1 else ""))
        return ", ".join(parts) or "–"

    def _interactions(self) -> str:
        if isinstance(self.interactions, str):
            return self.interactions
        found = [
            f"{formatting.scope_label(i.scope, self.dim)} ({formatting.percent(i.probability)})"
            for i in strongest(self.interactions, 3)
        ]
        if not found:
            return "none found yet"
        rough = "" if getattr(self.interactions, "converged", True) else "rough so far: "
        return rough + ", ".join(found)

    def _failures(self) -> str:
        failures = self.failures.copy()  # the run's thread goes on counting
        if not failures:
            return str(self.progress.failed)
        (_, name), times = failures.most_common(1)[0]
        more = f", {formatting.count(len(failures) - 1, 'other kind')}" if len(failures) > 1 else ""
        return f"{self.progress.failed}: {name} ({times}×{more})"

    def _note(self) -> str:
        if self.interrupted:
            return interrupt_note(len(self.running))
        return COMPILING if self._asking is not None and self._compiling() else self._note_text


def interrupt_note(running: int) -> str:
    """The answer to the first Ctrl-C."""
    what = f"waiting for {formatting.count(running, 'running evaluation')}" if running else "stopping"
    return f"{what}; Ctrl-C again to stop at once"


def _violated(outcome: Outcome) -> str:
    return ", ".join(f"{name} = {formatting.number(c)}" for name, c in outcome.constraints.items() if c > 0)
