"""One step: a pure suggestion."""

from __future__ import annotations

import numpy as np
import pytest

from dechbo import Categorical, FactorGraph, Float, Int, Space
from dechbo.data.evaluation import Evaluation
from dechbo.data.history import History
from dechbo.optimizer.problem import SearchState
from dechbo.optimizer.step import suggest
from dechbo.search.engine import LocalEngine
from optimizer_cases import box, problem_in, told


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
