from __future__ import annotations

import numpy as np
import pytest

from dechbo.checks import flag, one_of, probability, whole
from dechbo.errors import OptionError


def test_values_come_back_as_plain_python_types() -> None:
    assert one_of("kernel", "se", ("se", "matern52")) == "se"
    assert [type(x) for x in (whole("n", np.int32(3), 1), flag("log", np.bool_(True)))] == [int, bool]
    assert type(probability("delta", np.float64(0.1))) is float


@pytest.mark.parametrize("value", ["rbf", "", "SE"])
def test_one_of_names_what_is_allowed(value: str) -> None:
    with pytest.raises(OptionError, match=f"kernel is one of 'se', 'matern52', got '{value}'"):
        one_of("kernel", value, ("se", "matern52"))


@pytest.mark.parametrize("value", [0, -1, 1.0, True, "3", None])
def test_whole_numbers(value: object) -> None:
    with pytest.raises(OptionError, match="n_initial is a whole number at least 1, got"):
        whole("n_initial", value, 1)


@pytest.mark.parametrize("value", [0, 1, "yes", None])
def test_flags(value: object) -> None:
    with pytest.raises(OptionError, match="centred is True or False, got"):
        flag("centred", value)


@pytest.mark.parametrize("value", [0, 1, -0.1, 1.5, float("nan"), True, "0.1"])
def test_probabilities(value: object) -> None:
    with pytest.raises(OptionError, match="delta is a probability between 0 and 1, got"):
        probability("delta", value)
