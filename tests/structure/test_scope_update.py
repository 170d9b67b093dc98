"""Gibbs steps for one scope: the conditional law against quadrature of the evidence, draws against that law.

That steps leave the joint posterior as it is stands in test_evidence.py and test_learner.py.
"""

from __future__ import annotations

import numpy as np
import pytest
from scipy.special import logsumexp
from scipy.stats import kstest

from dechbo.graph import Scope
from dechbo.structure.evidence import VARIANCE_MEDIAN, VARIANCE_SPREAD
from dechbo.structure.sampler import GraphSampler
from dechbo.structure.scope_update import CELLS, ConditionalLaw, ScopeUpdate
from structure_cases import little_data

SCOPES: list[Scope] = [(0, 1), (0, 2), (1, 2)]


@pytest.mark.parametrize("present", [[], [(0, 2)], [(0, 1), (0, 2)]], ids=str)
def test_the_probability_is_that_of_the_integrated_evidence(present: list[Scope]) -> None:
    target, prior = little_data(3, free=False)
    rng = np.random.default_rng(0)
    state = GraphSampler(prior).init(rng, present, target)
    update = ScopeUpdate(target, prior)
    rest = {scope: s for scope, s in state.payload.variances.items() if scope != (0, 1)}
    logs = np.linspace(-7, 7, 281)
    densities = [target.evaluate({**rest, (0, 1): VARIANCE_MEDIAN * np.exp(log)})[0] for log in logs]
    densities -= 0.5 * (logs / VARIANCE_SPREAD) ** 2 + np.log(VARIANCE_SPREAD * np.sqrt(2 * np.pi))
    log_present = logsumexp(densities) + np.log(logs[1] - logs[0]) + prior.log_odds(2, len(rest))
    expected = 1 / (1 + np.exp(target.evaluate(rest)[0] - log_present))
    assert 0.02 < expected < 0.98  # else the test says little
    assert update.probability(state, (0, 1)) == pytest.approx(expected, abs=0.02)


def test_draws_follow_their_own_probabilities() -> None:
    """The density that the Hastings ratio uses is that of the draws, and integrates to 1."""
    rng = np.random.default_rng(1)
    weights = rng.random(CELLS) ** 3
    law = ConditionalLaw(np.log(0.3), np.log(0.7), weights / weights.sum())
    drawn = [law.draw(rng) for _ in range(4000)]
    present = np.log([s for s in drawn if s is not None])
    assert abs(len(present) / 4000 - 0.7) < 0.03
    logs = np.linspace(-15, 10, 20_001)
    density = np.exp([law.log_probability(float(np.exp(log))) for log in logs]) / 0.7
    cumulative = np.cumsum(density) * (logs[1] - logs[0])
    assert cumulative[-1] == pytest.approx(1, abs=1e-3)
    assert kstest(present, lambda x: np.interp(x, logs, cumulative)).pvalue > 1e-4
    assert law.log_probability(None) == pytest.approx(np.log(0.3))


def test_a_hopeless_scope_costs_no_factorisation(monkeypatch: pytest.MonkeyPatch) -> None:
    target, prior = little_data(3, free=False)
    rng = np.random.default_rng(2)
    state = GraphSampler(prior).init(rng, [], target)
    update = ScopeUpdate(target, prior)
    never = ConditionalLaw(0.0, -np.inf, np.full(CELLS, 1 / CELLS))
    monkeypatch.setattr(update, "conditional", lambda *_: never)
    monkeypatch.setattr(target, "propose_variances", lambda *_: pytest.fail("a factorisation"))
    assert update(rng, state, (0, 1)) is state


def test_features_are_the_largest_products() -> None:
    target, prior = little_data(3, free=False)
    update = ScopeUpdate(target, prior)
    X = target.data.X
    k = [target.reference.correlation.matrix(i, X[:, i], X[:, i]) for i in range(3)]
    for scope in [(0, 1), (0, 1, 2)]:
        whole = np.prod([k[i] for i in scope], axis=0)
        kept = update.features(scope)
        left = whole - kept @ kept.T
        assert np.linalg.eigvalsh(left).min() > -0.05 * np.trace(whole) / len(X)  # nothing is counted twice
        assert np.trace(left) < 0.5 * np.trace(whole)
        assert update.features(scope) is kept
