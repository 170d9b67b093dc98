"""``dechbo optimize``: a run with its display, Ctrl-C, and what is said at the end."""

from __future__ import annotations

import shlex
import signal
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Any

from dechbo.errors import Hopeless, StudyError
from dechbo.studies import summary, words
from dechbo.studies.display import Board, finishing
from dechbo.studies.rows import Standing, standing

if TYPE_CHECKING:
    from rich.console import Console

    from dechbo.execution import Executor
    from dechbo.studies.run import Event, StudyRun

INTERRUPTED, ENDED = 130, 143  # exit codes after Ctrl-C and SIGTERM


@dataclass(frozen=True)
class Wish:
    """What the command line asks for."""

    study: Path
    trials: int | None = None
    workers: int | None = None
    storage: str | None = None
    seed: int | None = None
    timeout: float | None = None
    ray: str | None = None
    keep_going: bool = False
    picture: Path | None = None
    no_picture: bool = False

    def command(self, *, trials: int | None = None) -> str:
        """The command that goes on with this study, without any secret."""
        from dechbo.studies.storage import shown

        wanted = self.trials if trials is None else trials
        parts = ["dechbo", "optimize", str(self.study)]
        parts += ["--trials", str(wanted)] if wanted is not None else []
        parts += ["--workers", str(self.workers)] if self.workers is not None else []
        parts += ["--storage", shown(self.storage)] if self.storage is not None else []
        parts += ["--seed", str(self.seed)] if self.seed is not None else []
        parts += ["--ray", self.ray] if self.ray is not None else []
        parts += ["--keep-going"] if self.keep_going else []
        return shlex.join(parts)

    def other(self, command: str, *more: str) -> str:
        """Another command on the same study."""
        from dechbo.studies.storage import shown

        where = [] if self.storage is None else ["--storage", shown(self.storage)]
        return shlex.join(["dechbo", command, str(self.study), *more, *where])


class Stop:
    """Ctrl-C: the first one asks to end, the second one leaves at once; SIGTERM leaves at once."""

    def __init__(self, first: Callable[[], None]) -> None:
        self.asked = False
        self.code: int | None = None
        self._first = first

    def __call__(self) -> bool:
        """Whether the run is to end."""
        return self.asked

    @contextmanager
    def listening(self) -> Iterator[None]:
        """Take the signals, give them back in the end."""
        before = {sign: signal.signal(sign, self._signalled) for sign in (signal.SIGINT, signal.SIGTERM)}
        try:
            yield
        finally:
            for sign, handler in before.items():
                signal.signal(sign, handler)

    def _signalled(self, sign: int, _: FrameType | None) -> None:
        again, self.asked = self.asked, True
        self.code = INTERRUPTED if sign == signal.SIGINT else ENDED
        if again or sign == signal.SIGTERM:
            raise KeyboardInterrupt
        self._first()


def optimize(wish: Wish, console: Console) -> int:
    """Run the study as far as it is wished; the exit code."""
    from dechbo.studies.run import StudyRun
    from dechbo.studies.studyfile import StudyFile

    file = StudyFile.read(wish.study)
    if file.objective is None:
        raise StudyError(
            f"{wish.study} has no objective to run: add one, or use `dechbo ask` and `dechbo tell` for experiments "
            "that are made elsewhere"
        )
    run = StudyRun(file, storage=wish.storage, trials=wish.trials, seed=wish.seed)
    if run.objective_changed:
        console.print(run.objective_changed, style="yellow", markup=False, highlight=False, soft_wrap=True)
    if run.finished >= run.target:
        more = run.target + max(10, run.target // 2)
        console.print(f"all {run.target} trials are done; --trials {more} goes on", style="bold")
        summary.ending(run, wish, console, next_target=more)
        return 0 if run.best is not None else 1
    return Session(run, wish, console).run()


class Session:
    """One run of a study in front of a person or a log."""

    def __init__(self, run: StudyRun, wish: Wish, console: Console) -> None:
        self._run, self._wish, self._console = run, wish, console
        self._live = sys.stdout.isatty() and not console.is_dumb_terminal
        self._board = _board(run)
        self._seen: set[tuple[str, str]] = set()
        self._already = self._board.standing.finished
        self._made = 0  # trials that this process finished; others may work on the study too

    def run(self) -> int:
        """Evaluate until the end, say what came out; the exit code."""
        began, stop = time.monotonic(), Stop(self._interrupted)
        failure: Hopeless | None = None
        self._begin()
        with stop.listening():
            try:
                executor = self._executor()
                try:
                    with self._display():
                        self._run.run(
                            executor,
                            timeout=self._wish.timeout,
                            on_event=self._on_event,
                            stop=stop,
                            keep_going=self._wish.keep_going,
                        )
                finally:
                    executor.close(kill=True)
            except KeyboardInterrupt:
                pass
            except Hopeless as error:
                failure = error
        return self._end(time.monotonic() - began, stop.code, failure)

    def _executor(self) -> Executor:
        from dechbo.execution import ProcessExecutor, RayExecutor

        objective = self._run.file.objective
        if self._wish.ray is not None:
            return RayExecutor(objective, self._wish.ray, capacity=self._wish.workers)
        return ProcessExecutor(objective, self._wish.workers or 1)

    def _begin(self) -> None:
        left = self._run.target - self._already
        what = f"study {self._run.file.name!r}: {words.count(self._run.target, 'trial')}"
        if self._already:
            what = f"study {self._run.file.name!r} goes on: {self._already} of {self._run.target} trials are done"
        where = f"on Ray at {self._wish.ray}" if self._wish.ray else words.count(self._wish.workers or 1, "worker")
        self._say(f"{what}, {left} to go, {where}" if self._already else f"{what}, {where}")

    def _display(self) -> Any:
        if not self._live:
            return nullcontext()
        from rich.live import Live

        return Live(
            get_renderable=lambda: self._board.panel(self._console.width),
            console=self._console,
            refresh_per_second=8,
            transient=True,
        )

    def _interrupted(self) -> None:
        self._board.interrupted = True
        if not self._live:
            self._say(finishing(len(self._board.running)))

    def _on_event(self, event: Event) -> None:
        changed = event.kind in ("started", "finished", "failed")
        self._board.take(event, _standing(self._run) if changed else None)
        if event.kind == "recovered":
            self._say(f"trial {event.number} died with its process: it is evaluated again")
        elif event.kind == "started" and event.info is not None and event.info.graph is not None:
            self._board.interactions = interactions_so_far(self._run)
        elif event.kind in ("finished", "failed"):
            self._made += 1
            if not self._live:
                self._say(self._board.line(event))
            if event.kind == "failed":
                self._explain(event)

    def _explain(self, event: Event) -> None:
        """The first failure of a kind in full; later ones are counted."""
        assert event.outcome is not None
        error = event.outcome.error or ""
        kind = words.kind_of(error)
        if kind in self._seen or (not self._live and "\n" not in error.strip()):
            return
        self._seen.add(kind)
        self._say(f"trial {event.number} failed:\n{error}\n(more of this kind are counted, not shown)")

    def _say(self, text: str) -> None:
        self._console.print(text, markup=False, highlight=False, soft_wrap=True)

    def _end(self, seconds: float, code: int | None, failure: Hopeless | None) -> int:
        made, finished = self._made, self._run.finished
        done = finished >= self._run.target
        if failure is not None:
            self._say(f"\nstopped: {failure}\n--keep-going does not stop for this")
        elif self._run.exhausted is not None and not done:
            self._say(f"\nall points of the space are evaluated: {words.count(finished, 'trial')}")
        elif code is None and not done:
            self._say(f"\nthe {words.duration(self._wish.timeout or 0)} of --timeout are over")
        elif code is not None and not done:
            self._say("\nended early, nothing is lost" if made else "\nended")
        self._say(f"{words.count(made, 'trial')} in {words.duration(seconds)}")
        next_target = self._run.target + max(10, self._run.target // 2) if done else None
        summary.ending(self._run, self._wish, self._console, next_target=next_target, brief=code is not None)
        if code is not None and not done:
            return code
        return 0 if self._run.best is not None else 1


def interactions_so_far(run: StudyRun) -> Any:
    """What is known of the interactions without any work: given, or kept with the study."""
    from dechbo.integrations.optuna import learned_graph

    if run.file.factors is not None:
        given = ", ".join(words.together(scope) for scope in run.file.factors)
        return f"given: {given}"
    if run.file.options.get("graph") == "random":
        return "not looked for: random trees"
    return learned_graph(run.study) or ()


def _standing(run: StudyRun) -> Standing:
    """How far the study is, from one look at its trials."""
    return standing(run.trials, run.file.direction)


def _board(run: StudyRun) -> Board:
    return Board(
        run.file.name,
        direction=run.file.direction,
        target=run.target,
        dim=run.file.space.dim,
        standing=_standing(run),
        interactions=interactions_so_far(run),
    )
