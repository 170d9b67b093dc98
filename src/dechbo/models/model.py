"""The model behind each ask, and the schedule on which it is fitted.

A warm start makes a fit depend on the past of its process; a resumed run has no such past. So every tenth ask builds
its model cold, from (seed, index, evaluations) alone, and the asks between advance it by the same arithmetic: a resume
replays at most nine of them and arrives at the very same model.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
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
from dechbo.space import Space
from dechbo.structure import GraphPrior, StructureOptions, StructurePosterior, learn_structure, random_forest

Array = NDArray[np.float64]

REBUILD_EVERY = 10
FEW = 64  # discrete parameters with more values are averaged over the interval
LARGEST_CENTRED = 4  # given graphs with larger factors keep plain kernels: they would have too many parts
MOST_COUPLED = 200  # variables up to which one factor over all of them is tried
MOST_OFTEN = 0.75  # the part of the asks that the factor over all variables may have
DECISIVE = 5.0  # log Bayes factor from which evidence is called decisive (Kass and Raftery 1995: 2 log B > 10)
NEGLIGIBLE = 0.01  # a model with less weight than this is left out
RAPID = 15  # iterations of a fit that serves one ask
PLAIN = 10.0  # a constraint's value of more than this many typical ones only says how plain the matter is
FAR = 100.0  # a value so many standard deviations away asks for a new fit at once


@dataclass(frozen=True, eq=False)
class Model:
    """A fitted GP on standardised values (larger is better), and the way back to the user's units."""

    gp: Surrogate
    data: Observations
    scaling: Standardisation
    fitted_on: int  # observations at the last fit
    refitted: bool
    learned: StructurePosterior | None = None  # what the chains found, where the graph is learned
    coupled: float = 0.0  # the weight of the model with one factor over all variables
    constraints: Mapping[str, Model] = field(default_factory=dict)  # of every constraint told, its own (-c is modelled)

    def stands_after(self, index: int) -> bool:
        """Whether the ask after ``index``, with one more observation, will keep these hyperparameters."""
        cold = (index + 1) % REBUILD_EVERY == 0
        return not cold and len(self.data) + 1 - self.fitted_on < refit_after(len(self.data) + 1)


def refit_after(observations: int) -> int:
    """How many new observations make a warm fit due: a twentieth of all."""
    return max(1, observations // 20)


def kernels_of(space: Space, kernel: str) -> list[str]:
    """The kernel of each variable: categories have their own."""
    return ["categorical" if flag else kernel for flag in space.is_categorical]


@dataclass(frozen=True, eq=False)
class Recipe:
    """Everything but the evaluations that determines a model."""

    space: Space
    graph: FactorGraph | str  # "random": a forest for each ask; "learned": sampled from the data every ten asks
    seed: int
    sign: float
    kernel: str
    noise: float | None
    max_factor_size: int = 3
    graph_samples: int = 3
    effort: StructureOptions | None = None
    centred: bool = True
    coupled: bool = True

    def advance(self, previous: Model | None, index: int, told: Sequence[Evaluation], points: Sequence[Array]) -> Model:
        """The model of ask ``index``: cold without ``previous``, otherwise refitted only once enough is new.

        A warm fit is due when the observations have grown by a twentieth; until then the hyperparameters and the
        scaling of the values stand, and so does everything computed from them. A random forest is new for every ask,
        and takes over what the last one had learned. Every constraint has a model of its own on the same schedule,
        cold where it is told for the first time.
        """
        usable = [k for k, evaluation in enumerate(told) if evaluation.value is not None]
        values = np.array([self.sign * float(told[k].value or 0.0) for k in usable])
        noise = np.array([told[k].noise or 0.0 for k in usable])
        model = self._advanced(previous, index, Observations(np.array([points[k] for k in usable]), values, noise))
        told_limits = {k: told[k].constraints or {} for k in usable}
        known = {} if previous is None else previous.constraints
        constraints = {}
        for name in sorted({name for given in told_limits.values() for name in given}):
            given = {k: limits[name] for k, limits in told_limits.items() if name in limits}
            raw = Observations(np.array([points[k] for k in given]), -tempered(np.array(list(given.values()))))
            constraints[name] = self.of_constraints._advanced(known.get(name), index, raw)
        return replace(model, constraints=constraints)

    @cached_property
    def of_constraints(self) -> Recipe:
        """How constraints are modelled: each with a graph of its own, the given one being that of the objective."""
        graph = self.graph if self.graph == "random" else "learned"
        return replace(self, graph=graph, sign=-1.0, noise=None)

    def _advanced(self, previous: Model | None, index: int, raw: Observations) -> Model:
        """The model of one quantity, larger being better."""
        values = raw.y
        if previous is not None and len(raw) - previous.fitted_on < refit_after(len(raw)):
            with np.errstate(over="ignore"):
                farthest = np.abs(previous.scaling.standard(values)).max()
            if farthest < FAR:
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
            alone = self._fitted(graph, data, noise, self.centred and graph.max_factor_size <= LARGEST_CENTRED)
            return Model(alone, data, scaling, len(data), refitted=True)
        prior = GraphPrior(self.space.dim, max_factor_size=self.max_factor_size)
        learned = learn_structure(
            data,
            prior,
            np.random.default_rng([self.seed, 3, index // REBUILD_EVERY]),
            kernel=self.kernels,
            domains=self.domains,
            noise=noise,
            samples=self.graph_samples,
            options=self.effort,
        )
        # chains need smooth functions to tell interactions from noise; the search may need rough ones: fitted anew
        graphs = learned.graphs if self.centred else tuple(without_parts(graph) for graph in learned.graphs)
        members = tuple(self._fitted(graph, data, noise, self.centred) for graph in graphs)
        additive = Ensemble(members, tuple(learned.weights.tolist()))
        gp, weight = self._with_coupled(additive, data, noise)
        return Model(gp, data, scaling, len(data), refitted=True, learned=learned, coupled=weight)

    def _fitted(self, graph: FactorGraph, data: Observations, noise: float | None, centred: bool) -> AdditiveGP:
        return fit(graph, data, kernel=self.kernels, domains=self.domains if centred else None, noise=noise)

    def _with_coupled(self, additive: Ensemble, data: Observations, noise: float | None) -> tuple[Ensemble, float]:
        """One factor over all variables beside the small ones, weighed by what the data say for it; and its weight.

        It has half of the weight where the evidence for it is decisive. Without weight to speak of it is left out.
        """
        d = self.space.dim
        if not self._may_couple:
            return additive, 0.0
        whole = self._fitted(FactorGraph(d, (tuple(range(d)),)), data, noise, centred=False)

        # the small factors' graphs were weighed against each other before: here it is evidence against evidence, and
        # prediction against prediction of each value from the others, whichever says less for the one large factor
        def said(measure: Callable[[AdditiveGP], float]) -> float:
            small = logsumexp([measure(member) for member in additive.members], b=additive.weights)
            return float(measure(whole) - small)

        gain = min(said(lambda gp: gp.log_evidence(data)), said(lambda gp: gp.log_predictive(data)))
        weight = float(expit(gain - DECISIVE))
        if weight < NEGLIGIBLE:
            return additive, 0.0
        weights = (*(float((1 - weight) * w) for w in additive.weights), weight)
        return Ensemble((*additive.members, whole), weights), weight

    def asking(self, model: Model, index: int) -> Surrogate:
        """The model that ask ``index`` searches: the small factors, or the one over all variables.

        Drawn by their weights, but at least every fourth time the small factors: near a local optimum any smooth
        function is well explained by one factor, which then sees nothing else, while theirs is a global search.
        """
        if model.coupled == 0 or not isinstance(model.gp, Ensemble):
            return model.gp
        *small, whole = model.gp.members
        if np.random.default_rng([self.seed, 4, index]).random() < min(model.coupled, MOST_OFTEN):
            return whole
        weights = np.array(model.gp.weights[:-1])
        total = weights.sum()
        # where they have next to none, as they were among themselves
        shares = weights / total if total > 0 else np.full(len(small), 1 / len(small))
        return Ensemble(tuple(small), tuple(shares.tolist()))

    def refitted(self, model: Model, data: Observations, scaling: Standardisation) -> AdditiveGP:
        """A model of other values of the same evaluations, which ``scaling`` made of the model's: fitted rapidly.

        On the first of its graphs, or with one factor over all variables where that is an option, whichever predicts
        each value better from the others. With the smoothest kernel: it is to see the large shape, not each ripple.
        """
        first = model.gp.members[0] if isinstance(model.gp, Ensemble) else model.gp
        d, graph = self.space.dim, first.graph
        noise = self._level(model.scaling.scale, scaling.scale)
        kernels = kernels_of(self.space, "se")
        rapidly = partial(fit, data=data, kernel=kernels, noise=noise, iterations=RAPID, single_start=True)
        small = rapidly(graph, domains=first.domains)
        if self.graph != "learned" or not self._may_couple:
            return small
        whole = rapidly(FactorGraph(d, (tuple(range(d)),)))
        return max(small, whole, key=lambda gp: gp.log_predictive(data))

    def _level(self, *scales: float) -> float | None:
        """The noise variance that the user gave, in units of the product of ``scales``; None if there is none."""
        level = self.noise
        for scale in scales:  # divided twice: a square may leave the range of doubles
            level = None if level is None else level / scale / scale
        return None if level is None else min(level, 1e6)

    @property
    def _may_couple(self) -> bool:
        """Whether one factor over all variables is an option beside the small ones."""
        return self.coupled and self.max_factor_size < self.space.dim <= MOST_COUPLED

    def _carried(self, gp: Surrogate, index: int) -> Surrogate:
        """The same model, or where forests are random its hyperparameters on the forest of ask ``index``."""
        if self.graph != "random" or not isinstance(gp, AdditiveGP):
            return gp
        graph = self.graph_at(index)
        if graph == gp.graph:
            return gp
        d, theta = self.space.dim, gp.hyperparameters
        # what is known of a pair that was not there before is what its predecessors had on average
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
        """What centred kernels average over: the unit interval, or the values of a discrete parameter if few."""
        return [parameter.grid(FEW) if parameter.cardinality <= FEW else None for parameter in self.space.parameters]

    @property
    def kernels(self) -> list[str]:
        """The kernel of each variable."""
        return kernels_of(self.space, self.kernel)

    def graph_at(self, index: int) -> FactorGraph:
        """The factor graph of ask ``index``; with centred kernels, every part of a factor is a factor too."""
        if isinstance(self.graph, FactorGraph):
            centred = self.centred and self.graph.max_factor_size <= LARGEST_CENTRED
            return self.graph.with_subsets() if centred else self.graph
        return random_forest(np.random.default_rng([self.seed, 2, index]), self.space.dim)


def tempered(constraint: Array) -> Array:
    """Values of a constraint, those far from 0 cut off: what matters is where it changes sign."""
    with np.errstate(over="ignore"):
        most = PLAIN * float(np.median(np.abs(constraint)))
    return np.clip(constraint, -most, most) if 0 < most < np.inf else constraint


def without_parts(graph: FactorGraph) -> FactorGraph:
    """Only the scopes that are part of no other: a plain kernel covers its parts."""
    sets = [frozenset(scope) for scope in graph.scopes]
    kept = (scope for scope, own in zip(graph.scopes, sets, strict=True) if not any(own < other for other in sets))
    return FactorGraph(graph.dim, tuple(kept))
