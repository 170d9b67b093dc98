"""CommitteeBuilder: from evaluations to the committee of an ask, by arithmetic that no past of the process can change.

The members of a committee make different bets:

================  ===========================================================================================
``smooth``        small factors on the learned (or given, or random) graph, centred, long lengthscales
``rough``         the same graph with short lengthscales: many local optima
``whole``         one factor over all variables, Matérn, almost any lengthscale
``scaled``        one factor over all variables, squared exponential, lengthscales that grow with the root of d and
                  a variance fixed at that of the data
``sparse``        one factor over all variables, most of them idle
================  ===========================================================================================

Which evaluations a fit knows, and what weighs the members, is the business of ``fits``.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from dechbo.data.evaluation import Evaluation
from dechbo.data.observations import Observations
from dechbo.gp.additive import AdditiveGP, Hyperparameters
from dechbo.gp.fit import fit
from dechbo.gp.radial import RadialGP
from dechbo.gp.radial_fit import RadialPrior, fit_radial
from dechbo.graph import FactorGraph
from dechbo.models.builder import MAX_CENTRED_SIZE, carried, clipped_constraint, domains_of, embedding_of, kernels_of
from dechbo.models.committee import Committee, Member
from dechbo.models.fits import (
    COLD_EVERY,
    FORECAST_BLOCKS,
    ColdFit,
    Fits,
    LearnedGraph,
    cold_size,
    graph_size,
    previous_size,
)
from dechbo.models.options import ModelOptions
from dechbo.models.warp import ValueScale, candidate_widths
from dechbo.space import Space
from dechbo.structure import GraphPrior, StructureOptions, learn_structure, random_forest

Array = NDArray[np.float64]

WHOLE = {
    "whole": RadialPrior("matern52", "weak"),
    "scaled": RadialPrior("se", "scaled", fixed_variance=True),
    "sparse": RadialPrior("matern52", "sparse"),
}
MAX_WARM = 200  # evaluations up to which every ask refits
MAX_WARM_WORK = 4e6  # factors times pairs of evaluations, likewise
MAX_FITTED = 300  # evaluations of a fit, and of a learned graph
COLD_ITERATIONS, WARM_ITERATIONS = 40, 12  # of a fit on a graph
MIN_WARP_GAIN = 2.0  # nats of evidence that a warp needs over the identity, and a finer one over a coarser one
# an ask needs a good graph, not probabilities: short chains
QUICK = StructureOptions(chains=2, sweeps=6, max_batches=1, rounds=2)


def with_noise(gp: AdditiveGP | RadialGP, noise: float) -> AdditiveGP | RadialGP:
    """The same model with another noise variance: one that the user gave, in the units of more values."""
    if isinstance(gp, RadialGP):
        return replace(gp, noise=noise)
    theta = Hyperparameters(gp.hyperparameters.lengthscales, gp.hyperparameters.variances, noise)
    return AdditiveGP(gp.graph, theta, kernel=gp.kernels, domains=gp.domains)


def _is_kept(member: Member, n: int) -> bool:
    """Whether the hyperparameters of a cold fit are kept for ``n`` evaluations: too many for a warm fit."""
    factors = 1 if isinstance(member.gp, RadialGP) else len(member.gp.graph.scopes)
    return n > MAX_WARM or n**2 * factors > MAX_WARM_WORK


@dataclass(frozen=True, eq=False)
class CommitteeBuilder:
    """Everything that determines a committee but the evaluations."""

    space: Space
    graph: FactorGraph | str  # "learned", "random", or given
    seed: int
    sign: float  # 1 to maximise the values, -1 to minimise them
    noise: float | None = None
    max_factor_size: int = 3
    options: ModelOptions = field(default_factory=ModelOptions)
    of_constraint: bool = False  # whether the values are those of a constraint: clipped far from 0

    def build(self, evaluations: Sequence[Evaluation], points: Sequence[Array], fits: Fits) -> tuple[Committee, Fits]:
        """The committee given all ``evaluations``; ``fits`` are those of an earlier ask."""
        usable = [k for k, evaluation in enumerate(evaluations) if evaluation.value is not None]
        values = np.array([self.sign * float(evaluations[k].value or 0.0) for k in usable])
        noise = np.array([evaluations[k].noise or 0.0 for k in usable])
        raw = Observations(np.array([points[k] for k in usable]), values, noise)
        committee, own = self._built(raw, fits)
        reported = {k: evaluations[k].constraints or {} for k in usable}
        committees, kept = {}, {}
        for name in sorted({name for given in reported.values() for name in given}):
            given = {k: limits[name] for k, limits in reported.items() if name in limits}
            raw = Observations(np.array([points[k] for k in given]), -np.array(list(given.values())))
            committees[name], kept[name] = self.for_constraints._built(raw, fits.constraints.get(name, Fits()))
        success = known = None
        if len(usable) < len(evaluations):  # where evaluations fail, by least squares on 1 and -1
            outcomes = np.array([-1.0 if evaluation.value is None else 1.0 for evaluation in evaluations])
            raw = Observations(np.array(points[: len(evaluations)]), outcomes)
            success, known = self.for_constraints._built(raw, fits.success or Fits())
        return (
            replace(committee, constraints=committees, success=success),
            replace(own, constraints=kept, success=known),
        )

    @cached_property
    def for_constraints(self) -> CommitteeBuilder:
        """The builder of the constraints' committees: factors over all variables, no graph to learn, no warp."""
        whole = tuple(name for name in self.members if name in WHOLE) or ("whole",)
        options = replace(self.options, members=whole, warp=False)
        return replace(self, sign=-1.0, noise=None, options=options, of_constraint=True)

    @property
    def members(self) -> tuple[str, ...]:
        """The names of the members."""
        return self.options.members

    def _built(self, raw: Observations, fits: Fits) -> tuple[Committee, Fits]:
        graphs = {known.size: known for known in (fits.graph, fits.latest_graph) if known is not None}
        cold = self._cold_at(cold_size(len(raw)), raw, FORECAST_BLOCKS, fits.cold, graphs)
        forecasts = np.hstack([*cold.earlier, cold.forecast(self._clipped(raw))])
        raw = self._clipped(raw)
        scale = ValueScale.of(raw.y, cold.scale.width)
        data, level = scale.observations(raw), self._level(scale)
        members, fitted = cold.members, cold.size
        if len(raw) > cold.size:
            graph = self._graph_at(len(raw), cold.graph)
            members = tuple(self._warm(member, data, level, graph) for member in members)
            fitted = cold.size if all(_is_kept(member, len(raw)) for member in cold.members) else len(raw)
        return Committee(members, data, scale, forecasts), Fits(cold, self._learned_at(len(raw), raw, graphs), fitted)

    def _cold_at(
        self, size: int, raw: Observations, blocks: int, known: ColdFit | None, graphs: dict[int, LearnedGraph]
    ) -> ColdFit:
        """The cold fit to the first ``size`` observations, with the forecasts of ``blocks`` cold fits before it.

        ``known`` is one of an earlier ask; ``graphs`` are those already learned, by size, and this adds to them.
        """
        if known is not None and known.size == size:
            return known
        earlier: tuple[Array, ...] = ()
        if blocks and previous_size(size):
            before = self._cold_at(previous_size(size), raw, blocks - 1, known, graphs)
            earlier = (*before.earlier, before.forecast(self._clipped(raw.first(size))))[-blocks:]
        graph = self._learned_at(size, raw, graphs)
        fitted = self._cold(self._clipped(raw.first(size)), self._graph_at(size, graph))
        return replace(fitted, graph=graph, earlier=earlier)

    def _learned_at(self, n: int, raw: Observations, graphs: dict[int, LearnedGraph]) -> LearnedGraph | None:
        """The latest graph of an ask with ``n`` observations; a new one is added to ``graphs``."""
        size = graph_size(n) if self._learns else 0
        if size > 0 and size not in graphs:
            graphs[size] = self._learned(raw.first(size))
        return graphs.get(size)

    def _clipped(self, raw: Observations) -> Observations:
        """Values of a constraint, clipped by these observations alone: a prefix must not know of later ones."""
        return Observations(raw.X, clipped_constraint(raw.y)) if self.of_constraint else raw

    def _cold(self, raw: Observations, graph: FactorGraph) -> ColdFit:
        width = self._width(raw)
        scale = ValueScale.of(raw.y, width)
        data, level = scale.observations(raw).evenly_spaced(MAX_FITTED), self._level(scale)
        members = tuple(self._cold_member(name, data, level, graph) for name in self.members)
        return ColdFit(len(raw), scale, members)

    def _cold_member(self, name: str, data: Observations, noise: float | None, graph: FactorGraph) -> Member:
        if name in WHOLE:
            return Member(name, fit_radial(WHOLE[name], embedding_of(self.space), data, noise=noise))
        return Member(name, self._fitted(name, graph, data, noise))

    def _warm(self, member: Member, data: Observations, noise: float | None, graph: FactorGraph) -> Member:
        """The same member, refitted to ``data``; with a random graph, carried over to that of this ask."""
        gp = member.gp
        if _is_kept(member, len(data)):
            gp = gp if isinstance(gp, RadialGP) or self.graph != "random" else carried(gp, graph)
            gp = gp if noise is None else with_noise(gp, noise)
            return member if gp is member.gp else Member(member.name, gp)
        if isinstance(gp, RadialGP):
            return Member(
                member.name, fit_radial(WHOLE[member.name], embedding_of(self.space), data, noise=noise, start=gp)
            )
        start = carried(gp, graph).hyperparameters
        return Member(member.name, self._fitted(member.name, graph, data, noise, start))

    def _fitted(
        self,
        name: str,
        graph: FactorGraph,
        data: Observations,
        noise: float | None,
        start: Hyperparameters | None = None,
    ) -> AdditiveGP:
        centred = self.options.centred and graph.max_factor_size <= MAX_CENTRED_SIZE
        return fit(
            graph,
            data,
            kernel=kernels_of(self.space, self.options.kernel),
            domains=domains_of(self.space) if centred else None,
            rough=name == "rough",
            noise=noise,
            start=start,
            iterations=COLD_ITERATIONS if start is None else WARM_ITERATIONS,
        )

    def _learned(self, raw: Observations) -> LearnedGraph:
        """Learned from standard values without a warp: short chains, because an ask needs only a good graph."""
        scale = ValueScale.of(raw.y)
        learned = learn_structure(
            scale.observations(raw).evenly_spaced(MAX_FITTED),
            GraphPrior(self.space.dim, max_factor_size=self.max_factor_size),
            np.random.default_rng([self.seed, 3, len(raw)]),
            kernel=kernels_of(self.space, self.options.kernel),
            domains=domains_of(self.space),
            noise=self._level(scale),
            samples=1,
            options=QUICK,
        )
        return LearnedGraph(len(raw), learned.map_graph, learned)

    @property
    def _learns(self) -> bool:
        return self.graph == "learned" and any(name not in WHOLE for name in self.members)

    def _graph_at(self, n: int, learned: LearnedGraph | None) -> FactorGraph:
        """The graph of an ask with ``n`` evaluations; with centred kernels it is closed under subsets."""
        if isinstance(self.graph, FactorGraph):
            centred = self.options.centred and self.graph.max_factor_size <= MAX_CENTRED_SIZE
            return self.graph.with_subsets() if centred else self.graph
        if self.graph == "learned":
            return FactorGraph.singletons(self.space.dim) if learned is None else learned.graph
        return random_forest(np.random.default_rng([self.seed, 2, n]), self.space.dim)

    def _level(self, scale: ValueScale) -> float | None:
        """The noise variance that the user gave, in standard units."""
        if self.noise is None:
            return None
        unit = scale.standardisation.scale
        return min(self.noise / unit / unit, 1e6)  # divided twice: a square may overflow

    def _width(self, raw: Observations) -> float | None:
        """The width of the warp that the evidence asks for, with its Jacobian; None for the identity."""
        if not self.options.warp or self.noise is not None or raw.noise.any() or len(raw) < COLD_EVERY:
            return None
        best, chosen, plain = -np.inf, None, None
        part = raw.evenly_spaced(MAX_FITTED)
        for width in candidate_widths(raw.y):
            scale = ValueScale.of(raw.y, width)
            data = scale.observations(part)
            gp = fit_radial(
                WHOLE["whole"], embedding_of(self.space), data, start=plain
            )  # others start where that ended
            plain = gp if width is None else plain
            evidence = gp.log_evidence(data) + scale.log_jacobian(part.y)
            if evidence > best + (0.0 if width is None else MIN_WARP_GAIN):
                best, chosen = evidence, width
        return chosen
