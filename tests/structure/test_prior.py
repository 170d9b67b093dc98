import math
from itertools import combinations, permutations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose
from scipy.stats import chisquare

from dechbo.errors import OptionError, ScopeError
from dechbo.structure import GraphPrior, ScopeDistribution, ScopeIndex, interaction_graph

FALSE_ALARM = 1e-4  # chance that a correct law fails a chi-square test under a fresh seed; seeds are fixed


def scopes_up_to(dim, largest):
    return [scope for size in range(2, largest + 1) for scope in combinations(range(dim), size)]


def test_the_graph_has_every_singleton_and_the_interactions():
    graph = interaction_graph(4, frozenset({(1, 2, 3), (0, 1)}))
    assert graph.scopes == ((0,), (1,), (2,), (3,), (0, 1), (1, 2, 3))


def test_the_formula_by_hand():
    prior = GraphPrior(5, max_factor_size=3, expected=2.0, size_cost=0.5)
    assert_allclose(prior.log_weight(2), math.log(2 / 10))
    assert_allclose(prior.log_weight(3), math.log(2 * math.exp(-0.5) / 10))
    assert_allclose(prior.log_density([(0, 1), (1, 2), (0, 1, 2)]), 2 * prior.log_weight(2) + prior.log_weight(3))
    assert prior.log_density([]) == 0


def test_relabelling_the_variables_leaves_the_density():
    prior = GraphPrior(4)
    for new in permutations(range(4)):
        renamed = [tuple(sorted(new[i] for i in scope)) for scope in [(0, 1), (1, 2, 3)]]
        assert prior.log_density(renamed) == prior.log_density([(0, 1), (1, 2, 3)])


def test_the_expected_number_does_not_grow_with_the_number_of_variables():
    def expected(dim):
        prior = GraphPrior(dim, max_factor_size=3, expected=3.0, size_cost=1.0)
        odds = {size: math.exp(prior.log_weight(size)) for size in (2, 3)}
        return sum(math.comb(dim, size) * odds[size] / (1 + odds[size]) for size in odds)

    limit = 3 * (1 + math.exp(-1))
    assert_allclose([expected(dim) for dim in (100, 1000, 2000)], limit, rtol=2e-3)
    assert expected(5) < limit


def test_scopes_as_large_as_the_problem_keep_finite_weights():
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
def test_bad_options_of_the_prior(options):
    with pytest.raises(OptionError, match="GraphPrior needs"):
        GraphPrior(**{"dim": 5, **options})


@settings(max_examples=60, deadline=None)
@given(st.data())
def test_a_changed_index_is_the_index_of_the_changed_set(data):
    scopes = scopes_up_to(5, 4)
    prior = GraphPrior(5, max_factor_size=4)
    before = data.draw(st.sets(st.sampled_from(scopes)))
    after = data.draw(st.sets(st.sampled_from(scopes)))
    changed = ScopeIndex.of(prior, before).changed(tuple(before - after), tuple(after - before))
    fresh = ScopeIndex.of(prior, after)
    assert changed.scopes == fresh.scopes == tuple(sorted(after))
    assert changed.interactions == fresh.interactions == after
    for i in range(5):
        assert changed.holding.get(i, ()) == tuple(sorted(scope for scope in after if i in scope))


@pytest.mark.parametrize(
    ("scopes", "message"),
    [([(0,)], "2 to 3"), ([(0, 1, 2, 3)], "2 to 3"), ([(0, 9)], "0 to 4"), ([(0, 1), (1, 0)], "same variables")],
)
def test_bad_interactions(scopes, message):
    with pytest.raises(ScopeError, match=message):
        ScopeIndex.of(GraphPrior(5), scopes)


def laws():
    rng = np.random.default_rng(0)
    pairs = np.array(list(combinations(range(6), 2)))
    sharp = rng.normal(scale=3, size=len(pairs))
    sharp[3] = -np.inf
    return {
        "blind": ScopeDistribution.uniform(6),
        "all pairs": ScopeDistribution.from_pairs(6, pairs, sharp),
        "two pairs": ScopeDistribution.from_pairs(6, [(4, 1), (2, 1)], [0.0, 2.0], epsilon=0.3),
        "triples": ScopeDistribution.from_pairs(6, pairs, sharp, triples={(0, 1, 2): 0.3, (2, 4, 5): -1.0}),
        "one pair drowns the rest": ScopeDistribution.from_pairs(6, pairs, np.where(np.arange(15) == 7, 1e3, 0.0)),
    }


@pytest.mark.parametrize("name", laws())
def test_every_law_sums_to_one(name):
    scores = laws()[name]
    for size in (2, 3, 4):
        assert_allclose(sum(scores.probability(scope) for scope in combinations(range(6), size)), 1, rtol=1e-13)
    for scope, banned in [((0, 3), ()), ((1,), (4,)), ((0, 1, 2, 4), (5,))]:
        allowed = set(range(6)) - {*scope, *banned}
        total = sum(scores.variable_probability(v, scope, banned) for v in allowed)
        assert_allclose(total, 1, rtol=1e-13)


@pytest.mark.parametrize("name", laws())
def test_draws_follow_the_stated_law(name):
    scores, rng, n = laws()[name], np.random.default_rng(1), 20_000
    pairs = list(combinations(range(6), 2))
    counts = dict.fromkeys(pairs, 0)
    for _ in range(n):
        counts[scores.draw_pair(rng)] += 1
    expected = [n * scores.probability(pair) for pair in pairs]
    assert chisquare(list(counts.values()), expected).pvalue > FALSE_ALARM
    for scope, banned in [((1, 4), ()), ((1,), (2,))]:
        allowed = sorted(set(range(6)) - {*scope, *banned})
        drawn = dict.fromkeys(allowed, 0)
        for _ in range(n):
            drawn[scores.draw_variable(rng, scope, banned)] += 1
        expected = [n * scores.variable_probability(v, scope, banned) for v in allowed]
        assert chisquare(list(drawn.values()), expected).pvalue > FALSE_ALARM
    counts = dict.fromkeys(combinations(range(6), 3), 0)
    for _ in range(n):
        counts[scores.draw_triple(rng)] += 1
    expected = [n * scores.probability(triple) for triple in counts]
    assert chisquare(list(counts.values()), expected).pvalue > FALSE_ALARM


def test_no_variable_is_left_to_draw():
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
def test_bad_triples(triples, message):
    with pytest.raises(OptionError, match=message):
        ScopeDistribution.from_pairs(4, [(0, 1)], [0.0], triples=triples)


def test_the_order_within_and_between_pairs_does_not_matter():
    one = ScopeDistribution.from_pairs(4, [(0, 1), (2, 3)], [1.0, 2.0])
    other = ScopeDistribution.from_pairs(4, [(3, 2), (1, 0)], [2.0, 1.0])
    for scope in scopes_up_to(4, 3):
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
def test_bad_scores(pairs, log_weights, epsilon, message):
    with pytest.raises(OptionError, match=message):
        ScopeDistribution.from_pairs(4, pairs, log_weights, epsilon=epsilon)
