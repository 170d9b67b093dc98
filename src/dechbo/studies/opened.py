"""OpenStudy: a study in its storage. Every change is made so that a process may die at any moment."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import optuna
from optuna.exceptions import UpdateFinishedTrialError
from optuna.trial import FrozenTrial, TrialState

from dechbo.errors import OptionError, ParameterError, StudyError
from dechbo.execution.outcome import Outcome, shortened_error
from dechbo.integrations.optuna import OWNER, DecHBOSampler, distributions_of
from dechbo.integrations.optuna.trials import FIXED, RETRIES, constraints_of, died, retried_numbers
from dechbo.optimizer import AskInfo, Optimizer
from dechbo.studies.database import database_of
from dechbo.studies.identity import opened_study
from dechbo.studies.locks import exclusive
from dechbo.studies.recovery import recover_all
from dechbo.studies.storage import GRACE_SECONDS, HEARTBEAT_SECONDS, absolute, checked, reported, shown
from dechbo.studies.studyfile import StudyFile
from dechbo.theory import TheoryOptions

IMPORTED = "dechbo:imported"  # system attribute: an old result, told and not evaluated by this study
CONSTRAINT = "constraints:"  # Optuna's own: system attributes of a trial begin so

Found = tuple[FrozenTrial, AskInfo | None]  # a trial, and how its parameters were found


def _ignore() -> None: ...


def _never() -> bool:
    return False


class OpenStudy:
    """The study of a file, opened in its storage; created there if it is new, unless ``create`` is False.

    ``storage``, ``trials`` and ``seed`` stand in for those of the file. A relative SQLite path is taken from the file's
    folder where the file names it, from the current folder where ``storage`` does. A study that is there already and
    ``readonly`` is only looked at: nothing is written, no lock taken, no file of ours made (SQLite may leave its own).
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
    ) -> None:
        for name, value, least in (("trials", trials, 1), ("seed", seed, 0)):
            if value is not None and (isinstance(value, bool) or not isinstance(value, int) or value < least):
                raise OptionError(f"{name} is a whole number at least {least}, got {value!r}")
        self.file = file
        self.target = file.trials if trials is None else trials  # finished trials in all
        self.url = file.storage if storage is None else absolute(storage, Path.cwd())
        self._address = checked(self.url)
        place = Path(str(self._address.database))
        create = create and not readonly
        if not create and self._address.get_backend_name() == "sqlite" and not place.exists():
            raise StudyError(f"there is no study {file.name!r} yet: {shown(self.url)} does not exist")
        with reported(self.url):
            opened = opened_study(
                file, self.url, seed, self._alone, create=create, readonly=readonly, interval=interval, grace=grace
            )
        self.study, self.seed = opened.study, opened.seed
        self.objective_changed = opened.objective_changed  # a warning: the study has results of another objective
        self._distributions = distributions_of(file.space)
        self.sampler = self._sampler()
        self.study.sampler = self.sampler

    # ------------------------------------------------- one at a time, by hand

    def ask(self, *, fixed: Mapping[str, Any] | None = None) -> FrozenTrial:
        """A trial that is evaluated elsewhere and told by its number; it is under way until then, whatever dies.

        Trials that wait (enqueued, or to be tried again) come first, unless parameters are ``fixed``.
        """
        with reported(self.url), self._alone():
            recover_all(self.study)
            while True:
                found = self._next(None, fixed)
                if found is not None:
                    return found[0]

    def tell(self, number: int, outcome: Outcome) -> None:
        """The outcome of a trial that was asked for."""
        trial = next((trial for trial in self.trials if trial.number == number), None)
        if trial is None:
            raise StudyError(f"study {self.file.name!r} has no trial {number}")
        if trial.state != TrialState.RUNNING or not self._tell(trial._trial_id, outcome):
            raise StudyError(f"trial {number} is not under way, but {trial.state.name.lower()}: it cannot be told")

    def add(self, params: Mapping[str, Any], outcome: Outcome) -> FrozenTrial:
        """Add an old result, from which the search learns; it does not count as one of the trials to make."""
        state = TrialState.FAIL if outcome.failed else TrialState.COMPLETE
        return self._create(self.file.space.native(params), state, {IMPORTED: True}, outcome)

    # ---------------------------------------------------------------- answers

    @property
    def trials(self) -> list[FrozenTrial]:
        """All trials, by number."""
        return self.study.get_trials(deepcopy=False)

    @property
    def finished(self) -> int:
        """How many evaluations the study has made, failed ones included; old results and dead trials do not count."""
        return len(_evaluated(self.trials))

    @property
    def failed(self) -> int:
        """How many of them failed."""
        return sum(trial.state == TrialState.FAIL for trial in _evaluated(self.trials))

    @property
    def best(self) -> FrozenTrial | None:
        """The best feasible trial; None before the first."""
        feasible = [
            trial
            for trial in self.trials
            if trial.state == TrialState.COMPLETE and all(c <= 0 for c in constraints_of(trial.system_attrs).values())
        ]
        sign = -1.0 if self.file.direction == "maximize" else 1.0
        return min(feasible, key=lambda trial: sign * float(trial.value or 0.0), default=None)

    def optimizer(self) -> Optimizer:
        """An optimiser that knows all trials: for ``interactions()``, ``predict()`` and the like."""
        return self.sampler.optimizer(self.study)

    # ----------------------------------------------------------------- inside

    def _alone(self) -> AbstractContextManager[None]:
        """Hold the lock of this study."""
        return exclusive(self._address, f"study {self.file.name}")

    def _sampler(self) -> DecHBOSampler:
        options = dict(self.file.options)
        graph = options.pop("graph", None)
        if "beta" in options:
            options["theory"] = TheoryOptions(beta=options.pop("beta"))
        return DecHBOSampler(
            seed=self.seed,
            graph=graph if self.file.factors is None else self.file.factors,
            n_startup_trials=options.pop("n_initial", None),
            search_space=self.file.space,
            **options,
        )

    def _room(self) -> int:
        """How many more trials may be begun; those of all processes count, those asked for by hand do not."""
        trials = self.trials
        retried = retried_numbers(trials)
        owned = [t for t in trials if t.state == TrialState.RUNNING and t.system_attrs.get(OWNER)]
        return self.target - len(_evaluated(trials)) - sum(not died(trial, retried) for trial in owned)

    def _next(
        self,
        owner: str | None,
        fixed: Mapping[str, Any] | None = None,
        asking: Callable[[], None] = _ignore,
        stopped: Callable[[], bool] = _never,
    ) -> Found | None:
        """The next trial: one that waits, or a new one; None if a waiting one is impossible, or ``stopped`` by now."""
        if fixed is None:
            waiting = next((trial for trial in self.trials if trial.state == TrialState.WAITING), None)
            if waiting is not None:
                return self._claim(waiting, owner, asking, stopped)
        asking()
        params = self.sampler.suggest(self.study, fixed=fixed)
        if stopped():  # nothing is stored: the same parameters come again
            return None
        attributes = {} if owner is None else {OWNER: owner}
        return self._create(params, TrialState.RUNNING, attributes), self.sampler.info

    def _claim(
        self, trial: FrozenTrial, owner: str | None, asking: Callable[[], None], stopped: Callable[[], bool]
    ) -> Found | None:
        """Take a trial that waits: fill in what it lacks, write down who has it, and only then set it running."""
        storage, number = self.study._storage, trial._trial_id
        try:
            params, info = self._completed(trial, asking)
            if stopped():
                return None
            for name in [name for name in self.file.space.names if name not in trial.params]:
                distribution = self._distributions[name]
                storage.set_trial_param(number, name, distribution.to_internal_repr(params[name]), distribution)
            if owner is None:  # of a process that died before it set it running, something may be left
                database_of(self.study).disown(number)
            else:
                storage.set_trial_system_attr(number, OWNER, owner)
                database_of(self.study).record_heartbeat(number)
            if not storage.set_trial_state_values(number, state=TrialState.RUNNING):
                return None
        except ParameterError as error:  # enqueued outside of the space
            self._tell(number, Outcome.failure(f"this trial was enqueued with impossible parameters: {error}"))
            return None
        except UpdateFinishedTrialError:
            return None
        return self._trial(number), info

    def _completed(self, trial: FrozenTrial, asking: Callable[[], None]) -> tuple[Mapping[str, Any], AskInfo | None]:
        """All parameters of a trial that was enqueued with some of them, or all."""
        space = self.file.space
        given = dict(trial.system_attrs.get(FIXED) or {})
        if set(trial.params) >= set(space.names):
            given = {name: trial.params[name] for name in space.names}
        if set(given) >= set(space.names):
            point = space.encode(given)
            if RETRIES not in trial.system_attrs and not space.allows(point):
                raise ParameterError(f"{given} breaks {' and '.join(repr(str(line)) for line in space.constraints)}")
            return space.decode(point), None
        asking()
        params = self.sampler.suggest(self.study, fixed=given)
        if any(params[name] != value for name, value in trial.params.items() if name in params):
            # a process died while it filled these in, and the history has changed since
            params = self.sampler.suggest(self.study, fixed={**given, **trial.params})
        return params, self.sampler.info

    def _create(
        self,
        params: Mapping[str, Any],
        state: TrialState,
        attributes: Mapping[str, Any],
        outcome: Outcome | None = None,
    ) -> FrozenTrial:
        """A new trial, whole in one transaction: a process that dies leaves all of it or nothing."""
        limits = {} if outcome is None else outcome.constraints
        trial = optuna.trial.create_trial(
            state=state,
            value=None if outcome is None else outcome.value,
            params=dict(params),
            distributions=self._distributions,
            system_attrs={**attributes, **{f"{CONSTRAINT}{name}": value for name, value in limits.items()}},
        )
        return self._trial(self.study._storage.create_new_trial(self.study._study_id, template_trial=trial))

    def _trial(self, trial_id: int) -> FrozenTrial:
        """A trial with its parameters in the order of the file."""
        trial = self.study._storage.get_trial(trial_id)
        trial.params = {name: trial.params[name] for name in self.file.space.names}
        return trial

    def _tell(self, trial_id: int, outcome: Outcome) -> bool:
        """Write an outcome, its value last: a process that dies before leaves a running trial, which is tried again.

        False if another process gave the trial up meanwhile, and has queued it again.
        """
        storage = self.study._storage
        try:
            storage.set_trial_user_attr(trial_id, "seconds", round(outcome.seconds, 3))
            if outcome.error is not None or "error" in storage.get_trial_user_attrs(trial_id):  # of a first try
                error = None if outcome.error is None else shortened_error(outcome.error)
                storage.set_trial_user_attr(trial_id, "error", error)
            for name, value in outcome.constraints.items():
                storage.set_trial_system_attr(trial_id, f"{CONSTRAINT}{name}", value)
            if outcome.value is None:
                return storage.set_trial_state_values(trial_id, state=TrialState.FAIL)
            return storage.set_trial_state_values(trial_id, state=TrialState.COMPLETE, values=[outcome.value])
        except UpdateFinishedTrialError:
            return False


def _evaluated(trials: list[FrozenTrial]) -> list[FrozenTrial]:
    """The trials that were evaluated by the study."""
    retried = retried_numbers(trials)
    return [t for t in trials if t.state.is_finished() and IMPORTED not in t.system_attrs and not died(t, retried)]
