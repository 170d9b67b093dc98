"""ModelBuilder: from evaluations to the model of an ask.

A warm start makes a fit depend on the past of its process, and a resumed run has no such past. So every tenth ask
builds its model cold, from (seed, index, evaluations) alone, and the asks between advance it by the same arithmetic: a
resume replays at most nine of them and arrives at the same model, bit for bit.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit, logsumexp

from dechbo.data.evaluation import Evaluation
from dechbo.data.observations import Observations, Standardisation
from dechbo.gp import AdditiveGP, Ensemble, Hyperparameters, Surrogate, fit
from dechbo.gp.centring import Domain
from dechbo.graph import FactorGraph
from dechbo.models.model import OUTLIER_DEVIATIONS, REBUILD_EVERY, Model, refit_interval
from dechbo.models.options import ModelOptions
from dechbo.space import Space
from dechbo.structure import GraphPrior, learn_structure, random_forest

Array = NDArray[np.float64]

MAX_AVERAGED_VALUES = 64  # discrete parameters with more values are averaged over the unit interval
MAX_CENTRED_SIZE = 4  # given graphs with larger factors keep plain kernels: closing them would add too many subsets
MAX_FULL_DIM = 200  # variables up to which one factor over all of them is tried
MAX_FULL_SHARE = 0.75  # of the asks that may search the model with one factor over all variables
DECISIVE_LOG_ODDS = 5.0  # log Bayes factor from which evidence is called decisive (Kass and Raftery 1995: 2 log B > 10)
MIN_WEIGHT = 0.01  # a member with less weight than this is left out
RAPID_ITERATIONS = 15  # of a fit that serves one ask
MAX_CONSTRAINT_RATIO = 10.0  # constraint values are clipped at this multiple of their median magnitude


def kernels_of(space: Space, kernel: str) -> list[str]:
    """The kernel of each variable; categories have their own."""
    return ["categorical" if flag else kernel for flag in space.is_categorical]


@dataclass(frozen=True, eq=False)
class ModelBuilder:
    """Everything that determines a model but the evaluations."""

    space: Space
    graph: FactorGraph | str  # "random": a forest for each ask; "learned": sampled from the data every ten asks
    seed: int
    sign: float  # 1 to maximise the values, -1 to minimise them
    noise: float | None = None
    max_factor_size: int = 3
    options: ModelOptions = field(default_factory=ModelOptions)

    def advance(
        self, previous: Model | None, index: int, evaluations: Sequence[Evaluation], points: Sequence[Array]
    ) -> Model:
        """The model of ask ``index``: cold without ``previous``, otherwise refitted only once enough is new.

        A warm refit is due when the observations have grown by a twentieth; until then the hyperparameters and the
        scaling of the values stay, and so does everything computed from them. A random forest is new for every ask
        and takes over the last one's hyperparameters. Every constraint has a model of its own on the same schedule,
        cold where it is told for the first time.
        """
        usable = [k for k, evaluation in enumerate(evaluations) if evaluation.value is not None]
        values = np.array([self.sign * float(evaluations[k].value or 0.0) for k in usable])
        noise = np.array([evaluations[k].noise or 0.0 for k in usable])
        model = self._advanced(previous, index, Observations(np.array([points[k] for k in usable]), values, noise))
        reported = {k: evaluations[k].constraints or {} for k in usable}
        known = {} if previous is None else previous.constraints
        constraints = {}
        for name in sorted({name for given in reported.values() for name in given}):
            given = {k: limits[name] for k, limits in reported.items() if name in limits}
            raw = Observations(
                np.array([points[k] for k in given]), -clipped_constraint(np.array(list(given.values())))
            )
            constraints[name] = self.for_constraints._advanced(known.get(name), index, raw)
        return replace(model, constraints=constraints)

    @cached_property
    def for_constraints(self) -> ModelBuilder:
        """The builder of constraint models: each has a graph of its own, a given one is the objective's."""
        graph = self.graph if self.graph == "random" else "learned"
        return replace(self, graph=graph, sign=-1.0, noise=None)

    def _advanced(self, previous: Model | None, index: int, raw: Observations) -> Model:
        """The model of one quantity, larger being better."""
        values = raw.y
        if previous is not None and len(raw) - previous.fitted_on < refit_interval(len(raw)):
            with np.errstate(over="ignore"):
                farthest = np.abs(previous.scaling.standard(values)).max()
            if farthest < OUTLIER_DEVIATIONS:
                data = raw.standardised_by(previous.scaling)
                return replace(previous, gp=self._carried(previous.gp, index), data=data, refitted=False)
        scaling = Standardisation.of(values)
        data = raw.standardised_by(scaling)
        level = self._level(scaling.scale)
        if previous is None:
            return self._cold(index, data, level, scaling)
        warm = self._warm(self._carried(previous.gp, index), data, level)
        return replace(previous, gp=warm, data=data, scaling=scaling, fitted_on=len(data), refitted=True)

    def _cold(self, index: int, data: Observations, noise: float | None, scaling: Standardisation) -> Model:
        """A model from the data alone: on a graph that is given or drawn, or on graphs sampled from the data."""
        if self.graph != "learned":
            graph = self.graph_at(index)
            alone = self._fitted(graph, data, noise, self.options.centred and graph.max_factor_size <= MAX_CENTRED_SIZE)
            return Model(alone, data, scaling, len(data), refitted=True)
        prior = GraphPrior(self.space.dim, max_factor_size=self.max_factor_size)
        learned = learn_structure(
            data,
            prior,
            np.random.default_rng([self.seed, 3, index // REBUILD_EVERY]),
            kernel=self.kernels,
            domains=self.domains,
            noise=noise,
            samples=self.options.graph_samples,
            options=self.options.structure,
        )
        # chains need smooth functions to tell interactions from noise, the search may need rough ones: refit
        graphs = learned.graphs if self.options.centred else tuple(maximal_scopes(graph) for graph in learned.graphs)
        members = tuple(self._fitted(graph, data, noise, self.options.centred) for graph in graphs)
        additive = Ensemble(members, tuple(learned.weights.tolist()))
        gp, weight = self._with_full_factor(additive, data, noise)
        return Model(gp, data, scaling, len(data), refitted=True, learned=learned, full_weight=weight)

    def _fitted(self, graph: FactorGraph, data: Observations, noise: float | None, centred: bool) -> AdditiveGP:
        return fit(graph, data, kernel=self.kernels, domains=self.domains if centred else None, noise=noise)

    def _with_full_factor(self, additive: Ensemble, data: Observations, noise: float | None) -> tuple[Ensemble, float]:
        """The ensemble with a member that has one factor over all variables, and that member's weight.

        The weight is one half where the evidence for it is decisive; below MIN_WEIGHT the member is left out.
        """
        d = self.space.dim
        if not self._full_factor_allowed:
            return additive, 0.0
        full = self._fitted(FactorGraph(d, (tuple(range(d)),)), data, noise, centred=False)

        # log odds by evidence and by leave-one-out prediction; the smaller one counts
        def log_odds(measure: Callable[[AdditiveGP], float]) -> float:
            small = logsumexp([measure(member) for member in additive.members], b=additive.weights)
            return float(measure(full) - small)

        odds = min(log_odds(lambda gp: gp.log_evidence(data)), log_odds(lambda gp: gp.log_predictive(data)))
        weight = float(expit(odds - DECISIVE_LOG_ODDS))
        if weight < MIN_WEIGHT:
            return additive, 0.0
        weights = (*(float((1 - weight) * w) for w in additive.weights), weight)
        return Ensemble((*additive.members, full), weights), weight

    def searched_by(self, model: Model, index: int) -> Surrogate:
        """The surrogate that ask ``index`` searches: the small factors, or the one factor over all variables.

        Drawn by their weights, with at least a quarter for the small factors: near a local optimum one factor explains
        any smooth function well and sees nothing else, while the small factors search globally.
        """
        if model.full_weight == 0 or not isinstance(model.gp, Ensemble):
            return model.gp
        *small, full = model.gp.members
        if np.random.default_rng([self.seed, 4, index]).random() < min(model.full_weight, MAX_FULL_SHARE):
            return full
        weights = np.array(model.gp.weights[:-1])
        total = weights.sum()
        shares = weights / total if total > 0 else np.full(len(small), 1 / len(small))
        return Ensemble(tuple(small), tuple(shares.tolist()))

    def restarted(self, model: Model, data: Observations, scaling: Standardisation) -> AdditiveGP:
        """A quick fit to other values of the same evaluations, which ``scaling`` made of the model's own.

        It takes the first graph of the model or, where allowed, one factor over all variables: whichever has the better
        leave-one-out prediction. The squared exponential kernel follows the overall shape and ignores ripples.
        """
        first = model.gp.members[0] if isinstance(model.gp, Ensemble) else model.gp
        d, graph = self.space.dim, first.graph
        noise = self._level(model.scaling.scale, scaling.scale)
        kernels = kernels_of(self.space, "se")
        rapidly = partial(fit, data=data, kernel=kernels, noise=noise, iterations=RAPID_ITERATIONS, single_start=True)
        small = rapidly(graph, domains=first.domains)
        if self.graph != "learned" or not self._full_factor_allowed:
            return small
        full = rapidly(FactorGraph(d, (tuple(range(d)),)))
        return max(small, full, key=lambda gp: gp.log_predictive(data))

    def _level(self, *scales: float) -> float | None:
        """The noise variance that the user gave, in units of the product of ``scales``."""
        level = self.noise
        for scale in scales:  # divided twice: a square may overflow
            level = None if level is None else level / scale / scale
        return None if level is None else min(level, 1e6)

    @property
    def needs_plain_kernels(self) -> bool:
        """Whether a given graph has factors too large for centred kernels, which were asked for."""
        given = isinstance(self.graph, FactorGraph) and self.graph.max_factor_size > MAX_CENTRED_SIZE
        return given and self.options.centred

    @property
    def _full_factor_allowed(self) -> bool:
        return self.options.full_factor and self.max_factor_size < self.space.dim <= MAX_FULL_DIM

    def _carried(self, gp: Surrogate, index: int) -> Surrogate:
        """The same surrogate; for random forests, its hyperparameters on the forest of ask ``index``."""
        if self.graph != "random" or not isinstance(gp, AdditiveGP):
            return gp
        graph = self.graph_at(index)
        if graph == gp.graph:
            return gp
        d, theta = self.space.dim, gp.hyperparameters
        # a new pair gets the average variance of the old ones
        pairs = np.full(len(graph.scopes) - d, theta.variances[d:].mean() if len(theta.variances) > d else 0.0)
        carried = Hyperparameters(theta.lengthscales, np.concatenate([theta.variances[:d], pairs]), theta.noise)
        return AdditiveGP(graph, carried, kernel=gp.kernels, domains=gp.domains)

    def _warm(self, gp: Surrogate, data: Observations, noise: float | None) -> Surrogate:
        if isinstance(gp, Ensemble):
            return Ensemble(tuple(self._refit(member, data, noise) for member in gp.members), gp.weights)
        return self._refit(gp, data, noise)

    def _refit(self, gp: AdditiveGP, data: Observations, noise: float | None) -> AdditiveGP:
        start = gp.hyperparameters
        return fit(gp.graph, data, kernel=self.kernels, domains=gp.domains, noise=noise, start=start, iterations=15)

    @cached_property
    def domains(self) -> list[Domain]:
        """What centred kernels average over: the unit interval, or the values of a discrete parameter."""
        return [
            parameter.grid(MAX_AVERAGED_VALUES) if parameter.cardinality <= MAX_AVERAGED_VALUES else None
            for parameter in self.space.parameters
        ]

    @property
    def kernels(self) -> list[str]:
        """The kernel of each variable."""
        return kernels_of(self.space, self.options.kernel)

    def graph_at(self, index: int) -> FactorGraph:
        """The factor graph of ask ``index``; with centred kernels it is closed under subsets."""
        if isinstance(self.graph, FactorGraph):
            centred = self.options.centred and self.graph.max_factor_size <= MAX_CENTRED_SIZE
            return self.graph.with_subsets() if centred else self.graph
        return random_forest(np.random.default_rng([self.seed, 2, index]), self.space.dim)


def clipped_constraint(constraint: Array) -> Array:
    """Values of a constraint, clipped far from 0: what matters is where it changes sign."""
    with np.errstate(over="ignore"):
        most = MAX_CONSTRAINT_RATIO * float(np.median(np.abs(constraint)))
    return np.clip(constraint, -most, most) if 0 < most < np.inf else constraint


def maximal_scopes(graph: FactorGraph) -> FactorGraph:
    """Only the scopes that no other scope contains: a plain kernel covers its subsets."""
    sets = [frozenset(scope) for scope in graph.scopes]
    kept = (scope for scope, own in zip(graph.scopes, sets, strict=True) if not any(own < other for other in sets))
    return FactorGraph(graph.dim, tuple(kept))
