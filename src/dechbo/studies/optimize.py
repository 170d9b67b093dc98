"""``dechbo optimize``: a run with its live display, Ctrl-C and final summary. Tested in test_commands.py."""

from __future__ import annotations

import shlex
import signal
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, replace
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING

from dechbo.errors import AllEvaluationsFailed, StudyError
from dechbo.studies import formatting
from dechbo.studies.objective import CommandObjective
from dechbo.studies.progress import Progress, ProgressPanel, interrupt_note, progress_of
from dechbo.studies.pruning import Reporting
from dechbo.studies.stopping import Stopping, StoppingCheck
from dechbo.studies.summary import print_summary, why_not_learned
from dechbo.studies.terminal import print_text

if TYPE_CHECKING:
    from rich.console import Console

    from dechbo.distributed import PartsEngine
    from dechbo.execution import Executor
    from dechbo.interactions import Interaction
    from dechbo.studies.run import Event, StudyRun
    from dechbo.studies.store import StudyStore
    from dechbo.studies.studyfile import StudyFile

EXIT_INTERRUPTED, EXIT_TERMINATED = 130, 143  # after Ctrl-C and SIGTERM
STOP_AGAIN_SECONDS = 0.2  # until an interrupted ask is interrupted again


@dataclass(frozen=True)
class OptimizeArguments:
    """The arguments of ``dechbo optimize``."""

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
    engine: str | None = None
    parts: int | None = None
    stop: tuple[str, ...] = ()

    def command(self, *, trials: int | None = None) -> str:
        """The command that continues this study, without passwords."""
        given = {
            "--trials": self.trials if trials is None else trials,
            "--workers": self.workers,
            "--seed": self.seed,
            "--ray": self.ray,
            "--engine": self.engine,
            "--parts": self.parts,
        }
        options = [text for name, value in given.items() if value is not None for text in (name, str(value))]
        options += [text for rule in self.stop for text in ("--stop", rule)]
        return self.other("optimize", *options, *(["--keep-going"] if self.keep_going else []))

    def other(self, command: str, *options: str) -> str:
        """Another command on the same study."""
        from dechbo.studies.storage import redacted_url

        where = [] if self.storage is None else ["--storage", redacted_url(self.storage)]
        return shlex.join(["dechbo", command, str(self.study), *options, *where])


class StopSignals:
    """Ctrl-C: the first one lets running trials finish, the second one stops at once, as SIGTERM does.

    ``on_first`` is told of the first one. ``stop_choosing`` ends an ask by raising; it is called until the run has
    ended, because a library (Numba while it compiles) may swallow what a signal handler raises.
    """

    def __init__(self, on_first: Callable[[], None], stop_choosing: Callable[[], None]) -> None:
        self.received = False
        self.exit_code: int | None = None
        self._on_first, self._stop_choosing = on_first, stop_choosing

    @contextmanager
    def handled(self) -> Iterator[None]:
        """Handle the signals; restore the previous handlers afterwards."""
        before = {sign: signal.signal(sign, self._handle) for sign in (signal.SIGINT, signal.SIGTERM)}
        before[signal.SIGALRM] = signal.signal(signal.SIGALRM, lambda *_: self._stop_choosing())
        try:
            yield
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0.0)
            for sign, handler in before.items():
                signal.signal(sign, handler)

    def _handle(self, sign: int, _: FrameType | None) -> None:
        again, self.received = self.received, True
        self.exit_code = EXIT_INTERRUPTED if sign == signal.SIGINT else EXIT_TERMINATED
        if again or sign == signal.SIGTERM:
            raise KeyboardInterrupt
        signal.setitimer(signal.ITIMER_REAL, STOP_AGAIN_SECONDS, STOP_AGAIN_SECONDS)
        self._on_first()
        self._stop_choosing()


def optimize(arguments: OptimizeArguments, console: Console) -> int:
    """Run the study; returns the exit code."""
    from dechbo.studies.picture import checked_format
    from dechbo.studies.studyfile import StudyFile

    if arguments.picture is not None:
        checked_format(arguments.picture)  # now, not after a long run
    file = StudyFile.read(arguments.study)
    if file.objective is None:
        raise StudyError(
            f"{arguments.study} has no objective to run: add one, or use `dechbo ask` and `dechbo tell` to evaluate "
            "trials by hand"
        )
    with _engine(file, arguments) as engine:
        return _optimize(file, arguments, console, engine)


@contextmanager
def _engine(file: StudyFile, arguments: OptimizeArguments) -> Iterator[PartsEngine | None]:
    """The engine of the command line or of the file; it ends with the run."""
    from dechbo.checks import one_of
    from dechbo.studies.engines import ENGINES, running_engine

    name = file.options.get("engine", "local") if arguments.engine is None else arguments.engine
    parts = file.options.get("parts") if arguments.parts is None else arguments.parts
    engine = running_engine(one_of("--engine", name, ENGINES), parts, arguments.ray)
    try:
        yield engine
    finally:
        if engine is not None:
            engine.close()


def _optimize(file: StudyFile, arguments: OptimizeArguments, console: Console, engine: PartsEngine | None) -> int:
    from dechbo.studies.run import StudyRun

    run = StudyRun(file, storage=arguments.storage, trials=arguments.trials, seed=arguments.seed, engine=engine)
    if run.objective_changed:
        print_text(console, run.objective_changed, "yellow")
    if run.finished >= run.target:
        more = _next_target(run)
        print_text(console, f"all {run.target} trials are done; --trials {more} adds more", "bold")
        print_summary(run, arguments, console, next_target=more)
        return 0 if run.best is not None else 1
    return OptimizeView(run, arguments, console).run()


class OptimizeView:
    """Runs a study and shows it, live in a terminal or as lines of a log."""

    def __init__(self, run: StudyRun, arguments: OptimizeArguments, console: Console) -> None:
        self._run, self._arguments, self._console = run, arguments, console
        self._live = sys.stdout.isatty() and not console.is_dumb_terminal
        self._panel = ProgressPanel(
            run.file.name,
            direction=run.file.direction,
            target=run.target,
            dim=run.file.space.dim,
            workers=arguments.workers or 1,
            progress=self._progress(),
            interactions=known_interactions(run),
        )
        self._explained: set[tuple[str, str]] = set()  # kinds of failures
        self._finished_before = self._panel.progress.finished
        self._stopping = StoppingCheck(Stopping.parse(arguments.stop, run.file.stopping), run)
        self._stopped: str | None = None  # why, if a rule of the user's ended the run
        self._made = 0  # trials that this process finished; others may work on the study too

    def run(self) -> int:
        """Evaluate to the end and print the summary; returns the exit code."""
        began, signals = time.monotonic(), StopSignals(self._interrupted, self._run.stop_choosing)
        failure: AllEvaluationsFailed | None = None
        self._print_start()
        with signals.handled():
            try:
                executor = self._executor()
                try:
                    with self._display():
                        self._run.run(
                            executor,
                            timeout=self._arguments.timeout,
                            on_event=self._on_event,
                            stop=lambda: signals.received or self._rule_says_stop(),
                            keep_going=self._arguments.keep_going,
                        )
                finally:
                    executor.close(kill=True)
            except KeyboardInterrupt:
                pass
            except AllEvaluationsFailed as error:
                failure = error
        return self._end(time.monotonic() - began, signals.exit_code, failure)

    def _rule_says_stop(self) -> bool:
        self._stopped = self._stopped or self._stopping.reason()
        return self._stopped is not None

    def _executor(self) -> Executor:
        from dechbo.execution import ProcessExecutor, RayExecutor

        objective = self._run.file.objective
        if isinstance(objective, CommandObjective) and self._run.file.pruner is not None:
            reporting = Reporting(self._run.url, self._run.file.name, self._run.file.pruner)
            objective = replace(objective, reporting=reporting)
        if self._arguments.ray is not None:
            return RayExecutor(objective, self._arguments.ray, capacity=self._arguments.workers)
        return ProcessExecutor(objective, self._arguments.workers or 1)

    def _print_start(self) -> None:
        done, target, name = self._finished_before, self._run.target, self._run.file.name
        what = f"study {name!r}: {formatting.count(target, 'trial')}"
        if done:
            what = f"study {name!r} continues: {done} of {target} trials are done, {target - done} to go"
        workers = formatting.count(self._arguments.workers or 1, "worker")
        self._print(f"{what}, {f'on Ray at {self._arguments.ray}' if self._arguments.ray else workers}")

    def _display(self) -> AbstractContextManager[object]:
        if not self._live:
            return nullcontext()
        from rich.live import Live

        return Live(
            get_renderable=lambda: self._panel.panel(self._console.width),
            console=self._console,
            refresh_per_second=8,
            transient=True,
        )

    def _interrupted(self) -> None:
        self._panel.interrupted = True
        if not self._live:
            self._print(interrupt_note(len(self._panel.running)))

    def _on_event(self, event: Event) -> None:
        changed = event.kind in ("started", "finished", "failed")
        self._panel.update(event, self._progress() if changed else None)
        if event.kind == "recovered":
            self._print(f"trial {event.number} died with its process: it is evaluated again")
        elif event.kind == "started" and event.info is not None and event.info.graph is not None:
            self._panel.interactions = known_interactions(self._run)
        elif event.kind in ("finished", "failed"):
            self._made += 1
            if not self._live:
                self._print(self._panel.log_line(event))
            if event.kind == "failed":
                self._explain(event)

    def _explain(self, event: Event) -> None:
        """Print the first failure of each kind in full."""
        assert event.outcome is not None
        error = event.outcome.error or ""
        kind = formatting.error_kind(error)
        if kind in self._explained or (not self._live and "\n" not in error.strip()):
            return
        self._explained.add(kind)
        self._print(f"trial {event.number} failed:\n{error}\n(more failures of this kind are counted, not shown)")

    def _progress(self) -> Progress:
        return progress_of(self._run.trials, self._run.file.direction)

    def _print(self, text: str) -> None:
        print_text(self._console, text)

    def _end(self, seconds: float, exit_code: int | None, failure: AllEvaluationsFailed | None) -> int:
        finished = self._run.finished
        done = finished >= self._run.target
        if failure is not None:
            again = self._arguments.other("retry", "--failed")
            self._print(
                f"\nstopped: {failure}\n\nwhen that is mended, evaluate them again:  {again}\n"
                f"then continue:                           {self._arguments.command()}\n"
                "or pass --keep-going to continue as it is"
            )
        elif self._run.exhausted is not None and not done:
            self._print(f"\nall points of the space are evaluated: {formatting.count(finished, 'trial')}")
            if self._run.failed:
                again = self._arguments.other("retry", "--failed")
                self._print(f"{self._run.failed} of them failed; to evaluate those again:  {again}")
        elif self._stopped is not None and exit_code is None and not done:
            self._print(f"\n{self._stopped}")
        elif exit_code is not None and not done:
            self._print("\nstopped early, nothing is lost" if self._made else "\nstopped")
        elif not done:
            self._print(f"\nstopped by --timeout after {formatting.duration(self._arguments.timeout or 0)}")
        self._print(f"{formatting.count(self._made, 'trial')} in {formatting.duration(seconds)}")
        print_summary(
            self._run,
            self._arguments,
            self._console,
            next_target=_next_target(self._run) if done else None,
            brief=exit_code is not None,
        )
        if exit_code is not None and not done:
            return exit_code
        return 0 if self._run.best is not None else 1


def known_interactions(study: StudyStore) -> str | Sequence[Interaction]:
    """The interactions that are known without fitting a model: given ones, or those stored with the study."""
    from dechbo.integrations.optuna import learned_graph

    return why_not_learned(study) or learned_graph(study.study) or ()


def _next_target(run: StudyRun) -> int:
    return run.target + max(10, run.target // 2)
