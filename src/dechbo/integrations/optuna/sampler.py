"""DecHBOSampler: dechbo as a sampler for Optuna studies."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import optuna
from optuna.distributions import BaseDistribution
from optuna.samplers import BaseSampler
from optuna.storages import BaseStorage
from optuna.study import Study, StudyDirection
from optuna.trial import FrozenTrial

from dechbo import checks
from dechbo.data.evaluation import Params
from dechbo.errors import MANY_OBJECTIVES, NoObservations, OptionError, ParameterError, SpaceExhausted, format_list
from dechbo.graph import FactorGraph
from dechbo.integrations.optuna import adapter, independent_sampling
from dechbo.integrations.optuna.attributes import store_graph, study_seed
from dechbo.integrations.optuna.learned_space import learned_space
from dechbo.integrations.optuna.processes import this_process
from dechbo.integrations.optuna.revisions import current_trials
from dechbo.integrations.optuna.scopes import checked_named_graph, graph_over
from dechbo.integrations.optuna.spaces import Translation, conditions_of, distributions_of, is_modelled
from dechbo.integrations.optuna.study_optimizer import StudyOptimizer
from dechbo.integrations.optuna.trials import FIXED, INDEX, HistoryReader, as_mapping, free_index, index_of
from dechbo.optimizer import AskInfo, Optimizer
from dechbo.space import Float, Space
from dechbo.space.linear import Linear

_logger = optuna.logging.get_logger("optuna.dechbo")  # so that Optuna's verbosity applies

_MAX_CACHED_OPTIMIZERS = 4
_MAX_CACHED_SOURCES = 64  # running trials
_MAX_ASKS = 4  # for one trial, while other workers take the same point
_RENAMED_OPTIONS = {
    "space": "search_space",
    "n_initial": "n_startup_trials",
    "direction": "optuna.create_study(direction=…)",
}


class DecHBOSampler(BaseSampler):
    """Bayesian optimisation with factor graphs and max-sum, for ``optuna.create_study(sampler=…)``.

    A suggestion depends only on the seed and on the finished and running trials in the storage.
    Single-objective studies only. Thread-safe.

    Parameters
    ----------
    seed
        Seed of all random choices. If None, a random seed is stored with the study and used by all workers.
    max_factor_size
        Maximum number of parameters in a learned factor.
    graph
        Which parameters interact: None or "learned"; "random" for a new random tree in every trial; scopes of names
        such as ``[("lr", "layers")]``, where a parameter in no scope gets a factor of its own; or a ``FactorGraph``
        over the parameters of ``search_space`` in their order.
    n_startup_trials
        Number of trials before the model is used. If None, 10, or fewer in small spaces.
    search_space
        A dict of names to Optuna distributions, or a ``dechbo.Space``. If None, the parameters that all complete
        trials have with the same range, and those that trials have exactly with some choices of others (conditional
        ones); the rest, and those of the first trial, are sampled independently.
    constraints
        Known linear constraints between a few parameters of ``search_space``, such as "a + b <= 1". Suggestions
        always satisfy them.
    warn_independent_sampling
        Whether to warn, once, if a parameter is sampled independently after the first trials.
    options
        Options of ``dechbo.Optimizer``: noise, maximizer, engine, model, search, theory.
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
        **options: Any,
    ) -> None:
        self._seed = None if seed is None else checks.whole("seed", seed, 0)
        self._n_initial = None
        if n_startup_trials is not None:
            self._n_initial = max(1, checks.whole("n_startup_trials", n_startup_trials, 0))
        self._warns = checks.flag("warn_independent_sampling", warn_independent_sampling)
        for name in _RENAMED_OPTIONS.keys() & options.keys():
            raise OptionError(f"DecHBOSampler has no option {name}: use {_RENAMED_OPTIONS[name]}")
        self._options = {**options, "max_factor_size": max_factor_size}
        self._new_optimizer(Space({"x": Float(0, 1)}), "minimize", 0, graph=None)  # checks the options
        if constraints and search_space is None:
            raise OptionError("constraints need to know the parameters: pass search_space={name: …} too")
        if isinstance(search_space, Space) and not isinstance(constraints, (str, Linear)):
            constraints = [*search_space.constraints, *constraints]
        given = distributions_of(search_space) if isinstance(search_space, Space) else search_space
        self._conditions = conditions_of(search_space) if isinstance(search_space, Space) else {}
        self._given = None if given is None else Translation.of(given, constraints, self._conditions)
        self._distributions = None if given is None else dict(given)
        self._graph = checked_named_graph(graph, None if given is None else list(given))
        self._reset()

    def _reset(self) -> None:
        """Clear the caches and forget which warnings were given."""
        self._lock = threading.RLock()
        self._last: AskInfo | None = None
        self._warned: set[str] = set()
        self._optimizers: list[StudyOptimizer] = []
        self._sources: dict[int, tuple[BaseStorage, str]] = {}  # by trial: what its independent samples depend on

    def __getstate__(self) -> dict[str, Any]:
        caches = ("_lock", "_last", "_warned", "_optimizers", "_sources")
        return {name: value for name, value in self.__dict__.items() if name not in caches}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._reset()

    # ------------------------------------------------------ Optuna's interface

    def before_trial(self, study: Study, trial: FrozenTrial) -> None:
        """Store which process runs this trial, and which stale trial it replaces, if any."""
        seed = study_seed(study, self._seed)
        storage, trial_id = adapter.storage_of(study), adapter.trial_id(trial)
        index = trial.system_attrs.get(INDEX)
        if index is None:
            # all trials of the storage: a HyperbandPruner shows its samplers only those of one bracket
            index = free_index(storage.get_all_trials(adapter.study_id(study), deepcopy=False), trial.number)
            if index != trial.number:
                storage.set_trial_system_attr(trial_id, INDEX, index)
        storage.set_trial_system_attr(trial_id, adapter.OWNER, this_process())  # after the index: see free_index
        self._sources[trial_id] = (storage, f"{seed}/{index}")
        for oldest in list(self._sources)[:-_MAX_CACHED_SOURCES]:
            self._sources.pop(oldest, None)

    def infer_relative_search_space(self, study: Study, trial: FrozenTrial) -> dict[str, BaseDistribution]:
        """The parameters that are suggested together."""
        return self._modelled(study)

    def sample_relative(
        self, study: Study, trial: FrozenTrial, search_space: dict[str, BaseDistribution]
    ) -> dict[str, Any]:
        """Values for all of ``search_space``, given what is fixed in this trial."""
        _refuse_many_objectives(study)
        around = adapter.fixed_by_sampler(study)
        space = self._modelled(study) if around else search_space
        if not search_space.keys() <= space.keys() <= search_space.keys() | around.keys():
            space, around = search_space, {}
        translation = self._translation(study, space)
        given = {**as_mapping(trial.system_attrs.get(FIXED)), **around, **trial.params}
        fixed: Params = {}
        for name, axis in translation.axes.items():
            if name in given:
                try:
                    fixed[name] = axis.from_optuna(given[name])
                except ParameterError:  # Optuna uses it anyway, with a warning
                    continue
        params = self._ask(study, translation, fixed, own=trial.number)
        both = {**translation.constants, **translation.to_optuna(params)}
        return {name: both[name] for name in search_space if name in both}  # without inactive ones

    def sample_independent(
        self, study: Study, trial: FrozenTrial, param_name: str, param_distribution: BaseDistribution
    ) -> Any:
        """A random value that depends on the seed, the trial's index and the parameter's name."""
        _refuse_many_objectives(study)
        may_warn = self._warns and "independent" not in self._warned
        may_warn = may_warn and param_name not in self._modelled(
            study
        )  # conditional, and seen with another choice only
        if may_warn and independent_sampling.needs_warning(study, trial, param_name):
            self._warn_once("independent", independent_sampling.warning(trial, param_name))
        storage, source = self._sources.get(adapter.trial_id(trial), (None, ""))
        if storage is not adapter.storage_of(study):
            source = f"{study_seed(study, self._seed)}/{index_of(trial)}"
        return independent_sampling.sample(study, trial, param_name, param_distribution, source)

    def reseed_rng(self) -> None:
        """Does nothing: the sampler has no random state, and pending trials of other threads are not repeated."""

    # --------------------------------------------------------- beyond Optuna's

    def suggest(self, study: Study, *, fixed: Mapping[str, Any] | None = None) -> dict[str, Any]:
        """Suggest the parameters of the next trial without creating one; needs ``search_space``.

        ``fixed`` sets some of them. Raises SpaceExhausted if every point of a finite space is evaluated or pending.
        """
        _refuse_many_objectives(study)
        if self._given is None or self._distributions is None:
            raise OptionError("suggest needs to know the parameters: pass search_space={name: distribution}")
        held = {} if fixed is None else dict(fixed)
        unknown = [name for name in held if name not in self._distributions]
        if unknown:
            names = format_list(list(self._distributions))
            raise ParameterError(f"fixed names {unknown}, which are not parameters; the search space has {names}")
        for name, value in self._given.constants.items():
            if name in held and held[name] is not value and held[name] != value:
                raise ParameterError(f"fixed {name!r}: expected its only value {value!r}, got {held[name]!r}")
        params = self._ask(study, self._given, self._given.from_optuna(held), own=None)
        both = {**self._given.constants, **self._given.to_optuna(params)}
        return {name: both[name] for name in self._distributions if name in both}

    def optimizer(self, study: Study) -> Optimizer:
        """An ``Optimizer`` with the study's trials, for ``interactions()``, ``predict()`` and so on.

        A categorical choice that JSON cannot represent, such as NaN, appears as its index.
        """
        _refuse_many_objectives(study)
        translation = self._given or self._translation(study, self._modelled(study))
        if translation.space is None:
            raise NoObservations("no parameters to model yet: complete a trial first, or pass search_space=…")
        with self._lock:
            return self._study_optimizer(study, translation, translation.space).updated(study)

    @property
    def info(self) -> AskInfo | None:
        """What the last ask in this process did; None before the first."""
        return self._last

    # -------------------------------------------------------------------- inside

    def _ask(self, study: Study, translation: Translation, fixed: Params, own: int | None) -> Params:
        """The suggestion for trial ``own``; an exhausted finite space repeats its points."""
        space = translation.space
        if space is None:
            return fixed
        if space.active(fixed) <= fixed.keys():
            if not space.allows(space.encode(fixed)):
                if own is None:
                    raise ParameterError(f"{fixed} breaks {' and '.join(map(repr, map(str, space.constraints)))}")
                self._warn_once("forbidden", f"trial {own} was enqueued with values that break a known constraint")
            return fixed
        with self._lock:
            optimizer = self._study_optimizer(study, translation, space)
            graph = None
            try:
                for _ in range(_MAX_ASKS):
                    history = optimizer.replay(study, own)
                    with self._graph_errors_as_warnings():
                        graph = optimizer.new_graph(study, history)
                    params = self._ask_with(optimizer.optimizer, fixed, own)
                    if own is None or not optimizer.is_taken(study, params, own):
                        break
            except SpaceExhausted:
                repeated = None if own is None else optimizer.repeated_point(study, fixed, own)
                if repeated is None:
                    raise
                known = format_list(list(space.names))
                self._warn_once("exhausted", f"all points of {known} are evaluated, from now on they are repeated")
                return repeated
            self._last = optimizer.optimizer.info
            if own is not None:
                optimizer.planned[own] = dict(params)
            if graph is not None:
                with self._graph_errors_as_warnings():
                    store_graph(study, graph, space.names, len(history.evaluations))
            return params

    def _ask_with(self, optimizer: Optimizer, fixed: Params, own: int | None) -> Params:
        """The suggestion; values enqueued for trial ``own`` override the constraints if both cannot hold."""
        try:
            return optimizer.ask(fixed=fixed)
        except ParameterError as error:
            if own is None or not fixed:
                raise
            self._warn_once("forbidden", f"trial {own} was enqueued with values that break a known constraint: {error}")
            return {**optimizer.ask(), **fixed}

    def _modelled(self, study: Study) -> dict[str, BaseDistribution]:
        """The modelled parameters, sorted by name."""
        _refuse_many_objectives(study)
        found = self._distributions
        if found is None:
            found = learned_space(current_trials(study))[0]
        return {name: found[name] for name in sorted(found) if is_modelled(found[name])}

    def lacks_parameters(self, study: Study, trial: FrozenTrial) -> bool:
        """Whether a trial lacks parameters that are suggested together."""
        space = self.infer_relative_search_space(study, trial)
        translation = self._translation(study, space)
        try:
            return not translation.is_complete(translation.from_optuna(trial.params))
        except ParameterError:
            return not set(space) <= set(trial.params)

    def _translation(self, study: Study, search_space: Mapping[str, BaseDistribution]) -> Translation:
        """The translation of a search space; only the given one has known constraints."""
        if self._given is not None and self._distributions is not None:
            axes = self._given.axes.keys()
            if search_space.keys() == axes and all(search_space[n] == self._distributions[n] for n in axes):
                return self._given
        conditions = self._conditions if self._distributions else learned_space(current_trials(study))[1]
        return Translation.of(search_space, (), {n: when for n, when in conditions.items() if n in search_space})

    def _study_optimizer(self, study: Study, translation: Translation, space: Space) -> StudyOptimizer:
        """The cached optimizer for this study and space, or a new one."""
        direction = "maximize" if study.direction == StudyDirection.MAXIMIZE else "minimize"
        seed = study_seed(study, self._seed)
        key = (adapter.study_id(study), translation.key, direction, seed)
        for cached in self._optimizers:
            if cached.matches(study, key):
                return cached
        optimizer = self._new_optimizer(space, direction, seed, graph=graph_over(self._graph, space))
        new = StudyOptimizer(adapter.storage_of(study), key, HistoryReader(translation), optimizer)
        self._optimizers = [new, *self._optimizers[: _MAX_CACHED_OPTIMIZERS - 1]]
        return new

    def _new_optimizer(self, space: Space, direction: str, seed: int, *, graph: FactorGraph | str | None) -> Optimizer:
        return Optimizer(space, graph=graph, direction=direction, seed=seed, n_initial=self._n_initial, **self._options)

    @contextmanager
    def _graph_errors_as_warnings(self) -> Iterator[None]:
        """A stored graph is optional, so its errors must not stop a suggestion."""
        try:
            yield
        except Exception as error:
            self._warn_once("graph", f"cannot store the learned graph with the study: {error!r}")

    def _warn_once(self, kind: str, text: str) -> None:
        with self._lock:
            new = kind not in self._warned
            self._warned.add(kind)
        if new:
            _logger.warning(f"DecHBOSampler: {text}")


def _refuse_many_objectives(study: Study) -> None:
    if len(study.directions) > 1:
        raise OptionError(
            f"DecHBOSampler supports one objective, this study has {len(study.directions)}. {MANY_OBJECTIVES}"
        )
