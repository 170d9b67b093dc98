from __future__ import annotations

import sys
from typing import Any

import numpy as np
import pytest

from dechbo.errors import OptionError
from dechbo.graph import FactorGraph
from dechbo.maxsum import Auto, Exact, MaxSum, as_maximizer
from dechbo.tables import FactorTables
from maxsum_cases import random_pairs


def test_forest_narrow_and_wide() -> None:
    chain = FactorTables(FactorGraph(3, ((0, 1), (1, 2))), (np.eye(2), np.eye(2)))
    assert Auto().pick(chain) == MaxSum()
    assert Auto().maximize(chain).gap == 0
    narrow = random_pairs(0, dim=12, pairs=14)
    assert Auto(max_cells=4**4).pick(narrow) == Exact(max_cells=4**4)
    assert Auto().maximize(narrow).value == Exact().maximize(narrow).value
    wide = random_pairs(0, dim=40, pairs=100)
    assert Auto(max_cells=4**4).pick(wide) == MaxSum()


def test_the_same_whatever_is_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    tables = random_pairs(1, dim=20, pairs=45)
    before = Auto(max_cells=4**4).maximize(tables)
    monkeypatch.setitem(sys.modules, "pytoulbar2", None)  # importing it fails
    after = Auto(max_cells=4**4).maximize(tables)
    np.testing.assert_array_equal(before.choice, after.choice)
    assert before.upper_bound == after.upper_bound


def test_names_of_maximizers() -> None:
    assert as_maximizer(None) == MaxSum()
    assert as_maximizer("auto") == Auto()
    assert as_maximizer(Exact()) == Exact()
    wrong: list[Any] = ["toulbar2", 3, MaxSum]
    for given in wrong:
        with pytest.raises(OptionError, match="maximizer"):
            as_maximizer(given)
    with pytest.raises(OptionError, match="max_cells"):
        Auto(max_cells=0)
