from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dechbo.distributed.exchange import Place, all_reduce, exact_sums
from dechbo.distributed.in_process import run_in_process


@pytest.mark.parametrize("parts", [1, 2, 3, 7])
def test_all_reduce_gives_every_part_the_same(parts: int) -> None:
    results = run_in_process([all_reduce(Place(p, parts), np.array([p, 1])) for p in range(parts)])
    assert [result.tolist() for result in results] == [[parts * (parts - 1) // 2, parts]] * parts
    largest = run_in_process([all_reduce(Place(p, parts), np.array([-p]), np.maximum) for p in range(parts)])
    assert [int(one[0]) for one in largest] == [0] * parts


@given(st.lists(st.floats(-1e6, 1e6), min_size=1, max_size=30), st.integers(1, 5), st.randoms())
def test_exact_sums_do_not_depend_on_who_holds_what(terms: list[float], parts: int, random: object) -> None:
    rng = np.random.default_rng(len(terms) + parts)
    holders = rng.integers(0, parts, len(terms))
    held = [np.array([[x for x, h in zip(terms, holders, strict=True) if h == p]]) for p in range(parts)]
    several = run_in_process([exact_sums(Place(p, parts), held[p].reshape(1, -1)) for p in range(parts)])
    one = run_in_process([exact_sums(Place(0, 1), np.array([terms]))])[0]
    assert {float(total[0]) for total in several} == {float(one[0])}
    resolution = len(terms) ** 2 * max(map(abs, terms)) * 2.0**-61
    assert abs(float(one[0]) - math.fsum(terms)) <= resolution + 1e-15 * abs(math.fsum(terms))
    above = run_in_process([exact_sums(Place(0, 1), np.array([terms]), np.ceil)])[0]
    assert float(above[0]) >= math.fsum(terms) * (1 - 2e-16 * np.sign(math.fsum(terms)))
