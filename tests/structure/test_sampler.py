"""The chain against enumeration: its exact transition matrix, and what it visits, at a fixed likelihood."""

from __future__ import annotations

import math
from collections.abc import Iterator
from functools import cache, cached_property
from itertools import combinations, permutations

import numpy as np
import pytest
from numpy.testing import assert_allclose
from numpy.typing import NDArray
from scipy.stats import chi2
from scipy.stats import t as t_law

from dechbo.errors import DataError, OptionError, ScopeError
from dechbo.graph import Scope
from dechbo.structure import GraphPrior
from dechbo.structure.diagnostics import effective_sample_size
from dechbo.structure.sampler import GraphSampler, State
from dechbo.structure.scope_distribution import ScopeDistribution
from dechbo.structure.scopes import ScopeIndex, ScopeSet, interaction_graph
from structure_cases import FLAT, FunctionTarget

Array = NDArray[np.float64]

RNG = np.random.default_rng(0)  # where nothing is drawn from it
FALSE_ALARM = 1e-4  # chance that a correct chain fails a test of frequencies under a fresh seed; seeds are fixed
BOTH = {"birth": 0.3, "death": 0.2}
MOVES = {
    "all": None,
    "birth, death": BOTH,
    "grow, shrink": {**BOTH, "grow": 0.3, "shrink": 0.2},
    "merge, split": {**BOTH, "merge": 0.2, "split": 0.3},
    "swap": {**BOTH, "swap": 0.5},
}


class Enumerated:
    """All states of a small problem, an arbitrary likelihood for each, and the posterior."""

    def __init__(self, dim: int, largest: int, *, informed: bool, moves: str = "all") -> None:
        rng = np.random.default_rng(1)
        self.prior = GraphPrior(dim, max_factor_size=largest, expected=3.0, size_cost=0.3)
        self.pairs = list(combinations(range(dim), 2))[:-1]  # the last pair has no weight
        self.log_weights = rng.normal(scale=1.5, size=len(self.pairs))
        scores = ScopeDistribution.from_pairs(dim, self.pairs, self.log_weights, epsilon=0.3) if informed else None
        self.sampler = GraphSampler(self.prior, scope_distribution=scores, move_probabilities=MOVES[moves])
        self.scopes = [scope for size in range(2, largest + 1) for scope in combinations(range(dim), size)]
        self.states = [
            frozenset(scope for k, scope in enumerate(self.scopes) if mask >> k & 1)
            for mask in range(2 ** len(self.scopes))
        ]
        self.indices = [ScopeIndex.of(self.prior, state) for state in self.states]
        self.number = {state: k for k, state in enumerate(self.states)}
        self.table = rng.normal(scale=0.8, size=len(self.states))
        log_posterior = self.table + [self.prior.log_density(state) for state in self.states]
        self.posterior = np.exp(log_posterior - np.logaddexp.reduce(log_posterior))

    @cached_property
    def target(self) -> FunctionTarget:
        return FunctionTarget(lambda interactions: float(self.table[self.number[interactions]]))

    @cached_property
    def transitions(self) -> Array:
        """P_ij = sum over moves of the proposal probability times min(1, Hastings ratio), from `Moves.proposal`."""
        P = np.zeros((len(self.states), len(self.states)))
        for name, removed, added in self.changes():
            if name not in self.sampler.moves.probabilities:
                continue
            for i, state in enumerate(self.states):
                if state.issuperset(removed) and state.isdisjoint(added):
                    j = self.number[state.difference(removed).union(added)]
                    proposal = self.sampler.moves.proposal(self.indices[i], name, removed, added)
                    log_target = math.log(self.posterior[j] / self.posterior[i])
                    P[i, j] += math.exp(min(proposal.log_forward, log_target + proposal.log_reverse))
        np.fill_diagonal(P, 1 - P.sum(axis=1))
        return P

    def changes(self) -> Iterator[tuple[str, tuple[Scope, ...], tuple[Scope, ...]]]:
        """(move, removed, added): all that a move can change in some state."""
        for scope in self.scopes:
            yield "birth", (), (scope,)
            yield "death", (scope,), ()
        for a, b in permutations(self.scopes, 2):
            by, growth = len({*a} ^ {*b}), len(b) - len(a)
            if name := {(1, 1): "grow", (1, -1): "shrink", (2, 0): "swap"}.get((by, growth)):
                yield name, (a,), (b,)
        for a, b in combinations(self.scopes, 2):
            union = tuple(sorted({*a, *b}))
            if {*a} & {*b} and union in self.scopes and union not in (a, b):
                yield "merge", (a, b), (union,)
                yield "split", (union,), (a, b)


enumerated = cache(Enumerated)


SIZES = [(3, 3), (4, 2), (4, 3)]


@pytest.mark.parametrize("informed", [False, True], ids=["uniform", "informed"])
@pytest.mark.parametrize(("dim", "largest", "moves"), [(3, 3, m) for m in MOVES] + [(4, 2, "all"), (4, 3, "all")])
def test_detailed_balance_and_every_state_in_reach(dim: int, largest: int, moves: str, informed: bool) -> None:
    problem = enumerated(dim, largest, informed=informed, moves=moves)
    P, posterior = problem.transitions, problem.posterior
    flow = posterior[:, None] * P
    assert_allclose(flow, flow.T, rtol=1e-12, atol=1e-16)
    assert (P.diagonal() > 0).all()  # an impossible or rejected proposal stays: aperiodic
    reach = np.eye(len(P), dtype=bool)[0]
    for _ in range(len(problem.scopes) + 1):  # births alone reach everything
        reach = reach | (P[reach] > 0).any(axis=0)
    assert reach.all()


CHAINS = [
    *((3, 3, informed, "all") for informed in (False, True)),
    (3, 3, True, "birth, death"),
    (3, 3, False, "grow, shrink"),
    (3, 3, True, "grow, shrink"),
    (3, 3, True, "merge, split"),
    (3, 3, True, "swap"),
    *((dim, largest, informed, "all") for dim, largest in SIZES[1:] for informed in (False, True)),
]


@pytest.mark.parametrize(("dim", "largest", "informed", "moves"), CHAINS)
def test_visits_match_the_enumerated_posterior(dim: int, largest: int, informed: bool, moves: str) -> None:
    """Visit frequencies are asymptotically normal around pi with covariance C / n,

    C = D Z + Z^T D − D − pi pi^T, D = diag(pi), Z = (I − P + 1 pi^T)^-1 (Kemeny and Snell), which counts the
    autocorrelation of the chain exactly. Total variation V is a function of these normals: its mean is at most
    ½ Σ sqrt(2 C_ii / (π n)), and it exceeds its mean by sqrt(2 L log(1 / FALSE_ALARM)) with chance FALSE_ALARM at
    most, L = S max eigenvalue(C) / (4 n) (Gaussian concentration). Chi-square is over up to 16 groups of states.
    """
    n = 20_000
    problem = enumerated(dim, largest, informed=informed, moves=moves)
    rng = np.random.default_rng(7)
    start = problem.sampler.init(rng, problem.states[-1], problem.target)
    _, trace = problem.sampler.run(rng, start, problem.target, n)
    pi, P = problem.posterior, problem.transitions
    frequencies = np.bincount([problem.number[sample] for sample in trace.samples], minlength=len(pi)) / n

    DZ = pi[:, None] * np.linalg.inv(np.eye(len(pi)) - P + pi)
    C = DZ + DZ.T - np.diag(pi) - np.outer(pi, pi)
    mean = 0.5 * np.sqrt(2 * C.diagonal() / (np.pi * n)).sum()
    spread = len(pi) * np.linalg.norm(C, 2) / (4 * n)
    variation = 0.5 * np.abs(frequencies - pi).sum()
    assert variation < mean + math.sqrt(2 * spread * math.log(1 / FALSE_ALARM))

    order = np.random.default_rng(0).permutation(len(pi))
    label = np.minimum(16 * np.cumsum(pi[order]), 15).astype(int) if len(pi) > 16 else order
    group = np.zeros((len(pi), 16))
    group[order, label] = 1
    group = group[:, group.any(axis=0)][:, :-1]  # the last group follows from the others
    error = group.T @ (frequencies - pi)
    statistic = n * error @ np.linalg.solve(group.T @ C @ group, error)
    assert chi2.sf(statistic, len(error)) > FALSE_ALARM
    assert {move for move, counts in trace.moves.items() if counts.accepted} == (
        {m for m in problem.sampler.moves.probabilities if largest == 3 or m in {"birth", "death", "swap"}}
    )


def test_relabelling_the_variables_leaves_the_law_of_the_chain() -> None:
    problem = enumerated(4, 3, informed=True, moves="all")
    new = [2, 0, 3, 1]

    def renamed(scopes: ScopeSet) -> ScopeSet:
        return frozenset(tuple(sorted(new[i] for i in scope)) for scope in scopes)

    other = Enumerated(4, 3, informed=True)
    scores = ScopeDistribution.from_pairs(
        4, [[new[i], new[j]] for i, j in problem.pairs], problem.log_weights, epsilon=0.3
    )
    other.sampler = GraphSampler(problem.prior, scope_distribution=scores)
    image = np.array([problem.number[renamed(state)] for state in problem.states])
    other.table[image] = problem.table
    other.posterior[image] = problem.posterior
    assert_allclose(other.transitions[np.ix_(image, image)], problem.transitions, rtol=1e-12, atol=1e-15)


def number_law(prior: GraphPrior, size: int) -> Array:
    """The prior probabilities of 0, 1, 2, ... interactions of that size: all sets of so many weigh the same."""
    scopes = math.comb(prior.dim, size)
    logs = np.cumsum([0.0, *(prior.log_odds(size, n) for n in range(scopes))])
    logs += [math.log(math.comb(scopes, n)) for n in range(scopes + 1)]
    return np.asarray(np.exp(logs - np.logaddexp.reduce(logs)))


def test_the_law_of_the_number_against_enumeration() -> None:
    prior = GraphPrior(4, expected=1.3, size_cost=0.3)
    scopes = [scope for size in (2, 3) for scope in combinations(range(4), size)]
    weights = np.zeros((7, 5))
    for mask in range(2 ** len(scopes)):
        state = [scope for k, scope in enumerate(scopes) if mask >> k & 1]
        pairs = sum(len(scope) == 2 for scope in state)
        weights[pairs, len(state) - pairs] += math.exp(prior.log_density(state))
    assert_allclose(np.outer(number_law(prior, 2), number_law(prior, 3)), weights / weights.sum(), rtol=1e-10)


@pytest.mark.parametrize("toggled", [False, True], ids=["moves", "moves and toggles"])
@pytest.mark.parametrize(("dim", "expected"), [(4, 1.3), (8, 0.3)])
def test_without_data_the_chain_reproduces_the_prior(dim: int, expected: float, toggled: bool) -> None:
    """Probabilities of 0, 1, 2 and 3 interactions within 5 standard errors of the exact ones."""
    prior = GraphPrior(dim, expected=expected, size_cost=0.3)
    pairs = [(i, i + 1) for i in range(dim - 1)]
    scores = ScopeDistribution.from_pairs(dim, pairs, np.linspace(0, 3, dim - 1), epsilon=0.5)
    sampler = GraphSampler(prior, scope_distribution=scores)
    rng = np.random.default_rng(0)
    state = sampler.init(rng, [], FLAT)
    samples = []
    likely: list[Scope] = [(0, 1), (1, 2, 3), (2, 3)]
    for _ in range(20_000):
        state, _ = sampler.step(rng, state, FLAT)
        if toggled:
            state = sampler.toggle(rng, state, likely, FLAT)
        samples.append(state.interactions)
    for size in (2, 3):
        numbers = np.array([sum(len(scope) == size for scope in sample) for sample in samples])
        law = number_law(prior, size)
        for n in range(4):
            indicator = (numbers == n).astype(float)[None]
            error = math.sqrt(law[n] * (1 - law[n]) / float(effective_sample_size(indicator)))
            assert error < 0.05
            assert abs(indicator.mean() - law[n]) < 5 * error


def test_toggles_reach_the_enumerated_posterior() -> None:
    """Toggles of all scopes alone, without other moves."""
    problem = enumerated(3, 3, informed=False)
    rng = np.random.default_rng(2)
    state = problem.sampler.init(rng, [], problem.target)
    visits = np.zeros((50, len(problem.states)))
    for batch in visits:
        for _ in range(400):
            state = problem.sampler.toggle(rng, state, problem.scopes, problem.target)
            batch[problem.number[state.interactions]] += 1 / 400
    error = visits.std(axis=0, ddof=1) / math.sqrt(len(visits))
    off = np.abs(visits.mean(axis=0) - problem.posterior) / error
    assert off.max() < t_law(len(visits) - 1).isf(FALSE_ALARM / 2 / len(off))


def test_a_toggle_adds_or_removes_a_likely_scope() -> None:
    sampler, rng = GraphSampler(GraphPrior(5)), np.random.default_rng(0)
    start = sampler.init(rng, [(0, 1), (1, 2)], FLAT)
    assert sampler.toggle(rng, start, (), FLAT) is start
    likely: list[Scope] = [(0, 1), (2, 3, 4)]
    eager = FunctionTarget(lambda scopes: 50.0 * ((2, 3, 4) in scopes) - 50.0 * ((0, 1) in scopes))
    state = start
    for _ in range(20):
        state = sampler.toggle(rng, state, likely, eager)
    assert state.interactions == {(1, 2), (2, 3, 4)}
    assert state.log_likelihood == 50
    assert state.log_prior == sampler.prior.log_density(state.interactions)


class Corrected(FunctionTarget):
    """Each scope costs a nat in the correction of the proposal instead of in the likelihood."""

    def propose(
        self, rng: np.random.Generator, current: State | None, added: tuple[Scope, ...], removed: tuple[Scope, ...]
    ) -> tuple[float, None, float]:
        value, payload, _ = super().propose(rng, current, added, removed)
        return value, payload, float(len(removed) - len(added))


def test_the_targets_correction_counts_in_every_move() -> None:
    sampler = GraphSampler(GraphPrior(5, expected=3.0))
    likely: list[Scope] = [(0, 1), (1, 2), (2, 3, 4)]

    def samples(target: FunctionTarget) -> list[ScopeSet]:
        rng = np.random.default_rng(1)
        state = sampler.init(rng, [(0, 1)], target)
        seen = []
        for _ in range(1000):
            state, _ = sampler.step(rng, state, target)
            seen.append(state.interactions)
            state = sampler.toggle(rng, state, likely, target)
        return seen

    same = samples(Corrected(lambda _: 0.0))
    assert same == samples(FunctionTarget(lambda scopes: -float(len(scopes))))
    assert same != samples(FLAT)


class Summed:
    """Each scope has its own log likelihood; the payload is their sum, updated by what changed."""

    def __init__(self) -> None:
        self.calls = 0

    def propose(
        self, rng: np.random.Generator, current: State | None, added: tuple[Scope, ...], removed: tuple[Scope, ...]
    ) -> tuple[float, int, float]:
        self.calls += 1
        total = 0 if current is None else current.payload
        total = total + sum(map(sum, added)) - sum(map(sum, removed))
        return total / 8, total, 0.0


def test_a_target_with_a_payload_gives_the_same_chain_as_a_plain_function() -> None:
    sampler = GraphSampler(GraphPrior(6, max_factor_size=4, expected=4.0))
    target = Summed()
    start = sampler.init(RNG, [(3, 1), (0, 1, 2)], target)
    assert start.payload == 7
    end, trace = sampler.run(np.random.default_rng(0), start, target, 3000)
    assert end.payload == sum(map(sum, end.interactions))
    assert target.calls == 1 + sum(counts.proposed for counts in trace.moves.values())  # only proposed states

    plain = FunctionTarget(lambda interactions: sum(map(sum, interactions)) / 8)
    same, again = sampler.run(np.random.default_rng(0), sampler.init(RNG, [(1, 3), (0, 1, 2)], plain), plain, 3000)
    assert again.samples == trace.samples
    assert same.payload is None
    assert_allclose(again.log_posteriors, trace.log_posteriors, rtol=1e-14)
    assert trace.log_posteriors[-1] == end.log_posterior


def test_a_state_does_not_depend_on_the_path_to_it() -> None:
    sampler = GraphSampler(GraphPrior(6, max_factor_size=4, expected=4.0))
    target = Summed()
    end, _ = sampler.run(np.random.default_rng(3), sampler.init(RNG, [], target), target, 1000)
    fresh = sampler.init(RNG, end.interactions, target)
    assert fresh.index.scopes == end.index.scopes
    assert (fresh.log_prior, fresh.log_likelihood, fresh.payload) == (end.log_prior, end.log_likelihood, end.payload)
    assert interaction_graph(6, end.interactions).max_factor_size <= 4


def test_step_and_run_agree_and_the_counts_add_up() -> None:
    sampler = GraphSampler(GraphPrior(5, expected=3.0))
    target = Summed()
    state = start = sampler.init(RNG, [], target)
    rng = np.random.default_rng(5)
    seen, infos = [], []
    for _ in range(400):
        before = state
        state, info = sampler.step(rng, state, target)
        assert info.accepted == (state is not before)
        assert info.possible != math.isnan(info.log_ratio)
        assert info.accepted or not info.log_ratio >= 0
        seen.append(state.interactions)
        infos.append(info)
    end, trace = sampler.run(np.random.default_rng(5), start, target, 400, thin=3)
    assert end.interactions == state.interactions
    assert trace.samples == tuple(seen[2::3])
    assert len(trace.samples) == len(trace.log_posteriors) == 133
    for move, counts in trace.moves.items():
        own = [info for info in infos if info.move == move]
        assert (counts.proposed, counts.accepted, counts.impossible) == (
            sum(info.possible for info in own),
            sum(info.accepted for info in own),
            sum(not info.possible for info in own),
        )


@pytest.mark.parametrize("dim", [1, 2, 3])
def test_small_problems_run(dim: int) -> None:
    sampler = GraphSampler(GraphPrior(dim, expected=1.0))
    _, trace = sampler.run(np.random.default_rng(0), sampler.init(RNG, [], FLAT), FLAT, 2000)
    assert len(set(trace.samples)) == {1: 1, 2: 2, 3: 16}[dim]
    assert dim > 1 or all(counts.proposed == 0 for counts in trace.moves.values())


def test_minus_infinity_rejects() -> None:
    sampler = GraphSampler(GraphPrior(4))

    no_triples = FunctionTarget(lambda scopes: -math.inf if any(len(scope) == 3 for scope in scopes) else 0.0)
    _, trace = sampler.run(np.random.default_rng(0), sampler.init(RNG, [], no_triples), no_triples, 1000)
    assert {len(scope) for sample in trace.samples for scope in sample} == {2}
    with pytest.raises(DataError, match="start with a finite"):
        sampler.init(RNG, [(0, 1, 2)], no_triples)


@pytest.mark.parametrize("bad", [math.nan, math.inf])
def test_bad_likelihoods_and_options(bad: float) -> None:
    sampler = GraphSampler(GraphPrior(4))
    state = sampler.init(RNG, [], FLAT)
    rng = np.random.default_rng(0)
    with pytest.raises(DataError, match="finite, or -inf"):
        sampler.run(rng, state, FunctionTarget(lambda _: bad), 100)
    with pytest.raises(DataError, match="finite"):
        sampler.init(RNG, [], FunctionTarget(lambda _: bad))
    for options in ({"steps": -1}, {"steps": 1.5}, {"steps": 3, "thin": 0}):
        with pytest.raises(OptionError, match="whole number"):
            sampler.run(rng, state, FLAT, **options)
    with pytest.raises(ScopeError, match="2 to 3"):
        sampler.init(RNG, [(0, 1, 2, 3)], FLAT)
