"""NK landscapes: the minimum against all settings, the graph against the definition."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from bench_cases import some
from dechbo.bench.problems import problem
from dechbo.bench.problems.landscape import landscape


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("neighbours", [1, 2, 3])
def test_the_minimum_of_a_small_landscape_is_the_least_of_all_values(neighbours: int, seed: int) -> None:
    small = landscape(7, seed, neighbours=neighbours, choices=("a", "b"))
    every = [small(dict(zip(small.space.names, setting, strict=True))) for setting in itertools.product("ab", repeat=7)]
    assert min(every) == small.optimum
    assert small(some(small.minimiser)) == small.optimum
    assert len(set(every)) > 100


@pytest.mark.parametrize("seed", range(8))
def test_no_single_change_and_no_walk_gets_below_the_minimum(seed: int) -> None:
    large = problem("NK-30", seed)
    for name, choice in itertools.product(large.space.names, "abc"):
        assert large({**some(large.minimiser), name: choice}) >= some(large.optimum)
    rng = np.random.default_rng(seed)
    here = {name: "abc"[rng.integers(3)] for name in large.space.names}
    for _ in range(300):
        there = {**here, large.space.names[rng.integers(30)]: "abc"[rng.integers(3)]}
        if large(there) <= large(here):
            here = there
    assert some(large.optimum) <= large(here) < -0.5


def test_each_variable_has_a_factor_with_two_others() -> None:
    large = problem("NK-30", 3)
    assert [scope[0] for scope in some(large.scopes)] == list(large.space.names)
    assert {len(set(scope)) for scope in some(large.scopes)} == {3}
    assert len({frozenset(scope) for scope in some(large.scopes)}) == 30
    assert -1 <= some(large.optimum) < 0


def test_every_seed_of_a_bench_can_be_solved_exactly() -> None:
    assert all(some(problem("NK-30", seed).optimum) < -0.6 for seed in range(20))
