from __future__ import annotations

import sys
from typing import Any

import numpy as np
import pytest

from dechbo.errors import DechboError, OptionError
from dechbo.graph import FactorGraph
from dechbo.maxsum import Exact, MaxSum, Toulbar2
from dechbo.tables import FactorTables
from maxsum_cases import random_pairs


@pytest.mark.parametrize("seed", range(3))
def test_proves_what_max_sum_cannot(seed: int) -> None:
    tables = random_pairs(seed, dim=25, pairs=60)
    answer = Toulbar2().maximize(tables)
    assert answer.value >= MaxSum().maximize(tables).value
    assert answer.value == pytest.approx(Exact().maximize(tables).value, rel=1e-12)
    assert answer.value <= answer.upper_bound <= answer.value + 1e-6


def test_forbidden_cells() -> None:
    different = np.where(np.eye(2, dtype=bool), -np.inf, 0.0)  # two colours cannot colour a triangle
    graph = FactorGraph(4, ((0, 1), (1, 2), (2, 0), (2, 3)))
    rng = np.random.default_rng(0)
    answer = Toulbar2().maximize(FactorTables(graph, (*(different,) * 3, rng.normal(size=(2, 2)))))
    assert answer.value == answer.upper_bound == -np.inf


def test_without_the_package_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pytoulbar2", None)
    with pytest.raises(DechboError, match=r"pip install 'dechbo\[toulbar2\]'"):
        Toulbar2().maximize(random_pairs(0))


@pytest.mark.parametrize("limit", [0, -1, 0.5, float("inf"), float("nan"), True, "long"])
def test_options_are_checked(limit: Any) -> None:
    with pytest.raises(OptionError, match="time_limit"):
        Toulbar2(time_limit=limit)
