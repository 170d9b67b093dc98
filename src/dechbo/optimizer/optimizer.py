"""Optimizer: ask for a point, tell its value; a thin shell around one step."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import wraps
from os import PathLike
from typing import Any, TypeVar, cast, overload

import numpy as np
from numpy.typing import NDArray

from dechbo import checks
from dechbo.acquisition.feasibility import LearnedConstraint, LogFeasibility
from dechbo.data import runfile
from dechbo.data.evaluation import Evaluation, Params, variance
from dechbo.data.history import History
from dechbo.errors import NoObservations, OptionError, ParameterError, SpaceExhausted
from dechbo.gp import Ensemble
from dechbo.graph import FactorGraph
from dechbo.interactions import Interactions, interactions_of
from dechbo.maxsum import Maximizer, MaxSum
from dechbo.models.builder import ModelBuilder
from dechbo.models.options import ModelOptions
from dechbo.optimizer import options
from dechbo.optimizer.beliefs import Beliefs
from dechbo.optimizer.info import AskInfo
from dechbo.optimizer.outlook import Outlook, outlook
from dechbo.optimizer.problem import SearchProblem
from dechbo.search.engine import Engine, LocalEngine, as_engine
from dechbo.search.grids import Granularity
from dechbo.search.options import SearchOptions
from dechbo.space import Space
from dechbo.space.fixed import check_fixed, fixed_coordinates
from dechbo.space.repair import repair_rounding
from dechbo.structure import Convergence
from dechbo.theory import RegretReport, TheoryOptions, average_regret, regret_bound
from dechbo.threads import one_blas_thread

Array = NDArray[np.float64]
M = TypeVar("M", bound=Callable[..., Any])

DEFAULT_INITIAL = 10


def _locked(method: M) -> M:
    """A method that holds the optimizer's lock, as ``ask`` and ``tell`` do, and runs with one BLAS thread."""
    single_threaded = one_blas_thread(method)

    @wraps(method)
    def locked(self: Optimizer, *args: Any, **kwargs: Any) -> Any:
        with self._lock:
            return single_threaded(self, *args, **kwargs)

    return cast(M, locked)


class Optimizer:
    """Finds good parameters of an expensive function in few evaluations: ``ask`` for a point, ``tell`` its value.

    Safe to use from several threads, one call at a time.

    Parameters
    ----------
    space
        The parameters: ``Space({"lr": Float(1e-5, 1, log=True), ...})``. Its known constraints are never broken.
    graph
        Which parameters interact. "learned" (the default): learned from the data, each time they have doubled; see
        ``interactions``. "random": all singletons and a random spanning tree of pairs, drawn for every
        ask. A ``FactorGraph``: that of the objective; learned constraints have graphs of their own.
    direction
        "minimize" or "maximize".
    seed
        Fixes every random choice; without one a seed is drawn and kept in ``seed``.
    noise
        The variance of the values' noise, in squared units of the values; 0 means noise-free; learned if None.
        With noise above 0 a point may be suggested again.
    n_initial
        Evaluations before the model takes over, points told without asking included (10, or fewer in small spaces).
    max_factor_size
        For a learned graph: the most parameters in a factor.
    maximizer
        Of the sum of the factors' bounds: ``MaxSum()``, the default; "auto", which eliminates exactly where the graph
        is narrow enough; ``Exact()``, ``BoundedMaxSum()`` or ``Toulbar2()``.
    engine
        Where tables are built and maximised; ``LocalEngine(maximizer)`` if not given.
    model, search, theory
        Everything else: ``ModelOptions`` (members, kernel, structure learning), ``SearchOptions`` (score, grids),
        ``TheoryOptions`` (beta schedule). A theoretical beta schedule switches the committee off, as its docstring
        says; ``info.switched_off`` names it.
    """

    @options.known_options("Optimizer", options.GROUPED)
    def __init__(
        self,
        space: Space,
        *,
        graph: FactorGraph | str | None = None,
        direction: str = "minimize",
        seed: int | None = None,
        noise: float | None = None,
        n_initial: int | None = None,
        max_factor_size: int = 3,
        maximizer: Maximizer | str | None = None,
        engine: Engine | None = None,
        model: ModelOptions | None = None,
        search: SearchOptions | None = None,
        theory: TheoryOptions | None = None,
    ) -> None:
        if not isinstance(space, Space):
            raise OptionError(f"expected a Space, got {type(space).__name__}; write Space({{'x': Float(0, 1)}})")
        self.space = space
        self.graph = options.checked_graph(graph, space)
        self.direction = checks.one_of("direction", direction, ("minimize", "maximize"))
        drawn = int(np.random.SeedSequence().generate_state(1)[0])
        self.seed = drawn if seed is None else checks.whole("seed", seed, 0)
        self.noise = None if noise is None else variance(noise)
        small = min(float(DEFAULT_INITIAL), 2.0 * space.dim + 2, History(space).remaining({})[0])
        self.n_initial = int(small) if n_initial is None else checks.whole("n_initial", n_initial, 1)
        self.max_factor_size = checks.whole("max_factor_size", max_factor_size, 1)
        self._engine = as_engine(engine, maximizer)
        self.maximizer = self._engine.maximizer if isinstance(self._engine, LocalEngine) else maximizer
        self.model = checks.instance("model", model, ModelOptions)
        self.search = checks.instance("search", search, SearchOptions)
        self.theory = checks.instance("theory", theory, TheoryOptions)
        builder = ModelBuilder(space, self.graph, self.seed, self._sign, self.noise, self.max_factor_size, self.model)
        self._problem = SearchProblem.of(builder, self.search, self.theory, self.n_initial)
        self._beliefs = Beliefs(self._problem, self._engine)
        self._history = History(space)
        self._lock = threading.RLock()
        self.info: AskInfo | None = None

    @classmethod
    def paper(cls, space: Space, *, max_factor_size: int = 3, **options: Any) -> Optimizer:
        """DEC-HBO as Hoang et al. (2018) define it: sampled graphs (Eq. 5), the sum of the factors' bounds, max-sum.

        What the paper leaves open is chosen as follows; ``options`` of the constructor replace any of it:

        =====================  ======================================================================================
        kernel                 Matérn-5/2, a product over the variables of a factor, one lengthscale per variable
        hyperparameters        MAP, every tenth iteration from nothing and in between from the last ones
        structure              k = 3 graphs every ten iterations, from two chains of 600 steps on centred factors
        factors                free functions of their variables, not centred; scopes within a larger one are dropped
        beta                   0.2 m log(2 t), m the largest factor up to 3 (the theory's explore far too much)
        max-sum                30 rounds as in the paper's experiments, half damped; exact where there is no cycle
        grids                  a base grid within a budget of work, then log2(1 + t) / 4 zooms that halve the spacing
        beyond the grids       nothing: no continuous polish, no committee
        =====================  ======================================================================================
        """
        chosen: dict[str, Any] = {
            "graph": "learned",
            "maximizer": MaxSum(rounds=30, damping=0.5),
            "model": ModelOptions(graph_samples=3, centred=False),
            "search": SearchOptions(score="factors", granularity=Granularity(polish_steps=0)),
            "theory": TheoryOptions(beta="practical"),
        }
        if options.get("engine") is not None:  # which has a maximizer of its own
            del chosen["maximizer"]
        return cls(space, max_factor_size=max_factor_size, **{**chosen, **options})

    # ---------------------------------------------------------------- ask

    @overload
    def ask(self, n: None = None, *, fixed: Mapping[str, Any] | None = None) -> Params: ...
    @overload
    def ask(self, n: int, *, fixed: Mapping[str, Any] | None = None) -> list[Params]: ...
    def ask(self, n: int | None = None, *, fixed: Mapping[str, Any] | None = None) -> Params | list[Params]:
        """The next point to evaluate, or a list of ``n`` points to evaluate in parallel.

        ``fixed`` holds some parameters at given values. Points asked for and not yet told are pending: they are not
        suggested again, and the model accounts for them.
        """
        given = check_fixed(self.space, fixed)
        count = 1 if n is None else checks.whole("n", n, 1)
        with self._lock:
            self._check_remaining(count, given)
            points = [self._ask_one(given) for _ in range(count)]
        return points[0] if n is None else points

    @one_blas_thread
    def _ask_one(self, fixed: Params) -> Params:
        started = time.perf_counter()
        history, coordinates = self._history, fixed_coordinates(self.space, fixed)
        suggested = self._beliefs.suggest(history, coordinates)
        point, info = suggested.point, suggested.info
        params = {**self.space.decode(point), **fixed}
        if self.space.constraints:
            params = repair_rounding(self.space, params, fixed)
        history.ask(params, fixed, modelled=info.source != "initial design")
        self.info = replace(info, seconds=time.perf_counter() - started)
        return dict(params)

    # --------------------------------------------------------------- tell

    def tell(
        self,
        params: Mapping[str, Any],
        value: float | None,
        *,
        noise: float | None = None,
        constraints: Mapping[str, float] | None = None,
    ) -> None:
        """Record the value of a point, asked for or not.

        ``None``, NaN and infinities record a failed evaluation: kept, never modelled as a number, not suggested again.
        ``noise`` is the known noise variance of this value, on top of the model's. ``constraints`` are numbers that
        are feasible at or below 0: each is modelled, and a point that breaks one is never ``best`` nor recommended.
        """
        evaluation = Evaluation.of(self.space.native(params), value, noise, constraints)
        with self._lock:
            self._history.tell(evaluation)

    @property
    def pending(self) -> list[Params]:
        """Points asked for and not yet told, and those of other processes (see ``replay``)."""
        history = self._history
        asked = [asked.params for asked in history.asked if not asked.answered]
        return [dict(params) for params in asked + history.external]

    def forget(self, params: Mapping[str, Any]) -> None:
        """Stop waiting for a pending point whose value will never come."""
        with self._lock:
            if not self._history.forget(params):
                raise ParameterError(f"{dict(params)} is not pending; pending are {self.pending}")

    def retract(self, params: Mapping[str, Any]) -> None:
        """Take back the latest evaluation at ``params``: it is kept in ``retracted``, and its point may come again.

        The next ask is the one of a run that was never told it.
        """
        self._revise(params, None)

    def correct(
        self,
        params: Mapping[str, Any],
        value: float | None,
        *,
        noise: float | None = None,
        constraints: Mapping[str, float] | None = None,
    ) -> None:
        """Replace the latest evaluation at ``params``, as if it had been told so; the old one is in ``retracted``."""
        self._revise(params, Evaluation.of(self.space.native(params), value, noise, constraints))

    @property
    def retracted(self) -> tuple[Evaluation, ...]:
        """What was retracted or corrected, in that order."""
        return tuple(replace(evaluation, params=dict(evaluation.params)) for evaluation in self._history.retracted)

    def _revise(self, params: Mapping[str, Any], new: Evaluation | None) -> None:
        with self._lock:
            history = self._history.revised(params, new, self.n_initial)
            if history is None:
                raise ParameterError(f"no evaluation was told at {dict(params)}: see Optimizer.evaluations")
            self._history = history
            self._beliefs.clear()

    def replay(self, evaluations: Sequence[Evaluation], pending: Sequence[Mapping[str, Any]] = ()) -> None:
        """Take over a history that is stored outside: as if each evaluation had been asked for and told in this order.

        ``pending`` are points under evaluation in other processes. The next ask depends on the options, the evaluations
        and the pending points alone; models of a common beginning are reused.
        """
        with self._lock:
            had_fixed = any(asked.fixed for asked in self._history.asked)  # cached tables have fixed coordinates
            history, continues = self._history.replayed(evaluations, pending, self.n_initial)
            if had_fixed or not continues:
                self._beliefs.clear()
            self._history = history

    # -------------------------------------------------------- predictions

    @property
    def evaluations(self) -> tuple[Evaluation, ...]:
        """Everything told so far, in order."""
        return tuple(replace(evaluation, params=dict(evaluation.params)) for evaluation in self._history.evaluations)

    @property
    def best(self) -> Evaluation | None:
        """The best feasible evaluation told so far; None before the first."""
        best = self._history.best(self._sign)
        return None if best is None else replace(best, params=dict(best.params))

    @property
    def last_graph(self) -> FactorGraph:
        """The factor graph of the latest model; before the first, the one it will start from."""
        return self._beliefs.last_graph(self._history)

    @_locked
    def predict(self, params: Mapping[str, Any]) -> tuple[float, float]:
        """Posterior mean and standard deviation of the objective at ``params``, in the user's units."""
        mean, deviation = self._beliefs.of_next_ask(self._history).predict(self.space.encode(params))
        return self._sign * mean, deviation

    @_locked
    def predict_constraints(self, params: Mapping[str, Any]) -> dict[str, tuple[float, float]]:
        """Posterior mean and standard deviation of every reported constraint, in the user's units."""
        point = self.space.encode(params)
        limits = self._beliefs.committee(self._history).constraints
        parts = {name: limit.predict(point) for name, limit in limits.items()}
        return {name: (-mean, deviation) for name, (mean, deviation) in parts.items()}

    @_locked
    def feasible_probability(self, params: Mapping[str, Any]) -> float:
        """The probability that all reported constraints hold at ``params``; 0 where a known constraint is broken."""
        point = self.space.encode(params)
        limits = [LearnedConstraint.of(limit) for limit in self._beliefs.committee(self._history).constraints.values()]
        return float(np.exp(LogFeasibility(limits).values(point[None])[0])) if self.space.allows(point) else 0.0

    @_locked
    def recommend(self) -> Params:
        """The feasible evaluated point with the best posterior mean: what to use when values are noisy."""
        belief = self._beliefs.of_next_ask(self._history)
        usable = self._history.feasible
        if not usable:
            raise NoObservations("no evaluation so far is feasible: tell one first")
        points = np.array([self._history.points[evaluation.number] for evaluation in usable])
        return dict(usable[int(belief.moments(points)[0].argmax())].params)

    @_locked
    def outlook(self, trials: int = 20, *, epsilon: float = 0.0) -> Outlook:
        """How much another ``trials`` evaluations may improve on the best: expected, and by more than ``epsilon``."""
        best, count = self.best, checks.whole("trials", trials, 1)
        if best is None:
            raise NoObservations("no evaluation so far is feasible: there is no best to improve on")
        if not 0 <= epsilon < float("inf"):
            raise OptionError(f"epsilon must be a finite number of at least 0, got {epsilon!r}")
        incumbents = self._history.incumbents(self._sign, len(self._history.evaluations))
        if self.space.conditions:
            incumbents = np.array([self.space.conditions.filled(x, incumbents) for x in incumbents])
        value, committee = self._sign * best.number_value, self._beliefs.committee(self._history)
        return outlook(committee, self.space, incumbents[:5], value, count, float(epsilon), self.seed)

    @_locked
    def regret_report(self, optimum: float) -> RegretReport:
        """R_n / n and the bound of Theorems 2 and 3, for a known optimum; prints as text."""
        model = self._beliefs.factor_model(self._history)
        values = np.array([self._sign * e.number_value for e in self._history.successes])
        beta = self._problem.beta(len(values), model.gp)
        gp = model.gp.members[0] if isinstance(model.gp, Ensemble) else model.gp
        allowed = regret_bound(gp, model.data, beta, continuous=not self.space.is_finite)
        return RegretReport(float(average_regret(values, self._sign * optimum)[-1]), allowed, model.scaling.scale)

    @_locked
    def interactions(self, *, quick: bool = False) -> Interactions:
        """Which parameters interact, the most important first; needs ``graph="learned"`` and centred kernels.

        The graph is learned from all evaluations, with the effort of ``ModelOptions(structure=…)``. With ``quick`` the
        answer is that of the next ask's own graph: from shorter chains, learned when the evaluations last doubled.
        """
        known = self._beliefs.quick_structure(self._history) if quick else None
        return interactions_of(self._beliefs.structure(self._history) if known is None else known, self.space.names)

    @_locked
    def convergence(self) -> Convergence | None:
        """R-hat and effective sample sizes of the chains behind ``interactions``; None if none ran."""
        learned = self._beliefs.structure(self._history).learned
        return None if learned is None else learned.convergence

    @_locked
    def pair_probabilities(self) -> Array:
        """The probability that each pair of parameters interacts, (d, d); needs ``graph="learned"``."""
        model = self._beliefs.structure(self._history)
        if model.learned is None:
            raise OptionError('pair probabilities need a learned graph: Optimizer(space, graph="learned")')
        return model.pair_probabilities

    # -------------------------------------------------------- saved runs

    def save(self, path: str | PathLike[str]) -> None:
        """Write everything to a JSON file; ``Optimizer.load`` goes on with the same suggestions."""
        with self._lock:
            content = {"options": self._options(), **self._history.to_json()}
        runfile.write(path, {"space": self.space.to_json(), **content})

    @classmethod
    def load(cls, path: str | PathLike[str], **replaced: Any) -> Optimizer:
        """Go on where ``save`` stopped.

        ``replaced`` overrides options of the file. A callable beta, a custom maximizer or a custom engine cannot be
        saved: pass them here, a callable beta as ``theory=TheoryOptions(beta=…)``.
        """
        content = runfile.read(path)
        with runfile.damage_reported(path):
            space = Space.from_json(content["space"])
            saved = options.from_json(space, content["options"])
            history = History.from_json(space, content)
        for name in ("theory", "maximizer", "engine"):
            if saved.get(name) == options.CUSTOM and name not in replaced:
                raise OptionError(f"this run used a custom {name}, which a file cannot hold: pass load(path, {name}=…)")
        if "engine" in replaced:
            saved.pop("maximizer")
        optimizer = cls(space, **{**saved, **replaced})
        optimizer._history = history
        return optimizer

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in self.__dict__.items() if name != "_lock"}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._lock = threading.RLock()

    # ------------------------------------------------------------- inside

    @property
    def _sign(self) -> float:
        return 1.0 if self.direction == "maximize" else -1.0

    def _check_remaining(self, wanted: int, fixed: Params) -> None:
        """Refuse to ask for what the known constraints forbid, or for more points than a finite space has left."""
        coordinates = fixed_coordinates(self.space, fixed)
        if self.space.constraints and self.space.region.allowed_point(coordinates) is None:
            raise ParameterError(
                f"no point with {fixed} satisfies {' and '.join(map(str, self.space.constraints))}: fix other values"
            )
        size, left = self._history.remaining(coordinates, self._problem.taken(self._history))
        slice_ = "with these parameters fixed " if fixed else ""
        if self._problem.may_repeat and left < 1:
            raise SpaceExhausted(
                f"an evaluation of each of the {size:.0f} points {slice_}failed: widen the space, or retract the "
                "failures that may not happen again"
            )
        if not self._problem.may_repeat and left < wanted:
            raise SpaceExhausted(
                f"asked for {wanted}, but of all {size:.0f} points {slice_}only {left:.0f} are neither evaluated nor "
                "pending: ask for fewer, widen the space, tell or forget what is pending, or pass noise=… (above 0) "
                "if values are noisy and points may be evaluated again"
            )

    def _options(self) -> dict[str, Any]:
        names = "graph direction seed noise n_initial max_factor_size maximizer model search theory"
        chosen = {name: getattr(self, name) for name in names.split()}
        if type(self._engine) is not LocalEngine:
            chosen["engine"] = options.CUSTOM
        return options.to_json(chosen)
