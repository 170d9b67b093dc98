"""Engines: tables of a model maximised on a grid, with solves cached between asks."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import ArrayLike, NDArray

from dechbo.acquisition import AdditiveUCB
from dechbo.data.observations import Observations
from dechbo.errors import OptionError
from dechbo.gp import AdditiveGP, Ensemble, Hyperparameters
from dechbo.graph import FactorGraph
from dechbo.maxsum import Exact, MaxSum
from dechbo.search.engine import LocalEngine, as_engine
from gp_strategies import Case, cases, make_case

Array = NDArray[np.float64]

GRAPH = FactorGraph(4, ((0, 1), (1, 2), (3,), (2, 3, 0)))


def grid_of(case: Case) -> list[Array]:
    return [np.unique(case.points(3)[:, i]) for i in range(case.gp.graph.dim)]


def at(candidates: Sequence[Array], choice: ArrayLike) -> Array:
    return np.array([values[h] for values, h in zip(candidates, np.asarray(choice), strict=True)])


@settings(max_examples=40)
@given(cases(max_dim=4), st.sampled_from([0.0, 1.0, 10.0]), st.integers(0, 2))
def test_the_exact_engine_finds_the_best_grid_point(case: Case, beta: float, pending: int) -> None:
    """Against the acquisition at every point of the grid, from the posterior and not from tables."""
    candidates = grid_of(case)
    waiting = case.points(pending) if pending else None
    found = LocalEngine(Exact()).suggest(case.gp, case.data, beta, candidates, pending=waiting)
    posterior = case.gp.condition(case.data).with_pending(case.points(0) if waiting is None else waiting)
    values = AdditiveUCB(posterior, beta).values(np.array(list(itertools.product(*candidates))))
    assert found.value == pytest.approx(values.max(), rel=1e-9, abs=1e-9)
    chosen = AdditiveUCB(posterior, beta).values(at(candidates, found.choice)[None])[0]
    assert chosen == pytest.approx(found.value, rel=1e-9, abs=1e-9)


@settings(max_examples=25)
@given(cases(max_dim=4), st.sampled_from([0.5, 10.0]))
def test_the_default_engine_is_bracketed_by_its_certificate(case: Case, beta: float) -> None:
    candidates = grid_of(case)
    found = LocalEngine().suggest(case.gp, case.data, beta, candidates)
    best = LocalEngine(Exact()).suggest(case.gp, case.data, beta, candidates).value
    assert found.value <= best + 1e-9
    assert best <= found.upper_bound + 1e-9


@pytest.mark.parametrize("memory_limit", [2**30, 0])
def test_recurring_candidates_change_no_suggestion(memory_limit: int) -> None:
    case = make_case(np.random.default_rng(0), GRAPH, ["matern52", "se", "categorical", "matern52"], 20, 0.05)
    candidates = [case.rng.random(4), case.rng.random(3), np.arange(3.0), case.rng.random(5)]
    keeping, fresh = LocalEngine(MaxSum(), memory_limit=memory_limit), LocalEngine(MaxSum())
    for n in (3, 4, 4, 15, 20, 6):
        data = Observations(case.data.X[:n], case.data.y[:n])
        pending = case.points(2) if n % 2 else None
        cached = keeping.suggest(case.gp, data, 4.0, candidates, pending=pending, recurring=True)
        plain = fresh.suggest(case.gp, data, 4.0, candidates, pending=pending)
        np.testing.assert_array_equal(cached.choice, plain.choice)
        assert cached.value == pytest.approx(plain.value, rel=1e-9)
        # candidates that do not recur leave the cache alone
        keeping.suggest(case.gp, data, 4.0, [values[:2] for values in candidates])


def test_a_prepared_engine_answers_as_one_that_has_suggested() -> None:
    """Resume: bit for bit the same values, because the cached solves went through the same steps."""
    case = make_case(np.random.default_rng(1), GRAPH, ["matern52"] * 4, 12, 0.05)
    candidates = [case.rng.random(4) for _ in range(4)]
    first, second = LocalEngine(), LocalEngine()
    for n in (5, 6, 9):
        data = Observations(case.data.X[:n], case.data.y[:n])
        first.suggest(case.gp, data, 3.0, candidates, recurring=True)
        second.prepare(case.gp, data, candidates)
    last = Observations(case.data.X, case.data.y)
    one, two = (engine.suggest(case.gp, last, 3.0, candidates, recurring=True) for engine in (first, second))
    assert one.value == two.value
    np.testing.assert_array_equal(one.choice, two.choice)


def test_a_pending_point_is_avoided() -> None:
    """Without noise and with one factor nothing is left to learn at a pending point: another one is chosen."""
    case = make_case(np.random.default_rng(2), FactorGraph(1, ((0,),)), ["matern52"], 2, 1e-6)
    candidates = [np.linspace(0, 1, 21)]
    engine = LocalEngine(Exact())
    first = engine.suggest(case.gp, case.data, 100.0, candidates)
    waiting = at(candidates, first.choice)[None]
    second = engine.suggest(case.gp, case.data, 100.0, candidates, pending=waiting)
    assert first.choice[0] != second.choice[0]
    assert second.value < first.value


def test_an_ensemble_keeps_the_solves_of_every_member() -> None:
    rng = np.random.default_rng(4)
    X = rng.random((20, 3))
    y = rng.standard_normal(20)
    graphs = [FactorGraph.singletons(3), FactorGraph(3, ((0, 1), (2,))), FactorGraph(3, ((0, 1, 2),))]
    members = tuple(
        AdditiveGP(graph, Hyperparameters(rng.uniform(0.2, 1, 3), np.ones(len(graph.scopes)), 0.01)) for graph in graphs
    )
    candidates = [rng.random(4), rng.random(3), rng.random(5)]
    keeping = LocalEngine()
    for count, n in [(3, 8), (3, 9), (3, 15), (2, 15), (2, 20), (3, 20)]:
        gp = Ensemble(members[:count], (1 / count,) * count)
        data = Observations(X[:n], y[:n])
        cached = keeping.suggest(gp, data, 2.0, candidates, recurring=True)
        scratch = LocalEngine().suggest(gp, data, 2.0, candidates)
        assert cached.value == pytest.approx(scratch.value, rel=1e-10)
        np.testing.assert_array_equal(cached.choice, scratch.choice)


@settings(max_examples=20)
@given(cases(max_dim=4), st.integers(0, 2**32 - 1))
def test_extra_tables_are_added(case: Case, seed: int) -> None:
    """Against the acquisition plus the extra table at every point of the grid."""
    rng, candidates = np.random.default_rng(seed), grid_of(case)
    i, j = 0, case.gp.graph.dim - 1
    scope = (j, i) if i != j else (0,)
    cells = rng.normal(size=[len(candidates[k]) for k in scope])
    cells[rng.random(cells.shape) < 0.3] = -np.inf
    if not np.isfinite(cells).any():
        cells.flat[0] = 0.0
    found = LocalEngine(Exact()).suggest(case.gp, case.data, 2.0, candidates, extra=[(scope, cells)])
    choices = np.array(list(itertools.product(*(range(len(values)) for values in candidates))))
    points = np.array([at(candidates, choice) for choice in choices])
    values = AdditiveUCB(case.gp.condition(case.data), 2.0).values(points) + cells[tuple(choices[:, scope].T)]
    assert found.value == pytest.approx(values.max(), rel=1e-9, abs=1e-9)


@pytest.mark.parametrize("given", ["ray", LocalEngine, 3, MaxSum()])
def test_what_is_no_engine_is_refused_at_once(given: Any) -> None:
    with pytest.raises(OptionError, match="an engine has a method suggest"):
        as_engine(given, None)
