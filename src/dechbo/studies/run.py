"""StudyRun: run a study. One process asks and tells, workers evaluate; it can die at any moment."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from dechbo.errors import AllEvaluationsFailed, SpaceExhausted
from dechbo.execution import Executor, Outcome
from dechbo.integrations.optuna import this_process
from dechbo.integrations.optuna.adapter import trial_id
from dechbo.integrations.optuna.recovery import Heartbeats, abandon, recover_silent
from dechbo.optimizer import AskInfo
from dechbo.studies.formatting import error_kind
from dechbo.studies.storage import storage_errors
from dechbo.studies.store import AskInterrupted, StudyStore

MAX_FIRST_FAILURES = 5  # a run ends after this many failures if no evaluation has ever succeeded
MAX_EQUAL_FAILURES = 3  # and after this many in a row with the same error
STUDY_CHECK_SECONDS = 0.5  # between two checks of what other processes do

Kind = Literal["asking", "started", "finished", "failed", "recovered"]


@dataclass(frozen=True)
class Event:
    """A step of a run."""

    kind: Kind
    number: int | None = None  # of the trial; None while asking
    params: Mapping[str, Any] | None = None
    outcome: Outcome | None = None
    info: AskInfo | None = None  # how the parameters were found


@dataclass(frozen=True)
class _Trial:
    """A running trial of this process."""

    number: int
    trial_id: int
    params: dict[str, Any]
    info: AskInfo | None


@dataclass
class Failures:
    """The failures of a run, to end it before it burns a study on a typo."""

    total: int = 0
    kind: tuple[str, str] | None = None  # of the latest failures
    equal: int = 0  # how many of that kind in a row
    error: str = ""

    def add(self, outcome: Outcome) -> None:
        """Count an evaluation."""
        if not outcome.failed:
            self.kind, self.equal = None, 0
            return
        kind, self.error = error_kind(outcome.error), outcome.error or ""
        self.equal = self.equal + 1 if kind == self.kind else 1
        self.kind, self.total = kind, self.total + 1

    def check(self, *, any_success: bool) -> None:
        """Raise AllEvaluationsFailed if there is no point in going on."""
        if self.equal >= MAX_EQUAL_FAILURES:
            raise AllEvaluationsFailed(f"{self.equal} evaluations in a row failed with the same error:\n{self.error}")
        if self.total >= MAX_FIRST_FAILURES and not any_success:
            raise AllEvaluationsFailed(
                f"the first {self.total} evaluations of this run all failed, and so did all before; the last one:\n"
                f"{self.error}"
            )


def _ignore(_: Event) -> None: ...


def _never() -> bool:
    return False


class StudyRun(StudyStore):
    """A study that runs: it asks, an executor evaluates, tells, and retries stale trials."""

    exhausted: SpaceExhausted | None = None  # set if the last run ended early because no point is left

    def run(
        self,
        executor: Executor,
        *,
        timeout: float | None = None,
        on_event: Callable[[Event], None] = _ignore,
        stop: Callable[[], bool] = _never,
        keep_going: bool = False,
    ) -> None:
        """Evaluate until the study has ``target`` finished trials, ``timeout`` seconds are over or ``stop()`` is True.

        Running trials may finish. If an exception (or KeyboardInterrupt) ends the run, they become stale and the next
        run retries them. Unless ``keep_going``, it ends early if three evaluations in a row fail with the same error,
        or if the first ones of a study all fail.
        """
        deadline = None if timeout is None else time.monotonic() + timeout
        running: dict[int, _Trial] = {}
        failures, ending = Failures(), False

        def over() -> bool:
            nonlocal ending
            ending = ending or stop() or (deadline is not None and time.monotonic() >= deadline)
            return ending

        self.exhausted = None
        with storage_errors(self.url), Heartbeats(self.study) as beats:
            try:
                while True:
                    free = not over() and len(running) < executor.capacity
                    try:
                        started = free and self._start(executor, running, beats, on_event, over)
                    except AskInterrupted:
                        started = True
                    if not running and (ending or self._done()):
                        return
                    if not running and not started:
                        time.sleep(STUDY_CHECK_SECONDS)  # other processes run the last trials, and may die
                        continue
                    for number, outcome in executor.wait(0.0 if started else STUDY_CHECK_SECONDS):
                        self._finish(running.pop(number), outcome, beats, on_event)
                        failures.add(outcome)
                        if not keep_going:
                            failures.check(any_success=self.failed < self.finished)
            finally:
                for trial in running.values():  # after an exception: the next run retries them
                    abandon(self.study, trial.trial_id)

    def _start(
        self,
        executor: Executor,
        running: dict[int, _Trial],
        beats: Heartbeats,
        on_event: Callable[[Event], None],
        over: Callable[[], bool],
    ) -> bool:
        """Start one more trial if the study needs one; False if not."""
        self._choosing = True  # also while another process chooses, and we wait for it
        with self._lock():
            self._choosing = False
            for number in recover_silent(self.study, [trial.trial_id for trial in running.values()]):
                on_event(Event("recovered", number))
            if self._remaining() <= 0:
                return False
            try:
                found = self._next_trial(this_process(), None, lambda: on_event(Event("asking")), over)
            except SpaceExhausted as error:
                self.exhausted = error
                return False
            if found is None:
                return True
            frozen, info = found
            trial = _Trial(frozen.number, trial_id(frozen), dict(frozen.params), info)
            running[trial.number] = trial
            beats.add(trial.trial_id)
        executor.submit(trial.number, trial.params)
        on_event(Event("started", trial.number, trial.params, None, info))
        return True

    def _finish(self, trial: _Trial, outcome: Outcome, beats: Heartbeats, on_event: Callable[[Event], None]) -> None:
        beats.remove(trial.trial_id)
        if self._write_outcome(trial.trial_id, outcome):
            kind: Kind = "failed" if outcome.failed else "finished"
            on_event(Event(kind, trial.number, trial.params, outcome, trial.info))

    def _done(self) -> bool:
        """Whether the study has all its trials, or no point is left to evaluate."""
        return self.exhausted is not None or self.finished >= self.target
