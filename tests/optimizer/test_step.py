"""One step: a pure suggestion, what a beta schedule switches off, the initial design, excluded points."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from dechbo import Categorical, FactorGraph, Float, Int, Optimizer, Space
from dechbo.data.evaluation import Evaluation
from dechbo.data.history import History
from dechbo.errors import SpaceExhausted
from dechbo.models.builder import ModelBuilder
from dechbo.models.options import ModelOptions
from dechbo.optimizer.step import (
    SearchProblem,
    SearchState,
    excluded_points,
    initial_point,
    needs_initial_point,
    suggest,
)
from dechbo.search.decision import Portfolio
from dechbo.search.engine import LocalEngine
from dechbo.search.options import SearchOptions
from dechbo.structure import StructureOptions
from dechbo.theory import TheoryOptions
from optimizer_cases import bowl, box, info_of, run


def problem_in(
    space: Space,
    *,
    graph: FactorGraph | str | None = None,
    score: str = "joint",
    noise: float | None = None,
    n_initial: int = 3,
) -> SearchProblem:
    given = FactorGraph.singletons(space.dim) if graph is None else graph
    options = ModelOptions(members=("smooth", "whole"), structure=StructureOptions(chains=1, sweeps=2))
    builder = ModelBuilder(space, given, 0, -1.0, noise, options=options)
    return SearchProblem.of(builder, SearchOptions(score=score), TheoryOptions(), n_initial)


def told(space: Space, n: int) -> History:
    history = History(space)
    for u in np.random.default_rng(0).random((n, space.dim)):
        params = space.decode(space.from_uniform(u))
        history.tell(Evaluation.of(params, float(len(str(params)))))
    return history


def test_the_initial_design_ends_with_enough_points_and_one_success() -> None:
    space, history = box(2), History(box(2))
    problem = problem_in(space)
    for outcome in (None, None, None):
        history.tell(Evaluation.of({"x0": 0.1, "x1": 0.1}, outcome))
    assert needs_initial_point(problem, history)  # enough points, no success
    history.tell(Evaluation.of({"x0": 0.2, "x1": 0.1}, 1.0))
    assert not needs_initial_point(problem, history)
    assert needs_initial_point(problem_in(space, n_initial=5), history)
    history.external.append({"x0": 0.5, "x1": 0.5})
    assert not needs_initial_point(problem_in(space, n_initial=5), history)  # a pending point counts


def test_evaluated_and_pending_points_are_excluded_unless_values_are_noisy() -> None:
    space, history = box(2), told(box(2), 3)
    history.external.append({"x0": 0.5, "x1": 0.5})
    assert len(excluded_points(problem_in(space), history).points) == 4
    assert len(excluded_points(problem_in(space, noise=0.0), history).points) == 4
    assert len(excluded_points(problem_in(space, noise=0.1), history).points) == 0


def test_an_exhausted_space_has_no_initial_point() -> None:
    space = Space({"n": Int(0, 1)})
    history = History(space)
    for _ in range(2):
        point = initial_point(problem_in(space), history, {})
        assert point not in excluded_points(problem_in(space), history)
        history.tell(Evaluation.of(space.decode(point), None))
    with pytest.raises(SpaceExhausted, match="neither evaluated nor pending"):
        initial_point(problem_in(space), history, {})


@pytest.mark.parametrize("score", ["factors", "joint"])
def test_a_step_is_pure(score: str) -> None:
    """The same problem and history give the same point, and stay as they were."""
    space, history = box(2), told(box(2), 6)
    problem = problem_in(space, score=score)
    before = history.to_json()
    points = [suggest(problem, history, SearchState(), {0: 0.25}, LocalEngine())[0].point for _ in range(2)]
    np.testing.assert_array_equal(points[0], points[1])
    assert points[0][0] == 0.25
    assert history.to_json() == before


@pytest.mark.parametrize("score", ["factors", "joint"])
@pytest.mark.parametrize(
    "graph", [FactorGraph(3, ((0, 1), (2,))), "learned", "random"], ids=["given", "learned", "random"]
)
def test_an_empty_state_gives_the_suggestion_of_the_carried_one(graph: FactorGraph | str, score: str) -> None:
    """Bit for bit, with pending points, failures and a constraint on the way."""
    space = Space({"a": Float(0, 1), "b": Int(0, 7), "c": Categorical(["p", "q", "r"])})
    problem = problem_in(space, graph=graph, score=score, n_initial=4)
    history, state, engine = History(space), SearchState(), LocalEngine()
    for k in range(23):
        suggested, state = suggest(problem, history, state, {}, engine)
        if k in (5, 9, 10, 13, 20, 22):
            fresh, _ = suggest(problem, history, SearchState(), {}, LocalEngine())
            np.testing.assert_array_equal(fresh.point, suggested.point)
            assert fresh.info.source == suggested.info.source
            assert fresh.info.polished_value == suggested.info.polished_value or k < 4
        params = space.decode(suggested.point)
        history.ask(params, {}, modelled=suggested.info.source != "initial design")
        if k % 5 != 4:  # every fifth stays pending
            value = None if k == 6 else params["a"] * params["b"] + len(params["c"])
            limits = {"limit": params["a"] - 0.8} if score == "joint" and k > 11 else None
            history.tell(Evaluation.of(params, value, None, limits))


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


def test_a_beta_of_the_users_own_decides_alone() -> None:
    builder = ModelBuilder(box(2), "learned", 0, 1.0)
    for beta, expected in ((2.5, 2.5), (lambda t: 10.0 + t, 17.0)):
        portfolio = SearchProblem.of(builder, SearchOptions(), TheoryOptions(beta=beta), 3).portfolio(7)
        assert (portfolio.turns, portfolio.beta) == (("bound",), expected)
    assert SearchProblem.of(builder, SearchOptions(), TheoryOptions(), 3).portfolio(7) == Portfolio()
    only = SearchOptions(acquisitions=("improvement",))
    assert SearchProblem.of(builder, only, TheoryOptions(), 3).portfolio(7) == Portfolio(("improvement",))


def test_a_beta_schedule_of_the_theory_says_what_it_switches_off() -> None:
    options: dict[str, Any] = {"seed": 0, "n_initial": 3, "search": SearchOptions(score="joint")}
    for beta, switched_off in {"theory": ('score="joint"',), "practical": ()}.items():
        optimizer = Optimizer(box(2), theory=TheoryOptions(beta=beta), **options)
        run(optimizer, bowl, 4)
        assert info_of(optimizer).switched_off == switched_off


def test_a_given_graph_with_a_large_factor_says_that_its_kernels_are_plain() -> None:
    for size, switched_off in ((4, ()), (5, ("centred",))):
        graph = FactorGraph(6, (tuple(range(size)), (5,)) if size == 5 else (tuple(range(4)), (4,), (5,)))
        optimizer = Optimizer(box(6), seed=0, n_initial=2, graph=graph)
        run(optimizer, bowl, 3)
        assert info_of(optimizer).switched_off == switched_off


def test_theory_factor_is_smaller_than_theory() -> None:
    betas = []
    for beta in ("theory", "theory-factor"):
        optimizer = Optimizer(box(6), seed=0, theory=TheoryOptions(beta=beta), n_initial=3)
        run(optimizer, bowl, 4)
        betas.append(info_of(optimizer).beta)
    assert betas[1] < betas[0]


@pytest.mark.parametrize("beta", ["theory", "theory-factor", "practical", 1.5, lambda t: 2 * math.log(t + 1)])
@pytest.mark.parametrize("space", [box(2), Space({"a": Int(0, 9), "b": Categorical(["p", "q", "r"])})])
def test_every_beta_works_on_finite_and_continuous_spaces(beta: Any, space: Space) -> None:
    optimizer = Optimizer(space, seed=0, theory=TheoryOptions(beta=beta), n_initial=3)
    run(optimizer, lambda p: float(len(str(p))), 5)
    assert beta == "practical" or info_of(optimizer).beta > 0
