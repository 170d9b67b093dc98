"""ModelBuilder: from evaluations to the model of an ask.

A warm start makes a fit depend on the past of its process, and a resumed run has no such past. So every tenth ask
builds its model cold, from (seed, index, evaluations) alone, and the asks between advance it by the same arithmetic: a
resume replays at most nine of them and arrives at the same model, bit for bit.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from dechbo.data.evaluation import Evaluation
from dechbo.data.observations import Observations, Standardisation
from dechbo.gp import AdditiveGP, Ensemble, Hyperparameters, Surrogate, fit
from dechbo.gp.centring import Domain
from dechbo.gp.radial import ColumnEmbedding
from dechbo.graph import FactorGraph
from dechbo.models.model import OUTLIER_DEVIATIONS, REBUILD_EVERY, Model, refit_interval
from dechbo.models.options import ModelOptions
from dechbo.space import Space
from dechbo.structure import GraphPrior, learn_structure, random_forest
from dechbo.structure.whole import weigh_whole

Array = NDArray[np.float64]

MAX_AVERAGED_VALUES = 64  # discrete parameters with more values are averaged over the unit interval
MAX_CENTRED_SIZE = 4  # given graphs with larger factors keep plain kernels: closing them would add too many subsets
MAX_CONSTRAINT_RATIO = 10.0  # constraint values are clipped at this multiple of their median magnitude


def kernels_of(space: Space, kernel: str) -> list[str]:
    """The kernel of each variable; categories have their own."""
    return ["categorical" if flag else kernel for flag in space.is_categorical]


def embedding_of(space: Space) -> ColumnEmbedding:
    """Where distances between points are measured."""
    kinds = zip(space.parameters, space.is_categorical, strict=True)
    return ColumnEmbedding(tuple(int(parameter.cardinality) if flag else 0 for parameter, flag in kinds))


def domains_of(space: Space) -> list[Domain]:
    """What centred kernels average over: the unit interval, or the values of a discrete parameter."""
    return [
        parameter.grid(MAX_AVERAGED_VALUES) if parameter.cardinality <= MAX_AVERAGED_VALUES else None
        for parameter in space.parameters
    ]


def carried(gp: AdditiveGP, graph: FactorGraph) -> AdditiveGP:
    """The hyperparameters of ``gp`` on another graph of all singletons and pairs."""
    if graph == gp.graph:
        return gp
    d, theta = graph.dim, gp.hyperparameters
    # a new pair gets the average variance of the old ones
    pairs = np.full(len(graph.scopes) - d, theta.variances[d:].mean() if len(theta.variances) > d else 0.0)
    moved = Hyperparameters(theta.lengthscales, np.concatenate([theta.variances[:d], pairs]), theta.noise)
    return AdditiveGP(graph, moved, kernel=gp.kernels, domains=gp.domains)


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
        gp = Ensemble(members, tuple(learned.weights.tolist()))
        return Model(gp, data, scaling, len(data), refitted=True, learned=learned)

    def _fitted(self, graph: FactorGraph, data: Observations, noise: float | None, centred: bool) -> AdditiveGP:
        return fit(graph, data, kernel=self.kernels, domains=self.domains if centred else None, noise=noise)

    def _level(self, *scales: float) -> float | None:
        """The noise variance that the user gave, in units of the product of ``scales``."""
        level = self.noise
        for scale in scales:  # divided twice: a square may overflow
            level = None if level is None else level / scale / scale
        return None if level is None else min(level, 1e6)

    def structure_model(self, evaluations: Sequence[Evaluation], points: Sequence[Array]) -> Model:
        """The model behind ``interactions``, from the evaluations alone, with the weight of one factor over all."""
        model = self.advance(None, len(evaluations), evaluations, points)
        if not isinstance(model.gp, Ensemble) or self.space.dim <= self.max_factor_size:
            return model
        prior = GraphPrior(self.space.dim, max_factor_size=self.max_factor_size)
        noise = self._level(model.scaling.scale)
        return replace(model, whole=weigh_whole(model.gp.members, model.gp.weights, model.data, prior, noise=noise))

    def grid_recurs(self, model: Model, index: int) -> bool:
        """Whether the ask after ``index`` has the same factors and hyperparameters on the same grid."""
        return self.graph != "random" and not model.constraints and model.is_reused_after(index)

    @property
    def needs_plain_kernels(self) -> bool:
        """Whether a given graph has factors too large for centred kernels, which were asked for."""
        given = isinstance(self.graph, FactorGraph) and self.graph.max_factor_size > MAX_CENTRED_SIZE
        return given and self.options.centred

    def _carried(self, gp: Surrogate, index: int) -> Surrogate:
        """The same surrogate; for random forests, its hyperparameters on the forest of ask ``index``."""
        if self.graph != "random" or not isinstance(gp, AdditiveGP):
            return gp
        return carried(gp, self.graph_at(index))

    def _warm(self, gp: Surrogate, data: Observations, noise: float | None) -> Surrogate:
        if isinstance(gp, Ensemble):
            return Ensemble(tuple(self._refit(member, data, noise) for member in gp.members), gp.weights)
        return self._refit(gp, data, noise)

    def _refit(self, gp: AdditiveGP, data: Observations, noise: float | None) -> AdditiveGP:
        start = gp.hyperparameters
        return fit(gp.graph, data, kernel=self.kernels, domains=gp.domains, noise=noise, start=start, iterations=15)

    @cached_property
    def domains(self) -> list[Domain]:
        """What centred kernels average over."""
        return domains_of(self.space)

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
