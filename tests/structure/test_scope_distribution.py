from __future__ import annotations

import math
from itertools import combinations

import numpy as np
import pytest
from numpy.testing import assert_allclose
from numpy.typing import ArrayLike
from scipy.stats import chisquare

from dechbo.errors import OptionError
from dechbo.graph import Scope
from dechbo.structure.scope_distribution import ScopeDistribution

FALSE_ALARM = 1e-4  # chance that a correct distribution fails a chi-square test under a fresh seed; seeds are fixed


def distributions() -> dict[str, ScopeDistribution]:
    rng = np.random.default_rng(0)
    pairs = np.array(list(combinations(range(6), 2)))
    sharp = rng.normal(scale=3, size=len(pairs))
    sharp[3] = -np.inf
    return {
        "uniform": ScopeDistribution.uniform(6),
        "all pairs": ScopeDistribution.from_pairs(6, pairs, sharp),
        "two pairs": ScopeDistribution.from_pairs(6, [(4, 1), (2, 1)], [0.0, 2.0], epsilon=0.3),
        "triples": ScopeDistribution.from_pairs(6, pairs, sharp, triples={(0, 1, 2): 0.3, (2, 4, 5): -1.0}),
        "one pair drowns the rest": ScopeDistribution.from_pairs(6, pairs, np.where(np.arange(15) == 7, 1e3, 0.0)),
    }


@pytest.mark.parametrize("name", distributions())
def test_every_distribution_sums_to_one(name: str) -> None:
    distribution = distributions()[name]
    for size in (2, 3, 4):
        assert_allclose(sum(distribution.probability(scope) for scope in combinations(range(6), size)), 1, rtol=1e-13)
    for scope, banned in [((0, 3), ()), ((1,), (4,)), ((0, 1, 2, 4), (5,))]:
        allowed = set(range(6)) - {*scope, *banned}
        total = sum(distribution.variable_probability(v, scope, banned) for v in allowed)
        assert_allclose(total, 1, rtol=1e-13)


@pytest.mark.parametrize("name", distributions())
def test_draws_follow_the_stated_probabilities(name: str) -> None:
    distribution, rng, n = distributions()[name], np.random.default_rng(1), 20_000
    pairs: list[Scope] = list(combinations(range(6), 2))
    counts: dict[Scope | None, int] = dict.fromkeys(pairs, 0)
    for _ in range(n):
        counts[distribution.draw_pair(rng)] += 1
    expected = [n * distribution.probability(pair) for pair in pairs]
    assert chisquare(list(counts.values()), expected).pvalue > FALSE_ALARM
    for scope, banned in [((1, 4), ()), ((1,), (2,))]:
        allowed = sorted(set(range(6)) - {*scope, *banned})
        drawn: dict[int | None, int] = dict.fromkeys(allowed, 0)
        for _ in range(n):
            drawn[distribution.draw_variable(rng, scope, banned)] += 1
        expected = [n * distribution.variable_probability(v, scope, banned) for v in allowed]
        assert chisquare(list(drawn.values()), expected).pvalue > FALSE_ALARM
    counts = dict.fromkeys(combinations(range(6), 3), 0)
    for _ in range(n):
        counts[distribution.draw_triple(rng)] += 1
    expected = [n * distribution.probability(triple) for triple in counts if triple is not None]
    assert chisquare(list(counts.values()), expected).pvalue > FALSE_ALARM


def test_no_variable_is_left_to_draw() -> None:
    rng = np.random.default_rng(0)
    assert ScopeDistribution.uniform(2).draw_variable(rng, (0, 1)) is None
    assert ScopeDistribution.from_pairs(3, [(0, 1)], [0.0]).draw_variable(rng, (0, 2), (1,)) is None


@pytest.mark.parametrize(
    ("triples", "message"),
    [
        ({(0, 1): 0.0}, "three"),
        ({(0, 2, 1): 0.0}, "sorted"),
        ({(0, 1, 4): 0.0}, "below 4"),
        ({(0, 1, 2): math.nan}, "finite"),
    ],
)
def test_bad_triples(triples: dict[Scope, float], message: str) -> None:
    with pytest.raises(OptionError, match=message):
        ScopeDistribution.from_pairs(4, [(0, 1)], [0.0], triples=triples)


def test_the_order_within_and_between_pairs_does_not_matter() -> None:
    one = ScopeDistribution.from_pairs(4, [(0, 1), (2, 3)], [1.0, 2.0])
    other = ScopeDistribution.from_pairs(4, [(3, 2), (1, 0)], [2.0, 1.0])
    for scope in (*combinations(range(4), 2), *combinations(range(4), 3)):
        assert one.probability(scope) == other.probability(scope)


@pytest.mark.parametrize(
    ("pairs", "log_weights", "epsilon", "message"),
    [
        ([(0, 1)], [0.0], 0.0, "epsilon"),
        ([(0, 1)], [0.0], 1.5, "epsilon"),
        ([(0, 1)], [0.0], math.nan, "epsilon"),
        ([0, 1], [0.0, 0.0], 0.1, r"\(n, 2\)"),
        ([(0.0, 1.0)], [0.0], 0.1, "whole numbers"),
        ([(0, 1)], [0.0, 1.0], 0.1, "one log weight"),
        ([(0, 4)], [0.0], 0.1, "0 to 3"),
        ([(-1, 2)], [0.0], 0.1, "0 to 3"),
        ([(2, 2)], [0.0], 0.1, "different"),
        ([(0, 1), (1, 0)], [0.0, 0.0], 0.1, "once"),
        ([(0, 1)], [math.nan], 0.1, "NaN"),
        ([(0, 1)], [math.inf], 0.1, "infinity"),
        ([(0, 1)], [-math.inf], 0.1, "finite"),
        (np.empty((0, 2), dtype=int), [], 0.1, "finite"),
    ],
)
def test_bad_pairs(pairs: ArrayLike, log_weights: ArrayLike, epsilon: float, message: str) -> None:
    with pytest.raises(OptionError, match=message):
        ScopeDistribution.from_pairs(4, pairs, log_weights, epsilon=epsilon)
