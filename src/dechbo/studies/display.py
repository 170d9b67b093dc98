"""What a person sees while a study runs: a panel in a terminal, a line per trial in a log."""

from __future__ import annotations

import time
from collections import Counter, deque
from collections.abc import Callable, Mapping, Sequence
from itertools import pairwise
from statistics import median
from typing import TYPE_CHECKING, Any

from dechbo.execution.outcome import Outcome
from dechbo.interactions import Interaction
from dechbo.optimizer import AskInfo
from dechbo.studies import words
from dechbo.studies.rows import Standing

if TYPE_CHECKING:
    from rich.console import RenderableType

    from dechbo.studies.run import Event

LONG_ASK = 3.0  # seconds after which an ask is worth an explanation
RECENT = 25  # finished trials that the time left is estimated from


class Board:
    """The state of a run in plain data, fed by its events and the study's standing; ``panel`` and ``line`` show it."""

    def __init__(
        self,
        name: str,
        *,
        direction: str,
        target: int,
        dim: int,
        standing: Standing | None = None,
        interactions: str | Sequence[Interaction] = (),
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.name, self.direction, self.target, self.dim = name, direction, target, dim
        self.standing = standing or Standing()
        self.interactions = interactions
        self.running: dict[int, float] = {}  # when each trial began
        self.kinds: Counter[tuple[str, str]] = Counter()  # failures of this run
        self.recovered = 0
        self.interrupted = False
        self.last: str = ""
        self.info: AskInfo | None = None
        self._clock = clock
        self._asking: float | None = None  # since when
        self._modelled = False  # whether a model has answered in this run
        self._ends: deque[tuple[float, int]] = deque([(clock(), self.standing.finished)], RECENT + 1)

    def take(self, event: Event, standing: Standing | None = None) -> None:
        """Something happened; ``standing`` is how far the study is now, if that was looked up."""
        if standing is not None:
            self.standing = standing
        now = self._clock()
        if event.kind == "asking":
            self._asking = now
            return
        self._asking = None
        if event.kind == "recovered":
            self.recovered += 1
            return
        assert event.number is not None
        if event.kind == "started":
            self.running[event.number] = now
            self.info = event.info
            self._modelled |= event.info is not None and event.info.graph is not None
            return
        self.running.pop(event.number, None)
        self._ends.append((now, self.standing.finished))
        assert event.outcome is not None
        self._finish(event.number, event.outcome)

    def _finish(self, number: int, outcome: Outcome) -> None:
        took = words.duration(outcome.seconds)
        if outcome.value is None:
            self.kinds[words.kind_of(outcome.error)] += 1
            self.last = f"trial {number} failed after {took}: {words.essence(outcome.error)}"
            return
        feasible = all(c <= 0 for c in outcome.constraints.values())
        remark = "" if feasible else ", infeasible"
        self.last = f"trial {number}: {words.number(outcome.value)} in {took}{remark}"

    @property
    def left(self) -> float | None:
        """Seconds left, estimated from the pace of the latest trials; None while nothing is known."""
        ends = list(self._ends)  # a copy: the display's thread reads while the run's thread writes
        # others may have finished trials between two of ours
        steps = [(b - a) / max(1, n - m) for (a, m), (b, n) in pairwise(ends)]
        return median(steps) * max(0, self.target - self.standing.finished) if len(steps) >= 2 else None

    @property
    def course(self) -> list[float]:
        """The best so far after each trial."""
        return words.bests(self.standing.values, self.direction)

    def line(self, event: Event) -> str:
        """A finished trial as one line of a log."""
        assert event.outcome is not None
        value, left, now = event.outcome.value, self.left, self.standing
        said = f"{words.number(value):<12}" if value is not None else f"{'failed':<12}"
        parts = [
            f"trial {event.number:<5} {said}",
            f"best {words.number(now.best and now.best[1]):<12}",
        ]
        parts += [f"{words.duration(event.outcome.seconds):<8}", f"{now.finished} of {self.target}"]
        parts += [f"{words.duration(left)} left"] if left is not None and now.finished < self.target else []
        if value is None:
            parts.append(words.essence(event.outcome.error))
        elif any(c > 0 for c in event.outcome.constraints.values()):
            parts.append("infeasible: " + _broken(event.outcome.constraints))
        return "  ".join(parts)

    # ------------------------------------------------------------------ the panel

    def panel(self, width: int = 80) -> RenderableType:
        """The live display."""
        from rich.console import Group
        from rich.panel import Panel
        from rich.table import Table
        from rich.text import Text

        facts = Table.grid(padding=(0, 2))
        facts.add_column(style="dim", no_wrap=True, min_width=12)
        facts.add_column(overflow="ellipsis", no_wrap=True, ratio=1)
        for name, text in self._facts(min(width, 110) - 24).items():
            facts.add_row(name, text)
        title = Text.assemble(("dechbo", "bold"), " · ", self.name)
        note = Text(self._note(), style="yellow" if self.interrupted else "dim")
        return Group(Panel(facts, title=title, title_align="left", width=min(width, 110), padding=(0, 1)), note)

    def _facts(self, room: int) -> dict[str, RenderableType]:
        """What the panel says, by name."""
        from rich.progress_bar import ProgressBar
        from rich.table import Table
        from rich.text import Text

        progress = Table.grid(padding=(0, 2))
        bar = ProgressBar(self.target, min(self.standing.finished, self.target), width=max(10, min(30, room - 34)))
        progress.add_row(f"{self.standing.finished} of {self.target}", bar, Text(self._time(), style="dim"))
        facts: dict[str, RenderableType] = {"trials": progress, "best so far": self._best(room)}
        if self.last:
            facts["last"] = self.last
        facts["running"] = self._running()
        facts["gap"] = words.certificate(self.info, self.dim)
        facts["interactions"] = self._interactions()
        if self.standing.failed:
            facts["failed"] = Text(self._failures(), style="red")
        return facts

    def _best(self, room: int) -> RenderableType:
        from rich.text import Text

        if self.standing.best is None:
            return "none yet"
        number, value = self.standing.best
        said = f"{words.number(value)}"
        where = f"  trial {number}  "
        line = words.sparkline(self.course, max(0, min(40, room - len(said) - len(where))))
        return Text.assemble((said, "bold green"), (where, "dim"), (line, "green"))

    def _time(self) -> str:
        if self.left is None or self.standing.finished >= self.target:
            return ""
        return f"about {words.duration(max(self.left, 1.0))} left"

    def _running(self) -> str:
        now = self._clock()
        parts = [f"trial {n} for {words.duration(max(now - t, 0.1))}" for n, t in list(self.running.items())[:3]]
        parts += [f"{len(self.running) - 3} more"] if len(self.running) > 3 else []
        if self._asking is not None:
            thinking = now - self._asking
            parts.append("choosing the next point" + (f" for {words.duration(thinking)}" if thinking > 1 else ""))
        return ", ".join(parts) or "–"

    def _interactions(self) -> str:
        if isinstance(self.interactions, str):
            return self.interactions
        found = words.strongest(self.interactions, 3)
        if not found:
            return "none found yet"
        return ", ".join(f"{words.together(i.scope, self.dim)} ({words.percent(i.probability)})" for i in found)

    def _failures(self) -> str:
        kinds = self.kinds.copy()  # the run's thread counts on
        if not kinds:
            return str(self.standing.failed)
        (_, name), times = kinds.most_common(1)[0]
        more = f", {words.count(len(kinds) - 1, 'other kind')}" if len(kinds) > 1 else ""
        return f"{self.standing.failed}: {name} ({times}×{more})"

    def _note(self) -> str:
        if self.interrupted:
            return finishing(len(self.running))
        if self._asking is not None and not self._modelled and self._clock() - self._asking > LONG_ASK:
            return "The first model on a machine compiles its inner loops: half a minute, only once."
        return "Ctrl-C ends it cleanly; the same command goes on later."


def finishing(running: int) -> str:
    """What the first Ctrl-C says."""
    if not running:
        return "ending; Ctrl-C again to leave at once"
    return f"finishing {words.count(running, 'running evaluation')}; Ctrl-C again to leave at once"


def _broken(constraints: Mapping[str, Any]) -> str:
    return ", ".join(f"{name} = {words.number(c)}" for name, c in constraints.items() if c > 0)
