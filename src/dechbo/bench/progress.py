"""Progress of an experiment: a live table on a terminal, one line per run that ends (tests: test_commands.py)."""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Sequence
from types import TracebackType

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from dechbo.bench.records import FINISHED, NOT_RUN, Run
from dechbo.studies.formatting import duration


class BenchProgress:
    """Counts runs and evaluations and estimates the time left."""

    def __init__(self, console: Console, runs: Sequence[Run], workers: int, skipped: int = 0) -> None:
        self.console, self.workers, self.skipped = console, max(1, min(workers, len(runs))), skipped
        self.total = len(runs)
        self.remaining: dict[Run, int] = {run: run.total for run in runs}  # evaluations to do
        self.current: dict[Run, tuple[int, float]] = {}  # evaluations done, best regret
        self.ended: list[tuple[Run, str]] = []  # with their status
        self._last_step: dict[Run, float] = {}  # when
        self._seconds: dict[str, list[float]] = defaultdict(list)  # per evaluation, by method
        self._started = time.monotonic()
        self._live: Live | None = None

    def __enter__(self) -> BenchProgress:
        if self.console.is_terminal:
            self._live = Live(console=self.console, refresh_per_second=4, get_renderable=self._render)
            self._live.__enter__()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._live is not None:
            self._live.__exit__(kind, error, trace)

    @property
    def unfinished(self) -> list[tuple[Run, str]]:
        """Runs of this session that ended without finishing, with their status."""
        return [(run, status) for run, status in self.ended if status != FINISHED]

    # ---------------------------------------------------------- events

    def run_started(self, run: Run) -> None:
        """A worker starts the run."""
        self.current[run] = (0, float("inf"))

    def evaluation_done(self, run: Run, done: int, regret: float) -> None:
        """One more evaluation of the run is on disk."""
        now = time.monotonic()
        if run in self._last_step and done > run.initial + 1:
            self._seconds[run.method].append(now - self._last_step[run])
        self._last_step[run] = now
        self.current[run] = (done, regret)
        self.remaining[run] = run.total - done

    def run_ended(self, run: Run, status: str, regret: float, seconds: float) -> None:
        """The run has ended, with or without a record."""
        self.current.pop(run, None)
        self.remaining.pop(run, None)
        self.ended.append((run, status))
        colour = "green" if status == FINISHED else "red" if status.startswith(NOT_RUN) else "yellow"
        text = Text(f"{len(self.ended):>4}/{self.total}  {run.problem:<22} {run.method:<16} seed {run.seed:<3}")
        text.append(f" regret {regret:<12.5g}").append(f" {status}", style=colour)
        text.append(f"  {duration(seconds)}, left {duration(self.seconds_left())}", style="dim")
        self.console.print(text, markup=False, soft_wrap=True)

    # ---------------------------------------------------------- display

    def seconds_left(self) -> float:
        """Remaining evaluations times the mean seconds of their method (or of all methods), over workers."""
        known = [seconds for each in self._seconds.values() for seconds in each]
        if not known:
            return 0.0 if not self.remaining else float("nan")
        overall = sum(known) / len(known)
        mean = {method: sum(each) / len(each) for method, each in self._seconds.items() if each}
        return sum(count * mean.get(run.method, overall) for run, count in self.remaining.items()) / self.workers

    def _render(self) -> RenderableType:
        total = sum(run.total for run, _ in self.ended) + sum(run.total for run in self.remaining)
        done = total - sum(self.remaining.values())
        found = f", {self.skipped} found" if self.skipped else ""
        head = Table.grid(padding=(0, 2))
        head.add_row(
            f"[bold]{len(self.ended)}[/] of {self.total} runs",
            ProgressBar(total=max(total, 1), completed=done, width=30),
            f"{done} of {total} evaluations",
            f"left about [bold]{duration(self.seconds_left())}[/]",
            f"[dim]{duration(time.monotonic() - self._started)} so far{found}[/]",
        )
        rows = Table(box=None, padding=(0, 2), header_style="dim")
        for name in ("problem", "method", "seed", "evaluations", "best regret"):
            rows.add_column(name, justify="left" if name in ("problem", "method") else "right")
        for run, (step, regret) in list(self.current.items()):
            rows.add_row(run.problem, run.method, str(run.seed), f"{step}/{run.total}", f"{regret:.5g}")
        return Group(head, rows)
