from __future__ import annotations

import inspect

import pytest

from dechbo import errors
from dechbo.errors import DechboError, format_list

ERRORS = [error for _, error in inspect.getmembers(errors, inspect.isclass) if issubclass(error, Exception)]


@pytest.mark.parametrize("error", ERRORS)
def test_one_base_class_catches_every_error(error: type[Exception]) -> None:
    assert issubclass(error, DechboError)


def test_long_lists_are_cut() -> None:
    assert format_list([]) == "[]"
    assert format_list(["a", 1]) == "['a', 1]"
    assert format_list(range(3), max_items=2) == "[0, 1, …] (3 in all)"
    assert format_list(list(range(100))).endswith("7, …] (100 in all)")
