"""One CSV reader for files of all spreadsheets; every value of a parameter has a cell of its own."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from dechbo.data.csv import cell, format_value, parse_value, read_csv
from dechbo.errors import DataError, ParameterError
from dechbo.space import Categorical, Float, Int


def file(folder: Path, text: str) -> Path:
    path = folder / "table.csv"
    path.write_text(text, encoding="utf-8", newline="")
    return path


@pytest.mark.parametrize("separator", [",", ";", "\t"])
def test_separators_byte_order_marks_and_blank_lines(tmp_path: Path, separator: str) -> None:
    text = "\ufeff a ,b\r\n1, x \r\n\r\n,\r\n2,y\r\n".replace(",", separator)
    table = read_csv(file(tmp_path, text))
    assert table.header == ["a", "b"]
    assert table.rows == [(2, ["1", " x "]), (5, ["2", "y"])]
    assert table.separator == separator
    assert table.record(["1", "2"]) == {"a": "1", "b": "2"}
    with pytest.raises(DataError, match=re.escape(f"expected 2 cells separated by {separator!r}, got 3")):
        table.record(["1", "2", "3"])


def test_known_names_decide_the_separator_and_keep_their_blanks(tmp_path: Path) -> None:
    path = file(tmp_path, " a;b;c,d \n1,2\n")
    assert read_csv(path).separator == ";"
    assert read_csv(path, [" a;b;c", "d"]).header == [" a;b;c", "d"]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "expected a header and rows, got an empty file"),
        ("a,b,a\n1,2,3\n", r"table.csv:1: the column 'a' is there twice"),
        ('a,b\n"1,2\n', "not a CSV file"),
    ],
)
def test_files_that_are_no_tables(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(DataError, match=message):
        read_csv(file(tmp_path, text))


def test_files_that_cannot_be_read(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"none.csv: cannot be read: No such file"):
        read_csv(tmp_path / "none.csv")
    (tmp_path / "latin.csv").write_bytes("é,b\n".encode("latin-1"))
    with pytest.raises(DataError, match="expected a text file in UTF-8"):
        read_csv(tmp_path / "latin.csv")


def test_every_choice_has_a_cell_of_its_own() -> None:
    choices: list[bool | int | float | str | None] = [
        1,
        "1",
        "1.0",
        True,
        "true",
        None,
        "null",
        "",
        " a",
        "a",
        '"a"',
        2.5,
        "x\ny",
    ]
    parameter = Categorical(choices)
    cells = [format_value(parameter, choice) for choice in choices]
    assert len(set(cells)) == len(choices)
    read: list[Any] = [parse_value("c", parameter, text) for text in cells]
    assert [(type(value), value) for value in read] == [(type(choice), choice) for choice in choices]


def test_numbers_and_their_errors() -> None:
    assert cell(0.1 + 0.2) == "0.30000000000000004"
    assert parse_value("n", Int(1, 9), " 3.0 ") == 3
    assert isinstance(parse_value("n", Int(1, 9), "3.0"), int)
    assert parse_value("x", Float(0, 1), "1e-3") == 1e-3
    with pytest.raises(ParameterError, match="x: expected a number, got 'many'"):
        parse_value("x", Float(0, 1), "many")
    with pytest.raises(ParameterError, match="c: expected one of p, q, got 'r'"):
        parse_value("c", Categorical(["p", "q"]), "r")
