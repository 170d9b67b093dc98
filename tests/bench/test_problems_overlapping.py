"""Generated functions: the pieces of the proof against brute force, the proof against searches and old records."""

from __future__ import annotations

import itertools
import json
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import approx_fprime

from dechbo.bench.problems.overlapping import (
    SLOW,
    WAVY,
    WaveSum,
    Waviness,
    components,
    max_marginal,
    proved_maximum,
    proved_minimum,
    wave_product,
)
from dechbo.maxsum.exact import elimination_order

RECORD = Path(__file__).parents[2] / "benchmarks" / "results" / "learned_regret.jsonl"
kinds = st.sampled_from([SLOW, WAVY])


@given(dim=st.integers(3, 9), seed=st.integers(0, 10**6), kind=kinds)
def test_tables_are_the_function_on_a_grid(dim: int, seed: int, kind: Waviness) -> None:
    g = WaveSum.random(dim, seed, kind)
    rng = np.random.default_rng(seed)
    grids = [np.sort(rng.random(rng.integers(1, 5))) for _ in range(dim)]
    tables = g.tables(grids)
    choice = [int(rng.integers(len(grid))) for grid in grids]
    point = np.array([grid[k] for grid, k in zip(grids, choice, strict=True)])
    assert tables.value(choice) == pytest.approx(g(point), abs=1e-12)
    products = [wave_product(point[None], *factor)[0] for factor in zip(g.graph.scopes, g.waves, strict=True)]
    assert g(point) == pytest.approx(float(products @ g.weights), abs=1e-12)
    assert g.gradient(point) == pytest.approx(approx_fprime(point, g, 1e-7), abs=1e-4)


@settings(max_examples=10)
@given(seed=st.integers(0, 10**6), kind=kinds)
def test_max_marginals_against_all_choices(seed: int, kind: Waviness) -> None:
    dim, size = 6, 3
    g = WaveSum.random(dim, seed, kind)
    tables = g.tables([np.linspace(0, 1, size)] * dim)
    total = np.zeros([size] * dim)
    for choice in itertools.product(range(size), repeat=dim):
        total[choice] = tables.value(choice)
    order, _ = elimination_order([frozenset(scope) for scope in g.graph.scopes], tables.sizes)
    for i in range(dim):
        expected = total.max(axis=tuple(j for j in range(dim) if j != i))
        assert max_marginal(tables, order, i) == pytest.approx(expected, abs=1e-12)


@given(dim=st.integers(3, 30), seed=st.integers(0, 10**6))
def test_components_share_no_variable_and_add_up(dim: int, seed: int) -> None:
    g = WaveSum.random(dim, seed, WAVY)
    parts = [g.restricted(factors) for factors in components(g.graph)]
    assert sorted(i for variables, _ in parts for i in variables) == list(range(dim))
    x = np.random.default_rng(seed).random(dim)
    assert sum(part(x[variables]) for variables, part in parts) == pytest.approx(g(x), abs=1e-12)


@given(seed=st.integers(0, 10**6), kind=kinds, radius=st.floats(1e-4, 0.1))
@settings(max_examples=20)
def test_near_the_maximum_the_function_falls_by_no_more_than_the_slack(
    seed: int, kind: Waviness, radius: float
) -> None:
    g = WaveSum.random(3, seed, kind)
    place, _ = proved_maximum(g)
    rng = np.random.default_rng(seed)
    free = (place > 0) & (place < 1)
    for _ in range(20):
        near = np.clip(place + free * rng.uniform(-radius, radius, 3), 0, 1)
        assert g(place) - g(near) <= g.slack(radius) + 1e-12


@pytest.mark.parametrize("seed", range(4))
def test_the_proved_maximum_against_a_dense_grid(seed: int) -> None:
    g = WaveSum.random(3, seed, WAVY)
    place, bound = proved_maximum(g)
    axis = np.linspace(0, 1, 81)
    X = np.stack(np.meshgrid(axis, axis, axis, indexing="ij"), axis=-1).reshape(-1, 3)
    parts = [wave_product(X, *factor) for factor in zip(g.graph.scopes, g.waves, strict=True)]
    dense = float((g.weights @ np.array(parts)).max())
    assert dense <= g(place) + 1e-12 <= bound + 1e-12
    assert g(place) - dense <= g.slack(1 / 160)
    assert bound - g(place) < 1e-9


@pytest.mark.parametrize(("dim", "seed"), [(20, 0), (20, 1), (50, 2)])
def test_the_proof_closes_and_no_climb_gets_above_it(dim: int, seed: int) -> None:
    g = WaveSum.random(dim, seed, WAVY)
    place, lower = proved_minimum(dim, seed)
    least = g.negative(np.array(place))
    assert lower <= least + 1e-12
    assert least - lower < 1e-10 * (dim + 1)
    rng = np.random.default_rng(seed)
    for start in [*rng.random((5, dim)), *np.clip(np.array(place) + 0.1 * rng.normal(size=(5, dim)), 0, 1)]:
        assert g.negative(g.local_maximiser(start)) >= least - 1e-12
    # more than one valley: descents from random starts do not all end in the lowest
    assert max(g.negative(g.local_maximiser(start)) for start in rng.random((5, dim))) > least + 0.01


def test_the_ceilings_of_the_recorded_runs_are_the_proved_maxima() -> None:
    ceilings: dict[tuple[int, int], float] = {}
    for row in map(json.loads, RECORD.read_text(encoding="utf-8").splitlines()):
        key = (row["dim"], row["seed"])
        ceilings[key] = max(ceilings.get(key, -np.inf), row["ceiling"])
    assert ceilings
    for (dim, seed), ceiling in list(ceilings.items())[:3]:
        place, lower = proved_minimum(dim, seed, SLOW)
        assert ceiling <= -lower + 1e-12
        assert ceiling == pytest.approx(WaveSum.random(dim, seed)(np.array(place)), abs=1e-6)
