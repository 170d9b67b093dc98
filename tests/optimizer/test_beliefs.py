"""Beliefs: models are functions of the history; what is kept between calls only saves work."""

from __future__ import annotations

import numpy as np
import pytest

from dechbo import FactorGraph, Space
from dechbo.data.evaluation import Evaluation
from dechbo.data.history import History
from dechbo.errors import NoObservations
from dechbo.models.builder import ModelBuilder
from dechbo.models.committee import Committee
from dechbo.models.model import Model
from dechbo.models.options import ModelOptions
from dechbo.optimizer.beliefs import Beliefs
from dechbo.optimizer.problem import SearchProblem
from dechbo.search.engine import LocalEngine
from dechbo.search.options import SearchOptions
from dechbo.structure import StructureOptions
from dechbo.theory import TheoryOptions
from optimizer_cases import box

SPACE = box(2)


def beliefs(score: str = "joint", graph: FactorGraph | str = "learned", beta: str = "practical") -> Beliefs:
    structure = StructureOptions(chains=1, sweeps=2)
    options = ModelOptions(members=("smooth", "whole"), graph_samples=1, structure=structure)
    builder = ModelBuilder(SPACE, graph, 0, -1.0, options=options)
    problem = SearchProblem.of(builder, SearchOptions(score=score), TheoryOptions(beta=beta), 3)
    return Beliefs(problem, LocalEngine())


def told(n: int, space: Space = SPACE) -> History:
    history = History(space)
    for u in np.random.default_rng(0).random((n, space.dim)):
        history.tell(Evaluation.of(space.decode(u), float(np.sin(4 * u).sum() + u[0] * u[1])))
    return history


def test_a_committee_is_that_of_the_history_whatever_was_asked_before() -> None:
    used, point = beliefs(), np.array([0.3, 0.7])
    for n in (5, 12):
        used.suggest(told(n), {})
    again = used.committee(told(12))
    assert used.committee(told(12)) is again  # kept until there are more evaluations
    assert used.committee(told(13)).predict(point) == beliefs().committee(told(13)).predict(point)
    used.clear()
    assert used.committee(told(12)) is not again
    assert used.committee(told(12)).predict(point) == again.predict(point)


def test_the_next_ask_believes_the_committee_or_the_factors_model() -> None:
    history = told(8)
    assert isinstance(beliefs().of_next_ask(history), Committee)
    assert isinstance(beliefs("factors").of_next_ask(history), Model)
    assert isinstance(beliefs(beta="theory-factor").of_next_ask(history), Model)  # which switches the committee off


def test_the_structure_is_kept_until_there_are_more_evaluations() -> None:
    known = beliefs()
    first = known.structure(told(16))
    assert first.learned is not None
    assert known.structure(told(16)) is first
    assert known.structure(told(17)) is not first


def test_a_quick_structure_is_that_of_the_asks_own_graph() -> None:
    known = beliefs()
    assert known.quick_structure(told(8)) is None  # nothing is learned from so few
    quick = known.quick_structure(told(20))
    assert quick is not None
    assert quick.learned is not None
    assert quick.gp.graph == known.last_graph(told(20))
    assert beliefs(graph=FactorGraph.singletons(2)).quick_structure(told(20)) is None
    assert beliefs("factors").quick_structure(told(20)) is None


def test_the_graph_before_any_model_is_the_one_it_will_start_from() -> None:
    pair = FactorGraph(2, ((0, 1),))
    assert beliefs().last_graph(told(4)) == FactorGraph.singletons(2)
    assert beliefs("factors", pair).last_graph(told(4)).max_factor_size == 2


def test_where_constraints_are_told_the_committee_is_believed() -> None:
    history = told(12)
    for u in np.random.default_rng(1).random((3, 2)):
        history.tell(Evaluation.of(SPACE.decode(u), float(u[0]), None, {"c": float(u[1] - 0.5)}))
    for known in (beliefs("factors"), beliefs(beta="theory-factor")):
        assert isinstance(known.of_next_ask(told(12)), Model)
        assert isinstance(known.of_next_ask(history), Committee)
        known.suggest(history, {})
        learned = known.state.fits.graph
        assert known.last_graph(history) == (FactorGraph.singletons(2) if learned is None else learned.graph)


def test_the_last_graph_is_the_committees_whatever_was_reported() -> None:
    reported, plain = beliefs(), beliefs()
    reported.factor_model(told(8))
    for known in (reported, plain):
        known.committee(told(45))
    assert reported.last_graph(told(45)) == plain.last_graph(told(45))


def test_without_a_success_nothing_is_believed() -> None:
    history = History(SPACE)
    history.tell(Evaluation.of({"x0": 0.5, "x1": 0.5}, None))
    for ask in (beliefs().committee, beliefs().structure, beliefs().of_next_ask):
        with pytest.raises(NoObservations, match="successful evaluation"):
            ask(history)
