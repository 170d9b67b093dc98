"""The model behind each ask, and the schedule on which it is fitted.

A warm start makes a fit depend on the past of its process; a resumed run has no such past. So every tenth ask builds
its model cold, from (seed, index, evaluations) alone, and the asks between advance it by the same arithmetic: a resume
replays at most nine of them and arrives at the very same model.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from dechbo.gp import AdditiveGP, Ensemble, Surrogate, fit
from dechbo.gp.centring import Domain
from dechbo.graph import FactorGraph
from dechbo.observations import Observations, Standardisation
from dechbo.records import Evaluation
from dechbo.space import Space
from dechbo.structure import GraphPrior, random_forest
from dechbo.structure.learner import Effort, Learned, learn

Array = NDArray[np.float64]

REBUILD_EVERY = 10
FEW = 64  # discrete parameters with more values are averaged over the interval
FAR = 100.0  # a value so many standard deviations away asks for a new fit at once


@dataclass(frozen=True, eq=False)
class Model:
    """A fitted GP on standardised values (larger is better), and the way back to the user's units."""

    gp: Surrogate
    data: Observations
    scaling: Standardisation
    fitted_on: int  # observations at the last fit
    refitted: bool
    learned: Learned | None = None  # what the chains found, where the graph is learned

    def stands_after(self, index: int) -> bool:
        """Whether the ask after ``index``, with one more observation, will keep these hyperparameters."""
        cold = (index + 1) % REBUILD_EVERY == 0
        return not cold and len(self.data) + 1 - self.fitted_on < refit_after(len(self.data) + 1)


def refit_after(observations: int) -> int:
    """How many new observations make a warm fit due: a twentieth of all."""
    return max(1, observations // 20)


@dataclass(frozen=True, eq=False)
class Recipe:
    """Everything but the evaluations that determines a model."""

    space: Space
    graph: FactorGraph | str  # "random": a spanning tree for each epoch of ten asks; "learned": sampled from the data
    seed: int
    sign: float
    kernel: str
    noise: float | None
    max_factor_size: int = 3
    graph_samples: int = 3
    effort: Effort | None = None

    def advance(self, previous: Model | None, index: int, told: Sequence[Evaluation], points: Sequence[Array]) -> Model:
        """The model of ask ``index``: cold without ``previous``, otherwise refitted only once enough is new.

        A warm fit is due when the observations have grown by a twentieth; until then the hyperparameters and the
        scaling of the values stand, and so does everything computed from them.
        """
        usable = [k for k, evaluation in enumerate(told) if evaluation.value is not None]
        values = np.array([self.sign * float(told[k].value or 0.0) for k in usable])
        noise = np.array([told[k].noise or 0.0 for k in usable])
        raw = Observations(np.array([points[k] for k in usable]), values, noise)
        if previous is not None and len(raw) - previous.fitted_on < refit_after(len(raw)):
            with np.errstate(over="ignore"):
                farthest = np.abs(previous.scaling.standard(values)).max()
            if farthest < FAR:
                data = raw.standardised_by(previous.scaling)
                return replace(previous, data=data, refitted=False)
        scaling = Standardisation.of(values)
        data = raw.standardised_by(scaling)
        level = None if self.noise is None else min(self.noise / scaling.scale / scaling.scale, 1e6)
        if previous is None:
            gp, learned = self._cold(index, data, level)
        else:
            gp, learned = self._warm(previous.gp, data, level), previous.learned
        return Model(gp, data, scaling, len(data), refitted=True, learned=learned)

    def _cold(self, index: int, data: Observations, noise: float | None) -> tuple[Surrogate, Learned | None]:
        """A model from the data alone: on a graph that is given or drawn, or on graphs sampled from the data."""
        if self.graph != "learned":
            return fit(self.graph_at(index), data, kernel=self.kernels, noise=noise), None
        learned = learn(
            data,
            GraphPrior(self.space.dim, max_factor_size=self.max_factor_size),
            np.random.default_rng([self.seed, 3, index // REBUILD_EVERY]),
            kernel=self.kernels,
            domains=self.domains,
            noise=noise,
            samples=self.graph_samples,
            effort=self.effort,
        )
        # chains need smooth functions to tell interactions from noise; the search may need rough ones: fitted anew
        members = tuple(
            fit(graph, data, kernel=self.kernels, domains=self.domains, noise=noise) for graph in learned.graphs
        )
        return Ensemble(members, tuple(learned.weights.tolist())), learned

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
        return ["categorical" if flag else self.kernel for flag in self.space.is_categorical]

    def graph_at(self, index: int) -> FactorGraph:
        """The factor graph of ask ``index``."""
        if isinstance(self.graph, FactorGraph):
            return self.graph
        rng = np.random.default_rng([self.seed, 2, index // REBUILD_EVERY])
        return random_forest(rng, self.space.dim)
