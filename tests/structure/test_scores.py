"""Scores against differences of the evidence and against written-out sums; what is planted is what is promising."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations

import numpy as np
import pytest
from numpy.testing import assert_allclose
from numpy.typing import NDArray

from dechbo.data.observations import Observations
from dechbo.gp import AdditiveGP, Hyperparameters, fit
from dechbo.gp.centring import Domain
from dechbo.graph import FactorGraph, Scope
from dechbo.structure import scores
from dechbo.structure.components import ComponentGrams, Components
from dechbo.structure.scopes import interaction_graph
from dechbo.structure.scores import Scores, evidence_weights, proposal_distribution, score_scopes

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


def slopes(gp: AdditiveGP, data: Observations) -> dict[Scope, float]:
    """dlog p(y)/ds of every pair and triple, at s = 0 where it is absent."""
    d = data.dim
    everything = np.arange(d)
    like = Components.start(d, everything, everything)
    (sums,) = ComponentGrams(gp.correlation, data).contracted([evidence_weights(gp, data)], like)
    found: dict[Scope, float] = {(i, j): sums.pairs[i, j] for i, j in combinations(range(d), 2)}
    for i, j, k in combinations(range(d), 3):
        found[i, j, k] = sums.triples[j * (j - 1) // 2 + i, k]
    return found


def with_more(gp: AdditiveGP, scope: Scope, s: float) -> AdditiveGP:
    """The same model with variance ``s`` more for one scope."""
    variances = dict(zip(gp.graph.scopes, gp.hyperparameters.variances, strict=True))
    variances[scope] = variances.get(scope, 0.0) + s
    theta = Hyperparameters(gp.hyperparameters.lengthscales, list(variances.values()), gp.hyperparameters.noise)
    return AdditiveGP(FactorGraph(gp.graph.dim, tuple(variances)), theta, kernel=gp.kernels, domains=gp.domains)


def slope_weights(gp: AdditiveGP, data: Observations) -> Array:
    """M = alpha alpha^T - (K + noise)^-1."""
    A = gp.gram(data.X) + np.diag(gp.hyperparameters.noise + data.noise)
    alpha = np.linalg.solve(A, data.y)
    M: Array = np.outer(alpha, alpha) - np.linalg.inv(A)
    return M


def mixed_data(rng: np.random.Generator, n: int) -> Observations:
    X = np.column_stack([rng.random(n) if domain is None else rng.choice(domain, n) for domain in DOMAINS])
    y = rng.normal(size=n) + np.sin(6 * X[:, 0]) * X[:, -1]
    return Observations(X, (y - y.mean()) / y.std(), rng.uniform(0, 0.1, n))


@pytest.mark.parametrize("domains", [None, DOMAINS], ids=["plain", "centred"])
@pytest.mark.parametrize("present", [{}, {(0, 4): 0.4, (1, 2, 3): 0.2}], ids=["singletons", "interactions"])
def test_scores_are_the_slopes_of_the_evidence(domains: Sequence[Domain] | None, present: dict[Scope, float]) -> None:
    rng = np.random.default_rng(8)
    data = mixed_data(rng, 20)
    gp = model(rng, KERNELS, domains, present)
    found = slopes(gp, data)
    assert len(found) == 20
    h = 2e-5  # one-sided, of second order: a variance is at least 0
    scale = 0.5 * np.abs(slope_weights(gp, data)).sum()  # single precision, relative to what is summed
    for scope, score in found.items():
        at = [with_more(gp, scope, k * h).log_evidence(data) for k in range(3)]
        assert score == pytest.approx((-3 * at[0] + 4 * at[1] - at[2]) / (2 * h), rel=1e-4, abs=1e-6 * scale)


def robust(values: Sequence[float]) -> list[float]:
    """Distances from the median in units of 1.4826 times their median size."""
    off = np.array(values) - np.median(values)
    return list(off / (1.4826 * np.median(np.abs(off))))


def test_scores_are_robust_z_scores_of_pairs_and_of_triples() -> None:
    rng = np.random.default_rng(9)
    data = mixed_data(rng, 40)
    gp = model(rng, KERNELS, DOMAINS)
    raw, found = slopes(gp, data), score_scopes(gp, data)
    pairs, triples = ([scope for scope in raw if len(scope) == size] for size in (2, 3))
    expected = dict(zip(pairs, robust([raw[pair] for pair in pairs]), strict=True))
    for (i, j), value in expected.items():
        assert found.pairs[i, j] == found.pairs[j, i] == pytest.approx(value, abs=1e-3)
    expected = dict(zip(triples, robust([raw[triple] for triple in triples]), strict=True))
    positive = {scope for scope, value in expected.items() if value > 0}
    assert set(found.triples) == positive
    for scope, value in found.triples.items():
        assert value == pytest.approx(expected[scope], abs=1e-3)
    assert list(found.triples.values()) == sorted(found.triples.values(), reverse=True)
    assert score_scopes(gp, data, max_size=2).triples == {}


def test_the_scores_of_few_variables_where_work_is_short(monkeypatch: pytest.MonkeyPatch) -> None:
    data, gp = planted()
    monkeypatch.setattr(scores, "screen", lambda *_, **__: (np.array([0, 1, 4, 6]), np.array([2, 3, 4, 7])))
    found = score_scopes(gp, data)
    assert found.pairs[0, 1] == found.pairs.max() > 0
    assert (found.pairs[[2, 3, 5, 7]] == 0).all()
    assert_allclose(found.pairs, found.pairs.T)
    assert next(iter(found.triples)) == (2, 3, 4)
    assert all({*triple} <= {2, 3, 4, 7} for triple in found.triples)
    law = proposal_distribution(found)
    assert min(law.probability(scope) for size in (2, 3) for scope in combinations(range(8), size)) > 0


def planted() -> tuple[Observations, AdditiveGP]:
    """A strong pair, and a triple that shows in none of its pairs; a fitted model of singletons."""
    rng = np.random.default_rng(10)
    d, n = 8, 160
    X = rng.random((n, d))
    wave = np.sin(2 * (X - 0.5))
    y = wave.sum(axis=1) + 6 * wave[:, 0] * wave[:, 1] + 10 * wave[:, 2] * wave[:, 3] * wave[:, 4]
    data = Observations(X, (y - y.mean()) / y.std())
    return data, fit(FactorGraph.singletons(d), data, domains=(None,) * d, rough=False)


def test_a_planted_pair_and_a_planted_triple_have_the_largest_scores() -> None:
    data, gp = planted()
    found = score_scopes(gp, data)
    assert found.largest(6)[0] in [(0, 1), (2, 3, 4)]
    assert {(0, 1), (2, 3, 4)} <= set(found.largest(6))
    assert {len(scope) for scope in score_scopes(gp, data, max_size=2).largest(100)} == {2}
    law = proposal_distribution(found, [(5, 6, 7)])
    assert law.probability((2, 3, 4)) > 10 * law.probability((2, 3, 5))
    assert law.probability((5, 6, 7)) > 0.01


def test_the_largest_scores() -> None:
    pairs = np.zeros((4, 4))
    pairs[0, 1] = pairs[1, 0] = 3.5
    pairs[1, 2] = pairs[2, 1] = pairs[0, 3] = pairs[3, 0] = 1.0
    found = Scores(pairs, {(0, 1, 2): 2.0, (0, 1, 3): 0.5})
    ordered = [(0, 1), (0, 1, 2), (0, 3), (1, 2), (0, 1, 3), (0, 2), (1, 3), (2, 3)]
    for most in range(10):
        assert found.largest(most) == ordered[:most]


def test_known_scopes_are_proposed_as_often_as_the_best() -> None:
    pairs = np.zeros((6, 6))
    pairs[0, 1] = pairs[1, 0] = 100.0
    pairs[4, 5] = pairs[5, 4] = -100.0
    found = Scores(pairs, {(0, 1, 2): 0.5})
    law = proposal_distribution(found, [(2, 3), (3, 4, 5)])
    assert law.probability((2, 3)) == pytest.approx(law.probability((0, 1)))
    assert law.probability((4, 5)) == pytest.approx(law.probability((0, 1)))  # within a known scope
    assert law.probability((3, 4, 5)) > law.probability((0, 1, 2))
    blind = proposal_distribution(found)
    assert blind.probability((4, 5)) == pytest.approx(blind.probability((2, 3)))  # no score is worse than a typical one
    assert (pairs[4, 5], found.triples) == (-100.0, {(0, 1, 2): 0.5})


@pytest.mark.parametrize("d", [2, 3, 6])
def test_scores_are_finite_and_say_nothing_of_one_variable(d: int) -> None:
    rng = np.random.default_rng(10)
    data = Observations(np.column_stack([rng.random((15, 2)), np.zeros((15, d - 2))]), rng.normal(size=15))
    domains = (None, None, *[np.zeros(1)] * (d - 2))  # of many pairs that cannot matter, most scores are equal
    found = score_scopes(model(rng, ("matern52",) * d, domains), data)
    assert np.isfinite(found.pairs).all()
    assert (found.pairs.diagonal() == 0).all()
    law = proposal_distribution(found, [(0, 1)])
    assert sum(law.probability(pair) for pair in combinations(range(d), 2)) == pytest.approx(1)
    assert law.probability((0, 1)) >= 0.5
