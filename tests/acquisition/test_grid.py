from __future__ import annotations

import itertools
import random
from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from dechbo.acquisition import ucb_tables
from dechbo.data.observations import Observations
from dechbo.gp import AdditiveGP, Hyperparameters
from dechbo.gp.additive import AdditivePosterior
from dechbo.graph import FactorGraph
from gp_strategies import CATEGORIES, Case, cases, dense_moments, factor_kernel, relabelled, summed_kernel

Array = NDArray[np.float64]


def grids(case: Case, sizes: list[int]) -> list[Array]:
    """Candidates of each variable, of different numbers; categories are their own candidates."""
    categories = np.arange(float(CATEGORIES))
    return [
        categories if name == "categorical" else case.rng.random(size)
        for name, size in zip(case.gp.kernels, sizes, strict=True)
    ]


@st.composite
def gridded(draw: st.DrawFn) -> tuple[Case, list[Array]]:
    case = draw(cases())
    sizes = draw(st.lists(st.integers(1, 4), min_size=case.gp.graph.dim, max_size=case.gp.graph.dim))
    return case, grids(case, sizes)


def cells(candidates: list[Array], scope: tuple[int, ...]) -> Array:
    """The points of one table, in its order."""
    return np.array(list(itertools.product(*(candidates[i] for i in scope))))


def from_factors(posterior: AdditivePosterior, candidates: list[Array], beta: float) -> list[Array]:
    tables = []
    for k, scope in enumerate(posterior.gp.graph.scopes):
        mean, deviation = posterior.factor(k, cells(candidates, scope))
        tables.append((mean + np.sqrt(beta) * deviation).reshape([len(candidates[i]) for i in scope]))
    return tables


def assert_same_tables(found: Sequence[Array], expected: Sequence[Array], *, rtol: float, atol: float = 0.0) -> None:
    assert len(found) == len(expected)
    for table, other in zip(found, expected, strict=True):
        np.testing.assert_allclose(table, other, rtol=rtol, atol=atol)


@settings(max_examples=50)
@given(gridded(), st.sampled_from([0.0, 1.0, 30.0]), st.integers(0, 2))
def test_every_cell_is_that_of_the_posterior(problem: tuple[Case, list[Array]], beta: float, pending: int) -> None:
    case, candidates = problem
    posterior = case.gp.condition(case.data).with_pending(case.points(pending))
    tables = ucb_tables(posterior, candidates, beta)
    assert tables.graph == case.gp.graph
    assert list(tables.sizes) == [len(values) for values in candidates]
    assert_same_tables(tables.values, from_factors(posterior, candidates, beta), rtol=1e-9, atol=1e-10)


@settings(max_examples=30)
@given(gridded())
def test_cells_equal_the_dense_formula(problem: tuple[Case, list[Array]]) -> None:
    case, candidates = problem
    gp, data = case.gp, case.data
    tables = ucb_tables(gp.condition(data), candidates, 4.0)
    K, noise = summed_kernel(gp)(data.X), gp.hyperparameters.noise + data.noise
    for k, scope in enumerate(gp.graph.scopes):
        points = np.zeros((tables.values[k].size, gp.graph.dim))
        points[:, scope] = cells(candidates, scope)
        k_star = factor_kernel(gp, k)(data.X, points)
        mean, variance = dense_moments(k_star, gp.hyperparameters.variances[k], K, noise, data.y)
        np.testing.assert_allclose(tables.values[k].ravel(), mean + 2 * np.sqrt(variance), rtol=1e-7, atol=1e-8)


@settings(max_examples=30)
@given(gridded(), st.randoms(use_true_random=False))
def test_relabelling_commutes(problem: tuple[Case, list[Array]], random: random.Random) -> None:
    case, candidates = problem
    gp, data = case.gp, case.data
    other, old = relabelled(gp, random)
    there = ucb_tables(
        other.condition(Observations(data.X[:, old], data.y, data.noise)), [candidates[i] for i in old], 2.0
    )
    here = ucb_tables(gp.condition(data), candidates, 2.0)
    assert_same_tables(there.values, here.values, rtol=1e-10, atol=1e-11)


def test_beta_zero_gives_the_mean_and_its_tables_sum_to_the_joint_mean() -> None:
    graph = FactorGraph(3, ((2, 0), (1,), (0, 1)))
    rng = np.random.default_rng(0)
    gp = AdditiveGP(graph, Hyperparameters([0.2, 0.4, 0.3], [1.0, 2.0, 0.5], 0.01))
    posterior = gp.condition(Observations(rng.random((9, 3)), rng.normal(size=9)))
    candidates = [rng.random(3), rng.random(4), rng.random(2)]
    tables = ucb_tables(posterior, candidates, 0.0)
    for choice in itertools.product(range(3), range(4), range(2)):
        point = np.array([[values[h] for values, h in zip(candidates, choice, strict=True)]])
        assert tables.value(choice) == pytest.approx(posterior.joint(point)[0][0], rel=1e-9, abs=1e-10)


def test_at_noise_free_data_the_table_of_a_single_factor_is_the_value() -> None:
    x = np.array([0.1, 0.5, 0.9])
    gp = AdditiveGP(FactorGraph(1, ((0,),)), Hyperparameters([0.2], [1.0], 0.0))
    tables = ucb_tables(gp.condition(Observations(x[:, None], np.array([3.0, -1.0, 2.0]))), [x], 9.0)
    np.testing.assert_allclose(tables.values[0], [3.0, -1.0, 2.0], atol=1e-6)
