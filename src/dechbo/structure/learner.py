"""Learning the factor graph: chains over p(U, s | data), with MAP fits of the other hyperparameters in between.

1. A model of singletons is fitted: the reference for scores, and the start of every chain.
2. A start is found greedily: in each round the pairs and triples that the model at hand misses most are added and the
   variances of all interactions fitted, until nothing promising is left. A first chain goes on from there;
   lengthscales, variances and noise are fitted before it and to where it ends (MAP in between, not a draw: declared as
   such).
3. Several chains run at those hyperparameters, half of each is discarded, and the rest is the sample: pair
   probabilities, and k graphs for the acquisition to average (Eq. 5).
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import astuple, dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dechbo.data.observations import Observations
from dechbo.errors import OptionError
from dechbo.gp import AdditiveGP, Hyperparameters, fit
from dechbo.gp.centring import Domain
from dechbo.graph import FactorGraph, Scope
from dechbo.structure.diagnostics import Convergence, diagnose, pair_probabilities
from dechbo.structure.evidence import EvidenceTarget, fit_variances
from dechbo.structure.prior import GraphPrior, Interactions, ScopeDistribution, ScopeIndex, interaction_graph
from dechbo.structure.sampler import GraphSampler, MoveCounts, State, Trace
from dechbo.structure.scores import Scores, proposal_distribution, score_scopes

Array = NDArray[np.float64]

_SCORE_WORK, _FIT_WORK = 7e10, 4e8  # d^2 t^2 / 2 over all rounds, d t^2 over all steps of a fit in between
_FIRST_VARIANCE, _NEGLIGIBLE = 0.03, 1e-4  # of an interaction, for values of variance 1


@dataclass(frozen=True)
class StructureOptions:
    """How much work one learning of the graph may cost: chains and steps of each."""

    chains: int = 2
    steps: int = 600
    rounds: int = 5  # at most, of the search for a start: the best scopes by score, then a fit
    sweep: int = 20  # steps between two updates of the interactions' variances

    def __post_init__(self) -> None:
        # convergence is judged by four draws or more: half of the steps
        if self.chains < 1 or self.sweep < 1 or self.steps < 8 or not 1 <= self.rounds <= self.steps:
            raise OptionError(
                f"StructureOptions needs chains >= 1, sweep >= 1, steps >= 8 and 1 <= rounds <= steps, got {self}"
            )


@dataclass(frozen=True, eq=False)
class StructurePosterior:
    """What the chains found."""

    samples: tuple[Interactions, ...]
    pair_probabilities: Array  # (d, d)
    scope_probabilities: dict[Scope, float]
    graphs: tuple[FactorGraph, ...]  # distinct graphs among a few samples, for the acquisition to average
    weights: Array  # of these graphs, summing to 1
    convergence: Convergence | None  # None where there was nothing to learn


def learn_structure(
    data: Observations,
    prior: GraphPrior,
    rng: np.random.Generator,
    *,
    kernel: str | Sequence[str] = "matern52",
    domains: Sequence[Domain] | None = None,
    noise: float | None = None,
    samples: int = 3,
    effort: StructureOptions | None = None,
    informed: bool = True,
) -> StructurePosterior:
    """Sample factor graphs for standardised ``data``; the same ``rng`` state gives the same answer."""
    effort = StructureOptions() if effort is None else effort
    domains = (None,) * data.dim if domains is None else domains
    options: dict[str, Any] = {"kernel": kernel, "domains": domains, "noise": noise, "rough": False}
    reference = fit(FactorGraph.singletons(data.dim), data, **options)
    traces: list[Trace] = []
    if prior.largest > 1:
        traces = _chains(prior, reference, data, rng, effort, options, informed)
    drawn = [sample for trace in traces for sample in trace.samples] or [frozenset()]
    graphs, weights = _few_graphs(drawn, data.dim, samples)
    return StructurePosterior(
        tuple(drawn),
        pair_probabilities(data.dim, drawn),
        _scope_probabilities(drawn),
        graphs,
        weights,
        diagnose(traces) if traces else None,
    )


def _chains(
    prior: GraphPrior,
    reference: AdditiveGP,
    data: Observations,
    rng: np.random.Generator,
    effort: StructureOptions,
    options: dict[str, Any],
    informed: bool,
) -> list[Trace]:
    """The second halves of ``effort.chains`` chains, at hyperparameters that a first chain settled."""
    seeds = rng.integers(2**63, size=1 + effort.chains)
    free = options["noise"] is None
    found = [score_scopes(reference, data, prior.largest)] if informed else []
    fitted = reference
    affordable = max(1, int(_SCORE_WORK // (0.5 * data.dim**2 * len(data) ** 2)))
    for _ in range(min(effort.rounds, affordable) if informed else 0):
        richer = _with_best_scopes(fitted, found[-1], data, free)
        if richer is fitted:
            break
        fitted = richer
        found.append(score_scopes(fitted, data, prior.largest))

    def chain(model: AdditiveGP) -> tuple[Chain, dict[Scope, float]]:
        singles, variances = _split(model)
        law = proposal_distribution(found, variances) if informed else ScopeDistribution.uniform(data.dim)
        return Chain(GraphSampler(prior, scores=law), singles, data, free), variances

    if fitted is not reference:
        fitted = _refitted(fitted, data, options)
    first, variances = chain(fitted)
    end, _ = first.run(seeds[0], variances, effort.steps // 2, effort.sweep)
    settled = _refitted(_joined(first.singles, end.payload.variances, end.payload.noise), data, options)
    gain = settled.log_evidence(data) + prior.log_density(end.interactions) - reference.log_evidence(data)
    main, variances = chain(settled if gain > 0 else reference)
    with ThreadPoolExecutor(max(1, min(effort.chains, os.cpu_count() or 1))) as pool:
        jobs = [pool.submit(main.run, seed, variances, effort.steps, effort.sweep) for seed in seeds[1:]]
        return [_second_half(job.result()[1]) for job in jobs]


def _with_best_scopes(gp: AdditiveGP, scores: Scores, data: Observations, free_noise: bool) -> AdditiveGP:
    """The model with the scopes added that it misses most; those that the data do not want are dropped.

    Only the variances of the interactions and a free noise are fitted. The model itself where it misses nothing.
    """
    singles, before = _split(gp)
    absent = [scope for _, scope in scores.promising() if scope not in before]
    if not absent:
        return gp
    # so few data cannot tell more than so many interactions
    few = max(3, min(data.dim // 3, len(data) // 10))
    tried = {**before, **dict.fromkeys(absent[:few], _FIRST_VARIANCE)}
    variances, noise = fit_variances(singles, data, tried, free_noise=free_noise)
    return _joined(singles, {scope: s for scope, s in variances.items() if s > _NEGLIGIBLE}, noise)


@dataclass(frozen=True, eq=False)
class Chain:
    """Structure moves in sweeps, the interactions' variances and a free noise updated between them."""

    sampler: GraphSampler
    singles: AdditiveGP
    data: Observations
    free_noise: bool

    def run(self, seed: int, variances: Mapping[Scope, float], steps: int, sweep: int) -> tuple[State, Trace]:
        """``steps`` moves from the interactions with these ``variances``."""
        rng = np.random.default_rng(seed)
        target = EvidenceTarget(self.singles, self.data, rng)
        value, payload = target.with_variances(variances)
        if np.isfinite(value):
            index = ScopeIndex.of(self.sampler.prior, variances)
            state = State(index, self.sampler.prior.log_density(index.scopes), value, payload)
        else:
            state = self.sampler.init((), target)
        kept: list[Interactions] = []
        log_posteriors: list[float] = []
        moves: Mapping[str, MoveCounts] = {}
        for done in range(0, steps, sweep):
            state, trace = self.sampler.run(rng, state, target, min(sweep, steps - done))
            state = target.resample(state, rng, noise=self.free_noise)
            kept += trace.samples
            log_posteriors += trace.log_posteriors.tolist()
            moves = _added(moves, trace.moves)
        return state, Trace(tuple(kept), np.array(log_posteriors), moves)


def _added(a: Mapping[str, MoveCounts], b: Mapping[str, MoveCounts]) -> dict[str, MoveCounts]:
    none = MoveCounts()
    return {
        name: MoveCounts(
            *(x + y for x, y in zip(astuple(a.get(name, none)), astuple(counts), strict=True)),
        )
        for name, counts in b.items()
    }


def _second_half(trace: Trace) -> Trace:
    half = len(trace.samples) // 2
    return Trace(trace.samples[half:], trace.log_posteriors[half:], trace.moves)


def _refitted(gp: AdditiveGP, data: Observations, options: dict[str, Any]) -> AdditiveGP:
    """The MAP hyperparameters for the same graph, started from where they stand."""
    steps = int(np.clip(_FIT_WORK / (data.dim * len(data) ** 2), 5, 15))
    return fit(gp.graph, data, start=gp.hyperparameters, iterations=steps, **options)


def _joined(singles: AdditiveGP, variances: Mapping[Scope, float], noise: float) -> AdditiveGP:
    """The model of ``singles`` with interactions beside them."""
    graph = interaction_graph(singles.graph.dim, variances)
    theta = singles.hyperparameters
    own = [variances[scope] for scope in graph.scopes[singles.graph.dim :]]
    joined = Hyperparameters(theta.lengthscales, np.concatenate([theta.variances, own]), noise)
    return AdditiveGP(graph, joined, kernel=singles.kernels, domains=singles.domains)


def _split(gp: AdditiveGP) -> tuple[AdditiveGP, dict[Scope, float]]:
    """A fitted model as its singletons and the variances of its interactions."""
    d, theta = gp.graph.dim, gp.hyperparameters
    alone = Hyperparameters(theta.lengthscales, theta.variances[:d], theta.noise)
    singles = AdditiveGP(FactorGraph.singletons(d), alone, kernel=gp.kernels, domains=gp.domains)
    return singles, dict(zip(gp.graph.scopes[d:], theta.variances[d:].tolist(), strict=True))


def _few_graphs(drawn: Sequence[Interactions], dim: int, samples: int) -> tuple[tuple[FactorGraph, ...], Array]:
    """``samples`` draws evenly spaced over all chains; equal graphs come once and weigh more."""
    at = np.linspace(0, len(drawn) - 1, samples).round().astype(np.int64)
    counts = Counter(drawn[k] for k in at)
    return tuple(interaction_graph(dim, interactions) for interactions in counts), np.array(
        list(counts.values())
    ) / samples


def _scope_probabilities(drawn: Sequence[Interactions]) -> dict[Scope, float]:
    counts = Counter(scope for sample in drawn for scope in sample)
    return {scope: count / len(drawn) for scope, count in counts.most_common()}
