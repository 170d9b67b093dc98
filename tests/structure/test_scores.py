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
from dechbo.structure.scopes import interaction_graph
from dechbo.structure.scores import (
    PairRows,
    Scores,
    evidence_weights,
    pair_sums,
    proposal_distribution,
    score_scopes,
    triple_sums,
)

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


def score_matrix(gp: AdditiveGP, data: Observations) -> Array:
    """dlog p(y)/ds of every absent pair at s = 0, (d, d)."""
    return pair_sums(evidence_weights(gp, data), PairRows(gp, data), data.dim)


def triple_scores(gp: AdditiveGP, data: Observations, pairs: NDArray[np.int64]) -> Array:
    """dlog p(y)/ds of every pair (n, 2) with each further variable, (n, d)."""
    return triple_sums(evidence_weights(gp, data), PairRows(gp, data), pairs, data.dim)


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
    pairs = np.array(list(combinations(range(5), 2)))
    found = {tuple(pair.tolist()): score_matrix(gp, data)[tuple(pair)] for pair in pairs}
    triples = triple_scores(gp, data, pairs)
    for row, (i, j) in enumerate(pairs.tolist()):
        found |= {(i, j, v): triples[row, v] for v in range(j + 1, 5)}
    assert len(found) == 20
    h = 2e-5  # one-sided, of second order: a variance is at least 0
    scale = 0.5 * np.abs(slope_weights(gp, data)).sum()  # single precision, relative to what is summed
    for scope, score in found.items():
        at = [with_more(gp, scope, k * h).log_evidence(data) for k in range(3)]
        assert score == pytest.approx((-3 * at[0] + 4 * at[1] - at[2]) / (2 * h), rel=1e-4, abs=1e-6 * scale)


def test_scores_in_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scores, "_CHUNK", 2**10)
    rng = np.random.default_rng(9)
    d, n = 7, 60
    data = Observations(rng.random((n, d)), rng.normal(size=n))
    gp = model(rng, ("matern52",) * d, (None,) * d)
    M = slope_weights(gp, data)
    K = np.array([gp.correlation.matrix(i, data.X[:, i], data.X[:, i]) for i in range(d)])
    expected = 0.5 * np.einsum("pq,ipq,jpq->ij", M, K, K)
    scale = 0.5 * np.abs(M).sum()  # single precision, relative to what is summed
    assert_allclose(score_matrix(gp, data), expected, atol=1e-6 * scale)
    pairs = np.array([(0, 3), (5, 6)])
    expected = 0.5 * np.einsum("pq,npq,vpq->nv", M, K[pairs[:, 0]] * K[pairs[:, 1]], K)
    assert_allclose(triple_scores(gp, data, pairs), expected, atol=1e-6 * scale)


def test_few_pairs_are_extended_where_work_is_short(monkeypatch: pytest.MonkeyPatch) -> None:
    data, gp = planted()
    monkeypatch.setattr(scores, "MAX_TRIPLE_WORK", 0.0)  # the best pair alone
    best = score_scopes(gp, data)
    assert {(0, 1)} <= {pair for triple in best.triples for pair in combinations(triple, 2)}
    assert all({0, 1} <= set(triple) for triple in best.triples)


def planted() -> tuple[Observations, AdditiveGP]:
    """A strong pair, and a triple that shows in none of its pairs; a fitted model of singletons."""
    rng = np.random.default_rng(10)
    d, n = 8, 160
    X = rng.random((n, d))
    wave = np.sin(2 * (X - 0.5))
    y = wave.sum(axis=1) + 6 * wave[:, 0] * wave[:, 1] + 10 * wave[:, 2] * wave[:, 3] * wave[:, 4]
    data = Observations(X, (y - y.mean()) / y.std())
    return data, fit(FactorGraph.singletons(d), data, domains=(None,) * d, rough=False)


def test_a_planted_pair_and_a_planted_triple_are_the_most_significant() -> None:
    data, gp = planted()
    found = score_scopes(gp, data)
    promising = [scope for _, scope in found.significant()]
    assert promising[0] in [(0, 1), (2, 3, 4)]
    assert {(0, 1), (2, 3, 4)} <= set(promising[:6])
    assert [scope for scope in score_scopes(gp, data, max_size=2).significant() if len(scope[1]) > 2] == []
    law = proposal_distribution([found], [(5, 6, 7)])
    assert law.probability((2, 3, 4)) > 10 * law.probability((2, 3, 5))
    assert law.probability((5, 6, 7)) > 0.01


@pytest.mark.parametrize("d", [2, 3, 6])
def test_scores_are_finite_and_say_nothing_of_one_variable(d: int) -> None:
    rng = np.random.default_rng(10)
    data = Observations(np.column_stack([rng.random((15, 2)), np.zeros((15, d - 2))]), rng.normal(size=15))
    domains = (None, None, *[np.zeros(1)] * (d - 2))  # of many pairs that cannot matter, most scores are equal
    found = score_scopes(model(rng, ("matern52",) * d, domains), data)
    assert np.isfinite(found.pairs).all()
    assert (found.pairs.diagonal() == 0).all()
    law = proposal_distribution([found], [(0, 1)])
    assert sum(law.probability(pair) for pair in combinations(range(d), 2)) == pytest.approx(1)
    assert law.probability((0, 1)) >= 0.5


def test_more_scopes_ask_for_higher_scores() -> None:
    pairs = np.zeros((60, 60))
    pairs[0, 1] = pairs[1, 0] = 3.5
    assert Scores(pairs[:4, :4], {}).significant() == [(3.5, (0, 1))]
    assert Scores(pairs, {}).significant() == []
