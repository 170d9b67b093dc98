"""The search for a start: what is planted is found and nothing else, and no round makes it worse."""

from __future__ import annotations

import math
from itertools import combinations
from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from numpy.typing import NDArray

from dechbo.data.observations import Observations
from dechbo.gp import AdditiveGP, Hyperparameters, fit
from dechbo.graph import FactorGraph, Scope
from dechbo.structure import GraphPrior, map_graph
from dechbo.structure.components import MIN_NOISE
from dechbo.structure.evidence import VARIANCE_MEDIAN, VARIANCE_SPREAD, EvidenceTarget
from dechbo.structure.map_graph import (
    POSTERIOR_SPREAD,
    Solution,
    graph_log_prior,
    improved,
    largest_components,
    map_graphs,
    prune,
    refit,
    split_interactions,
    with_interactions,
)
from structure_cases import additive, constant, pair_and_triple, table, two_pairs

Array = NDArray[np.float64]


def options(dim: int, **more: Any) -> dict[str, Any]:
    return {"kernel": "matern52", "domains": (None,) * dim, "noise": None, "rough": False, **more}


def found(data: Observations, *, rounds: int = 6, max_size: int = 3, **more: Any) -> list[Solution]:
    prior = GraphPrior(data.dim, max_factor_size=max_size)
    solutions = map_graphs(data, prior, steps=10, rounds=rounds, fit_options=options(data.dim, **more))
    values = [solution.log_posterior for solution in solutions]
    assert values == sorted(values)
    for solution in solutions:
        check(solution, data, prior)
    return solutions


def check(solution: Solution, data: Observations, prior: GraphPrior) -> None:
    """The posterior is what it says."""
    whole = with_interactions(solution.singles, solution.variances, solution.noise)
    value = whole.log_evidence(data) + graph_log_prior(prior, solution.variances)
    assert solution.log_posterior == pytest.approx(value, abs=1e-8)
    assert_array_equal(solution.lengthscales, whole.hyperparameters.lengthscales)


# --- what is found ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(3))
def test_two_planted_pairs(seed: int) -> None:
    best = found(table(6, 80, two_pairs, seed=seed))[-1]
    assert set(best.variances) == {(0, 1), (2, 3)}
    assert best.noise < 0.1


@pytest.mark.parametrize("noise", [None, 1e-4])
def test_a_planted_pair_and_a_planted_triple(noise: float | None) -> None:
    best = found(table(7, 100, pair_and_triple), noise=noise)[-1]
    assert set(best.variances) == {(0, 1), (2, 3, 4)}
    assert noise is None or best.noise == noise


def test_triples_are_not_sought_where_they_are_not_allowed() -> None:
    best = found(table(7, 100, pair_and_triple), max_size=2)[-1]
    assert {len(scope) for scope in [*best.variances, *best.candidates]} == {2}
    assert (0, 1) in best.variances


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("noise", [0.01, 0.5])
def test_a_sum_has_no_interactions(seed: int, noise: float) -> None:
    solutions = found(table(6, 80, additive, seed=seed, noise=noise))
    assert all(solution.variances == {} for solution in solutions)


@pytest.mark.parametrize("seed", range(4))
def test_pure_noise_has_no_interactions(seed: int) -> None:
    best = found(table(6, 80, constant, seed=seed, noise=1.0))[-1]
    assert best.variances == {}
    assert best.noise > 0.3


def test_categories_and_levels() -> None:
    rng = np.random.default_rng(1)
    levels, n = np.linspace(0, 1, 4), 80
    X = np.column_stack([rng.integers(0, 3, n), rng.choice(levels, n), rng.random(n), rng.random(n)])
    y = np.array([-1.0, 0.0, 1.0])[X[:, 0].astype(int)] * np.cos(np.pi * X[:, 1]) + np.sin(3 * X[:, 2])
    data = Observations(X, (y - y.mean()) / y.std() + 0.05 * rng.standard_normal(n))
    kernels, domains = ("categorical", "matern52", "matern52", "se"), (np.arange(3.0), levels, None, None)
    assert set(found(data, kernel=kernels, domains=domains)[-1].variances) == {(0, 1)}


# --- rounds ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(2))
def test_rounds_add_what_is_missing(seed: int) -> None:
    """From singletons alone, without the components: each round is at least as good as the one before."""
    data, prior = table(6, 80, two_pairs, seed=seed, noise=0.3), GraphPrior(6)
    alone = fit(FactorGraph.singletons(6), data, **options(6))
    none = Solution(alone, {}, alone.hyperparameters.noise, alone.log_evidence(data), {})
    solutions = improved([none], data, prior, rounds=4, fit_options=options(6))
    values = [solution.log_posterior for solution in solutions]
    assert solutions[0] is none
    assert values == sorted(values)
    assert values[-1] > values[0] + 5
    assert {(0, 1), (2, 3)} <= set(solutions[-1].variances)
    assert improved([none], data, prior, rounds=0, fit_options=options(6)) == [none]
    for solution in solutions:
        check(solution, data, prior)


def test_a_worse_graph_is_not_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    data, prior = table(4, 40, additive), GraphPrior(4)
    (none, *_) = found(data)
    worse = Solution(none.singles, {}, none.noise, none.log_posterior - 1, {})
    monkeypatch.setattr(map_graph, "_promising", lambda *_: {(0, 1): 0.02})
    monkeypatch.setattr(map_graph, "_extended", lambda *_: worse)
    assert improved([none], data, prior, rounds=3, fit_options=options(4)) == [none]


def test_promising_scopes_are_ranked_by_the_posterior_of_the_graph_with_them() -> None:
    data, prior = table(6, 80, two_pairs), GraphPrior(6)
    alone = fit(FactorGraph.singletons(6), data, **options(6))
    none = Solution(alone, {}, alone.hyperparameters.noise, alone.log_evidence(data), {})
    promising = map_graph._promising(none, data, prior, options(6))
    assert set([*promising][:2]) == {(0, 1), (2, 3)}

    def posterior(variances: dict[Scope, float]) -> float:
        model = with_interactions(alone, variances, none.noise)
        return model.log_evidence(data) + graph_log_prior(prior, variances)

    gains = [posterior({scope: variance}) - posterior({}) for scope, variance in promising.items()]
    assert gains == sorted(gains, reverse=True)
    assert min(gains) > -map_graph.MIN_GAIN
    there = Solution(alone, {(0, 1): 0.1}, none.noise, 0.0, {})
    assert (0, 1) not in map_graph._promising(there, data, prior, options(6))


# --- pruning and the prior -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("free", [True, False], ids=["free noise", "known noise"])
def test_useless_scopes_are_removed_and_useful_ones_stay(free: bool) -> None:
    data, prior = table(6, 80, two_pairs), GraphPrior(6)
    singles = found(data)[-1].singles
    target = EvidenceTarget(singles, data, free_noise=free)
    start = dict.fromkeys([(0, 1), (0, 5), (2, 3), (1, 4, 5), (0, 1, 2)], 0.03)
    value, kept = prune(target, prior, start, singles.hyperparameters.noise)
    assert set(kept.variances) == {(0, 1), (2, 3)}
    whole = with_interactions(singles, kept.variances, kept.noise)
    assert value == pytest.approx(whole.log_evidence(data) + graph_log_prior(prior, kept.variances), abs=1e-6)
    assert free or kept.noise == singles.hyperparameters.noise
    assert start == dict.fromkeys(start, 0.03)
    for size in (0, 1, 2, 3):  # no other graph of these scopes is better
        for scopes in combinations(start, size):
            payload = target.fit_variances(dict.fromkeys(scopes, 0.03), singles.hyperparameters.noise, 30)
            other = target.evaluate(payload.variances, payload.noise)[0] + graph_log_prior(prior, payload.variances)
            assert other <= value + (0.5 if set(scopes) == set(kept.variances) else 0)


def test_nothing_to_prune() -> None:
    data, prior = table(3, 30, additive), GraphPrior(3)
    singles = fit(FactorGraph.singletons(3), data, **options(3, noise=0.01))
    value, kept = prune(EvidenceTarget(singles, data, free_noise=False), prior, {}, 0.01)
    assert kept.variances == {}
    assert value == pytest.approx(singles.log_evidence(data), abs=1e-8)


def test_what_a_graph_has_to_pay() -> None:
    prior = GraphPrior(5)
    assert graph_log_prior(prior, {}) == 0
    variances: dict[Scope, float] = {(0, 1): 0.2, (1, 2): 0.03, (2, 3, 4): 0.001}
    expected = prior.log_density(variances)
    for s in variances.values():
        off = (math.log(s) - math.log(VARIANCE_MEDIAN)) / VARIANCE_SPREAD
        density = math.exp(-0.5 * off**2) / (math.sqrt(2 * math.pi) * VARIANCE_SPREAD)  # of log s
        expected += math.log(density) + math.log(math.sqrt(2 * math.pi) * POSTERIOR_SPREAD)
    assert graph_log_prior(prior, variances) == pytest.approx(expected, rel=1e-12)


# --- models ----------------------------------------------------------------------------------------------------------


def test_joining_and_splitting_a_model() -> None:
    rng = np.random.default_rng(0)
    theta = Hyperparameters(rng.uniform(0.2, 1, 4), rng.uniform(0.1, 1, 4), 0.02)
    kernels, domains = ("matern52", "se", "categorical", "se"), (None, None, np.arange(3.0), np.array([0.0, 0.5, 1.0]))
    singles = AdditiveGP(FactorGraph.singletons(4), theta, kernel=kernels, domains=domains)
    variances: dict[Scope, float] = {(1, 3): 0.2, (0, 1, 2): 0.3, (0, 1): 0.1}
    joined = with_interactions(singles, variances, 0.5)
    whole = dict(zip(joined.graph.scopes, joined.hyperparameters.variances.tolist(), strict=True))
    assert whole == {(0,): theta.variances[0], (1,): theta.variances[1], (2,): theta.variances[2]} | {
        (3,): theta.variances[3],
        **variances,
    }
    assert joined.hyperparameters.noise == 0.5
    again, own = split_interactions(joined)
    assert own == variances
    assert again.graph == singles.graph
    assert again.kernels == kernels
    X = np.column_stack([rng.random((6, 2)), rng.integers(0, 3, 6), rng.choice([0.0, 0.5, 1.0], 6)])
    assert_allclose(again.gram(X), singles.gram(X), rtol=1e-14)


def test_a_new_fit_is_not_worse_and_keeps_the_graph() -> None:
    data = table(4, 40, additive)
    theta = Hyperparameters(np.full(4, 0.3), np.full(5, 0.1), 0.05)
    gp = AdditiveGP(FactorGraph(4, ((0,), (1,), (2,), (3,), (0, 1))), theta, domains=(None,) * 4)
    after = refit(gp, data, options(4))
    assert after.graph == gp.graph
    assert after.log_evidence(data) > gp.log_evidence(data) + 10
    assert refit(gp, data, options(4, noise=0.01)).hyperparameters.noise == 0.01


def test_components_keep_a_given_noise() -> None:
    data = table(5, 40, two_pairs)
    lengthscales = np.full(5, 0.3)
    known = largest_components(lengthscales, data, 3, 5, options(5, noise=0.02))
    free = largest_components(lengthscales, data, 3, 5, options(5))
    exact = largest_components(lengthscales, data, 2, 5, options(5, noise=0.0))
    assert (known.noise, exact.noise) == (0.02, MIN_NOISE)
    assert free.noise not in (0.02, 0.05)
    assert {len(scope) for scope in exact.interactions(100)} == {2}
    assert set(free.interactions(2)) == {(0, 1), (2, 3)}
