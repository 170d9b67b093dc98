"""Checks of option values: the value as a plain type, or an error that says what was expected."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from dechbo import checks
from dechbo.errors import OptionError
from dechbo.search.grids import Granularity


def test_values_come_back_as_plain_types() -> None:
    assert checks.one_of("kernel", "se", ("matern52", "se")) == "se"
    assert checks.some_of("parts", ["b", "a"], ("a", "b", "c")) == ("b", "a")
    for checked, expected in (
        (checks.whole("n", np.int64(3), 1), 3),
        (checks.whole("n", 1, 1), 1),
        (checks.flag("on", np.True_), True),
        (checks.flag("on", False), False),
        (checks.probability("delta", np.float32(0.5)), 0.5),
    ):
        assert checked == expected
        assert type(checked) is type(expected)


def test_an_instance_or_the_default() -> None:
    coarse = Granularity(work=1.0)
    assert checks.instance("granularity", coarse, Granularity) is coarse
    assert checks.instance("granularity", None, Granularity) == Granularity()
    with pytest.raises(OptionError, match=r"granularity must be a Granularity\(…\), got 3"):
        checks.instance("granularity", 3, Granularity)


@pytest.mark.parametrize("value", [0, -1, 1.0, 1.5, True, np.True_, "1", None, np.float64(2)])
def test_what_is_not_a_whole_number_is_refused(value: Any) -> None:
    with pytest.raises(OptionError, match="n must be a whole number of at least 1, got"):
        checks.whole("n", value, 1)


@pytest.mark.parametrize("value", [0, 1, "yes", None, 1.0])
def test_what_is_not_a_flag_is_refused(value: Any) -> None:
    with pytest.raises(OptionError, match="on must be True or False, got"):
        checks.flag("on", value)


@pytest.mark.parametrize("value", [0, 1, 0.0, 1.0, -0.1, 1.5, True, "0.5", None, float("nan")])
def test_what_is_not_a_probability_is_refused(value: Any) -> None:
    with pytest.raises(OptionError, match="delta must be a probability between 0 and 1, got"):
        checks.probability("delta", value)


@pytest.mark.parametrize("value", ["SE", "", 3, None])
def test_what_is_not_among_the_allowed_words_is_refused(value: Any) -> None:
    with pytest.raises(OptionError, match="kernel must be one of 'matern52', 'se', got"):
        checks.one_of("kernel", value, ("matern52", "se"))


@pytest.mark.parametrize("bad", [(), "a", ("a", "a"), ("a", "x"), 3, None])
def test_some_of_several_names(bad: Any) -> None:
    with pytest.raises(OptionError, match="parts must be some of a, b, each once, got"):
        checks.some_of("parts", bad, ("a", "b"))
