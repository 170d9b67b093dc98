"""Learning the graph: what is there is found, what is not there is not, and odd tables work."""

from __future__ import annotations

from itertools import combinations
from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_array_equal
from numpy.typing import NDArray

from dechbo.data.observations import Observations
from dechbo.errors import OptionError
from dechbo.gp import fit
from dechbo.graph import FactorGraph, Scope
from dechbo.structure import GraphPrior, StructureOptions, StructurePosterior, diagnostics, learn_structure, learner
from dechbo.structure.diagnostics import MAX_RHAT, MAX_SHORTFALL, pair_probabilities
from dechbo.structure.evidence import Covariance
from dechbo.structure.gains import evidence_gains
from dechbo.structure.learner import MAX_SCOPE_UPDATES, MIN_DOUBT, Doubtful, Population
from dechbo.structure.map_graph import Solution, graph_log_prior, map_graphs, with_interactions
from dechbo.structure.sampler import State, Trace
from structure_cases import Integrated, additive, constant, little_data, table, two_pairs

Array = NDArray[np.float64]

LITTLE = StructureOptions(chains=2, sweeps=5, rounds=2)


def check(learned: StructurePosterior, dim: int) -> None:
    probabilities = learned.pair_probabilities
    assert probabilities.shape == (dim, dim)
    assert_array_equal(probabilities, probabilities.T)
    assert ((probabilities >= 0) & (probabilities <= 1)).all()
    assert learned.weights.sum() == pytest.approx(1)
    assert len(learned.weights) == len(learned.graphs)
    interactions = [frozenset(graph.scopes[dim:]) for graph in learned.graphs]
    assert len(set(interactions)) == len(interactions)
    assert set(interactions) <= set(learned.samples)
    for graph in learned.graphs:
        assert graph.scopes[:dim] == tuple((i,) for i in range(dim))
    assert learned.map_graph.scopes[:dim] == tuple((i,) for i in range(dim))
    for scope, probability in learned.scope_probabilities.items():
        assert probability == pytest.approx(np.mean([scope in sample for sample in learned.samples]))


def test_two_strong_pairs_are_found_and_nothing_else() -> None:
    learned = learn_structure(table(6, 80, two_pairs), GraphPrior(6), np.random.default_rng(0))
    check(learned, 6)
    for i, j in combinations(range(6), 2):
        if (i, j) in [(0, 1), (2, 3)]:
            assert learned.pair_probabilities[i, j] > 0.9
        else:
            assert learned.pair_probabilities[i, j] < 0.5
    assert learned.scope_probabilities[0, 1] > 0.9
    assert learned.map_graph.scopes[6:] == ((0, 1), (2, 3))
    assert learned.convergence is not None
    assert learned.convergence.shortfall <= MAX_SHORTFALL
    assert len(learned.samples) % (3 * 15) == 0  # whole sweeps of three chains


@pytest.mark.parametrize("seed", range(3))
def test_a_sum_has_no_interactions(seed: int) -> None:
    learned = learn_structure(table(6, 80, additive, seed=seed), GraphPrior(6), np.random.default_rng(seed))
    check(learned, 6)
    assert learned.pair_probabilities.max() < 0.5
    assert learned.map_graph == FactorGraph.singletons(6)


@pytest.mark.parametrize("seed", range(4))
def test_pure_noise_has_no_interactions(seed: int) -> None:
    data = table(6, 80, constant, seed=seed, noise=1.0)
    learned = learn_structure(data, GraphPrior(6), np.random.default_rng(seed))
    assert learned.pair_probabilities.max() < 0.5


def test_a_constant_has_no_interactions() -> None:
    learned = learn_structure(table(5, 30, constant, noise=0.0), GraphPrior(5), np.random.default_rng(0))
    check(learned, 5)
    assert learned.pair_probabilities.max() < 0.5


def test_the_same_seed_gives_the_same_answer() -> None:
    data = table(5, 40, two_pairs, noise=0.3)

    def answer(seed: int) -> StructurePosterior:
        return learn_structure(data, GraphPrior(5), np.random.default_rng(seed), options=LITTLE)

    a, b = answer(3), answer(3)
    assert a.samples == b.samples
    assert_array_equal(a.weights, b.weights)
    assert a.graphs == b.graphs
    assert a.samples != answer(4).samples


@pytest.mark.parametrize("largest", [1, 3])
def test_one_variable_or_factors_of_one_leave_nothing_to_learn(largest: int) -> None:
    dim = 5 if largest == 1 else 1
    learned = learn_structure(
        table(5, 30, two_pairs) if dim == 5 else table(1, 15, additive),
        GraphPrior(dim, max_factor_size=largest),
        np.random.default_rng(0),
        options=LITTLE,
    )
    check(learned, dim)
    assert learned.convergence is None
    assert learned.converged
    assert learned.samples == (frozenset(),)
    assert_array_equal(learned.weights, [1.0])


def test_two_variables() -> None:
    learned = learn_structure(
        table(2, 40, lambda X: np.sin(6 * X[:, 0]) * np.sin(6 * X[:, 1])), GraphPrior(2), np.random.default_rng(0)
    )
    check(learned, 2)
    assert learned.pair_probabilities[0, 1] > 0.9


def test_discrete_and_categorical_variables() -> None:
    rng = np.random.default_rng(1)
    levels, n = np.linspace(0, 1, 4), 80
    X = np.column_stack([rng.integers(0, 3, n), rng.choice(levels, n), rng.random(n), rng.random(n)])
    y = np.array([-1.0, 0.0, 1.0])[X[:, 0].astype(int)] * np.cos(np.pi * X[:, 1]) + np.sin(3 * X[:, 2])
    data = Observations(X, (y - y.mean()) / y.std() + 0.05 * rng.standard_normal(n))
    learned = learn_structure(
        data,
        GraphPrior(4),
        rng,
        kernel=("categorical", "matern52", "matern52", "se"),
        domains=(np.arange(3.0), levels, None, None),
    )
    check(learned, 4)
    found = learned.pair_probabilities
    assert found[0, 1] > 0.9
    found[0, 1] = found[1, 0] = 0
    assert found.max() < 0.5


@pytest.mark.parametrize(
    "options",
    [{"noise": 0.0, "kernel": "se"}, {"noise": 0.01}, {"samples": 1}, {"samples": 20}],
    ids=str,
)
def test_options(options: dict[str, Any]) -> None:
    learned = learn_structure(
        table(4, 40, additive, noise=0.0), GraphPrior(4), np.random.default_rng(0), options=LITTLE, **options
    )
    check(learned, 4)
    assert len(learned.graphs) <= options.get("samples", 3)


def test_four_chains_agree() -> None:
    def function(X: Array) -> Array:
        waves = np.sin(2 * np.pi * X[:, :2]).prod(axis=1) + np.cos(np.pi * X[:, [1, 3]]).prod(axis=1)
        return np.asarray(1.5 * waves + additive(X))

    options = StructureOptions(chains=4, max_batches=12)
    learned = learn_structure(table(8, 60, function), GraphPrior(8), np.random.default_rng(0), options=options)
    assert learned.convergence is not None
    assert learned.convergence.rhat < MAX_RHAT
    assert learned.convergence.shortfall <= MAX_SHORTFALL
    assert learned.converged
    assert learned.pair_probabilities[0, 1] > 0.9
    assert learned.pair_probabilities[1, 3] > 0.9


@pytest.mark.parametrize(
    "bad",
    [
        {"chains": 0},
        {"moves_per_sweep": 0},
        {"sweeps": 0},
        {"max_batches": 0},
        {"component_steps": 0},
        {"rounds": 0},
        {"rounds": 1.5},
        {"max_work": -1.0},
        {"max_work": np.nan},
        {"max_work": True},
        {"max_work": "much"},
        {"chains": True},
        {"sweeps": 3, "moves_per_sweep": 1},
    ],
    ids=str,
)
def test_bad_options(bad: dict[str, Any]) -> None:
    with pytest.raises(OptionError, match="StructureOptions needs"):
        StructureOptions(**bad)


def test_the_smallest_options() -> None:
    learned = learn_structure(
        table(3, 10, additive),
        GraphPrior(3),
        np.random.default_rng(0),
        options=StructureOptions(1, sweeps=4, moves_per_sweep=1, max_batches=1, component_steps=1, rounds=1),
    )
    check(learned, 3)
    assert len(learned.samples) == 8  # in each sweep a structure move and an update


# --- the law of the chains -------------------------------------------------------------------------------------------

PAIRS: list[Scope] = [(0, 1), (0, 2), (1, 2)]


def little_population(dim: int, *, free: bool) -> tuple[Population, Integrated]:
    """Chains on few observations, and the exact posterior of graphs, variances and noise."""
    target, prior = little_data(dim, free=free)
    scopes = PAIRS[: 1 if dim == 2 else 3]
    exact = Integrated(target, prior, scopes)
    start = Solution(target.reference, {(0, 1): 0.3}, 0.2, 0.0, {scopes[-1]: 0.1})
    options = StructureOptions(moves_per_sweep=4)
    rng = np.random.default_rng(3)
    return Population([start], target.data, prior, rng, options, free_noise=free), exact


@pytest.mark.parametrize(("dim", "free"), [(2, True), (3, False)])
def test_sweeps_leave_the_joint_posterior_as_it_is(dim: int, free: bool) -> None:
    """Moves, Gibbs steps and updates together, against quadrature; 40 batches, within 5 standard errors."""
    population, exact = little_population(dim, free=free)
    population.burn_in()
    rng, state = population.rngs[0], population.states[0]
    batches, each = np.zeros((40, len(exact.graphs), 3)), 100
    for batch in batches:
        for _ in range(each):
            state, _ = population._sweep(rng, state, population.doubtful)
            batch += exact.statistics(state) / each
    assert exact.largest_error(batches) < 5


def test_doubtful_scopes_are_drawn_most_often() -> None:
    scopes: list[Scope] = [(0, 1), (0, 2), (1, 2), (0, 1, 2)]
    found = Doubtful.of(scopes, np.array([0.5, 1.0, 0.0, 0.02]))
    rng = np.random.default_rng(0)
    drawn = [scope for _ in range(2000) for scope in found.draw(rng)]
    often = [drawn.count(scope) / len(drawn) for scope in scopes]
    doubts = np.array([0.5, 0.0, 0.0, 0.14]) + MIN_DOUBT
    np.testing.assert_allclose(often, doubts / doubts.sum(), atol=0.03)
    assert found.count == 2
    assert Doubtful.of(scopes, np.array([1.0, 0.0, 0.0, 1.0])).count == 1
    assert Doubtful.of(scopes * 5, np.full(20, 0.5)).count == MAX_SCOPE_UPDATES
    assert Doubtful.of([], np.zeros(0)).draw(rng) == []


# --- the chains ------------------------------------------------------------------------------------------------------

OPTIONS: dict[str, Any] = {"kernel": "matern52", "domains": (None,) * 6, "noise": None, "rough": False}


def solutions() -> list[Solution]:
    return map_graphs(table(6, 80, two_pairs), GraphPrior(6), steps=10, rounds=2, fit_options=OPTIONS)


def chains(found: list[Solution], options: StructureOptions = LITTLE) -> Population:
    data = table(6, 80, two_pairs)
    return Population(found, data, GraphPrior(6), np.random.default_rng(0), options, free_noise=True)


def test_chains_start_apart_with_map_variances() -> None:
    found = solutions()
    population = chains(found, StructureOptions(chains=5, sweeps=5))
    strong = max(found[-1].variances.items(), key=lambda item: item[1])[0]
    both = frozenset({(0, 1), (2, 3)})
    assert [state.interactions for state in population.states] == [both, frozenset(), {strong}, frozenset(), both]
    data, prior = table(6, 80, two_pairs), GraphPrior(6)
    for state in population.states:
        model = with_interactions(found[-1].singles, state.payload.variances, state.payload.noise)
        assert state.log_likelihood == pytest.approx(model.log_evidence(data), abs=1e-6)
        assert state.log_prior == prior.log_density(state.interactions)
    assert population.start_value == pytest.approx(found[-1].log_posterior, abs=1.0)


def test_a_burn_in_from_nothing_finds_a_better_graph() -> None:
    first = solutions()[0]
    assert first.variances == {}
    population = chains([first], StructureOptions(chains=2))
    population.burn_in()
    found = population.improvement()
    assert found is not None
    assert {(0, 1), (2, 3)} <= set(found[0])
    best = chains(solutions(), StructureOptions(chains=2))
    best.burn_in()
    assert best.improvement() is None


def test_a_bad_start_is_replaced(monkeypatch: pytest.MonkeyPatch) -> None:
    data = table(6, 80, two_pairs)
    alone = fit(FactorGraph.singletons(6), data, **OPTIONS)
    none = Solution(alone, {}, alone.hyperparameters.noise, alone.log_evidence(data), {})
    monkeypatch.setattr(learner, "map_graphs", lambda *_, **__: [none])
    starts: list[frozenset[Scope]] = []

    class Recorded(Population):
        def burn_in(self) -> None:
            starts.append(frozenset(self.start.variances))
            super().burn_in()

    monkeypatch.setattr(learner, "Population", Recorded)
    learned = learn_structure(data, GraphPrior(6), np.random.default_rng(0))
    assert starts[0] == frozenset()
    assert starts[-1] == {(0, 1), (2, 3)}
    assert len(starts) <= 1 + learner.MAX_RESTARTS
    assert learned.map_graph.scopes[6:] == ((0, 1), (2, 3))
    assert learned.pair_probabilities[0, 1] > 0.9
    assert learned.pair_probabilities[2, 3] > 0.9
    assert learned.convergence is not None
    assert learned.convergence.shortfall <= MAX_SHORTFALL


def faked(population: Population, *graphs: frozenset[Scope]) -> None:
    """Chains that stay at one graph each, and at their end look at another one that is worse."""
    population.traces = [Trace((graph, graph, frozenset({(3, 4)})), np.array([0.0, 1.0, -1.0])) for graph in graphs]


def test_chains_below_the_start_are_left_out() -> None:
    population = chains(solutions())
    both, one, none = frozenset({(0, 1), (2, 3)}), frozenset({(0, 1)}), frozenset[Scope]()
    faked(population, both, one, none)
    population._compare()

    def value(payload: Covariance) -> float:
        model = with_interactions(population.start.singles, payload.variances, payload.noise)
        return model.log_evidence(population.target.data) + graph_log_prior(population.prior, payload.variances)

    assert population.shortfalls[0] == 0
    for graph, short in zip((one, none), population.shortfalls[1:], strict=True):
        fitted = population.target.fit_variances(dict.fromkeys(graph, 0.03), population.start.noise, 50)
        assert short == pytest.approx(value(population.states[0].payload) - value(fitted), abs=0.1)
        assert short > MAX_SHORTFALL
    assert population.used() == population.traces[:1]
    assert set(population.best) == both
    population.shortfalls = [MAX_SHORTFALL, MAX_SHORTFALL + 0.1, -5.0]
    assert population.used() == [population.traces[0], population.traces[2]]
    population.shortfalls = [MAX_SHORTFALL + 1] * 3
    assert population.used() == population.traces


def test_a_chain_above_the_start_has_the_best_graph() -> None:
    population = chains(solutions()[:1])
    both = frozenset({(0, 1), (2, 3)})
    faked(population, frozenset(), both, frozenset({(0, 1)}))
    population._compare()
    assert population.shortfalls[0] == 0
    assert population.shortfalls[1] < population.shortfalls[2] < 0
    assert population.best == both
    assert population.used() == population.traces


@pytest.mark.parametrize(
    ("limit", "work", "most", "batches"),
    [(np.inf, np.inf, 4, 1), (0.0, np.inf, 4, 4), (0.0, np.inf, 1, 1), (0.0, 0.0, 4, 1)],
    ids=["chains agree", "never", "never, one batch", "never, too much work"],
)
def test_sampling_goes_on_while_chains_do_not_agree(
    limit: float, work: float, most: int, batches: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(diagnostics, "MAX_RHAT", limit)
    options = StructureOptions(chains=2, sweeps=4, moves_per_sweep=6, max_batches=most, max_work=work)
    population = chains(solutions(), options)
    sweeps: list[int] = []

    def counted(rng: np.random.Generator, state: State, likely: Any) -> tuple[State, Trace]:
        sweeps.append(1)
        return Population._sweep(population, rng, state, likely)

    monkeypatch.setattr(population, "_sweep", counted)
    population.burn_in()
    assert len(sweeps) == 2 * 2
    found = population.sample()
    assert len(sweeps) == 4 + batches * 2 * 4
    used = 4 if batches == 1 else 4 * batches // 2  # the second half of several batches
    assert [len(trace.samples) for trace in population.traces] == [9 * used] * 2
    assert found.rhat_ok == found.converged == (limit > 0)
    assert found.shortfall == min(population.shortfalls) <= MAX_SHORTFALL


def test_disagreement_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(diagnostics, "MAX_RHAT", 0.0)
    options = StructureOptions(chains=2, sweeps=3, max_batches=1)
    learned = learn_structure(table(5, 40, additive), GraphPrior(5), np.random.default_rng(0), options=options)
    assert learned.convergence is not None
    assert not learned.convergence.rhat_ok
    assert not learned.converged
    check(learned, 5)


def test_pairs_that_no_sample_holds_are_ranked_by_their_gains() -> None:
    data = table(6, 80, two_pairs)
    learned = learn_structure(data, GraphPrior(6), np.random.default_rng(0), options=LITTLE)
    best = solutions()[-1]
    gains = evidence_gains(with_interactions(best.singles, best.variances, best.noise), data)
    more = gains.pair_probabilities(GraphPrior(6))
    n = len(learned.samples)
    frequencies = pair_probabilities(6, learned.samples)
    unseen = [pair for pair in combinations(range(6), 2) if frequencies[pair] == 0]
    assert len(unseen) > 5
    for pair in combinations(range(6), 2):
        assert abs(learned.pair_probabilities[pair] - frequencies[pair]) <= 1 / (n + 1)
    for pair in unseen:
        assert learned.pair_probabilities[pair] == pytest.approx(more[pair] / (n + 1))
    assert (learned.pair_probabilities.diagonal() == 0).all()
