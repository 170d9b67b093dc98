"""How a bench shows its progress: a live table on a terminal, a line per finished run elsewhere."""

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


class Progress:
    """Counts what is done and says how long the rest will take; shows it live on a terminal."""

    def __init__(self, console: Console, runs: Sequence[Run], workers: int, skipped: int = 0) -> None:
        self.console, self.workers, self.skipped = console, max(1, min(workers, len(runs))), skipped
        self.total = len(runs)
        self.left: dict[Run, int] = {run: run.total for run in runs}  # evaluations still to make
        self.current: dict[Run, tuple[int, float]] = {}  # evaluations done, best regret
        self.over_: list[tuple[Run, str]] = []
        self._seen: dict[Run, float] = {}
        self._cost: dict[str, list[float]] = defaultdict(list)  # seconds an evaluation, by method
        self._began = time.monotonic()
        self._live: Live | None = None

    def __enter__(self) -> Progress:
        if self.console.is_terminal:
            self._live = Live(console=self.console, refresh_per_second=4, get_renderable=self._shown)
            self._live.__enter__()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._live is not None:
            self._live.__exit__(kind, error, trace)

    @property
    def troubles(self) -> list[tuple[Run, str]]:
        """Runs of this session that did not finish, and why."""
        return [(run, status) for run, status in self.over_ if status != FINISHED]

    # ------------------------------------------------------- what it hears

    def started(self, run: Run) -> None:
        """A worker took up the run."""
        self.current[run] = (0, float("inf"))

    def step(self, run: Run, done: int, regret: float) -> None:
        """One more evaluation is on disk."""
        now = time.monotonic()
        if run in self._seen and done > run.initial + 1:
            self._cost[run.method].append(now - self._seen[run])
        self._seen[run] = now
        self.current[run] = (done, regret)
        self.left[run] = run.total - done

    def over(self, run: Run, status: str, regret: float, seconds: float) -> None:
        """The run has its record, or will have none."""
        self.current.pop(run, None)
        self.left.pop(run, None)
        self.over_.append((run, status))
        colour = "green" if status == FINISHED else "red" if status.startswith(NOT_RUN) else "yellow"
        text = Text(f"{len(self.over_):>4}/{self.total}  {run.problem:<22} {run.method:<16} seed {run.seed:<3}")
        text.append(f" regret {regret:<12.5g}").append(f" {status}", style=colour)
        text.append(f"  {clock(seconds)}, left {clock(self.seconds_left())}", style="dim")
        self.console.print(text, soft_wrap=True)

    # ------------------------------------------------------- what it shows

    def seconds_left(self) -> float:
        """Evaluations still to make, at what they cost so far (those of the same method where known), over workers."""
        known = [cost for costs in self._cost.values() for cost in costs]
        if not known:
            return 0.0 if not self.left else float("nan")
        usual = sum(known) / len(known)
        mean = {method: sum(costs) / len(costs) for method, costs in self._cost.items() if costs}
        return sum(count * mean.get(run.method, usual) for run, count in self.left.items()) / self.workers

    def _shown(self) -> RenderableType:
        everything = sum(run.total for run, _ in self.over_) + sum(run.total for run in self.left)
        remaining = sum(self.left.values())
        found = f", {self.skipped} found" if self.skipped else ""
        head = Table.grid(padding=(0, 2))
        head.add_row(
            f"[bold]{len(self.over_)}[/] of {self.total} runs",
            ProgressBar(total=max(everything, 1), completed=everything - remaining, width=30),
            f"{everything - remaining} of {everything} evaluations",
            f"left about [bold]{clock(self.seconds_left())}[/]",
            f"[dim]{clock(time.monotonic() - self._began)} so far{found}[/]",
        )
        rows = Table(box=None, padding=(0, 2), header_style="dim")
        for name in ("problem", "method", "seed", "evaluations", "best regret"):
            rows.add_column(name, justify="left" if name in ("problem", "method") else "right")
        for run, (done, regret) in list(self.current.items()):
            rows.add_row(run.problem, run.method, str(run.seed), f"{done}/{run.total}", f"{regret:.5g}")
        return Group(head, rows)


def clock(seconds: float) -> str:
    """1 h 02 min, 3 min 20 s, 4.1 s."""
    if seconds != seconds:
        return "?"
    if seconds < 60:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(round(seconds), 60)
    if minutes < 60:
        return f"{minutes} min {rest:02d} s"
    return f"{minutes // 60} h {minutes % 60:02d} min"
