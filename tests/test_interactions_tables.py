"""Interactions in a table that somebody already has."""

from __future__ import annotations

import csv
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import dechbo
from dechbo import Categorical, Float, Int, Space
from dechbo.errors import DataError
from dechbo.structure.learner import Effort

QUICK = Effort(chains=2, steps=200)
SPACE = Space({"a": Float(0, 1), "b": Float(0, 1), "n": Int(0, 5), "kind": Categorical(["p", "q"])})


def table(rows: int = 50) -> tuple[list[dict], list[float]]:
    rng = np.random.default_rng(0)
    X = [SPACE.decode(SPACE.from_uniform(u)) for u in rng.random((rows, 4))]
    return X, [4 * (x["a"] - 0.5) * (x["b"] - 0.5) + 0.2 * x["n"] + (x["kind"] == "p") for x in X]


def test_rows_and_dicts_give_the_same_answer() -> None:
    X, y = table()
    found = dechbo.interactions.from_table(X, y, SPACE, effort=QUICK)
    assert found[0].scope == ("a", "b")
    assert found[0].probability > 0.9
    assert dechbo.interactions.from_table([list(x.values()) for x in X], np.array(y), SPACE, effort=QUICK) == found


def test_from_csv_reads_the_space_off_the_columns(tmp_path: Path) -> None:
    X, y = table()
    y[3] = None
    path = tmp_path / "results.csv"
    with open(path, "w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(["a", "b", "n", "kind", "always", "loss"])
        for x, value in zip(X, y, strict=True):
            writer.writerow([*x.values(), "same", "" if value is None else value])
    for options in ({}, {"target": "loss"}, {"space": SPACE}):
        found = dechbo.interactions.from_csv(path, effort=QUICK, **options)
        assert found[0].scope == ("a", "b")
        assert found[0].probability > 0.9


@pytest.mark.parametrize(
    ("text", "options", "message"),
    [
        ("a,b,y\n", {}, "no rows"),
        ("a,b,y\n1,2,3\n2,3,1\n", {"target": "z"}, "no column"),
        ("a,b,y\n1,2,3\n2,3\n", {}, "row 2"),
        ("a,b,y\n1,2,3\n2,3,low\n", {}, "number or nothing"),
        ("a,b,y\n1,2,3\n2,3,1\n", {"space": SPACE}, "no columns"),
    ],
)
def test_bad_files_are_refused(tmp_path: Path, text, options: dict[str, Any], message: str) -> None:
    path = tmp_path / "table.csv"
    path.write_text(text)
    with pytest.raises(DataError, match=message):
        dechbo.interactions.from_csv(path, **options)


def test_bad_tables_are_refused() -> None:
    X, y = table(5)
    with pytest.raises(DataError, match="one result"):
        dechbo.interactions.from_table(X, y[:-1], SPACE)
    with pytest.raises(DataError, match="row 2"):
        dechbo.interactions.from_table([X[0], {**X[1], "n": 99}], y[:2], SPACE)
    with pytest.raises(DataError, match="4 values"):
        dechbo.interactions.from_table([[1, 2]], [1.0], SPACE)
    with pytest.raises(dechbo.DechboError, match="no row has a result"):
        dechbo.interactions.from_table(X, [math.nan] * 5, SPACE)


def test_a_number_that_is_missing_is_not_a_category(tmp_path: Path) -> None:
    path = tmp_path / "gaps.csv"
    path.write_text("a,b,y\n1,2.5,3\n2,,4\n3,1.5,5\n")
    with pytest.raises(DataError, match=r"column 'b' has numbers, but nothing in rows \[2\]"):
        dechbo.interactions.from_csv(path)
