"""Gains against differences of the evidence; what is planted is what is promising."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from numpy.typing import NDArray

from dechbo.data.observations import Observations
from dechbo.gp import AdditiveGP, Hyperparameters, fit
from dechbo.gp.centring import Domain
from dechbo.graph import FactorGraph, Scope
from dechbo.structure import GraphPrior, gains
from dechbo.structure.gains import VARIANCES, Gains, eigenfunctions, evidence_gains, proposal_distribution
from dechbo.structure.scopes import interaction_graph

Array = NDArray[np.float64]

KERNELS = ("matern52", "se", "categorical", "matern52", "se")
DOMAINS = (None, None, np.arange(3.0), np.array([0.0, 0.3, 0.9, 1.0]), None)


def model(
    rng: np.random.Generator,
    kernels: Sequence[str],
    domains: Sequence[Domain] | None,
    present: dict[Scope, float] | None = None,
    noise: float = 0.05,
) -> AdditiveGP:
    present = present or {}
    d = len(kernels)
    graph = interaction_graph(d, present)
    own = [present[scope] for scope in graph.scopes[d:]]
    theta = Hyperparameters(rng.uniform(0.2, 1.5, d), np.concatenate([rng.uniform(0.05, 0.3, d), own]), noise)
    return AdditiveGP(graph, theta, kernel=kernels, domains=domains)


def with_more(gp: AdditiveGP, scope: Scope, s: float) -> AdditiveGP:
    """The same model with variance ``s`` more for one scope."""
    variances = dict(zip(gp.graph.scopes, gp.hyperparameters.variances, strict=True))
    variances[scope] = variances.get(scope, 0.0) + s
    theta = Hyperparameters(gp.hyperparameters.lengthscales, list(variances.values()), gp.hyperparameters.noise)
    return AdditiveGP(FactorGraph(gp.graph.dim, tuple(variances)), theta, kernel=gp.kernels, domains=gp.domains)


def mixed_data(rng: np.random.Generator, n: int) -> Observations:
    X = np.column_stack([rng.random(n) if domain is None else rng.choice(domain, n) for domain in DOMAINS])
    y = rng.normal(size=n) + np.sin(6 * X[:, 0]) * X[:, -1]
    return Observations(X, (y - y.mean()) / y.std(), rng.uniform(0, 0.1, n))


def test_all_eigenfunctions_together_are_the_kernel() -> None:
    rng = np.random.default_rng(7)
    data, gp = mixed_data(rng, 25), model(rng, KERNELS, DOMAINS)
    features = eigenfunctions(gp.correlation, data.X, 16).astype(np.float64)
    for i in range(5):
        x = data.X[:, i]
        assert_allclose(features[i].T @ features[i], gp.correlation.matrix(i, x, x), atol=0.02)
    first = eigenfunctions(gp.correlation, data.X, 2)
    assert_array_equal(first, features[:, :2].astype(np.float32))  # the largest first
    sizes = np.square(features).mean(axis=2)
    assert (sizes[:, 0] > 0.9 * sizes[:, 1]).all()


@pytest.mark.parametrize("present", [{}, {(0, 4): 0.4, (1, 2, 3): 0.2}], ids=["singletons", "interactions"])
def test_gains_are_differences_of_the_evidence(present: dict[Scope, float]) -> None:
    """With smooth kernels few eigenfunctions are enough; the difference is taken at the reported variance and is no
    smaller at any other."""
    rng = np.random.default_rng(8)
    data = mixed_data(rng, 40)
    gp = model(rng, KERNELS, DOMAINS, present)
    theta = gp.hyperparameters
    gp = AdditiveGP(gp.graph, Hyperparameters(np.full(5, 1.5), theta.variances, 0.2), kernel=KERNELS, domains=DOMAINS)
    found = evidence_gains(gp, data)
    assert len(found.variances) >= 15  # all pairs, and triples with any gain: few enough for G itself
    before = gp.log_evidence(data)
    for scope, variance in found.variances.items():
        differences = [with_more(gp, scope, s).log_evidence(data) - before for s in VARIANCES]
        assert found.of(scope) == pytest.approx(max(0.0, max(differences)), rel=0.05, abs=0.15)
        assert with_more(gp, scope, variance).log_evidence(data) - before == pytest.approx(
            max(differences), rel=0.05, abs=0.15
        )
    assert evidence_gains(gp, data, max_size=2).triples == {}
    values = list(found.triples.values())
    assert values == sorted(values, reverse=True)


def test_an_interaction_hidden_by_small_noise_has_the_largest_gain() -> None:
    """A weak pair beside a strong one that the model knows: its slope at zero variance is like that of many others."""
    rng = np.random.default_rng(3)
    d, n = 20, 200
    X = rng.random((n, d))
    waves = np.sin(3 * (X - 0.5))
    y = waves.sum(axis=1) + 3 * waves[:, 0] * waves[:, 1] + 0.5 * waves[:, 2] * waves[:, 3]
    data = Observations(X, (y - y.mean()) / y.std())
    gp = fit(interaction_graph(d, [(0, 1)]), data, domains=(None,) * d, rough=False)
    found = evidence_gains(gp, data)
    assert found.largest(1) == [(2, 3)]
    assert found.of((2, 3)) > 10
    assert found.of(found.largest(2)[1]) < found.of((2, 3)) - 5


def test_the_gains_of_few_variables_where_work_is_short(monkeypatch: pytest.MonkeyPatch) -> None:
    data, gp = planted()
    monkeypatch.setattr(gains, "MAX_WORK", 5e5)  # pairs of ten variables, triples of five
    found = evidence_gains(gp, data)
    assert found.pairs[0, 1] == found.pairs.max() > 5
    assert_allclose(found.pairs, found.pairs.T)
    assert next(iter(found.triples)) == (2, 3, 4)
    assert len({i for triple in found.triples for i in triple}) <= 5
    law = proposal_distribution(found)
    assert min(law.probability(scope) for size in (2, 3) for scope in combinations(range(8), size)) > 0


def test_the_probability_of_one_more_scope() -> None:
    prior = GraphPrior(4)
    pairs = np.zeros((4, 4))
    pairs[0, 1] = pairs[1, 0] = 5.0
    found = Gains(pairs, {(0, 1, 2): 4.0}, {}).pair_probabilities(prior)
    alone, both = np.exp(prior.log_odds(2)), np.exp(5.0 + prior.log_odds(2)) + np.exp(4.0 + prior.log_odds(3))
    within = alone + np.exp(4.0 + prior.log_odds(3))
    assert found[0, 1] == found[1, 0] == pytest.approx(both / (1 + both))
    assert found[1, 2] == pytest.approx(within / (1 + within))
    assert found[0, 3] == pytest.approx(alone / (1 + alone))
    assert (found.diagonal() == 0).all()
    pairs[0, 1] = pairs[1, 0] = 1e4
    assert Gains(pairs, {}, {}).pair_probabilities(prior)[0, 1] == pytest.approx(1.0)


def planted() -> tuple[Observations, AdditiveGP]:
    """A strong pair, and a triple that shows in none of its pairs; a fitted model of singletons."""
    rng = np.random.default_rng(10)
    d, n = 8, 160
    X = rng.random((n, d))
    wave = np.sin(2 * (X - 0.5))
    y = wave.sum(axis=1) + 6 * wave[:, 0] * wave[:, 1] + 10 * wave[:, 2] * wave[:, 3] * wave[:, 4]
    data = Observations(X, (y - y.mean()) / y.std())
    return data, fit(FactorGraph.singletons(d), data, domains=(None,) * d, rough=False)


def test_a_planted_pair_and_a_planted_triple_have_the_largest_gains() -> None:
    data, gp = planted()
    found = evidence_gains(gp, data)
    assert found.largest(6)[0] in [(0, 1), (2, 3, 4)]
    assert {(0, 1), (2, 3, 4)} <= set(found.largest(6))
    assert {len(scope) for scope in evidence_gains(gp, data, max_size=2).largest(100)} == {2}
    law = proposal_distribution(found, [(5, 6, 7)])
    assert law.probability((2, 3, 4)) > 10 * law.probability((2, 3, 5))
    assert law.probability((5, 6, 7)) > 0.01


def test_the_largest_gains() -> None:
    pairs = np.zeros((4, 4))
    pairs[0, 1] = pairs[1, 0] = 3.5
    pairs[1, 2] = pairs[2, 1] = pairs[0, 3] = pairs[3, 0] = 1.0
    found = Gains(pairs, {(0, 1, 2): 2.0, (0, 1, 3): 0.5}, {})
    ordered = [(0, 1), (0, 1, 2), (0, 3), (1, 2), (0, 1, 3), (0, 2), (1, 3), (2, 3)]
    for most in range(10):
        assert found.largest(most) == ordered[:most]


def test_known_scopes_are_proposed_as_often_as_the_best() -> None:
    pairs = np.zeros((6, 6))
    pairs[0, 1] = pairs[1, 0] = 100.0
    pairs[4, 5] = pairs[5, 4] = -100.0
    found = Gains(pairs, {(0, 1, 2): 0.5}, {})
    law = proposal_distribution(found, [(2, 3), (3, 4, 5)])
    assert law.probability((2, 3)) == pytest.approx(law.probability((0, 1)))
    assert law.probability((4, 5)) == pytest.approx(law.probability((0, 1)))  # within a known scope
    assert law.probability((3, 4, 5)) > law.probability((0, 1, 2))
    blind = proposal_distribution(found)
    assert blind.probability((4, 5)) == pytest.approx(blind.probability((2, 3)))  # no gain is worse than none
    assert (pairs[4, 5], found.triples) == (-100.0, {(0, 1, 2): 0.5})


@pytest.mark.parametrize("d", [2, 3, 6])
def test_gains_are_finite_and_say_nothing_of_one_variable(d: int) -> None:
    rng = np.random.default_rng(10)
    data = Observations(np.column_stack([rng.random((15, 2)), np.zeros((15, d - 2))]), rng.normal(size=15))
    domains = (None, None, *[np.zeros(1)] * (d - 2))  # of many pairs that cannot matter, most gains are 0
    found = evidence_gains(model(rng, ("matern52",) * d, domains), data)
    assert np.isfinite(found.pairs).all()
    assert (found.pairs.diagonal() == 0).all()
    law = proposal_distribution(found, [(0, 1)])
    assert sum(law.probability(pair) for pair in combinations(range(d), 2)) == pytest.approx(1)
    assert law.probability((0, 1)) >= 0.5
