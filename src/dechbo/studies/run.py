"""StudyRun: the coordinator of a study. One process asks and tells, workers evaluate; it can die at any moment."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from dechbo.errors import AllEvaluationsFailed, SpaceExhausted
from dechbo.execution import Executor, Outcome
from dechbo.integrations.optuna import this_process
from dechbo.optimizer import AskInfo
from dechbo.studies.opened import OpenStudy
from dechbo.studies.recovery import Heartbeats, abandon, recover_all
from dechbo.studies.storage import reported

HOPELESS = 5  # so many failures and nothing else end a run
POLL = 0.5  # seconds between looks at what others do

Kind = Literal["asking", "started", "finished", "failed", "recovered"]


@dataclass(frozen=True)
class Event:
    """Something that happened in a run."""

    kind: Kind
    number: int | None = None  # of the trial; none yet while asking
    params: Mapping[str, Any] | None = None
    outcome: Outcome | None = None
    info: AskInfo | None = None  # how the parameters were found


@dataclass(frozen=True)
class _Trial:
    """A trial of ours under way."""

    number: int
    trial_id: int
    params: dict[str, Any]
    info: AskInfo | None


def _ignore(_: Event) -> None: ...


def _never() -> bool:
    return False


class StudyRun(OpenStudy):
    """A study that is run: it asks, an executor evaluates, it tells, and takes up what died."""

    exhausted: SpaceExhausted | None = None  # why the last run ended before its target: no point is left

    def run(
        self,
        executor: Executor,
        *,
        timeout: float | None = None,
        on_event: Callable[[Event], None] = _ignore,
        stop: Callable[[], bool] = _never,
        keep_going: bool = False,
    ) -> None:
        """Evaluate until the study has ``target`` finished trials, ``timeout`` seconds are over or ``stop()`` says so.

        Trials under way are waited for. If an exception ends the run (KeyboardInterrupt, too), they count as died, and
        the next run tries them again. Unless ``keep_going``, a run whose first evaluations all fail ends early.
        """
        deadline = None if timeout is None else time.monotonic() + timeout
        running: dict[int, _Trial] = {}
        failures, ending = 0, False

        def over() -> bool:
            nonlocal ending
            ending = ending or stop() or (deadline is not None and time.monotonic() >= deadline)
            return ending

        self.exhausted = None
        with reported(self.url), Heartbeats(self.study) as beats:
            try:
                while True:
                    room = not over() and len(running) < executor.capacity
                    begun = room and self._begin(executor, running, beats, on_event, over)
                    if not running and (ending or self._done()):
                        return
                    if not running and not begun:
                        time.sleep(POLL)  # others are still at it, and may die
                        continue
                    for number, outcome in executor.wait(0.0 if begun else POLL):
                        self._finish(running.pop(number), outcome, beats, on_event)
                        failures += outcome.failed
                        if failures >= HOPELESS and not keep_going and self.failed == self.finished:
                            raise AllEvaluationsFailed(
                                f"the first {failures} evaluations of this run all failed, as all before; the last "
                                f"one:\n{outcome.error}"
                            )
            finally:
                for trial in running.values():  # an exception: what is under way will be tried again
                    abandon(self.study, trial.trial_id)

    def _begin(
        self,
        executor: Executor,
        running: dict[int, _Trial],
        beats: Heartbeats,
        on_event: Callable[[Event], None],
        over: Callable[[], bool],
    ) -> bool:
        """Begin one more trial if there is room for one; whether there was."""
        with self._alone():
            for number in recover_all(self.study, [trial.trial_id for trial in running.values()]):
                on_event(Event("recovered", number))
            if self._room() <= 0:
                return False
            try:
                found = self._next(this_process(), None, lambda: on_event(Event("asking")), over)
            except SpaceExhausted as error:
                self.exhausted = error
                return False
            if found is None:
                return True
            frozen, info = found
            trial = _Trial(frozen.number, frozen._trial_id, dict(frozen.params), info)
            running[trial.number] = trial
            beats.add(trial.trial_id)
        executor.submit(trial.number, trial.params)
        on_event(Event("started", trial.number, trial.params, None, info))
        return True

    def _finish(self, trial: _Trial, outcome: Outcome, beats: Heartbeats, on_event: Callable[[Event], None]) -> None:
        beats.remove(trial.trial_id)
        if self._tell(trial.trial_id, outcome):
            kind: Kind = "failed" if outcome.failed else "finished"
            on_event(Event(kind, trial.number, trial.params, outcome, trial.info))

    def _done(self) -> bool:
        """Whether the study has all its trials, or no point is left to evaluate."""
        return self.exhausted is not None or self.finished >= self.target
