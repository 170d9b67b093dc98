"""Optimizer: ask / tell, the only room that knows all the others."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial, wraps
from os import PathLike
from typing import Any, TypeVar, cast, overload

import numpy as np
from numpy.typing import NDArray

from dechbo import checks
from dechbo.acquisition import Beta, BetaContext, beta_schedule
from dechbo.acquisition.beta import THEORY_SCHEDULES
from dechbo.data import runfile
from dechbo.data.evaluation import Evaluation, Params, variance
from dechbo.data.history import History, same_places
from dechbo.errors import NoObservations, OptionError, ParameterError, SpaceExhausted
from dechbo.gp import Ensemble, Surrogate
from dechbo.graph import FactorGraph
from dechbo.interactions import Interaction, interactions_of
from dechbo.maxsum import Maximizer, MaxSum
from dechbo.models.model import Model, Recipe
from dechbo.models.schedule import Replayed, Schedule
from dechbo.optimizer import options
from dechbo.optimizer.info import AskInfo
from dechbo.search.constrained import ConstrainedSearch, Likelihood, Limit
from dechbo.search.engine import Engine, LocalEngine
from dechbo.search.grid_search import Search, patiently
from dechbo.search.grids import Granularity, base_candidates, gridded
from dechbo.search.initial import initial_points
from dechbo.search.joint_search import BEST
from dechbo.space import Space
from dechbo.space.fixed import check_fixed, fixed_coordinates
from dechbo.space.repair import repair_rounding
from dechbo.structure import Convergence, StructureOptions
from dechbo.theory import RegretReport, average_regret, lipschitz_estimate, regret_bound, step_bound
from dechbo.threads import one_blas_thread

Array = NDArray[np.float64]

DEFAULT_INITIAL = 10


Method = TypeVar("Method", bound=Callable[..., Any])


def _one_at_a_time(method: Method) -> Method:
    """A method that holds the optimiser's lock, as ``ask`` and ``tell`` do: a value told meanwhile waits."""

    @wraps(method)
    def locked(self: Optimizer, *args: Any, **kwargs: Any) -> Any:
        with self._lock:
            return method(self, *args, **kwargs)

    return cast(Method, locked)


class Optimizer:
    """Finds good parameters of an expensive function in few evaluations: ``ask`` for a point, ``tell`` its value.

    Safe to use from several threads, one call at a time.

    Parameters
    ----------
    space
        The parameters: ``Space({"lr": Float(1e-5, 1, log=True), ...})``; its known constraints are never broken.
    graph
        Which parameters act together in the objective, a ``FactorGraph``; constraints that are told have learned graphs
        of their own. Without one ("learned"): sampled from the data every ten asks,
        and averaged; see ``interactions``. "random": all singletons and a random spanning tree of pairs, drawn anew for
        every ask.
    direction
        "minimize" or "maximize".
    seed
        Fixes every random choice; without one a seed is drawn and kept in ``seed``.
    kernel
        "matern52" or "se" for numeric parameters; categories have their own.
    beta
        The weight of uncertainty: "practical", "theory", "theory-factor", a number, or a callable of t.
    delta
        The probability with which the guarantee of the theory's schedules may fail.
    noise
        The variance of the values' noise, in squared units of the values; 0 says noise-free; learned if None.
        With noise above 0 a point may be suggested again.
    n_initial
        Evaluations before the model takes over, points told without asking included (10, or fewer in small spaces).
    max_factor_size, graph_samples, effort
        For a learned graph: the most parameters in a factor, how many sampled graphs the acquisition averages, and how
        much work the sampling may cost.
    coupled
        For a learned graph: whether one factor over all parameters may take the place of the small ones, as far as the
        evidence asks for it. With more than 8 parameters its point is found off the grid, and not certified. Not with
        the theory's betas.
    centred
        Whether each factor is the pure effect of its parameters together, beyond what any fewer of them do, or a free
        function of them. A given graph gets every part of a factor as a factor too, unless it has one of more than 4
        parameters: then it stays as it is, with free functions.
    choose
        "factors": the maximiser of the sum of the factors' bounds, with its certificate. "joint": the best by the bound
        of the whole function, which knows more and certifies nothing.
    look_elsewhere
        Whether to leave a local optimum once the model knows that nothing is left to gain there, or once nothing better
        has come for a while.
    maximizer
        ``MaxSum()`` or ``Exact()``.
    engine
        Where tables are built; ``LocalEngine(maximizer)`` if not given.
    granularity
        How much work goes into the grids.
    """

    def __init__(
        self,
        space: Space,
        *,
        graph: FactorGraph | str | None = None,
        direction: str = "minimize",
        seed: int | None = None,
        kernel: str = "matern52",
        beta: Beta = "practical",
        delta: float = 0.1,
        noise: float | None = None,
        n_initial: int | None = None,
        max_factor_size: int = 3,
        graph_samples: int = 3,
        effort: StructureOptions | None = None,
        centred: bool = True,
        coupled: bool = True,
        choose: str = "factors",
        look_elsewhere: bool = True,
        maximizer: Maximizer | None = None,
        engine: Engine | None = None,
        granularity: Granularity | None = None,
    ) -> None:
        if not isinstance(space, Space):
            raise OptionError(f"expected a Space, got {type(space).__name__}; write Space({{'x': Float(0, 1)}})")
        self.space = space
        self.graph = options.given_graph(graph, space)
        self.direction = checks.one_of("direction", direction, ("minimize", "maximize"))
        drawn = int(np.random.SeedSequence().generate_state(1)[0])
        self.seed = drawn if seed is None else checks.whole("seed", seed, 0)
        self.kernel = checks.one_of("kernel", kernel, ("matern52", "se"))
        self.beta: Beta = beta if isinstance(beta, str) or callable(beta) else float(beta)
        self._beta = beta_schedule(beta)
        self.delta = checks.probability("delta", delta)
        self.noise = None if noise is None else variance(noise)
        small = min(float(DEFAULT_INITIAL), 2.0 * space.dim + 2, History(space).left({})[0])
        self.n_initial = int(small) if n_initial is None else checks.whole("n_initial", n_initial, 1)
        if engine is not None and maximizer is not None:
            raise OptionError("give a maximizer or an engine, not both: LocalEngine(maximizer) is an engine")
        self._engine: Engine = LocalEngine(maximizer) if engine is None else engine
        self.maximizer = self._engine.maximizer if isinstance(self._engine, LocalEngine) else maximizer
        if granularity is not None and not isinstance(granularity, Granularity):
            raise OptionError(f"granularity is a Granularity(work=…, zoom=…, polish_steps=…), got {granularity!r}")
        self.granularity = Granularity() if granularity is None else granularity
        self._lock = threading.RLock()
        self.info: AskInfo | None = None
        self._history = History(space)
        self.max_factor_size = checks.whole("max_factor_size", max_factor_size, 1)
        self.graph_samples = checks.whole("graph_samples", graph_samples, 1)
        self.effort = StructureOptions() if effort is None else effort
        self.centred = checks.flag("centred", centred)
        self.coupled = checks.flag("coupled", coupled)
        self.look_elsewhere = checks.flag("look_elsewhere", look_elsewhere)
        self.choose = checks.one_of("choose", choose, ("joint", "factors"))
        self._recipe = Recipe(
            space,
            self.graph,
            self.seed,
            self._sign,
            self.kernel,
            self.noise,
            self.max_factor_size,
            self.graph_samples,
            self.effort,
            self.centred,
            self.coupled and self.beta not in THEORY_SCHEDULES,  # the theorems speak of maximisers on grids
        )
        self._models = Schedule(self._recipe)

    @classmethod
    def paper(cls, space: Space, *, max_factor_size: int = 3, **options: Any) -> Optimizer:
        """DEC-HBO as Hoang et al. (2018) have it: sampled graphs (Eq. 5), the sum of the factors' bounds, max-sum.

        What the paper leaves open is chosen thus, and any of it can be changed by ``options``:

        =====================  ======================================================================================
        kernel                 Matérn-5/2, a product over the variables of a factor, one lengthscale per variable
        hyperparameters        MAP, every tenth iteration from nothing and in between from the last ones
        structure              k = 3 graphs every ten iterations, from two chains of 600 steps on centred factors
        factors                free functions of their variables, not centred; parts of a factor are dropped
        beta                   0.2 m log(2 t), m the largest factor up to 3 (the theory's explore far too much)
        max-sum                30 rounds as in the paper's experiments, half damped; exact where there is no cycle
        grids                  a base grid within a budget of work, then log2(1 + t) / 4 zooms that halve the spacing
        beyond the grids       nothing: no continuous ascent, no joint bound, no way out of an exhausted optimum
        =====================  ======================================================================================
        """
        chosen: dict[str, Any] = {
            "graph": "learned",
            "graph_samples": 3,
            "centred": False,
            "coupled": False,
            "choose": "factors",
            "look_elsewhere": False,
            "beta": "practical",
            "maximizer": MaxSum(rounds=30, damping=0.5),
            "granularity": Granularity(polish_steps=0),
        }
        return cls(space, max_factor_size=max_factor_size, **{**chosen, **options})

    # ---------------------------------------------------------------- ask

    @overload
    def ask(self, n: None = None, *, fixed: Mapping[str, Any] | None = None) -> Params: ...
    @overload
    def ask(self, n: int, *, fixed: Mapping[str, Any] | None = None) -> list[Params]: ...
    def ask(self, n: int | None = None, *, fixed: Mapping[str, Any] | None = None) -> Params | list[Params]:
        """The next point to evaluate, or a list of ``n`` points to evaluate side by side.

        ``fixed`` holds some parameters at given values. Points asked and not yet told count as pending: they are not
        suggested again, and the model knows that their values are on the way.
        """
        held = check_fixed(self.space, fixed)
        count = 1 if n is None else checks.whole("n", n, 1)
        with self._lock:
            self._check_room(count, held)
            points = [self._ask_one(held) for _ in range(count)]
        return points[0] if n is None else points

    @one_blas_thread
    def _ask_one(self, held: Params) -> Params:
        started = time.perf_counter()
        history, fixed = self._history, fixed_coordinates(self.space, held)
        taken = np.empty((0, self.space.dim)) if self._repeats else history.taken
        if not history.successes or len(history.told) + len(history.pending) < self.n_initial:
            point, info = self._initial_point(taken, fixed), AskInfo("initial design", 0.0)
        else:
            point, info = self._model_point(taken, fixed)
        params = {**self.space.decode(point), **held}
        if self.space.constraints:
            params = repair_rounding(self.space, params, held)
        history.ask(params, held, modelled=info.source != "initial design")
        self.info = replace(info, seconds=time.perf_counter() - started)
        return dict(params)

    def _initial_point(self, taken: Array, fixed: Mapping[int, float]) -> Array:
        """The next point of the initial design that is not taken."""
        history = self._history
        drawn = len(history.told) + len(history.pending)
        points = initial_points(self.space, self.seed, drawn, len(history.asked), fixed)
        for point in patiently(self.space, points, len(taken) + drawn):
            if not self._is_ruled_out(taken, point):
                return point
        raise SpaceExhausted("no point is left that is neither evaluated nor pending and that the constraints allow")

    def _model_point(self, taken: Array, fixed: dict[int, float]) -> tuple[Array, AskInfo]:
        history = self._history
        index = len(history.asked)
        model, replayed = self._models.next(history)
        self._prepare_engine(replayed)
        gp, data = self._recipe.asking(model, index), model.data
        beta = self._beta(len(data) + 1, self._beta_context(gp))
        search = Search(
            self.space,
            gp,
            data,
            beta,
            np.array(history.pending).reshape(-1, self.space.dim),
            fixed,
            self._allowed(history.incumbent(self._sign), fixed),
            partial(self._is_ruled_out, taken),
            self.granularity,
            recurring=self._models.recurs(model, index),
            look_elsewhere=self.look_elsewhere and self.beta not in THEORY_SCHEDULES,
            joint=self.choose == "joint" and self.beta not in THEORY_SCHEDULES,
            refit=partial(self._recipe.refitted, model),
            searched=sum(asked.modelled and asked.answered for asked in history.asked),
            failures=np.array(history.failures).reshape(-1, self.space.dim),
        )
        if model.constraints:
            best = [self._allowed(point, fixed) for point in history.champions(self._sign, BEST)]
            search = replace(search, champions=np.array(best))
            limits = [Limit.of(limit, search.narrowing) for limit in model.constraints.values()]
            known = bool(history.feasible)
            suggestion = ConstrainedSearch(search, limits, known, cautious=index % 2 == 1).run(self._engine)
        else:
            suggestion = search.run(self._engine)
        maximum = suggestion.maximum
        deviation = search.acquisition.deviation(suggestion.point)
        slack = suggestion.upper_bound - suggestion.polished_value  # infinite where nothing is certified
        info = AskInfo(
            suggestion.source,
            0.0,
            graph=gp.graph,
            beta=beta,
            value=maximum.value,
            upper_bound=maximum.upper_bound,
            gap=maximum.gap,
            rounds=maximum.rounds,
            converged=maximum.converged,
            certified=bool(np.isfinite(maximum.upper_bound)),
            polished_value=suggestion.polished_value,
            step_bound=step_bound(beta, deviation, slack) * model.scaling.scale,
            jitter=gp.condition(data).jitter,
            refitted=model.refitted,
        )
        return suggestion.point, info

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
        ``noise`` is the known noise variance of this one value, on top of the model's. ``constraints`` are numbers that
        are feasible at or below 0: a point that breaks one is never ``best`` nor recommended, and the search learns
        each of them to stay where all may hold. Those of a failed evaluation are kept, but not learned from.
        """
        evaluation = Evaluation.of(self.space.native(params), value, noise, constraints)
        with self._lock:
            self._history.tell(evaluation)

    @property
    def pending(self) -> list[Params]:
        """Points asked for and not yet told, and those that others evaluate (see ``replay``)."""
        history = self._history
        asked = [asked.params for asked in history.asked if not asked.answered]
        return [dict(params) for params in asked + history.elsewhere]

    def forget(self, params: Mapping[str, Any]) -> None:
        """Wait no longer for a point of ``pending`` whose value will never come."""
        with self._lock:
            if not self._history.forget(params):
                raise ParameterError(f"{dict(params)} is not pending; pending are {self.pending}")

    def replay(self, evaluations: Sequence[Evaluation], pending: Sequence[Mapping[str, Any]] = ()) -> None:
        """Take over a history kept elsewhere: as if each evaluation had been asked for and told, in this order.

        ``pending`` are points that others evaluate. The next ask depends on the options, the evaluations and the
        pending points alone, whatever this object did before; what it knows of a common beginning is kept.
        """
        with self._lock:
            held = any(asked.fixed for asked in self._history.asked)  # its tables are not those of a free ask
            history, continues = self._history.replayed(evaluations, pending, self.n_initial)
            if held or not continues:
                self._models.forget()
            self._history = history

    # ------------------------------------------------------------ answers

    @property
    def evaluations(self) -> tuple[Evaluation, ...]:
        """Everything told so far, in order."""
        return tuple(replace(evaluation, params=dict(evaluation.params)) for evaluation in self._history.told)

    @property
    def best(self) -> Evaluation | None:
        """The best feasible evaluation told so far; None before the first."""
        best = self._history.best(self._sign)
        return None if best is None else replace(best, params=dict(best.params))

    @property
    def last_graph(self) -> FactorGraph:
        """The factor graph of the latest model, or of the first one to come."""
        known = self._models.latest or self._models.preview
        if known is not None:
            return known[1].gp.graph
        if self.graph == "learned":  # nothing is known yet
            return FactorGraph.singletons(self.space.dim)
        return self._recipe.graph_at(len(self._history.asked))

    @_one_at_a_time
    @one_blas_thread
    def predict(self, params: Mapping[str, Any]) -> tuple[float, float]:
        """Posterior mean and standard deviation of the objective at ``params``, in the user's units."""
        point = self.space.encode(params)
        model = self._current_model()
        mean, deviation = model.gp.condition(model.data).joint(point)
        return self._sign * model.scaling.original(float(mean[0])), model.scaling.scale * float(deviation[0])

    @_one_at_a_time
    @one_blas_thread
    def predict_constraints(self, params: Mapping[str, Any]) -> dict[str, tuple[float, float]]:
        """Posterior mean and standard deviation of every constraint told so far, in the user's units."""
        point = self.space.encode(params)
        answer = {}
        for name, model in self._current_model().constraints.items():
            mean, deviation = model.gp.condition(model.data).joint(point)
            answer[name] = (-model.scaling.original(float(mean[0])), model.scaling.scale * float(deviation[0]))
        return answer

    @_one_at_a_time
    @one_blas_thread
    def feasible_probability(self, params: Mapping[str, Any]) -> float:
        """How likely all constraints told so far hold at ``params``, each by itself; 0 where a known one is broken."""
        point = self.space.encode(params)
        models = self._current_model().constraints.values()
        limits = [Limit.of(model, np.empty((0, self.space.dim))) for model in models]
        return float(np.exp(Likelihood(limits).values(point[None])[0])) if self.space.allows(point) else 0.0

    @_one_at_a_time
    @one_blas_thread
    def recommend(self) -> Params:
        """The feasible point told so far whose posterior mean is best: what to use when values are noisy."""
        model = self._current_model()
        usable = self._history.feasible
        if not usable:
            raise NoObservations("no evaluation so far is feasible: tell one first")
        points = np.array([self._history.points[evaluation.number] for evaluation in usable])
        means, _ = model.gp.condition(model.data).joint(points)
        return dict(usable[int(means.argmax())].params)

    @_one_at_a_time
    @one_blas_thread
    def regret_report(self, optimum: float) -> RegretReport:
        """R_n / n beside the bound of Theorems 2 and 3, where the true optimum is known; printable."""
        model = self._current_model()
        values = np.array([self._sign * e.number_value for e in self._history.successes])
        beta = self._beta(len(values), self._beta_context(model.gp))
        gp = model.gp.members[0] if isinstance(model.gp, Ensemble) else model.gp
        allowed = regret_bound(gp, model.data, beta, continuous=not self.space.is_finite)
        return RegretReport(float(average_regret(values, self._sign * optimum)[-1]), allowed, model.scaling.scale)

    @_one_at_a_time
    @one_blas_thread
    def interactions(self) -> list[Interaction]:
        """Which parameters act together, the largest share first; needs ``graph="learned"`` and centred kernels."""
        model = self._current_model()
        return interactions_of(model, self.space.names)

    @_one_at_a_time
    @one_blas_thread
    def convergence(self) -> Convergence | None:
        """Whether the chains behind ``interactions`` have mixed: R-hat and effective sample sizes; None if none ran."""
        learned = self._current_model().learned
        return None if learned is None else learned.convergence

    @_one_at_a_time
    @one_blas_thread
    def pair_probabilities(self) -> Array:
        """How likely each pair of parameters is to act together in some factor, (d, d); needs ``graph="learned"``."""
        model = self._current_model()
        if model.learned is None:
            raise OptionError('pair probabilities need a learned graph: Optimizer(space, graph="learned")')
        together: Array = model.coupled + (1 - model.coupled) * model.learned.pair_probabilities
        np.fill_diagonal(together, 0.0)
        return together

    def save(self, path: str | PathLike[str]) -> None:
        """Write everything to a JSON file, so that ``Optimizer.load`` goes on with the very same suggestions."""
        with self._lock:
            content = {"options": self._options(), **self._history.to_json()}
        runfile.write(path, {"space": self.space.to_json(), **content})

    @classmethod
    def load(cls, path: str | PathLike[str], **replaced: Any) -> Optimizer:
        """Go on where ``save`` stopped.

        Options in ``replaced`` stand in for those of the file: a callable beta, a maximizer or an engine of your own
        has to come back this way.
        """
        content = runfile.read(path)
        with runfile.damage_reported(path):
            space = Space.from_json(content["space"])
            saved = options.from_json(space, content["options"])
            history = History.from_json(space, content)
        for name in ("beta", "maximizer", "engine"):
            if saved.get(name) == options.CUSTOM and name not in replaced:
                raise OptionError(f"this run used a {name} that a file cannot hold: pass load(path, {name}=…)")
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

    @property
    def _repeats(self) -> bool:
        """Whether a point may come again: only where the user says that values are noisy."""
        return self.noise is not None and self.noise > 0

    def _current_model(self) -> Model:
        """The model that answers between asks."""
        model, replayed = self._models.answering(self._history)
        self._prepare_engine(replayed)
        return model

    def _prepare_engine(self, replayed: Sequence[Replayed]) -> None:
        """Bring the engine to where the asks that were ``replayed`` had brought it."""
        for ask in replayed:
            on_grid = gridded(self._recipe.asking(ask.model, ask.index), self.space)
            if on_grid is not None and self._models.recurs(ask.model, ask.index):
                data = ask.model.data
                fixed = fixed_coordinates(self.space, self._history.asked[ask.index].fixed)
                grid = base_candidates(self.space, on_grid.graph, len(data), fixed, self.granularity)
                self._engine.prepare(on_grid, data, grid)

    def _is_ruled_out(self, taken: Array, point: Array) -> bool:
        """Whether ``point`` is among those ``taken``, or breaks a known constraint."""
        return bool(same_places(self.space, taken, point).all(axis=1).any()) or not self.space.allows(point)

    def _allowed(self, point: Array, fixed: Mapping[int, float]) -> Array:
        """``point`` with the coordinates ``fixed``, moved to where the known constraints hold."""
        moved = point.copy()
        moved[list(fixed)] = list(fixed.values())
        nearest = self.space.region.nearest(moved, fixed) if self.space.constraints else moved
        return moved if nearest is None else nearest

    def _check_room(self, wanted: int, held: Params) -> None:
        """Refuse to ask for what the known constraints forbid, and a finite space for more points than it has left."""
        fixed = fixed_coordinates(self.space, held)
        if self.space.constraints and self.space.region.allowed_point(fixed) is None:
            raise ParameterError(
                f"no point with {held} satisfies {' and '.join(map(str, self.space.constraints))}: fix other values"
            )
        size, left = self._history.left(fixed)
        if not self._repeats and left < wanted:
            slice_ = "with these parameters fixed " if fixed else ""
            raise SpaceExhausted(
                f"asked for {wanted}, but of all {size:.0f} points {slice_}only {left:.0f} are neither evaluated nor "
                "pending: ask for fewer, widen the space, tell or forget what is pending, or pass noise=… (above 0) "
                "if values are noisy and points may be evaluated again"
            )

    def _beta_context(self, gp: Surrogate) -> BetaContext:
        logs = np.log([parameter.cardinality for parameter in self.space.parameters])
        return BetaContext(gp.graph, logs, self.delta, lipschitz=max(lipschitz_estimate(gp), 1e-3))

    def _options(self) -> dict[str, Any]:
        names = "graph direction seed kernel beta delta noise n_initial max_factor_size graph_samples effort centred"
        more = "coupled choose look_elsewhere maximizer granularity"
        chosen = {name: getattr(self, name) for name in f"{names} {more}".split()}
        if type(self._engine) is not LocalEngine:
            chosen["engine"] = options.CUSTOM
        return options.to_json(chosen)
