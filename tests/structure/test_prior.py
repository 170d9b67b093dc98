from __future__ import annotations

import math
from itertools import permutations
from typing import Any

import pytest
from numpy.testing import assert_allclose

from dechbo.errors import OptionError, ScopeError
from dechbo.structure import GraphPrior


def test_the_formula_by_hand() -> None:
    prior = GraphPrior(5, max_factor_size=3, expected=2.0, size_cost=0.5)
    assert_allclose(prior.log_weight(2), math.log(2 / 10))
    assert_allclose(prior.log_weight(3), math.log(2 * math.exp(-0.5) / 10))
    assert_allclose(prior.log_density([(0, 1), (1, 2), (0, 1, 2)]), 2 * prior.log_weight(2) + prior.log_weight(3))
    assert prior.log_density([]) == 0


def test_relabelling_the_variables_leaves_the_density() -> None:
    prior = GraphPrior(4)
    for new in permutations(range(4)):
        renamed = [tuple(sorted(new[i] for i in scope)) for scope in [(0, 1), (1, 2, 3)]]
        assert prior.log_density(renamed) == prior.log_density([(0, 1), (1, 2, 3)])


def test_the_expected_number_does_not_grow_with_the_number_of_variables() -> None:
    def expected(dim: int) -> float:
        prior = GraphPrior(dim, max_factor_size=3, expected=3.0, size_cost=1.0)
        odds = {size: math.exp(prior.log_weight(size)) for size in (2, 3)}
        return sum(math.comb(dim, size) * odds[size] / (1 + odds[size]) for size in odds)

    limit = 3 * (1 + math.exp(-1))
    assert_allclose([expected(dim) for dim in (100, 1000, 2000)], limit, rtol=2e-3)
    assert expected(5) < limit


def test_scopes_as_large_as_the_problem_keep_finite_weights() -> None:
    prior = GraphPrior(2000, max_factor_size=5000)
    assert all(math.isfinite(prior.log_weight(size)) for size in (2, 1000, 2000))
    with pytest.raises(ScopeError, match="2 to 2000 of the 2000 variables"):
        prior.log_weight(2001)


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
