"""Learning the factor graph: chains over p(U, s | data), with MAP fits of the other hyperparameters before them.

1. Find a graph with a high posterior from the variance components of all scopes at once (``map_graph``). Its
   lengthscales and the singletons' variances are fixed from here on (MAP, not sampled).
2. Burn in several chains at those hyperparameters: one from that graph, the others from far away (no interactions at
   all, its stronger half, an earlier graph of the search); each also tries the others' interactions. If a chain finds
   a better graph, fit the hyperparameters to it and burn in again.
3. Sample without such exchange. While R-hat is above MAX_RHAT, sample on within ``StructureOptions.max_batches``.
4. A chain whose best graph is worse than the start is left out; the result says how far below the best one is.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dechbo.data.observations import Observations
from dechbo.errors import OptionError
from dechbo.gp.centring import Domain
from dechbo.graph import FactorGraph, Scope
from dechbo.structure.diagnostics import MAX_SHORTFALL, Convergence, diagnose, pair_probabilities
from dechbo.structure.evidence import VARIANCE_MEDIAN, Covariance, EvidenceTarget
from dechbo.structure.gains import evidence_gains, proposal_distribution
from dechbo.structure.map_graph import (
    MIN_GAIN,
    Solution,
    graph_log_prior,
    improved,
    map_graphs,
    refitted,
    with_interactions,
)
from dechbo.structure.prior import GraphPrior
from dechbo.structure.sampler import GraphSampler, State, Trace
from dechbo.structure.scope_update import ScopeUpdate
from dechbo.structure.scopes import ScopeIndex, ScopeSet, interaction_graph

Array = NDArray[np.float64]

MIN_VISITS = 0.005  # of the samples of the burn-in, for a scope to be toggled while sampling
MAX_PROMISING = 200  # scopes with the largest gains, for Gibbs steps
MIN_DOUBT = 0.02  # of a scope, where sqrt(p (1 - p)) says how often it gets a Gibbs step
MAX_SCOPE_UPDATES = 4  # Gibbs steps for single scopes before each update of all variances
MAX_RESTARTS = 2  # of the burn-in, from a better graph
_FIT_VARIANCES = 10  # iterations, to compare graphs


@dataclass(frozen=True)
class StructureOptions:
    """How much to spend on learning the graph.

    Parameters
    ----------
    chains
        Markov chains. At least two are needed to see that they disagree.
    sweeps
        Sweeps of each chain in a batch of samples; the burn-in has half as many.
    moves_per_sweep
        Moves between graphs in a sweep. There are half as many updates of all variances, each after Gibbs steps for
        doubtful scopes.
    max_batches
        The most batches while R-hat is above 1.1.
    max_work
        Operations in the factorisations of all batches but the first: with many observations it allows fewer batches.
    component_steps
        Steps of the variance components, each over all scopes.
    rounds
        The most rounds that add interactions to the graph from which the chains start.
    """

    chains: int = 3
    sweeps: int = 12
    moves_per_sweep: int = 10
    max_batches: int = 3
    max_work: float = 4e10
    component_steps: int = 10
    rounds: int = 6

    def __post_init__(self) -> None:
        if isinstance(self.max_work, bool) or not isinstance(self.max_work, (int, float)) or not self.max_work >= 0:
            raise OptionError(f"StructureOptions needs max_work >= 0, got {self.max_work!r}")
        for field in fields(self):
            if field.name == "max_work":
                continue
            given = getattr(self, field.name)
            if isinstance(given, bool) or not isinstance(given, (int, np.integer)) or given < 1:
                raise OptionError(f"StructureOptions needs {field.name} >= 1 (a whole number), got {given!r}")
        if self.sweeps * self.moves_per_sweep < 4:
            raise OptionError("StructureOptions needs at least 4 moves in a batch, for the diagnostics")


@dataclass(frozen=True, eq=False)
class StructurePosterior:
    """The samples of the chains, and summaries of them."""

    samples: tuple[ScopeSet, ...]
    pair_probabilities: Array  # (d, d); pairs that no sample holds are ranked by their gains
    scope_probabilities: dict[Scope, float]
    graphs: tuple[FactorGraph, ...]  # the distinct graphs of a few samples, for the acquisition to average
    weights: Array  # of these graphs, summing to 1
    convergence: Convergence | None  # None if there was nothing to learn
    map_graph: FactorGraph  # the best graph found: where the chains started, or better

    @property
    def converged(self) -> bool:
        """Whether the chains agree; also True if there was nothing to learn."""
        return self.convergence is None or self.convergence.converged


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
) -> StructurePosterior:
    """Sample factor graphs for standardised ``data``; the result is deterministic given the state of ``rng``."""
    options = StructureOptions() if options is None else options
    domains = (None,) * data.dim if domains is None else domains
    if prior.max_size == 1:
        alone = FactorGraph.singletons(data.dim)
        nothing = np.zeros((data.dim, data.dim))
        return StructurePosterior((frozenset(),), nothing, {}, (alone,), np.ones(1), None, alone)
    fit_options: dict[str, Any] = {"kernel": kernel, "domains": domains, "noise": noise, "rough": False}
    solutions = map_graphs(data, prior, steps=options.component_steps, rounds=options.rounds, fit_options=fit_options)
    population = Population(solutions, data, prior, rng, options, free_noise=noise is None)
    population.burn_in()
    for _ in range(MAX_RESTARTS):
        better = population.improvement()
        if better is None:
            break
        again = Solution(population.start.singles, dict(better[0]), better[1], -np.inf, population.known)
        again = refitted(again, data, prior, fit_options)
        if again.log_posterior <= population.start.log_posterior:
            break
        solutions = improved([*solutions, again], data, prior, rounds=options.rounds, fit_options=fit_options)
        population = Population(solutions, data, prior, rng, options, free_noise=noise is None)
        population.burn_in()
    convergence = population.sample()
    drawn = [sample for trace in population.used() for sample in trace.samples]
    graphs, weights = _thinned_graphs(drawn, data.dim, samples)
    return StructurePosterior(
        tuple(drawn),
        _smoothed(pair_probabilities(data.dim, drawn), len(drawn), population.pair_odds),
        _scope_probabilities(drawn),
        graphs,
        weights,
        convergence,
        interaction_graph(data.dim, population.best),
    )


@dataclass(frozen=True, eq=False)
class Doubtful:
    """Scopes, and cumulative probabilities of drawing them."""

    scopes: tuple[Scope, ...]
    cumulative: Array
    count: int  # scopes in a draw

    @classmethod
    def of(cls, scopes: Sequence[Scope], probabilities: Array) -> Doubtful:
        """The more doubtful a scope, the more often it is drawn; the more of them are doubtful, the more are drawn."""
        doubts = np.sqrt(probabilities * (1 - probabilities))
        weights = doubts + MIN_DOUBT
        count = int(np.clip(np.ceil(4 * (doubts**2).sum()), 1, MAX_SCOPE_UPDATES)) if len(scopes) else 0
        return cls(tuple(scopes), np.cumsum(weights / weights.sum()), count)

    def draw(self, rng: np.random.Generator) -> list[Scope]:
        """Some scopes, with replacement."""
        last = len(self.scopes) - 1
        return [self.scopes[min(int(at), last)] for at in np.searchsorted(self.cumulative, rng.random(self.count))]


class Population:
    """Chains at the same hyperparameters, those of the last solution, from different starts."""

    def __init__(
        self,
        solutions: Sequence[Solution],
        data: Observations,
        prior: GraphPrior,
        rng: np.random.Generator,
        options: StructureOptions,
        *,
        free_noise: bool,
    ) -> None:
        self.options = options
        self.prior = prior
        self.start = solutions[-1]
        self.known = {**self.start.candidates, **self.start.variances}
        model = with_interactions(self.start.singles, self.start.variances, self.start.noise)
        gains = evidence_gains(model, data, prior.max_size)
        distribution = proposal_distribution(gains, self.start.variances)
        self.pair_odds = gains.pair_probabilities(prior)
        self.promising = gains.largest(min(2 * data.dim, MAX_PROMISING))
        self.sampler = GraphSampler(prior, scope_distribution=distribution)
        self.target = EvidenceTarget(self.start.singles, data, typical=self.known, free_noise=free_noise)
        self.update = ScopeUpdate(self.target, prior)
        self.rngs = [np.random.default_rng(seed) for seed in rng.integers(2**63, size=options.chains)]
        starts = _dispersed(solutions)
        self.states = [self._state(starts[c % len(starts)]) for c in range(options.chains)]
        self.laplace = self.target.laplace(self.rngs[0], self.states[0].payload)
        self.start_value = self._graph_value(self.states[0].payload)
        self.visited: Counter[ScopeSet] = Counter()
        self.doubtful = self._doubtful({})
        self.traces: list[Trace] = []
        self.shortfalls: list[float] = []
        self.best: Collection[Scope] = self.start.variances

    def burn_in(self) -> None:
        """Sweeps before which every chain tries what another one has and it has not, and the other way round."""
        for _ in range((self.options.sweeps + 1) // 2):
            for c, rng in enumerate(self.rngs):
                other = (c + 1 + int(rng.random() * (len(self.rngs) - 1))) % len(self.rngs)
                differing = sorted(self.states[other].interactions ^ self.states[c].interactions)
                for k in rng.permutation(len(differing)):
                    self.states[c] = self.update(rng, self.states[c], differing[k])
                self.states[c], trace = self._sweep(rng, self.states[c], self.doubtful)
                self.visited.update(trace.samples)
        self._adapt()

    def _adapt(self) -> None:
        """Fix the proposals for sampling: draws around what the chains have, how often a scope gets a Gibbs step."""
        found = {scope: s for state in self.states for scope, s in state.payload.variances.items()}
        self.target.typical = {**self.known, **found}
        visits: Counter[Scope] = Counter()
        for graph, times in self.visited.items():
            visits.update(dict.fromkeys(graph, times))
        total = self.visited.total()
        often = {scope: times / total for scope, times in visits.items() if times >= MIN_VISITS * total}
        self.doubtful = self._doubtful(often)

    def _doubtful(self, visits: Mapping[Scope, float]) -> Doubtful:
        """Scopes with large gains or visits, weighed by how doubtful they are: by their conditional probabilities at
        the start, averaged with ``visits``."""
        scopes = sorted({*self.promising, *self.start.variances, *visits})
        p = np.array([self.update.probability(self.states[0], scope) for scope in scopes])
        if visits:
            p = 0.5 * (p + np.array([visits.get(scope, 0.0) for scope in scopes]))
        return Doubtful.of(scopes, p)

    def improvement(self) -> tuple[Mapping[Scope, float], float] | None:
        """The variances and the noise of a chain's graph that is better than the start; None if there is none."""
        found = [self._fitted(state.payload.variances) for state in self.states if state.interactions != self._origin]
        best = max(found, key=self._graph_value, default=None)
        if best is None or self._graph_value(best) < self.start_value + MIN_GAIN:
            return None
        return best.variances, best.noise

    def sample(self) -> Convergence:
        """Batches of sweeps until the chains agree; of several batches, the second half is used."""
        traces: list[list[Trace]] = [[] for _ in self.rngs]
        for batch in range(self._affordable_batches()):
            for c, rng in enumerate(self.rngs):
                for _ in range(self.options.sweeps):
                    self.states[c], trace = self._sweep(rng, self.states[c], self.doubtful)
                    traces[c].append(trace)
            self.traces = [_joined(parts, skipped=len(parts) // 2 if batch else 0) for parts in traces]
            convergence = diagnose(self.traces)
            if convergence.rhat_ok:
                break
        self._compare()
        return diagnose(self.traces, shortfall=min(self.shortfalls))

    def _affordable_batches(self) -> int:
        sweep = 2 * self.options.moves_per_sweep * len(self.target.data) ** 3 / 3
        more = self.options.max_work / (len(self.rngs) * self.options.sweeps * sweep)
        return min(self.options.max_batches, 1 + int(min(more, 1e6)))

    def used(self) -> list[Trace]:
        """The traces of the chains that are not worse than the start; of all, if none is."""
        good = [trace for trace, short in zip(self.traces, self.shortfalls, strict=True) if short <= MAX_SHORTFALL]
        return good or self.traces

    @property
    def _origin(self) -> ScopeSet:
        return frozenset(self.start.variances)

    def _compare(self) -> None:
        """How much worse the best graph of each chain is than the start, all with MAP variances."""
        best = self.start_value
        for trace in self.traces:
            graph = trace.samples[int(np.argmax(trace.log_posteriors))]
            if graph == self._origin:
                self.shortfalls.append(0.0)
                continue
            value = self._graph_value(self._fitted({scope: self.known.get(scope, VARIANCE_MEDIAN) for scope in graph}))
            self.shortfalls.append(self.start_value - value)
            if value > best:
                best, self.best = value, graph

    def _fitted(self, variances: Mapping[Scope, float]) -> Covariance:
        return self.target.fit_variances(variances, self.start.noise, _FIT_VARIANCES)

    def _graph_value(self, payload: Covariance) -> float:
        """The log posterior of a graph with MAP variances."""
        value = self.target.evaluate(payload.variances, payload.noise)[0]
        return value + graph_log_prior(self.prior, payload.variances)

    def _sweep(self, rng: np.random.Generator, state: State, scopes: Doubtful) -> tuple[State, Trace]:
        """Moves of any kind, Gibbs steps for doubtful scopes, and updates of all variances at once."""
        state, trace = self.sampler.run(rng, state, self.target, self.options.moves_per_sweep)
        samples, values = list(trace.samples), trace.log_posteriors.tolist()
        for _ in range((self.options.moves_per_sweep + 1) // 2):
            for scope in scopes.draw(rng):
                state = self.update(rng, state, scope)
            state = self.target.update_variances(rng, state, self.laplace)
            samples.append(state.interactions)
            values.append(state.log_posterior)
        return state, Trace(tuple(samples), np.array(values))

    def _state(self, variances: Mapping[Scope, float]) -> State:
        payload = self._fitted(variances)
        value = self.target.evaluate(payload.variances, payload.noise)[0]
        index = ScopeIndex.of(self.prior, variances)
        return State(index, self.prior.log_density(index.scopes), value, payload)


def _dispersed(solutions: Sequence[Solution]) -> list[dict[Scope, float]]:
    """The starts of the chains: the last solution, none of it, its stronger half, and the first solution."""
    first, last = solutions[0], solutions[-1]
    ordered = sorted(last.variances.items(), key=lambda item: (-item[1], item[0]))
    return [dict(last.variances), {}, dict(ordered[: (len(ordered) + 1) // 2]), dict(first.variances)]


def _joined(parts: Sequence[Trace], *, skipped: int) -> Trace:
    used = parts[skipped:]
    samples = tuple(sample for trace in used for sample in trace.samples)
    return Trace(samples, np.concatenate([trace.log_posteriors for trace in used]))


def _thinned_graphs(drawn: Sequence[ScopeSet], dim: int, samples: int) -> tuple[tuple[FactorGraph, ...], Array]:
    """``samples`` draws evenly spaced over all chains, as distinct graphs with weights."""
    at = np.linspace(0, len(drawn) - 1, samples).round().astype(np.int64)
    counts = Counter(drawn[k] for k in at)
    return tuple(interaction_graph(dim, interactions) for interactions in counts), np.array(
        list(counts.values())
    ) / samples


def _smoothed(probabilities: Array, count: int, more: Array) -> Array:
    """The frequencies with one more sample, whose pairs have the probabilities ``more``.

    A pair that no sample holds is not impossible: the gains say which of them is most likely.
    """
    return np.asarray((count * probabilities + more) / (count + 1))


def _scope_probabilities(drawn: Sequence[ScopeSet]) -> dict[Scope, float]:
    counts = Counter(scope for sample in drawn for scope in sample)
    return {scope: count / len(drawn) for scope, count in counts.most_common()}
