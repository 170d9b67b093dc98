"""Evaluations: what a user may tell, and what becomes a failure."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from dechbo.data.evaluation import Evaluation, variance
from dechbo.errors import OptionError, ParameterError


@pytest.mark.parametrize("value", [1, 1.0, np.float32(1), np.int64(1), np.array([1.0]), np.array(1)])
def test_any_real_number_is_a_value(value: Any) -> None:
    evaluation = Evaluation.of({"x": 0.5}, value)
    assert evaluation.value == evaluation.number_value == 1.0
    assert type(evaluation.value) is float
    assert not evaluation.failed
    assert evaluation.feasible


@pytest.mark.parametrize("value", [None, math.nan, math.inf, -math.inf, np.ma.masked, 10**400])
def test_what_is_not_a_finite_number_is_a_failure(value: Any) -> None:
    evaluation = Evaluation.of({"x": 0.5}, value)
    assert evaluation.failed
    assert evaluation.value is None
    assert math.isnan(evaluation.number_value)
    assert not evaluation.feasible


@pytest.mark.parametrize("value", ["1.0", True, np.True_, [1.0, 2.0], object(), np.datetime64("2020-01-01"), 1j])
def test_other_types_are_refused(value: Any) -> None:
    with pytest.raises(ParameterError, match="one number"):
        Evaluation.of({"x": 0.5}, value)


def test_an_evaluation_is_feasible_where_every_constraint_is_at_most_zero() -> None:
    assert Evaluation.of({}, 1.0, None, {"a": 0.0, "b": np.float32(-1)}).feasible
    assert not Evaluation.of({}, 1.0, None, {"a": 0.0, "b": 1e-300}).feasible
    assert not Evaluation.of({}, None, None, {"a": -1.0}).feasible


@pytest.mark.parametrize("constraints", [{"c": math.nan}, {"c": None}, {"c": "low"}, {3: 1.0}, [1.0], 1.0])
def test_bad_constraints_are_refused(constraints: Any) -> None:
    with pytest.raises(ParameterError):
        Evaluation.of({}, 1.0, None, constraints)


@pytest.mark.parametrize("noise", [0, 0.5, np.float32(0.5), np.int64(2)])
def test_a_noise_variance_is_a_number_at_least_zero(noise: Any) -> None:
    assert variance(noise) == Evaluation.of({}, 1.0, noise).noise == float(noise)


@pytest.mark.parametrize("noise", [-1e-9, math.inf, math.nan, "low", True, 10**400])
def test_bad_noise_is_refused(noise: Any) -> None:
    with pytest.raises(OptionError, match="noise must be a variance"):
        variance(noise)


def test_fields_can_be_read_as_items() -> None:
    evaluation = Evaluation.of({"x": 0.5}, 2.0, 0.1, {"c": -1.0})
    assert evaluation.keys() == ("params", "value", "noise", "constraints", "number")
    assert dict(evaluation) == {
        "params": {"x": 0.5},
        "value": 2.0,
        "noise": 0.1,
        "constraints": {"c": -1.0},
        "number": 0,
    }
    with pytest.raises(KeyError, match="'speed' is not among params, value"):
        evaluation["speed"]
