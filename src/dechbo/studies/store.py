"""StudyStore: a study in its storage. A process can die at any moment without losing or repeating a trial.

Covered by tests/studies/test_run.py, test_kill.py and test_postgres.py.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import optuna
from optuna.exceptions import UpdateFinishedTrialError
from optuna.trial import FrozenTrial, TrialState

from dechbo import checks
from dechbo.errors import ParameterError, StudyError
from dechbo.execution.outcome import Outcome, shortened_error
from dechbo.integrations.optuna import OWNER, DecHBOSampler, distributions_of
from dechbo.integrations.optuna.adapter import database_of, storage_of, study_id, trial_id
from dechbo.integrations.optuna.recovery import recover_silent
from dechbo.integrations.optuna.revisions import correct, current_trials, retract, retry
from dechbo.integrations.optuna.trials import (
    CONSTRAINT,
    FIXED,
    NOISE,
    RETRACTED,
    RETRIES,
    STATE_NAMES,
    best_trial,
    evaluated,
    is_stale,
    retried_numbers,
)
from dechbo.optimizer import AskInfo, Optimizer
from dechbo.search.engine import Engine
from dechbo.space.fixed import check_fixed
from dechbo.studies.engines import quiet_engine
from dechbo.studies.locks import exclusive
from dechbo.studies.settings import load_study
from dechbo.studies.storage import (
    GRACE_SECONDS,
    HEARTBEAT_SECONDS,
    absolute_url,
    checked_url,
    redacted_url,
    storage_errors,
)
from dechbo.studies.studyfile import StudyFile
from dechbo.theory import TheoryOptions

MAX_STORED_ERROR = 2000  # characters of an error: databases cut attributes at 2045
IMPORTED = "dechbo:imported"  # system attribute of a trial: an old result that was added, not evaluated by the study

NextTrial = tuple[FrozenTrial, AskInfo | None]  # a trial, and how its parameters were found


class AskInterrupted(BaseException):
    """An ask was interrupted before it had a point. Not an Exception: nothing on the way may swallow it."""


class StudyStore:
    """The study of a file in its storage, created there if it is new and ``create`` is True.

    ``storage``, ``trials`` and ``seed`` override those of the file. A relative SQLite path in the file is relative to
    the file's folder, one in ``storage`` to the current folder. With ``readonly`` nothing is written and no lock is
    taken (SQLite may leave files of its own). ``engine`` computes the suggestions; without one that of the file does,
    in this process.
    """

    def __init__(
        self,
        file: StudyFile,
        *,
        storage: str | None = None,
        trials: int | None = None,
        seed: int | None = None,
        create: bool = True,
        readonly: bool = False,
        interval: int = HEARTBEAT_SECONDS,
        grace: int = GRACE_SECONDS,
        engine: Engine | None = None,
    ) -> None:
        self.file = file
        self._engine = engine
        self.target = file.trials if trials is None else checks.whole("trials", trials, 1)  # finished ones at the end
        seed = None if seed is None else checks.whole("seed", seed, 0)
        self.url = file.storage if storage is None else absolute_url(storage, Path.cwd())
        self._address = checked_url(self.url)
        create = create and not readonly
        sqlite = self._address.get_backend_name() == "sqlite"
        if not create and sqlite and not Path(str(self._address.database)).exists():
            raise StudyError(f"there is no study {file.name!r} yet: {redacted_url(self.url)} does not exist")
        with storage_errors(self.url):
            loaded = load_study(
                file, self.url, seed, self._lock, create=create, readonly=readonly, interval=interval, grace=grace
            )
        self.study, self.seed, self.objective_changed = loaded.study, loaded.seed, loaded.objective_changed
        self._distributions = distributions_of(file.space)
        self.sampler = self._sampler()
        self.study.sampler = self.sampler
        self._choosing = False  # whether a point is being computed, with nothing half written

    # ------------------------------------------------------------ ask and tell

    def ask(self, *, fixed: Mapping[str, Any] | None = None) -> FrozenTrial:
        """Start a trial that is evaluated elsewhere; it stays running until it is told.

        Waiting trials (enqueued, or retried) come first, unless ``fixed`` sets parameters.
        """
        with storage_errors(self.url), self._lock():
            recover_silent(self.study)
            while True:
                found = self._next_trial(None, fixed, on_ask=lambda: None, stopped=lambda: False)
                if found is not None:
                    return found[0]

    def tell(self, number: int, outcome: Outcome) -> None:
        """Finish a trial that was asked for."""
        trial = next((trial for trial in self.trials if trial.number == number), None)
        if trial is None:
            raise StudyError(f"study {self.file.name!r} has no trial {number}")
        if trial.state != TrialState.RUNNING or not self._write_outcome(trial_id(trial), outcome):
            done = trial.state.is_finished()
            hint = f"; `dechbo tell … {number} VALUE --correct` replaces its value" if done else ""
            raise StudyError(f"trial {number} is not running, but {STATE_NAMES[trial.state]}: it cannot be told{hint}")

    def add(self, params: Mapping[str, Any], outcome: Outcome) -> FrozenTrial:
        """Add an old result. The sampler learns from it, but it does not count towards the number of trials."""
        state = TrialState.FAIL if outcome.failed else TrialState.COMPLETE
        return self._create_trial(self.file.space.native(params), state, {IMPORTED: True}, outcome)

    def retract(self, number: int, *, undo: bool = False) -> None:
        """Leave a trial out of everything that counts; it stays in the study, and its point may come again."""
        with storage_errors(self.url):
            retract(self.study, number, undo=undo)

    def correct(self, number: int, outcome: Outcome) -> None:
        """Replace the value of a finished trial."""
        with storage_errors(self.url):
            correct(self.study, number, outcome.value, dict(outcome.constraints) or None)

    def retry(self, number: int) -> bool:
        """Queue a finished trial again, its result left out; False if it is queued already."""
        with storage_errors(self.url), self._lock():
            return retry(self.study, number)

    def enqueue(self, params: Mapping[str, Any]) -> int:
        """Queue a trial with these parameters; the missing ones are chosen when it starts. Returns its number."""
        space = self.file.space
        fixed = check_fixed(space, params)
        if set(fixed) >= space.active(fixed) and not space.allows(space.encode(fixed)):
            raise ParameterError(f"{fixed} breaks {' and '.join(repr(str(line)) for line in space.constraints)}")
        with storage_errors(self.url), self._lock():
            trial = optuna.trial.create_trial(state=TrialState.WAITING, system_attrs={FIXED: fixed})
            created = storage_of(self.study).create_new_trial(study_id(self.study), template_trial=trial)
            return storage_of(self.study).get_trial(created).number

    def stop_choosing(self) -> None:
        """From a signal handler: end the choice of a point, if one is under way, by AskInterrupted.

        Nothing is lost: no trial exists yet, and the next ask chooses the same point.
        """
        if self._choosing:
            raise AskInterrupted

    # ----------------------------------------------------------------- queries

    @property
    def trials(self) -> list[FrozenTrial]:
        """All trials, by number, with retractions and corrections applied."""
        return current_trials(self.study)

    @property
    def finished(self) -> int:
        """The number of evaluations, including failed ones, without imported results and stale trials."""
        return len(own_evaluations(self.trials))

    @property
    def failed(self) -> int:
        """The number of failed evaluations."""
        return sum(trial.state == TrialState.FAIL for trial in own_evaluations(self.trials))

    @property
    def best(self) -> FrozenTrial | None:
        """The best feasible trial; None if there is none."""
        return best_trial(self.trials, self.file.direction)

    def optimizer(self) -> Optimizer:
        """An ``Optimizer`` with all trials, for ``interactions()``, ``predict()`` and so on."""
        return self.sampler.optimizer(self.study)

    # ---------------------------------------------------------------- internal

    def _lock(self) -> AbstractContextManager[None]:
        """The lock of this study between processes."""
        return exclusive(self._address, f"study {self.file.name}")

    def _sampler(self) -> DecHBOSampler:
        options = dict(self.file.options)
        graph, engine = options.pop("graph", None), options.pop("engine", "local")
        options.pop("parts", None)
        options["engine"] = quiet_engine(engine) if self._engine is None else self._engine
        if "beta" in options:
            options["theory"] = TheoryOptions(beta=options.pop("beta"))
        return DecHBOSampler(
            seed=self.seed,
            graph=graph if self.file.factors is None else self.file.factors,
            n_startup_trials=options.pop("n_initial", None),
            search_space=self.file.space,
            **options,
        )

    def _remaining(self) -> int:
        """How many trials may still start; running trials of all processes count, those asked for by hand do not."""
        trials = self.trials
        retried = retried_numbers(trials)
        owned = [t for t in trials if t.state == TrialState.RUNNING and t.system_attrs.get(OWNER)]
        return self.target - len(own_evaluations(trials)) - sum(not is_stale(trial, retried) for trial in owned)

    def _next_trial(
        self,
        owner: str | None,
        fixed: Mapping[str, Any] | None,
        on_ask: Callable[[], None],
        stopped: Callable[[], bool],
    ) -> NextTrial | None:
        """Start a waiting trial or a new one; None if the waiting one cannot run, or if ``stopped`` by now."""
        if fixed is None:
            waiting = next((trial for trial in self.trials if _is_queued(trial)), None)
            if waiting is not None:
                return self._start_waiting(waiting, owner, on_ask, stopped)
        on_ask()
        params = self._suggest(fixed, stopped)
        if stopped():  # nothing is stored, so the next ask returns the same parameters
            return None
        attributes = {} if owner is None else {OWNER: owner}
        return self._create_trial(params, TrialState.RUNNING, attributes), self.sampler.info

    def _start_waiting(
        self, trial: FrozenTrial, owner: str | None, on_ask: Callable[[], None], stopped: Callable[[], bool]
    ) -> NextTrial | None:
        """Start a waiting trial: store its missing parameters and its owner, and only then set it running."""
        storage, waiting = storage_of(self.study), trial_id(trial)
        try:
            params, info = self._all_params(trial, on_ask, stopped)
            if stopped():
                return None
            for name in [name for name in self.file.space.names if name in params and name not in trial.params]:
                distribution = self._distributions[name]
                storage.set_trial_param(waiting, name, distribution.to_internal_repr(params[name]), distribution)
            if owner is None:  # a process that died before it set the trial running may have left its name
                database_of(self.study).remove_owner(waiting)
            else:
                storage.set_trial_system_attr(waiting, OWNER, owner)
                database_of(self.study).record_heartbeat(waiting)
            if not storage.set_trial_state_values(waiting, state=TrialState.RUNNING):
                return None
        except ParameterError as error:  # enqueued outside the space
            self._write_outcome(waiting, Outcome.failure(f"the trial was enqueued with impossible parameters: {error}"))
            return None
        except UpdateFinishedTrialError:
            return None
        return self._read_trial(waiting), info

    def _all_params(
        self, trial: FrozenTrial, on_ask: Callable[[], None], stopped: Callable[[], bool]
    ) -> tuple[Mapping[str, Any], AskInfo | None]:
        """All parameters of a waiting trial; the sampler suggests those that were not enqueued."""
        space = self.file.space
        given = dict(trial.system_attrs.get(FIXED) or {})
        if set(trial.params) >= space.active(trial.params):
            given = {name: trial.params[name] for name in space.names if name in trial.params}
        if set(given) >= space.active(given):
            point = space.encode(given)
            if RETRIES not in trial.system_attrs and not space.allows(point):
                raise ParameterError(f"{given} breaks {' and '.join(repr(str(line)) for line in space.constraints)}")
            return space.decode(point), None
        on_ask()
        params = self._suggest(given, stopped)
        if any(params[name] != value for name, value in trial.params.items() if name in params):
            # a process died while it stored the parameters, and the history has changed since
            params = self._suggest({**given, **trial.params}, stopped)
        return params, self.sampler.info

    def _suggest(self, fixed: Mapping[str, Any] | None, stopped: Callable[[], bool]) -> dict[str, Any]:
        """The sampler's suggestion; ``stop_choosing`` may end it."""
        self._choosing = True
        try:
            if stopped():  # since the last look, and before this could be interrupted
                raise AskInterrupted
            return self.sampler.suggest(self.study, fixed=fixed)
        except Exception:
            if stopped():  # an interrupted compilation swallows AskInterrupted and raises an error of its own
                raise AskInterrupted from None
            raise
        finally:
            self._choosing = False

    def _create_trial(
        self,
        params: Mapping[str, Any],
        state: TrialState,
        attributes: Mapping[str, Any],
        outcome: Outcome | None = None,
    ) -> FrozenTrial:
        """Create a complete trial in one transaction: a process that dies leaves all of it or nothing."""
        trial = optuna.trial.create_trial(
            state=state,
            value=None if outcome is None else outcome.value,
            params=dict(params),
            distributions={name: self._distributions[name] for name in params},
            constraints=None if outcome is None else dict(outcome.constraints),
            system_attrs=dict(attributes),
        )
        return self._read_trial(storage_of(self.study).create_new_trial(study_id(self.study), template_trial=trial))

    def _read_trial(self, trial_id: int) -> FrozenTrial:
        """A trial with its parameters in the order of the file."""
        trial = storage_of(self.study).get_trial(trial_id)
        trial.params = {name: trial.params[name] for name in self.file.space.names if name in trial.params}
        return trial

    def _write_outcome(self, trial_id: int, outcome: Outcome) -> bool:
        """Finish a trial, its value last: if the process dies before that, the trial is still running and is retried.

        False if another process has taken the trial for stale and queued it again.
        """
        storage = storage_of(self.study)
        try:
            if outcome.seconds > 0:  # 0: told by hand
                storage.set_trial_user_attr(trial_id, "seconds", round(outcome.seconds, 6))
            if outcome.noise is not None:
                storage.set_trial_user_attr(trial_id, NOISE, outcome.noise)
            if outcome.error is not None or "error" in storage.get_trial_user_attrs(trial_id):  # of a first attempt
                error = None if outcome.error is None else shortened_error(outcome.error, MAX_STORED_ERROR)
                storage.set_trial_user_attr(trial_id, "error", error)
            if outcome.curve:
                stored = storage.get_trial(trial_id).intermediate_values
                for step, value in outcome.curve.items():
                    if step not in stored:
                        storage.set_trial_intermediate_value(trial_id, step, value)
            for name, value in outcome.constraints.items():
                storage.set_trial_system_attr(trial_id, f"{CONSTRAINT}{name}", value)
            if outcome.pruned:
                return storage.set_trial_state_values(trial_id, state=TrialState.PRUNED)
            if outcome.value is None:
                return storage.set_trial_state_values(trial_id, state=TrialState.FAIL)
            return storage.set_trial_state_values(trial_id, state=TrialState.COMPLETE, values=[outcome.value])
        except UpdateFinishedTrialError:
            return False


def _is_queued(trial: FrozenTrial) -> bool:
    return trial.state == TrialState.WAITING and RETRACTED not in trial.system_attrs


def own_evaluations(trials: Sequence[FrozenTrial]) -> list[FrozenTrial]:
    """The trials that the study itself evaluated."""
    return [trial for trial in evaluated(trials) if IMPORTED not in trial.system_attrs]
