from __future__ import annotations

import math
from itertools import combinations

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from numpy.typing import NDArray
from scipy.signal import lfilter

from dechbo.errors import DataError
from dechbo.graph import Scope
from dechbo.structure import GraphPrior
from dechbo.structure.diagnostics import (
    MAX_RHAT,
    MAX_SHORTFALL,
    Convergence,
    diagnose,
    effective_sample_size,
    pair_indicators,
    pair_probabilities,
    split_rhat,
)
from dechbo.structure.sampler import GraphSampler, Trace
from dechbo.structure.scopes import ScopeSet
from structure_cases import FunctionTarget

Array = NDArray[np.float64]


def autoregressive(rho: float, chains: int, draws: int, seed: int = 0) -> Array:
    """x_t = rho x_{t-1} + e_t from its stationary law."""
    noise = np.random.default_rng(seed).normal(size=(chains, draws))
    noise[:, 0] /= math.sqrt(1 - rho**2)
    return np.asarray(lfilter([1], [1, -rho], noise, axis=1))


@pytest.mark.parametrize("rho", [-0.5, 0.0, 0.5, 0.9])
def test_the_effective_sample_size_of_an_autoregression_is_known(rho: float) -> None:
    runs = [autoregressive(rho, 4, 8000, seed) for seed in range(12)]
    known = runs[0].size * (1 - rho) / (1 + rho)
    assert_allclose([effective_sample_size(run) for run in runs], known, rtol=0.4)
    assert_allclose(np.mean([effective_sample_size(run) for run in runs]), known, rtol=0.07)
    assert all(0.999 < split_rhat(run) < 1.02 for run in runs)


def test_independent_draws_with_a_different_mean_do_not_agree() -> None:
    chains = np.random.default_rng(0).normal(size=(4, 5000))
    chains[0] += 2
    # halves: two of eight means stand 2 apart, so B/N is nearly 2² · (1/4)(3/4) · 8/7
    assert_allclose(split_rhat(chains), math.sqrt(1 + 6 / 7), rtol=0.03)
    assert effective_sample_size(chains) < 40


def test_a_drift_within_one_chain_is_seen() -> None:
    assert split_rhat(np.linspace(0, 3, 1000)[None]) > 1.5


def test_the_formula_by_hand() -> None:
    chains = np.array([[0.0, 2.0, 4.0, 6.0]])  # halves (0, 2) and (4, 6): W = 2, B/N = 8, var+ = 1 + 8
    assert_allclose(split_rhat(chains), math.sqrt(9 / 2))
    assert_allclose(split_rhat([[0.0, 2.0, 99.0, 4.0, 6.0]]), math.sqrt(9 / 2))  # the middle draw is left out


def test_shift_scale_and_stacking_change_nothing() -> None:
    chains = np.stack([autoregressive(0.5, 4, 500, seed) for seed in range(3)], axis=2)
    for measure in (split_rhat, effective_sample_size):
        assert_allclose(measure(chains), [measure(chains[:, :, k]) for k in range(3)], rtol=1e-10)
        assert_allclose(measure(1e3 - 7 * chains), measure(chains), rtol=1e-8)


def test_constants() -> None:
    assert np.isnan(split_rhat(np.ones((2, 10))))
    assert np.isnan(effective_sample_size(np.ones((2, 10))))
    assert split_rhat([[0.0] * 10, [1.0] * 10]) == math.inf
    assert effective_sample_size([[0.0] * 10, [1.0] * 10]) < 3


@pytest.mark.parametrize("shape", [(10,), (2, 3), (0, 10)])
def test_too_few_draws(shape: tuple[int, ...]) -> None:
    for measure in (split_rhat, effective_sample_size):
        with pytest.raises(DataError, match="at least 4 draws"):
            measure(np.zeros(shape))


def test_pair_probabilities_count_a_pair_once_for_each_sample() -> None:
    samples = [frozenset({(0, 1), (0, 1, 2)}), frozenset({(1, 2)}), frozenset(), frozenset({(1, 2)})]
    expected = np.zeros((4, 4))
    expected[0, 1] = expected[1, 0] = expected[0, 2] = expected[2, 0] = 1 / 4
    expected[1, 2] = expected[2, 1] = 3 / 4
    assert_array_equal(pair_probabilities(4, samples), expected)
    with pytest.raises(DataError, match="at least one sample"):
        pair_probabilities(4, [])


def test_indicators_are_of_pairs_that_come_and_go() -> None:
    one, two, both = frozenset({(0, 1)}), frozenset({(0, 1, 2)}), frozenset({(0, 1), (1, 2)})
    pairs, indicators = pair_indicators([[one, two], [both, one]])
    assert pairs == ((0, 2), (1, 2))  # (0, 1) is always there
    assert_array_equal(indicators, [[[0, 0], [1, 1]], [[0, 1], [0, 0]]])


def test_chains_over_graphs() -> None:
    prior = GraphPrior(4, max_factor_size=2, expected=2.0)
    sampler = GraphSampler(prior)

    def gain(interactions: ScopeSet) -> float:
        return 2.0 * ((0, 1) in interactions) - ((1, 2) in interactions)

    target = FunctionTarget(gain)
    traces = []
    for seed in range(4):
        rng = np.random.default_rng(seed)
        start = sampler.init(rng, [(0, 1), (2, 3)][:seed], target)
        traces.append(sampler.run(rng, start, target, 6000, thin=2)[1])
    found = diagnose(traces)
    assert len(found.pairs) == len(found.pair_rhat) == len(found.pair_ess) == 6
    assert found.worst_rhat == max(found.rhat, *found.pair_rhat) < 1.05
    assert min(found.ess, *found.pair_ess) > 200
    assert found.shortfall == 0
    assert found.converged
    pairs = list(combinations(range(4), 2))
    states = [frozenset(pair for k, pair in enumerate(pairs) if mask >> k & 1) for mask in range(64)]
    weights = np.array([math.exp(prior.log_density(state) + gain(state)) for state in states])
    pooled = pair_probabilities(4, [sample for trace in traces for sample in trace.samples])
    for k, (i, j) in enumerate(found.pairs):
        exact = weights[[(i, j) in state for state in states]].sum() / weights.sum()
        assert abs(pooled[i, j] - exact) < 5 * math.sqrt(exact * (1 - exact) / found.pair_ess[k])


def test_chains_that_never_move_prove_nothing() -> None:
    empty = Trace((frozenset(),) * 8, np.zeros(8), {})
    found = diagnose([empty, empty])
    assert math.isnan(found.rhat)
    assert math.isnan(found.worst_rhat)
    assert found.pairs == ()
    stuck = Trace((frozenset({(0, 1)}),) * 8, np.ones(8), {})
    assert diagnose([empty, stuck]).worst_rhat == math.inf
    assert not diagnose([empty, stuck]).converged


@pytest.mark.parametrize(
    ("rhat", "pair_rhat", "shortfall", "agree", "converged"),
    [
        (1.0, 1.0, 0.0, True, True),
        (MAX_RHAT, MAX_RHAT, MAX_SHORTFALL, True, True),
        (1.0, MAX_RHAT + 0.01, 0.0, False, False),
        (MAX_RHAT + 0.01, 1.0, 0.0, False, False),
        (1.0, 1.0, MAX_SHORTFALL + 0.01, True, False),
        (1.0, 1.0, -50.0, True, True),
        (math.nan, 1.0, 0.0, True, True),
        (math.nan, math.inf, 0.0, False, False),
    ],
)
def test_when_chains_have_converged(
    rhat: float, pair_rhat: float, shortfall: float, agree: bool, converged: bool
) -> None:
    pairs: tuple[Scope, ...] = ((0, 1), (0, 2))
    rhats, ess = np.array([1.0, pair_rhat]), np.full(2, 100.0)
    found = Convergence(rhat, 100.0, pairs, rhats, ess, np.array([0.5, 0.3]), shortfall)
    assert (found.rhat_ok, found.converged) == (agree, converged)


@pytest.mark.parametrize(("probability", "agree"), [(0.04, True), (0.06, False), (0.94, False), (0.96, True)])
def test_pairs_that_are_hardly_ever_there_need_not_agree(probability: float, agree: bool) -> None:
    found = Convergence(1.0, 100.0, ((0, 1),), np.array([3.0]), np.ones(1), np.array([probability]))
    assert found.rhat_ok == agree
    assert found.worst_rhat == 3.0


def test_the_shortfall_is_recorded() -> None:
    rng = np.random.default_rng(0)
    traces = [Trace((frozenset(),) * 500, rng.normal(size=500)) for _ in range(2)]
    assert diagnose(traces, shortfall=-2.0).converged
    assert not diagnose(traces, shortfall=7.0).converged


def test_chains_of_different_lengths() -> None:
    with pytest.raises(DataError, match="same number of samples"):
        diagnose([Trace((frozenset(),) * n, np.zeros(n), {}) for n in (8, 9)])
    with pytest.raises(DataError, match="same number of samples"):
        diagnose([])
