"""DecHBOSampler: dechbo where Optuna asks for parameters."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import optuna
from optuna.distributions import BaseDistribution
from optuna.samplers import BaseSampler
from optuna.search_space import intersection_search_space
from optuna.storages import BaseStorage
from optuna.study import Study, StudyDirection
from optuna.trial import FrozenTrial

from dechbo import checks
from dechbo.data.evaluation import Params
from dechbo.errors import NoObservations, OptionError, ParameterError, SpaceExhausted, format_list
from dechbo.graph import FactorGraph
from dechbo.integrations.optuna import independent, kept
from dechbo.integrations.optuna.following import Follower
from dechbo.integrations.optuna.groups import graph_over, named_graph
from dechbo.integrations.optuna.owners import OWNER, this_process
from dechbo.integrations.optuna.spaces import Translation, distributions_of, is_modelled
from dechbo.integrations.optuna.trials import FIXED, INDEX, Reader, free_index, index_of, mapping
from dechbo.optimizer import AskInfo, Optimizer
from dechbo.space import Float, Space
from dechbo.space.linear import Linear

_logger = optuna.logging.get_logger("optuna.dechbo")  # so that Optuna's verbosity counts here too

_MOST_KEPT = 4  # optimisers kept for speed
_MOST_DRAWS = 64  # trials under way
_MOST_TRIES = 4  # asks for one trial, as long as others take the very point meanwhile
_NOT_OPTIONS = {
    "space": "search_space",
    "n_initial": "n_startup_trials",
    "direction": "optuna.create_study(direction=…)",
}


class DecHBOSampler(BaseSampler):
    """Bayesian optimisation with factor graphs and max-sum, for ``optuna.create_study(sampler=…)``.

    A suggestion depends on the seed and on the finished and running trials in the storage, on nothing in this process.
    Single-objective studies only. Safe to use from several threads.

    Parameters
    ----------
    seed
        Fixes every random choice. Without one a seed is drawn and kept with the study, for all workers and resumes.
    max_factor_size
        The most parameters in a learned factor.
    graph
        Which parameters act together: None or "learned"; "random", a fresh random tree for every trial; groups of
        names such as ``[("lr", "layers")]`` (a parameter in no group acts on its own); or a ``FactorGraph`` over
        ``search_space`` in its order.
    n_startup_trials
        Trials before the model takes over (10, or fewer in small spaces).
    search_space
        A dict of names to Optuna distributions, or a ``dechbo.Space``. Without one: the parameters that all complete
        trials share with the same range; others, and those of the first trial, are drawn independently.
    constraints
        Known linear constraints between few parameters of ``search_space``, "a + b <= 1": never violated.
    warn_independent_sampling
        Whether to say, once, that a parameter other than in the first trials is drawn independently.
    more
        Options of ``dechbo.Optimizer``: beta, noise, kernel, choose, effort, …
    """

    def __init__(
        self,
        *,
        seed: int | None = None,
        max_factor_size: int = 3,
        graph: FactorGraph | str | Iterable[Iterable[str]] | None = None,
        n_startup_trials: int | None = None,
        search_space: Mapping[str, BaseDistribution] | Space | None = None,
        constraints: Sequence[str | Linear] = (),
        warn_independent_sampling: bool = True,
        **more: Any,
    ) -> None:
        self._seed = None if seed is None else checks.whole("seed", seed, 0)
        self._n_initial = None
        if n_startup_trials is not None:
            self._n_initial = max(1, checks.whole("n_startup_trials", n_startup_trials, 0))
        self._warns = checks.flag("warn_independent_sampling", warn_independent_sampling)
        for name in _NOT_OPTIONS.keys() & more.keys():
            raise OptionError(f"DecHBOSampler takes no {name}: use {_NOT_OPTIONS[name]}")
        self._options = {**more, "max_factor_size": max_factor_size}
        self._new_optimizer(Space({"x": Float(0, 1)}), "minimize", 0, graph=None)  # here the options are checked
        if constraints and search_space is None:
            raise OptionError("constraints between parameters need the parameters: pass search_space={name: …} too")
        if isinstance(search_space, Space) and not isinstance(constraints, (str, Linear)):
            constraints = [*search_space.constraints, *constraints]
        given = distributions_of(search_space) if isinstance(search_space, Space) else search_space
        self._given = None if given is None else Translation.of(given, constraints)
        self._distributions = None if given is None else dict(given)
        self._graph = named_graph(graph, None if given is None else list(given))
        self._reset()

    def _reset(self) -> None:
        """Nothing said, nothing kept for speed."""
        self._lock = threading.RLock()
        self._last: AskInfo | None = None
        self._said: set[str] = set()
        self._followers: list[Follower] = []
        self._draws: dict[int, tuple[BaseStorage, str]] = {}  # by trial: what its independent draws depend on

    def __getstate__(self) -> dict[str, Any]:
        return {k: v for k, v in self.__dict__.items() if k not in ("_lock", "_last", "_said", "_followers", "_draws")}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._reset()

    # ------------------------------------------------------- what Optuna calls

    def before_trial(self, study: Study, trial: FrozenTrial) -> None:
        """Write down which process runs this trial, and whose place it takes if it does."""
        storage = study._storage
        index = trial.system_attrs.get(INDEX)
        if index is None:
            index = free_index(storage.get_all_trials(study._study_id, deepcopy=False), trial.number)
            if index != trial.number:
                storage.set_trial_system_attr(trial._trial_id, INDEX, index)
        storage.set_trial_system_attr(trial._trial_id, OWNER, this_process())  # after the index: see free_index
        self._draws[trial._trial_id] = (storage, f"{kept.seed_of(study, self._seed)}/{index}")
        for oldest in list(self._draws)[:-_MOST_DRAWS]:
            self._draws.pop(oldest, None)

    def infer_relative_search_space(self, study: Study, trial: FrozenTrial) -> dict[str, BaseDistribution]:
        """The parameters that are suggested together."""
        return self._modelled(study)

    def sample_relative(
        self, study: Study, trial: FrozenTrial, search_space: dict[str, BaseDistribution]
    ) -> dict[str, Any]:
        """The suggestion: values for all of ``search_space``, given what is fixed in this trial."""
        _refuse_many_objectives(study)
        around = mapping(getattr(study.sampler, "_fixed_params", None))  # what a PartialFixedSampler holds
        space = self._modelled(study) if around else search_space
        if not search_space.keys() <= space.keys() <= search_space.keys() | around.keys():
            space, around = search_space, {}
        translation = self._translation(space)
        held = {**mapping(trial.system_attrs.get(FIXED)), **around, **trial.params}
        fixed: Params = {}
        for name, axis in translation.axes.items():
            if name in held:
                try:
                    fixed[name] = axis.ours(held[name])
                except ParameterError:  # Optuna takes it nevertheless, and warns
                    continue
        params = self._ask(study, translation, fixed, own=trial.number)
        both = {**translation.constants, **translation.theirs(params)}
        return {name: both[name] for name in search_space}

    def sample_independent(
        self, study: Study, trial: FrozenTrial, param_name: str, param_distribution: BaseDistribution
    ) -> Any:
        """A random value that depends on the seed, the trial's index and the parameter's name."""
        _refuse_many_objectives(study)
        if self._warns and "independent" not in self._said and independent.is_unusual(study, trial, param_name):
            self._say_once("independent", independent.warning(trial, param_name))
        storage, source = self._draws.get(trial._trial_id, (None, ""))
        if storage is not study._storage:
            source = f"{kept.seed_of(study, self._seed)}/{index_of(trial)}"
        return independent.draw(study, trial, param_name, param_distribution, source)

    def reseed_rng(self) -> None:
        """Nothing to do: no random state lives here, and other threads' trials are pending, so not repeated."""

    # ------------------------------------------------------------- beyond Optuna

    def suggest(self, study: Study, *, fixed: Mapping[str, Any] | None = None) -> dict[str, Any]:
        """Parameters of a next trial, without creating one; needs ``search_space``.

        ``fixed`` holds some of them. SpaceExhausted once every point of a finite space is evaluated or pending.
        """
        _refuse_many_objectives(study)
        if self._given is None or self._distributions is None:
            raise OptionError("suggest needs to know the parameters: DecHBOSampler(search_space={name: distribution})")
        held = {} if fixed is None else dict(fixed)
        unknown = [name for name in held if name not in self._distributions]
        if unknown:
            names = format_list(list(self._distributions))
            raise ParameterError(f"fixed names {unknown}, which are not parameters; the search space has {names}")
        for name, value in self._given.constants.items():
            if name in held and held[name] is not value and held[name] != value:
                raise ParameterError(f"fixed {name!r}: expected its only value {value!r}, got {held[name]!r}")
        params = self._ask(study, self._given, self._given.ours(held), own=None)
        both = {**self._given.constants, **self._given.theirs(params)}
        return {name: both[name] for name in self._distributions}

    def optimizer(self, study: Study) -> Optimizer:
        """An optimiser that has taken over the study's trials: for ``interactions()``, ``predict()`` and the like.

        A choice that plain JSON cannot hold, NaN say, is known to it by its index.
        """
        _refuse_many_objectives(study)
        translation = self._given or self._translation(self._modelled(study))
        if translation.space is None:
            raise NoObservations("no parameters to model are known: complete a trial first, or pass search_space=…")
        with self._lock:
            return self._follower(study, translation, translation.space).caught_up(study)

    @property
    def info(self) -> AskInfo | None:
        """What the last ask of this sampler in this process did; None before the first."""
        return self._last

    # -------------------------------------------------------------------- inside

    def _ask(self, study: Study, translation: Translation, fixed: Params, own: int | None) -> Params:
        """The suggestion for trial ``own``; a finite space that is exhausted has its points evaluated again."""
        space = translation.space
        if space is None:
            return fixed
        if len(fixed) == space.dim:
            if not space.allows(space.encode(fixed)):
                if own is None:
                    raise ParameterError(f"{fixed} breaks {' and '.join(map(repr, map(str, space.constraints)))}")
                self._say_once("forbidden", f"trial {own} breaks a known constraint: it was enqueued so")
            return fixed
        with self._lock:
            follower = self._follower(study, translation, space)
            learned = None
            try:
                for _ in range(_MOST_TRIES):
                    history = follower.replay(study, own)
                    with self._no_graph_if_in_trouble():
                        learned = follower.newly_learned(study, history)
                    params = self._asked(follower.optimizer, fixed, own)
                    if own is None or not follower.is_taken(study, params, own):
                        break
            except SpaceExhausted as error:
                again = None if own is None else follower.again(study, fixed, own)
                if again is None:
                    raise
                self._say_once("exhausted", f"points are evaluated again from here on: {error}")
                return again
            self._last = follower.optimizer.info
            if own is not None:
                follower.planned[own] = dict(params)
            if learned is not None:
                with self._no_graph_if_in_trouble():
                    kept.keep_graph(study, learned, space.names, len(history.evaluations))
            return params

    def _asked(self, optimizer: Optimizer, fixed: Params, own: int | None) -> Params:
        """The suggestion; where no point has what was enqueued for trial ``own``, that wins over the constraints."""
        try:
            return optimizer.ask(fixed=fixed)
        except ParameterError as error:
            if own is None or not fixed:
                raise
            self._say_once("forbidden", f"trial {own} breaks a known constraint, it was enqueued so: {error}")
            return {**optimizer.ask(), **fixed}

    def _modelled(self, study: Study) -> dict[str, BaseDistribution]:
        """The parameters that the model knows, by sorted name."""
        _refuse_many_objectives(study)
        found = self._distributions
        if found is None:
            found = intersection_search_space(study.get_trials(deepcopy=False))
        return {name: found[name] for name in sorted(found) if is_modelled(found[name])}

    def _translation(self, search_space: Mapping[str, BaseDistribution]) -> Translation:
        """The translation of a search space; known constraints belong to the given one alone."""
        if self._given is not None and self._distributions is not None:
            axes = self._given.axes.keys()
            if search_space.keys() == axes and all(search_space[n] == self._distributions[n] for n in axes):
                return self._given
        return Translation.of(search_space)

    def _follower(self, study: Study, translation: Translation, space: Space) -> Follower:
        """The optimiser that follows this study in this space; a new one where none does."""
        direction = "maximize" if study.direction == StudyDirection.MAXIMIZE else "minimize"
        seed = kept.seed_of(study, self._seed)
        key = (study._study_id, translation.key, direction, seed)
        for follower in self._followers:
            if follower.follows(study, key):
                return follower
        optimizer = self._new_optimizer(space, direction, seed, graph=graph_over(self._graph, space))
        follower = Follower(study._storage, key, Reader(translation), optimizer)
        self._followers = [follower, *self._followers[: _MOST_KEPT - 1]]
        return follower

    def _new_optimizer(self, space: Space, direction: str, seed: int, *, graph: FactorGraph | str | None) -> Optimizer:
        return Optimizer(space, graph=graph, direction=direction, seed=seed, n_initial=self._n_initial, **self._options)

    @contextmanager
    def _no_graph_if_in_trouble(self) -> Iterator[None]:
        """A suggestion is worth more than a kept graph; what is in the way of both is said by the ask itself."""
        try:
            yield
        except Exception as error:
            self._say_once("graph", f"the learned graph cannot be kept with the study: {error!r}")

    def _say_once(self, what: str, text: str) -> None:
        with self._lock:
            new = what not in self._said
            self._said.add(what)
        if new:
            _logger.warning(f"DecHBOSampler: {text}")


def _refuse_many_objectives(study: Study) -> None:
    if len(study.directions) > 1:
        raise OptionError(
            f"DecHBOSampler optimises one objective, this study has {len(study.directions)}: combine them into one "
            "value, or put limits on the others by trial.set_constraint"
        )
