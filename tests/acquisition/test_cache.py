from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

import dechbo.acquisition.cache as cache_module
from dechbo.acquisition import TableCache, ucb_tables
from dechbo.acquisition.solves import candidate_rows
from dechbo.data.observations import Observations
from dechbo.gp import AdditiveGP, Hyperparameters
from dechbo.gp.additive import AdditivePosterior
from dechbo.graph import FactorGraph
from gp_strategies import Case, cases

Array = NDArray[np.float64]

GRAPH = FactorGraph(4, ((0,), (1, 0), (2, 3, 1)))
THETA = Hyperparameters([0.3, 0.2, 0.5, 0.4], [1.0, 0.5, 2.0], 0.01)


@pytest.fixture
def rng() -> np.random.Generator:
    return np.random.default_rng(0)


@pytest.fixture
def gp() -> AdditiveGP:
    return AdditiveGP(GRAPH, THETA)


@pytest.fixture
def data(rng: np.random.Generator) -> Observations:
    return Observations(rng.random((60, 4)), rng.normal(size=60), rng.uniform(0, 0.05, 60))


@pytest.fixture
def candidates(rng: np.random.Generator) -> list[Array]:
    return [rng.random(size) for size in (3, 4, 2, 5)]


def first(data: Observations, n: int) -> Observations:
    return Observations(data.X[:n], data.y[:n], data.noise[:n])


def held_bytes(cache: TableCache) -> int:
    return sum(value.nbytes for value in vars(cache).values() if isinstance(value, np.ndarray))


def assert_equals_scratch(
    posterior: AdditivePosterior, candidates: list[Array], cache: TableCache, beta: float = 3.0
) -> None:
    found = ucb_tables(posterior, candidates, beta, cache=cache)
    expected = ucb_tables(posterior, candidates, beta)
    np.testing.assert_allclose(found.flat, expected.flat, rtol=1e-9, atol=1e-10)


@settings(max_examples=40)
@given(cases(max_observations=40), st.data())
def test_any_history_equals_scratch(case: Case, data: st.DataObject) -> None:
    """More observations, fewer, with pending points and without: always the tables from scratch."""
    candidates = [np.unique(case.points(data.draw(st.integers(1, 3)))[:, i]) for i in range(case.gp.graph.dim)]
    cache = TableCache()
    for n in data.draw(st.lists(st.integers(1, len(case.data)), min_size=2, max_size=6)):
        pending = case.points(data.draw(st.integers(0, 3)))
        posterior = case.gp.condition(first(case.data, n)).with_pending(pending)
        assert_equals_scratch(posterior, candidates, cache)


@pytest.mark.parametrize("history", [range(1, 30), (1, 2, 20, 21, 60), (5, 60), (13, 22, 31), (1, 10), (2, 12)])
def test_growth_by_one_and_by_many(
    gp: AdditiveGP, data: Observations, candidates: list[Array], history: Sequence[int]
) -> None:
    cache = TableCache()
    for n in history:
        assert_equals_scratch(gp.condition(first(data, n)), candidates, cache)


def test_only_new_rows_are_computed(
    gp: AdditiveGP, data: Observations, candidates: list[Array], monkeypatch: pytest.MonkeyPatch
) -> None:
    computed = []

    def recorded(posterior: AdditivePosterior, values: Sequence[Array], start: int = 0) -> list[Array]:
        computed.append(len(posterior.X) - start)
        return candidate_rows(posterior, values, start)

    monkeypatch.setattr(cache_module, "candidate_rows", recorded)
    cache = TableCache()
    for n in (20, 21, 21, 24):
        assert cache.prepare(gp.condition(first(data, n)), candidates)
    assert computed == [20, 1, 3]
    with_pending = gp.condition(first(data, 24)).with_pending(data.X[40:42])
    assert_equals_scratch(with_pending, candidates, cache)
    assert_equals_scratch(gp.condition(first(data, 25)), candidates, cache)
    assert computed == [20, 1, 3, 2, 1]


def test_pending_points_never_enter(
    gp: AdditiveGP, data: Observations, candidates: list[Array], rng: np.random.Generator
) -> None:
    cache = TableCache()
    for n in (10, 11, 12):
        posterior = gp.condition(first(data, n))
        assert_equals_scratch(posterior.with_pending(rng.random((3, 4))), candidates, cache)
        assert_equals_scratch(posterior.with_pending(rng.random((1, 4))).with_pending(data.X[50:52]), candidates, cache)
        assert_equals_scratch(posterior, candidates, cache)


def test_truncated_data(gp: AdditiveGP, data: Observations, candidates: list[Array]) -> None:
    cache = TableCache()
    for n in (30, 7, 30, 29):
        assert_equals_scratch(gp.condition(first(data, n)), candidates, cache)


def test_observations_that_became_pending(gp: AdditiveGP, data: Observations, candidates: list[Array]) -> None:
    """The same points and the same L, but the last two count as pending now."""
    cache = TableCache()
    assert_equals_scratch(gp.condition(Observations(data.X[:10], data.y[:10])), candidates, cache)
    fewer = gp.condition(Observations(data.X[:8], data.y[:8]))
    assert_equals_scratch(fewer.with_pending(data.X[8:10]), candidates, cache)


def test_mirrored_points_have_the_same_l(gp: AdditiveGP, data: Observations, candidates: list[Array]) -> None:
    cache = TableCache()
    one, other = (gp.condition(Observations(X, data.y[:10])) for X in (data.X[:10], 1 - data.X[:10]))
    np.testing.assert_allclose(one.L, other.L, rtol=1e-10)
    assert_equals_scratch(one, candidates, cache)
    assert_equals_scratch(other, candidates, cache)


def test_two_models_may_have_the_same_l(data: Observations, candidates: list[Array]) -> None:
    """Two variables that always agree: their factors may swap variances, and the sum is the same."""
    cache = TableCache()
    same = Observations(np.repeat(data.X[:8, :1], 4, axis=1), data.y[:8])
    for variances in ([1.0, 2.0, 3.0, 4.0], [4.0, 3.0, 2.0, 1.0]):
        model = AdditiveGP(FactorGraph.singletons(4), Hyperparameters([0.3] * 4, variances, 0.01))
        assert_equals_scratch(model.condition(same), candidates, cache)


@pytest.mark.parametrize("row", [0, 4, 9])
def test_changed_points(gp: AdditiveGP, data: Observations, candidates: list[Array], row: int) -> None:
    cache = TableCache()
    assert_equals_scratch(gp.condition(first(data, 10)), candidates, cache)
    X = data.X[:12].copy()
    X[row] += 0.01
    assert_equals_scratch(gp.condition(Observations(X, data.y[:12], data.noise[:12])), candidates, cache)


def test_changed_values_and_noise(gp: AdditiveGP, data: Observations, candidates: list[Array]) -> None:
    cache = TableCache()
    assert_equals_scratch(gp.condition(first(data, 10)), candidates, cache)
    assert_equals_scratch(gp.condition(Observations(data.X[:10], -data.y[:10], data.noise[:10])), candidates, cache)
    assert_equals_scratch(
        gp.condition(Observations(data.X[:11], data.y[:11], data.noise[:11] + 0.1)), candidates, cache
    )


def test_changed_candidates_and_model(
    gp: AdditiveGP, data: Observations, candidates: list[Array], rng: np.random.Generator
) -> None:
    cache = TableCache()
    posterior = gp.condition(first(data, 10))
    assert_equals_scratch(posterior, candidates, cache)
    assert_equals_scratch(posterior, [values + 0.01 for values in candidates], cache)
    assert_equals_scratch(posterior, [rng.random(3) for _ in range(4)], cache)
    other = AdditiveGP(GRAPH, Hyperparameters(THETA.lengthscales * 1.1, THETA.variances, THETA.noise))
    assert_equals_scratch(other.condition(first(data, 10)), candidates, cache)
    assert_equals_scratch(posterior, candidates, cache)
    assert_equals_scratch(posterior, candidates, cache, beta=0.5)


def test_duplicates_without_noise(data: Observations, candidates: list[Array]) -> None:
    """Jitter that comes with the eleventh observation changes L as a whole."""
    gp = AdditiveGP(GRAPH, Hyperparameters(THETA.lengthscales, THETA.variances, 0.0))
    clean = Observations(data.X[:10], data.y[:10])
    cache = TableCache()
    assert_equals_scratch(gp.condition(clean), candidates, cache)
    doubled = gp.condition(clean.append(data.X[3], data.y[3]))
    assert doubled.jitter > 0
    found, expected = (ucb_tables(doubled, candidates, 3.0, cache=kept) for kept in (cache, None))
    np.testing.assert_allclose(found.flat, expected.flat, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("limit", [0, 100, 3000, 10_000, 20_000, 50_000])
def test_the_memory_limit_is_respected(gp: AdditiveGP, data: Observations, candidates: list[Array], limit: int) -> None:
    cache = TableCache(memory_limit=limit)
    fitted = []
    for n in range(1, 41):
        posterior = gp.condition(first(data, n))
        fitted.append(cache.prepare(posterior, candidates))
        assert held_bytes(cache) <= limit
        assert_equals_scratch(posterior, candidates, cache)
    assert fitted == sorted(fitted, reverse=True)  # once too large, always too large
    cells = 3 + 12 + 40
    assert fitted[0] == (limit >= 8 * cells * 10)


def test_the_cache_comes_back_after_it_did_not_fit(gp: AdditiveGP, data: Observations, candidates: list[Array]) -> None:
    cache = TableCache(memory_limit=8 * 55 * 30)
    for n, fits in ((10, True), (50, False), (11, True), (12, True)):
        assert cache.prepare(gp.condition(first(data, n)), candidates) is fits
        assert_equals_scratch(gp.condition(first(data, n)), candidates, cache)
