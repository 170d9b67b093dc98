"""Learning the factor graph: chains over p(U, s | data), with MAP fits of the other hyperparameters in between.

1. Fit a model of singletons: the reference for scores, and the start of every chain.
2. Find a start greedily: each round adds the pairs and triples with the most significant scores and fits the variances
   of all interactions, until no score is significant. A first chain continues from there. Lengthscales, variances and
   noise are fitted before and after it (by MAP, not sampled).
3. Run several chains at those hyperparameters and discard the first half of each. The rest is the sample: it gives pair
   probabilities, and k graphs for the acquisition to average (Eq. 5).
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
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
from dechbo.structure.prior import GraphPrior
from dechbo.structure.sampler import GraphSampler, State, Trace
from dechbo.structure.scope_distribution import ScopeDistribution
from dechbo.structure.scopes import ScopeIndex, ScopeSet, interaction_graph
from dechbo.structure.scores import Scores, proposal_distribution, score_scopes

Array = NDArray[np.float64]

_MAX_SCORE_WORK = 7e10  # d^2 t^2 / 2, summed over the greedy rounds
_MAX_FIT_WORK = 4e8  # d t^2, summed over the steps of a refit
_INITIAL_VARIANCE, _MIN_VARIANCE = 0.03, 1e-4  # of an interaction, for values of variance 1


@dataclass(frozen=True)
class StructureOptions:
    """How long to run the structure chains."""

    chains: int = 2
    steps: int = 600  # of each chain
    greedy_rounds: int = 5  # at most, in the search for a start
    moves_per_sweep: int = 20  # steps between two updates of the interactions' variances

    def __post_init__(self) -> None:
        # diagnostics need at least four draws, which are half of the steps
        if self.chains < 1 or self.moves_per_sweep < 1 or self.steps < 8 or not 1 <= self.greedy_rounds <= self.steps:
            raise OptionError(
                "StructureOptions needs chains >= 1, moves_per_sweep >= 1, steps >= 8 and 1 <= greedy_rounds <= steps, "
                f"got {self}"
            )


@dataclass(frozen=True, eq=False)
class StructurePosterior:
    """The samples of the chains, and summaries of them."""

    samples: tuple[ScopeSet, ...]
    pair_probabilities: Array  # (d, d)
    scope_probabilities: dict[Scope, float]
    graphs: tuple[FactorGraph, ...]  # the distinct graphs of a few samples, for the acquisition to average
    weights: Array  # of these graphs, summing to 1
    convergence: Convergence | None  # None if there was nothing to learn


def learn_structure(
    data: Observations,
    prior: GraphPrior,
    rng: np.random.Generator,
    *,
    kernel: str | Sequence[str] = "matern52",
    domains: Sequence[Domain] | None = None,
    noise: float | None = None,
    samples: int = 3,
    options: StructureOptions | None = None,
    informed: bool = True,
) -> StructurePosterior:
    """Sample factor graphs for standardised ``data``; the result is deterministic given the state of ``rng``."""
    options = StructureOptions() if options is None else options
    domains = (None,) * data.dim if domains is None else domains
    fit_options: dict[str, Any] = {"kernel": kernel, "domains": domains, "noise": noise, "rough": False}
    reference = fit(FactorGraph.singletons(data.dim), data, **fit_options)
    traces: list[Trace] = []
    if prior.max_size > 1:
        traces = _chains(prior, reference, data, rng, options, fit_options, informed)
    drawn = [sample for trace in traces for sample in trace.samples] or [frozenset()]
    graphs, weights = _thinned_graphs(drawn, data.dim, samples)
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
    options: StructureOptions,
    fit_options: dict[str, Any],
    informed: bool,
) -> list[Trace]:
    """The second halves of ``options.chains`` chains, at hyperparameters fitted to where a first chain ended."""
    seeds = rng.integers(2**63, size=1 + options.chains)
    free = fit_options["noise"] is None
    found = [score_scopes(reference, data, prior.max_size)] if informed else []
    fitted = reference
    affordable = max(1, int(_MAX_SCORE_WORK // (0.5 * data.dim**2 * len(data) ** 2)))
    for _ in range(min(options.greedy_rounds, affordable) if informed else 0):
        richer = _with_best_scopes(fitted, found[-1], data, free)
        if richer is fitted:
            break
        fitted = richer
        found.append(score_scopes(fitted, data, prior.max_size))

    def chain(model: AdditiveGP) -> tuple[Chain, dict[Scope, float]]:
        singles, variances = _split_interactions(model)
        distribution = proposal_distribution(found, variances) if informed else ScopeDistribution.uniform(data.dim)
        return Chain(GraphSampler(prior, scope_distribution=distribution), singles, data, free), variances

    if fitted is not reference:
        fitted = _refitted(fitted, data, fit_options)
    first, variances = chain(fitted)
    end, _ = first.run(seeds[0], variances, options.steps // 2, options.moves_per_sweep)
    settled = _refitted(_with_interactions(first.singles, end.payload.variances, end.payload.noise), data, fit_options)
    gain = settled.log_evidence(data) + prior.log_density(end.interactions) - reference.log_evidence(data)
    main, variances = chain(settled if gain > 0 else reference)
    with ThreadPoolExecutor(max(1, min(options.chains, os.cpu_count() or 1))) as pool:
        jobs = [pool.submit(main.run, seed, variances, options.steps, options.moves_per_sweep) for seed in seeds[1:]]
        return [_second_half(job.result()[1]) for job in jobs]


def _with_best_scopes(gp: AdditiveGP, scores: Scores, data: Observations, free_noise: bool) -> AdditiveGP:
    """The model with the most significant absent scopes added, without those whose fitted variance is negligible.

    Only the variances of the interactions and a free noise are fitted. Returns ``gp`` itself if nothing is significant.
    """
    singles, before = _split_interactions(gp)
    absent = [scope for _, scope in scores.significant() if scope not in before]
    if not absent:
        return gp
    # few observations support only a few interactions
    max_new = max(3, min(data.dim // 3, len(data) // 10))
    tried = {**before, **dict.fromkeys(absent[:max_new], _INITIAL_VARIANCE)}
    variances, noise = fit_variances(singles, data, tried, free_noise=free_noise)
    return _with_interactions(singles, {scope: s for scope, s in variances.items() if s > _MIN_VARIANCE}, noise)


@dataclass(frozen=True, eq=False)
class Chain:
    """Sweeps of structure moves, with updates of the interactions' variances and of a free noise in between."""

    sampler: GraphSampler
    singles: AdditiveGP
    data: Observations
    free_noise: bool

    def run(self, seed: int, variances: Mapping[Scope, float], steps: int, sweep: int) -> tuple[State, Trace]:
        """Take ``steps`` moves from the interactions with these ``variances``."""
        rng = np.random.default_rng(seed)
        target = EvidenceTarget(self.singles, self.data, rng)
        value, payload = target.evaluate(variances)
        if np.isfinite(value):
            index = ScopeIndex.of(self.sampler.prior, variances)
            state = State(index, self.sampler.prior.log_density(index.scopes), value, payload)
        else:
            state = self.sampler.init((), target)
        samples: list[ScopeSet] = []
        log_posteriors: list[float] = []
        for done in range(0, steps, sweep):
            state, trace = self.sampler.run(rng, state, target, min(sweep, steps - done))
            state = target.update_variances(state, rng, noise=self.free_noise)
            samples += trace.samples
            log_posteriors += trace.log_posteriors.tolist()
        return state, Trace(tuple(samples), np.array(log_posteriors))


def _second_half(trace: Trace) -> Trace:
    half = len(trace.samples) // 2
    return Trace(trace.samples[half:], trace.log_posteriors[half:])


def _refitted(gp: AdditiveGP, data: Observations, fit_options: dict[str, Any]) -> AdditiveGP:
    """The MAP hyperparameters for the same graph, starting from the current ones."""
    steps = int(np.clip(_MAX_FIT_WORK / (data.dim * len(data) ** 2), 5, 15))
    return fit(gp.graph, data, start=gp.hyperparameters, iterations=steps, **fit_options)


def _with_interactions(singles: AdditiveGP, variances: Mapping[Scope, float], noise: float) -> AdditiveGP:
    """The model ``singles`` with interactions added."""
    graph = interaction_graph(singles.graph.dim, variances)
    theta = singles.hyperparameters
    own = [variances[scope] for scope in graph.scopes[singles.graph.dim :]]
    joined = Hyperparameters(theta.lengthscales, np.concatenate([theta.variances, own]), noise)
    return AdditiveGP(graph, joined, kernel=singles.kernels, domains=singles.domains)


def _split_interactions(gp: AdditiveGP) -> tuple[AdditiveGP, dict[Scope, float]]:
    """Split a model into its singletons and the variances of its interactions."""
    d, theta = gp.graph.dim, gp.hyperparameters
    alone = Hyperparameters(theta.lengthscales, theta.variances[:d], theta.noise)
    singles = AdditiveGP(FactorGraph.singletons(d), alone, kernel=gp.kernels, domains=gp.domains)
    return singles, dict(zip(gp.graph.scopes[d:], theta.variances[d:].tolist(), strict=True))


def _thinned_graphs(drawn: Sequence[ScopeSet], dim: int, samples: int) -> tuple[tuple[FactorGraph, ...], Array]:
    """``samples`` draws evenly spaced over all chains, as distinct graphs with weights."""
    at = np.linspace(0, len(drawn) - 1, samples).round().astype(np.int64)
    counts = Counter(drawn[k] for k in at)
    return tuple(interaction_graph(dim, interactions) for interactions in counts), np.array(
        list(counts.values())
    ) / samples


def _scope_probabilities(drawn: Sequence[ScopeSet]) -> dict[Scope, float]:
    counts = Counter(scope for sample in drawn for scope in sample)
    return {scope: count / len(drawn) for scope, count in counts.most_common()}
