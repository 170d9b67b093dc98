from __future__ import annotations

import itertools
from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dechbo.acquisition import AdditiveUCB, BetaContext, beta_schedule
from dechbo.data.observations import Observations
from dechbo.errors import DataError
from dechbo.gp import AdditiveGP, Hyperparameters
from dechbo.graph import FactorGraph
from dechbo.maxsum import Exact
from dechbo.search.engine import LocalEngine
from dechbo.theory import (
    RegretReport,
    average_regret,
    factor_gram,
    information_gain,
    lipschitz_estimate,
    regret_bound,
    step_bound,
    variance_ratio,
)
from gp_strategies import Case, cases, draw_factor, factor_kernel, make_case

GRAPH = FactorGraph(3, ((0, 1), (1, 2), (2,)))


def plain(case: Case) -> Observations:
    """The same data without noise of their own: the theory knows one noise variance."""
    return Observations(case.data.X, case.data.y)


@settings(max_examples=40)
@given(cases(max_size=4))
def test_information_gain_is_half_a_log_determinant(case: Case) -> None:
    gains = information_gain(case.gp, case.data.X)
    for k, gain in enumerate(gains):
        K = factor_kernel(case.gp, k)(case.data.X)
        np.testing.assert_allclose(factor_gram(case.gp, case.data.X, k), K, rtol=1e-11, atol=1e-14)
        eigenvalues = np.maximum(np.linalg.eigvalsh(K), 0.0)
        assert gain == pytest.approx(0.5 * np.log1p(eigenvalues / case.gp.hyperparameters.noise).sum(), rel=1e-9)


@settings(max_examples=40)
@given(st.integers(0, 2**32 - 1), st.integers(1, 15), st.sampled_from(["matern52", "se", "categorical"]))
def test_chain_rule_of_information(seed: int, n: int, kernel: str) -> None:
    """One factor: the gain is sum_t log(1 + var_{t-1}(x_t) / noise) / 2."""
    case = make_case(np.random.default_rng(seed), FactorGraph(2, ((1, 0),)), [kernel] * 2, n, 0.1)
    theta, X = case.gp.hyperparameters, case.data.X
    variances = [theta.variances[0]]
    for t in range(1, n):
        posterior = case.gp.condition(Observations(X[:t], np.zeros(t)))
        variances.append(posterior.factor(0, X[t : t + 1, [1, 0]])[1][0] ** 2)
    expected = 0.5 * np.log1p(np.array(variances) / theta.noise).sum()
    assert information_gain(case.gp, X)[0] == pytest.approx(expected, rel=1e-9)


def test_information_gain_grows_with_data_and_needs_noise() -> None:
    case = make_case(np.random.default_rng(0), GRAPH, ["matern52"] * 3, 20, 0.1)
    gains = np.array([information_gain(case.gp, case.data.X[:n]) for n in range(1, 21)])
    assert (np.diff(gains, axis=0) > 0).all()
    exact = AdditiveGP(GRAPH, Hyperparameters([1.0] * 3, [1.0] * 3, 0.0))
    with pytest.raises(DataError, match="noise"):
        information_gain(exact, case.data.X)


@settings(max_examples=30)
@given(cases(max_size=3, max_observations=10))
def test_variance_ratio_is_what_single_factors_would_know_more(case: Case) -> None:
    """h = min sigma_alone^2 / sigma^2, against posteriors of the factor alone and among the others."""
    gp, X, theta = case.gp, case.data.X, case.gp.hyperparameters
    found = variance_ratio(gp, X)
    assert 0 <= found <= 1
    ratios = [1.0]
    for k, scope in enumerate(gp.graph.scopes):
        own = FactorGraph(len(scope), (tuple(range(len(scope))),))
        alone = AdditiveGP(
            own,
            Hyperparameters(theta.lengthscales[list(scope)], theta.variances[[k]], theta.noise),
            kernel=[gp.kernels[i] for i in scope],
        )
        for t in range(1, len(X)):
            here = X[t : t + 1, scope]
            _, narrow = alone.condition(Observations(X[:t][:, scope], np.zeros(t))).factor(0, here)
            _, wide = gp.condition(Observations(X[:t], np.zeros(t))).factor(k, here)
            ratios.append(narrow[0] ** 2 / wide[0] ** 2)
    assert found == pytest.approx(min(ratios), rel=1e-8)


def test_a_single_factor_has_ratio_one() -> None:
    case = make_case(np.random.default_rng(1), FactorGraph(2, ((0, 1),)), ["se"] * 2, 10, 0.1)
    assert variance_ratio(case.gp, case.data.X) == pytest.approx(1.0)


@pytest.mark.parametrize("continuous", [False, True])
@pytest.mark.parametrize("ratio", [None, 0.4])
def test_regret_bound_is_the_right_hand_side_of_theorems_2_and_3(continuous: bool, ratio: float | None) -> None:
    """sqrt(C n beta gamma), C = 8 noise |U| g(s / noise) / h, g(s) = s / log(1 + s)."""
    case = make_case(np.random.default_rng(2), GRAPH, ["matern52"] * 3, 12, 0.05)
    theta, beta = case.gp.hyperparameters, 7.0
    h = variance_ratio(case.gp, case.data.X) if ratio is None else ratio
    s = theta.variances.max() / theta.noise
    constant = 8 * theta.noise * 3 * (s / np.log(1 + s)) / h
    gain = information_gain(case.gp, case.data.X).sum()
    found = regret_bound(case.gp, case.data, beta, continuous=continuous, ratio=ratio)
    extra = np.pi**2 / 6 if continuous else 0.0
    assert found.ratio == pytest.approx(h)
    assert found.bound == pytest.approx(np.sqrt(constant * 12 * beta * gain) + extra)
    assert found.average == pytest.approx(found.bound / 12)
    assert (found.beta, found.steps) == (beta, 12)
    assert found.information_gain == pytest.approx(gain)
    assert ("h" in found.estimated) == (ratio is None)
    assert any("Assumption 3" in part for part in found.estimated) == continuous


def test_a_report_speaks_the_users_units_and_names_what_is_estimated() -> None:
    case = make_case(np.random.default_rng(3), GRAPH, ["matern52"] * 3, 12, 0.05)
    allowed = regret_bound(case.gp, case.data, 7.0, continuous=True)
    report = RegretReport(0.25, allowed, 3.0)
    assert report.bound == pytest.approx(3 * allowed.bound / 12)
    assert f"R_n/n = 0.25 after n = 12, bound {report.bound:.4g}" in str(report)
    assert len(allowed.estimated) == 4
    assert all(part in str(report) for part in allowed.estimated)


@settings(max_examples=40)
@given(cases(max_size=3, max_observations=12), st.floats(0.1, 50))
def test_the_bound_covers_the_sum_of_step_bounds(case: Case, beta: float) -> None:
    """Appendix D with the corrected constant holds for every sequence of points, at constant beta."""
    gp, data, theta = case.gp, plain(case), case.gp.hyperparameters
    total = step_bound(beta, np.sqrt(theta.variances), 0.0)
    for t in range(1, len(data)):
        posterior = gp.condition(Observations(data.X[:t], data.y[:t]))
        total += step_bound(beta, AdditiveUCB(posterior, beta).factor_moments(data.X[t])[1], 0.0)
    assert total <= regret_bound(gp, data, beta, continuous=False).bound * (1 + 1e-9)


def test_step_bound() -> None:
    assert step_bound(4.0, np.array([1.0, 2.0]), 0.0) == 12.0
    assert step_bound(4.0, np.array([1.0, 2.0]), 0.5) == 12.5
    assert step_bound(4.0, np.array([1.0, 2.0]), -1e-12) == 12.0  # rounding of a certificate is no credit


def test_average_regret() -> None:
    values = np.array([1.0, 3.0, 2.0, 3.0])
    expected = [sum(3.0 - v for v in values[:n]) / n for n in range(1, 5)]
    np.testing.assert_allclose(average_regret(values, 3.0), expected)


def test_lipschitz_estimate_is_the_deviation_of_the_steepest_derivative() -> None:
    """Var(df/dx_i) by a second difference of the kernel: (k(x, x) - k(x, x + s e_i)) 2 / s^2."""
    theta = Hyperparameters([0.3, 0.2, 0.7], [1.0, 0.5, 2.0], 0.1)
    gp = AdditiveGP(GRAPH, theta, kernel=["matern52", "se", "categorical"])
    step = 1e-4
    variances = []
    for i in range(2):  # the third variable has categories and no derivative
        K = gp.gram(np.array([np.zeros(3), step * np.eye(3)[i]]))
        variances.append(2 * (K[0, 0] - K[0, 1]) / step**2)
    assert lipschitz_estimate(gp) == pytest.approx(np.sqrt(2 * max(variances)), rel=1e-2)


GRID = [np.linspace(0, 1, 5)] * 3
POINTS = np.array(list(itertools.product(*GRID)))


def violations(beta_of: Callable[[int], float], functions: int = 20, steps: int = 15) -> int:
    """How many functions from the prior break r_t <= 2 sqrt(beta_t) sum_I sigma_I(x_t) within ``steps`` steps."""
    theta = Hyperparameters([0.3, 0.4, 0.2], [1.0, 0.7, 0.4], 0.05)
    gp, engine, broken = AdditiveGP(GRAPH, theta), LocalEngine(Exact()), 0
    for seed in range(functions):
        rng = np.random.default_rng(seed)
        f = np.sum([draw_factor(rng, gp, k, POINTS) for k in range(3)], axis=0)
        at = int(rng.integers(len(POINTS)))
        data = Observations(POINTS[[at]], np.array([f[at] + np.sqrt(theta.noise) * rng.normal()]))
        holds = True
        for _ in range(steps):
            beta = beta_of(len(data) + 1)  # beta_{t+1} goes with the posterior after t observations
            choice = engine.suggest(gp, data, beta, GRID).choice
            at = int(np.ravel_multi_index(tuple(choice), (5, 5, 5)))
            _, deviations = AdditiveUCB(gp.condition(data), beta).factor_moments(POINTS[at])
            holds = holds and f.max() - f[at] <= step_bound(beta, deviations, 0.0)
            data = data.append(POINTS[at], f[at] + np.sqrt(theta.noise) * rng.normal())
        broken += not holds
    return broken


@pytest.mark.parametrize("name", ["theory", "theory-factor"])
def test_the_event_of_theorem_1_holds(name: str) -> None:
    """At delta = 0.1, at most a tenth of the functions may break the bound at any step."""
    context = BetaContext(GRAPH, np.log([5.0] * 3), delta=0.1)
    schedule = beta_schedule(name)
    assert violations(lambda t: schedule(t, context)) <= 2


def test_the_event_of_theorem_1_would_be_seen_to_break() -> None:
    """With next to no beta the same count is high: the test above can fail."""
    assert violations(lambda t: 0.01) >= 10
