"""The problem of a run: what a beta schedule replaces, excluded points."""

from __future__ import annotations

import numpy as np

from dechbo.data.evaluation import Evaluation
from dechbo.models.builder import ModelBuilder
from dechbo.models.options import ModelOptions
from dechbo.optimizer.problem import SearchProblem
from dechbo.search.decision import Portfolio
from dechbo.search.options import SearchOptions
from dechbo.theory import TheoryOptions
from optimizer_cases import box, problem_in, told


def test_evaluated_and_pending_points_are_excluded_unless_values_are_noisy() -> None:
    space, history = box(2), told(box(2), 3)
    history.external.append({"x0": 0.5, "x1": 0.5})
    assert len(problem_in(space).excluded(history).points) == 4
    assert len(problem_in(space, noise=0.0).excluded(history).points) == 4
    assert len(problem_in(space, noise=0.1).excluded(history).points) == 0
    history.tell(Evaluation.of({"x0": 0.25, "x1": 0.75}, None))
    np.testing.assert_array_equal(problem_in(space, noise=0.1).excluded(history).points, [[0.25, 0.75]])
    assert len(problem_in(space).excluded(history).points) == 5


def test_the_theorys_betas_replace_the_options_that_suggest_other_points() -> None:
    builder = ModelBuilder(box(2), "learned", 0, 1.0, options=ModelOptions(graph_samples=2))
    search = SearchOptions(score="joint")
    free = SearchProblem.of(builder, search, TheoryOptions(beta="practical"), 3)
    assert free.builder is builder
    assert free.search is search
    bound = SearchProblem.of(builder, search, TheoryOptions(beta="theory-factor"), 3)
    assert bound.search == SearchOptions(score="factors")
    given = SearchProblem.of(builder, SearchOptions(score="factors"), TheoryOptions(beta="theory"), 3)
    assert given.switched_off == ()


def test_what_is_switched_off_is_named_also_where_constraints_are_told() -> None:
    builder, plain, history = ModelBuilder(box(2), "learned", 0, 1.0), told(box(2), 3), told(box(2), 3)
    history.tell(Evaluation.of({"x0": 0.5, "x1": 0.5}, 1.0, None, {"c": 0.3}))
    for score, beta, alone, constrained in (
        ("joint", "practical", (), ()),
        ("joint", 2.0, (), ("beta",)),
        ("joint", "theory", ('score="joint"',), ("beta",)),
        ("factors", "practical", (), ('score="factors"',)),
        ("factors", "theory", (), ('score="factors"', "beta")),
    ):
        problem = SearchProblem.of(builder, SearchOptions(score=score), TheoryOptions(beta=beta), 3)
        assert problem.all_switched_off(plain) == alone
        assert problem.all_switched_off(history) == constrained
        assert problem.decides_by_factors(plain) == (score == "factors" or beta == "theory")
        assert not problem.decides_by_factors(history)


def test_a_beta_of_the_users_own_decides_alone() -> None:
    builder = ModelBuilder(box(2), "learned", 0, 1.0)
    for beta, expected in ((2.5, 2.5), (lambda t: 10.0 + t, 17.0)):
        portfolio = SearchProblem.of(builder, SearchOptions(), TheoryOptions(beta=beta), 3).portfolio(7)
        assert (portfolio.turns, portfolio.beta) == (("bound",), expected)
    assert SearchProblem.of(builder, SearchOptions(), TheoryOptions(), 3).portfolio(7) == Portfolio()
    only = SearchOptions(acquisitions=("improvement",))
    assert SearchProblem.of(builder, only, TheoryOptions(), 3).portfolio(7) == Portfolio(("improvement",))
