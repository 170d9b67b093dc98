"""The chain's target against the evidence of whole models, its law by enumeration."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from numpy.typing import NDArray
from scipy.special import logsumexp
from scipy.stats import f, kstest, lognorm, norm, truncnorm

from dechbo.data.observations import Observations
from dechbo.errors import DataError
from dechbo.gp import AdditiveGP, Hyperparameters
from dechbo.gp.centring import Domain
from dechbo.graph import FactorGraph, Scope
from dechbo.structure import GraphPrior, evidence
from dechbo.structure.evidence import (
    MIN_NOISE,
    NOISE_MEDIAN,
    NOISE_SPREAD,
    VARIANCE_MEDIAN,
    VARIANCE_SPREAD,
    Covariance,
    EvidenceTarget,
    LaplaceApproximation,
)
from dechbo.structure.gains import evidence_gains, proposal_distribution
from dechbo.structure.sampler import GraphSampler, State, Trace
from dechbo.structure.scope_distribution import ScopeDistribution
from dechbo.structure.scope_update import ScopeUpdate
from dechbo.structure.scopes import interaction_graph
from structure_cases import Integrated, little_data

Array = NDArray[np.float64]

FALSE_ALARM = 1e-4  # chance that a correct chain fails a test of frequencies under a fresh seed; seeds are fixed
LEVELS = np.array([0.0, 0.3, 0.9, 1.0])
KERNELS = ("matern52", "se", "categorical", "matern52", "se")
DOMAINS = (None, None, np.arange(3.0), LEVELS, None)


def draw_data(rng: np.random.Generator, domains: Sequence[Domain], n: int, *, noisy: bool = False) -> Observations:
    X = np.column_stack([rng.random(n) if domain is None else rng.choice(domain, n) for domain in domains])
    y = rng.normal(size=n) + np.sin(6 * X[:, 0]) * X[:, -1]
    return Observations(X, (y - y.mean()) / y.std(), rng.uniform(0, 0.1, n) if noisy else np.zeros(n))


def singletons(
    rng: np.random.Generator, kernels: Sequence[str], domains: Sequence[Domain] | None, noise: float = 0.05
) -> AdditiveGP:
    d = len(kernels)
    theta = Hyperparameters(rng.uniform(0.2, 1.5, d), rng.uniform(0.05, 0.3, d), noise)
    return AdditiveGP(FactorGraph.singletons(d), theta, kernel=kernels, domains=domains)


def whole(reference: AdditiveGP, variances: dict[Scope, float], noise: float | None = None) -> AdditiveGP:
    """The model of the whole graph, built from nothing."""
    theta = reference.hyperparameters
    graph = interaction_graph(reference.graph.dim, variances)
    own = [variances[scope] for scope in graph.scopes[graph.dim :]]
    return AdditiveGP(
        graph,
        Hyperparameters(
            theta.lengthscales, np.concatenate([theta.variances, own]), theta.noise if noise is None else noise
        ),
        kernel=reference.kernels,
        domains=reference.domains,
    )


def check(state: State, reference: AdditiveGP, data: Observations) -> None:
    assert set(state.payload.variances) == state.interactions
    expected = whole(reference, state.payload.variances, state.payload.noise).log_evidence(data)
    assert state.log_likelihood == pytest.approx(expected, abs=1e-8)


class Fixed(EvidenceTarget):
    """Every interaction has the same, given variance: the law over graphs can be enumerated."""

    variance = 0.1

    def draw(self, rng: np.random.Generator, scope: Scope) -> float:
        return self.variance


class Flat(EvidenceTarget):
    """The data say nothing: the chain samples its prior."""

    def _value(self, payload: Covariance) -> float:
        return 0.0


# --- the value -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("noisy", [False, True], ids=["one noise", "noise of each"])
@pytest.mark.parametrize("domains", [None, DOMAINS], ids=["plain", "centred"])
def test_value_is_the_evidence_of_the_whole_graph_along_a_chain(noisy: bool, domains: Sequence[Domain] | None) -> None:
    rng = np.random.default_rng(3)
    data = draw_data(rng, DOMAINS, 18, noisy=noisy)
    reference = singletons(rng, KERNELS, domains)
    target = EvidenceTarget(reference, data, typical={(0, 1): 0.2, (0, 2, 3): 0.01})
    sampler = GraphSampler(GraphPrior(5, max_factor_size=4, expected=8.0, size_cost=0.2))
    state = sampler.init(rng, [(0, 1), (1, 2, 3)], target)
    check(state, reference, data)
    laplace = target.laplace(rng, state.payload)
    accepted = set()
    for step in range(250):
        before, K = state, state.payload.K.copy()
        variances = dict(state.payload.variances)
        state, info = sampler.step(rng, state, target)
        if info.accepted:
            accepted.add(info.move)
        if step % 10 == 9:
            state = target.update_variances(rng, state, laplace)
        if step % 10 == 4:
            state = sampler.toggle(rng, state, [(0, 1), (2, 4)], target)
        assert (before.payload.K == K).all()  # whether the proposal was accepted or not
        assert before.payload.variances == variances
        if state is not before:
            check(state, reference, data)
    assert {"birth", "death", "grow", "shrink", "swap"} <= accepted
    assert state.payload.noise != reference.hyperparameters.noise
    assert state.log_prior == pytest.approx(sampler.prior.log_density(state.interactions))


def test_given_variances() -> None:
    rng = np.random.default_rng(4)
    data = draw_data(rng, DOMAINS, 15, noisy=True)
    reference = singletons(rng, KERNELS, DOMAINS)
    target = EvidenceTarget(reference, data)
    variances = {(2, 4): 0.3, (0, 1, 3): 1.2}
    for noise in (None, 0.2, 0.05):
        value, payload = target.evaluate(variances, noise)
        assert value == pytest.approx(whole(reference, variances, noise).log_evidence(data), abs=1e-8)
        assert payload.variances == variances
        assert payload.noise == (0.05 if noise is None else noise)
    assert target.evaluate({})[0] == pytest.approx(reference.log_evidence(data), abs=1e-8)
    value, after, correction = target.propose_variances(payload, {(0, 1): 0.4}, ((2, 4),))
    assert after.variances == {(0, 1, 3): 1.2, (0, 1): 0.4}
    assert value == pytest.approx(whole(reference, dict(after.variances)).log_evidence(data), abs=1e-8)
    assert correction == 0  # variances come from their prior


def test_values_do_not_depend_on_what_is_cached() -> None:
    def values(limit: int) -> tuple[Trace, int]:
        rng = np.random.default_rng(5)
        kernels = ("matern52",) * 8
        data = draw_data(rng, (None,) * 8, 12)
        target = EvidenceTarget(singletons(rng, kernels, (None,) * 8), data, memory_limit=limit)
        sampler = GraphSampler(GraphPrior(8, max_factor_size=5, expected=10.0, size_cost=0.0))
        _, trace = sampler.run(rng, sampler.init(rng, [(0, 1, 2, 3, 4)], target), target, 200)
        return trace, len(target._cached)

    (plenty, many_cached), (little, few_cached) = values(2**29), values(0)
    assert few_cached <= 3 < many_cached
    assert little.samples == plenty.samples
    assert (little.log_posteriors == plenty.log_posteriors).all()


def test_a_reference_with_interactions_is_refused() -> None:
    rng = np.random.default_rng(6)
    data = draw_data(rng, DOMAINS, 5)
    with pytest.raises(DataError, match="singletons"):
        EvidenceTarget(whole(singletons(rng, KERNELS, DOMAINS), {(0, 1): 0.1}), data)


def test_equal_points_without_noise() -> None:
    rng = np.random.default_rng(7)
    points = rng.random((4, 2))
    data = Observations(np.vstack([points, points]), np.tile(rng.normal(size=4), 2))
    target = EvidenceTarget(singletons(rng, ("se", "se"), (None, None), noise=0.0), data)
    sampler = GraphSampler(GraphPrior(2))
    _, trace = sampler.run(rng, sampler.init(rng, [], target), target, 20)
    assert np.isfinite(trace.log_posteriors).all()


# --- the fit of the variances ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("free", [True, False], ids=["free noise", "known noise"])
def test_fitted_variances_are_where_evidence_and_prior_balance(free: bool) -> None:
    rng = np.random.default_rng(12)
    data = draw_data(rng, DOMAINS, 40, noisy=True)
    reference = singletons(rng, KERNELS, DOMAINS)
    start = {(0, 4): 0.03, (1, 2, 3): 0.03}
    before = reference.hyperparameters.noise
    fitted = EvidenceTarget(reference, data, free_noise=free).fit_variances(start, before, 100)
    variances, noise = dict(fitted.variances), fitted.noise
    assert set(variances) == set(start)
    K = whole(reference, variances).gram(data.X) + np.diag(noise + data.noise)
    assert_allclose(fitted.K, K, atol=1e-10)
    if not free:
        assert noise == reference.hyperparameters.noise

    def posterior(changed: dict[Scope, float], level: float) -> float:
        offs = [np.log(s / VARIANCE_MEDIAN) / VARIANCE_SPREAD for s in changed.values()]
        offs += [np.log(level / NOISE_MEDIAN) / NOISE_SPREAD] if free else []
        return whole(reference, changed, level).log_evidence(data) - 0.5 * float(np.square(offs).sum())

    best = posterior(variances, noise)
    assert best > posterior(start, reference.hyperparameters.noise)
    for factor in (0.8, 1.25):
        for scope in variances:
            assert posterior({**variances, scope: factor * variances[scope]}, noise) < best + 1e-6
        if free:
            assert posterior(variances, factor * noise) < best + 1e-6


# --- the law of the chain --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("informed", [False, True], ids=["blind", "informed"])
@pytest.mark.parametrize(("dim", "largest"), [(3, 3), (4, 2)])
def test_visits_match_the_enumerated_posterior_of_the_evidence(dim: int, largest: int, informed: bool) -> None:
    """Hotelling's T² of visit frequencies − posterior, over up to 9 groups of states of like probability.

    Its covariance is that of the means of 50 batches, each many autocorrelation times long, which are as good as
    independent and normal: the chance of a false alarm is about FALSE_ALARM.
    """
    rng = np.random.default_rng(11)
    n = 20
    X = rng.random((n, dim))
    y = X[:, 0] + np.sin(6 * X[:, 0]) * np.cos(3 * X[:, 1]) + 0.7 * rng.normal(size=n)
    data = Observations(X, (y - y.mean()) / y.std())
    reference = singletons(rng, ("matern52",) * dim, (None,) * dim, noise=0.3)
    scopes = [scope for size in range(2, largest + 1) for scope in combinations(range(dim), size)]
    states = [frozenset(scope for k, scope in enumerate(scopes) if mask >> k & 1) for mask in range(2 ** len(scopes))]
    prior = GraphPrior(dim, max_factor_size=largest, expected=2.0, size_cost=0.3)
    log_posterior = np.array(
        [
            prior.log_density(state) + whole(reference, dict.fromkeys(state, Fixed.variance)).log_evidence(data)
            for state in states
        ]
    )
    posterior = np.exp(log_posterior - logsumexp(log_posterior))
    assert posterior.max() < 0.5  # else the test says little
    law = proposal_distribution(evidence_gains(reference, data)) if informed else ScopeDistribution.uniform(dim)

    target = Fixed(reference, data)
    sampler = GraphSampler(prior, scope_distribution=law)
    batches, each = 50, 400
    _, trace = sampler.run(rng, sampler.init(rng, states[-1], target), target, batches * each)
    number = {state: k for k, state in enumerate(states)}
    visits = np.array([number[sample] for sample in trace.samples]).reshape(batches, each)

    order = np.random.default_rng(0).permutation(len(states))
    label = np.empty(len(states), dtype=int)
    groups = 9
    label[order] = np.minimum(groups * (np.cumsum(posterior[order]) - posterior[order] / 2), groups - 1).astype(int)
    label[np.bincount(label, posterior)[label] < 0.02] = label[posterior.argmax()]
    _, label = np.unique(label, return_inverse=True)
    groups = label.max() + 1
    expected = np.bincount(label, posterior)
    frequencies = np.array([np.bincount(label[batch], minlength=groups) / each for batch in visits])
    off = (frequencies.mean(axis=0) - expected)[:-1]
    T2 = batches * off @ np.linalg.solve(np.cov(frequencies[:, :-1].T), off)
    p = groups - 1
    assert T2 * (batches - p) / (p * (batches - 1)) < f.isf(FALSE_ALARM, p, batches - p)


def elsewhere(rng: np.random.Generator, target: EvidenceTarget, scopes: Sequence[Scope]) -> LaplaceApproximation:
    """Of some scopes, around variances and a noise that say nothing: it must not change the law of the chain."""
    noise = 0.004 if target.free_noise else None
    return target.laplace(rng, target.evaluate(dict.fromkeys(scopes, 0.1), noise)[1])


def test_without_data_variances_and_noise_follow_their_priors() -> None:
    """Structure moves and updates together leave the joint prior as it is (thinned; Kolmogorov and Smirnov)."""
    rng = np.random.default_rng(12)
    data = Observations(rng.random((1, 4)), np.zeros(1))
    typical = {(0, 1): 0.2, (1, 2): 0.001, (1, 2, 3): 0.05}
    target = Flat(singletons(rng, ("matern52",) * 4, (None,) * 4), data, typical=typical)
    sampler = GraphSampler(GraphPrior(4, expected=3.0, size_cost=0.3))
    state = sampler.init(rng, [(0, 1)], target)
    laplace = elsewhere(rng, target, [(0, 1), (0, 2), (1, 2, 3)])
    variances, noises = [], []
    for sweep in range(15_000):
        state, _ = sampler.step(rng, state, target)
        state = target.update_variances(rng, state, laplace)
        if sweep % 50 == 49:
            variances += state.payload.variances.values()
        if sweep % 150 == 149:
            noises.append(state.payload.noise)
    assert len(variances) > 300
    assert kstest(variances, lognorm(VARIANCE_SPREAD, scale=VARIANCE_MEDIAN).cdf).pvalue > FALSE_ALARM
    low, high = np.log(np.array([MIN_NOISE, 1.0]) / NOISE_MEDIAN) / NOISE_SPREAD
    law = truncnorm(low, high, loc=np.log(NOISE_MEDIAN), scale=NOISE_SPREAD)
    assert kstest(np.log(noises), law.cdf).pvalue > FALSE_ALARM


def test_updates_of_variances_follow_their_posterior() -> None:
    """One interaction that stays: its variance against the density on a grid."""
    rng = np.random.default_rng(13)
    data = draw_data(rng, (None, None), 15)
    reference = singletons(rng, ("matern52", "matern52"), (None, None), noise=0.5)
    target = EvidenceTarget(reference, data, free_noise=False)
    logs = np.linspace(-8, 8, 400) + np.log(VARIANCE_MEDIAN)
    density = [target.evaluate({(0, 1): s})[0] for s in np.exp(logs)]
    density -= 0.5 * ((logs - np.log(VARIANCE_MEDIAN)) / VARIANCE_SPREAD) ** 2
    cumulative = np.cumsum(np.exp(density - density.max()))
    sampler = GraphSampler(GraphPrior(2))
    state = sampler.init(rng, [(0, 1)], target)
    laplace = elsewhere(rng, target, [(0, 1)])
    drawn = []
    for step in range(15_000):
        state = target.update_variances(rng, state, laplace)
        if step % 50 == 49:
            drawn.append(np.log(state.payload.variances[0, 1]))
    assert state.payload.noise == 0.5
    edges = logs + (logs[1] - logs[0]) / 2
    assert kstest(drawn, lambda x: np.interp(x, edges, cumulative / cumulative[-1])).pvalue > FALSE_ALARM


PAIRS: list[Scope] = [(0, 1), (0, 2), (1, 2)]
TYPICAL: dict[str, dict[Scope, float]] = {"none": {}, "some": {(0, 1): 0.5}, "all": dict.fromkeys(PAIRS, 0.15)}


@pytest.mark.parametrize(
    ("dim", "free", "typical", "moves"),
    [
        (2, True, "none", "step"),
        (2, True, "some", "toggle"),
        (2, True, "all", "step"),
        (3, False, "some", "step"),
        (3, False, "all", "toggle"),
        (2, True, "none", "update"),
        (3, False, "some", "update"),
    ],
)
def test_graphs_variances_and_noise_follow_their_joint_posterior(
    dim: int, free: bool, typical: str, moves: str
) -> None:
    """Against quadrature: averages of 40 batches, each many autocorrelation times long, within 5 standard errors."""
    target, prior = little_data(dim, free=free, typical=TYPICAL[typical])
    scopes = PAIRS[: 1 if dim == 2 else 3]
    exact = Integrated(target, prior, scopes)
    assert exact.probabilities.max() < 0.8  # else the test says little
    rng = np.random.default_rng(15)
    sampler = GraphSampler(prior)
    laplace = elsewhere(rng, target, scopes[:1] if typical == "some" else scopes[1:])
    update = ScopeUpdate(target, prior)
    state = sampler.init(rng, [], target)
    batches = np.zeros((40, len(exact.graphs), 3))
    each = 200
    for batch in batches:
        for _ in range(each):
            if moves == "toggle":
                state = sampler.toggle(rng, state, scopes, target)
            elif moves == "update":
                state = update(rng, state, scopes[int(rng.random() * len(scopes))])
            else:
                state, _ = sampler.step(rng, state, target)
            state = target.update_variances(rng, state, laplace)
            batch += exact.statistics(state) / each
    assert exact.largest_error(batches) < 5


# --- draws -----------------------------------------------------------------------------------------------------------


def test_draws_of_new_variances_and_their_correction() -> None:
    """Draws follow g, and the correction is log p - log g of densities that integrate to 1."""
    target, _ = little_data(3, free=True, typical={(0, 1): 0.5})
    rng = np.random.default_rng(16)
    logs = np.linspace(-12, 8, 4001)
    prior = norm(np.log(VARIANCE_MEDIAN), VARIANCE_SPREAD)
    for scope in PAIRS[:2]:
        importance = [target._log_importance(scope, s) for s in np.exp(logs)]
        density = prior.pdf(logs) * np.exp(-np.array(importance))
        cumulative = np.cumsum(density) * (logs[1] - logs[0])
        assert cumulative[-1] == pytest.approx(1, abs=1e-4)
        drawn = np.log([target.draw(rng, scope) for _ in range(3000)])
        assert kstest(drawn, lambda x, c=cumulative: np.interp(x, logs, c)).pvalue > FALSE_ALARM
    assert np.var(np.exp(importance)) == 0
    around = [target.draw(rng, (0, 1)) for _ in range(2000)]
    assert np.median(around) > 2 * VARIANCE_MEDIAN
    _, payload = target.evaluate({(0, 1): 0.3, (0, 2): 0.1})
    _, after, correction = target.propose_variances(payload, {(1, 2): 0.7}, ((0, 1),))
    assert correction == pytest.approx(-target._log_importance((0, 1), 0.3))
    back = target.propose_variances(after, {(0, 1): 0.3}, ((1, 2),))[2]
    assert back == pytest.approx(-correction)


@pytest.mark.parametrize("free", [True, False], ids=["free noise", "known noise"])
def test_the_laplace_approximation(free: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(evidence, "_PROBES", 20_000)
    target, _ = little_data(3, free=free, typical={(1, 2): 0.4})
    rng, X = np.random.default_rng(18), target.data.X
    variances: dict[Scope, float] = {(0, 2): 0.2, (0, 1): 0.6}
    _, peak = target.evaluate(variances, 0.1)
    found = target.laplace(rng, peak)
    assert found.scopes == ((0, 1), (0, 2))
    assert_allclose(found.mean, np.log([0.6, 0.2, 0.1][: 2 + free]))
    K = whole(target.reference, variances).gram(X) + np.diag(0.1 + target.data.noise)
    inverse = np.asarray(np.linalg.inv(K))
    k = [target.reference.correlation.matrix(i, X[:, i], X[:, i]) for i in range(3)]
    parts = [0.6 * k[0] * k[1], 0.2 * k[0] * k[2], *([0.1 * np.eye(len(X))] if free else [])]
    information = [[np.trace(inverse @ a @ inverse @ b) / 2 for a in parts] for b in parts]
    spreads = np.array([VARIANCE_SPREAD, VARIANCE_SPREAD, NOISE_SPREAD][: 2 + free])
    expected = np.linalg.inv(np.array(information) + np.diag(spreads**-2.0))
    assert_allclose(found.covariance, expected, atol=0.03 * expected.max())

    mean, root = found.restricted(((0, 2), (1, 2), (1, 3)))  # one that it knows, a typical variance, a new scope
    assert_allclose(mean, np.log([0.2, 0.4, VARIANCE_MEDIAN, 0.1][: 3 + free]))
    covariance = root @ root.T
    kept = [0, 3] if free else [0]
    source = [1, 2] if free else [1]
    assert_allclose(covariance[np.ix_(kept, kept)], found.covariance[np.ix_(source, source)])
    assert_allclose(covariance[1:3], np.diag(np.full(3 + free, VARIANCE_SPREAD**2 / 2))[1:3], atol=1e-15)
    assert_array_equal(found.restricted(found.scopes)[0], found.mean)

    middle, given = found.given_noise(((0, 2), (1, 2), (1, 3)))  # conditioned as in any textbook
    assert_array_equal(middle, mean[:3])
    assert_allclose(given @ given.T, np.linalg.inv(np.linalg.inv(covariance)[:3, :3]))
    if free:
        expected = covariance[:3, :3] - np.outer(covariance[:3, 3], covariance[3, :3]) / covariance[3, 3]
        assert_allclose(given @ given.T, expected)
        assert found.noise_deviation == pytest.approx(np.sqrt(found.covariance[-1, -1]))
    assert found.given_noise(())[0].shape == (0,)


def test_nothing_to_update() -> None:
    target, prior = little_data(2, free=False, typical={})
    rng = np.random.default_rng(0)
    state = GraphSampler(prior).init(rng, [], target)
    assert target.update_variances(rng, state, elsewhere(rng, target, [])) is state
