from __future__ import annotations

import math
from itertools import pairwise, permutations
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose
from scipy.integrate import quad
from scipy.stats import gamma

from dechbo.errors import OptionError, ScopeError
from dechbo.graph import Scope
from dechbo.structure import GraphPrior

U: list[Scope] = [(0, 1), (1, 2), (0, 1, 2), (0, 3), (1, 3, 4)]


def test_the_formula_by_hand() -> None:
    prior = GraphPrior(5, max_factor_size=3, expected=2.0, size_cost=0.5)
    pairs, triples = 2.0, 2.0 * math.exp(-0.5)
    expected = math.lgamma(pairs + 3) - math.lgamma(pairs) - 3 * math.log(1.2 * 10)
    expected += math.lgamma(triples + 2) - math.lgamma(triples) - 2 * math.log(1.2 * 10)
    assert_allclose(prior.log_density(U), expected)
    assert prior.log_density([]) == 0
    assert_allclose(prior.log_odds(2, 7), math.log((2 + 7) / 12))
    assert_allclose(prior.log_odds(3), math.log(2 * math.exp(-0.5) / 12))


@pytest.mark.parametrize(("dim", "count"), [(4, 1), (4, 3), (40, 10)])
def test_the_rate_is_integrated_out(dim: int, count: int) -> None:
    """E[e^-rate (rate / C(d, 2))^n] over its gamma prior, against n = 0."""
    prior = GraphPrior(dim, expected=0.7)
    law = gamma(0.7, scale=dim)

    def moment(n: int) -> float:
        def integrand(root: float) -> float:  # rate = root^4, whose density is finite at 0
            rate = root**4
            return float(4 * root**3 * law.pdf(rate) * math.exp(-rate) * (rate / math.comb(dim, 2)) ** n)

        return float(quad(integrand, 1e-12, 4.0, epsabs=0, epsrel=1e-10, limit=200)[0])

    scopes: list[Scope] = [(0, j) for j in range(1, count + 1)]
    assert_allclose(prior.log_density(scopes), math.log(moment(count) / moment(0)), rtol=1e-6)


@given(st.integers(2, 300), st.floats(0.01, 20), st.floats(0, 3))
def test_the_odds(dim: int, expected: float, cost: float) -> None:
    prior = GraphPrior(dim, expected=expected, size_cost=cost)
    assert_allclose(math.exp(prior.log_odds(2)), expected / math.comb(dim, 2) / (1 + 1 / dim), rtol=1e-10)
    for size in range(2, prior.max_size + 1):
        odds = [math.exp(prior.log_odds(size, present)) for present in range(6)]
        assert odds == sorted(odds)
        step = 1 / (math.comb(dim, size) * (1 + 1 / dim))  # each one present adds as much
        assert_allclose([b - a for a, b in pairwise(odds)], step, rtol=1e-6)


@given(st.permutations(U))
def test_the_density_is_the_sum_of_the_odds_in_any_order(order: list[Scope]) -> None:
    prior = GraphPrior(5, expected=0.4)
    total, present = 0.0, {2: 0, 3: 0}
    for scope in order:
        total += prior.log_odds(len(scope), present[len(scope)])
        present[len(scope)] += 1
    assert_allclose(prior.log_density(order), total)
    assert prior.log_density(order) == prior.log_density(U)  # bit for bit


def test_relabelling_the_variables_leaves_the_density() -> None:
    prior = GraphPrior(4)
    for new in permutations(range(4)):
        renamed = [tuple(sorted(new[i] for i in scope)) for scope in [(0, 1), (1, 2, 3)]]
        assert prior.log_density(renamed) == prior.log_density([(0, 1), (1, 2, 3)])


def test_scopes_as_large_as_the_problem_keep_finite_odds() -> None:
    prior = GraphPrior(2000, max_factor_size=5000)
    assert all(math.isfinite(prior.log_odds(size, present)) for size in (2, 1000, 2000) for present in (0, 5))
    for size in (1, 2001):
        with pytest.raises(ScopeError, match="2 to 2000 of the 2000 variables"):
            prior.log_odds(size)


@pytest.mark.parametrize(
    "options",
    [
        {"dim": 0},
        {"dim": True},
        {"dim": 2.5},
        {"max_factor_size": 0},
        {"max_factor_size": "3"},
        {"expected": 0.0},
        {"expected": -1.0},
        {"expected": math.inf},
        {"expected": "1"},
        {"size_cost": -0.1},
        {"size_cost": math.nan},
    ],
)
def test_bad_options_of_the_prior(options: dict[str, Any]) -> None:
    with pytest.raises(OptionError, match="GraphPrior needs"):
        GraphPrior(**{"dim": 5, **options})
