"""Distributions and spaces: every value survives the round trip."""

from __future__ import annotations

import math
import warnings
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from optuna.distributions import BaseDistribution, CategoricalDistribution, FloatDistribution, IntDistribution

from dechbo import Categorical, Float, Int, Space
from dechbo.errors import ParameterError, SpaceError
from dechbo.integrations.optuna import distributions_of
from dechbo.integrations.optuna.spaces import Translation
from dechbo.space import Linear

MIXED: dict[str, BaseDistribution] = {
    "lr": FloatDistribution(1e-5, 1, log=True),
    "drop": FloatDistribution(0, 1, step=0.05),
    "layers": IntDistribution(1, 8),
    "width": IntDistribution(16, 1024, log=True),
    "even": IntDistribution(0, 10, step=2),
    "act": CategoricalDistribution(("relu", None, True, 2, 0.5)),
}


def space_of(distributions: Mapping[str, BaseDistribution], constraints: Sequence[str | Linear] = ()) -> Space:
    space = Translation.of(distributions, constraints).space
    assert space is not None
    return space


def test_the_space_is_sorted_by_name_and_distributions_of_is_its_inverse() -> None:
    space = space_of(MIXED)
    assert list(space.names) == sorted(MIXED)
    assert space["even"] == Int(0, 10, step=2)
    assert space["act"] == Categorical(["relu", None, True, 2, 0.5])
    assert distributions_of(space) == MIXED


def test_a_space_survives_optuna() -> None:
    space = Space({"a": Float(-1, 1), "b": Int(1, 9, step=4), "c": Categorical(["x", "y"]), "d": Float(0, 1, step=0.3)})
    assert distributions_of(space_of(distributions_of(space))) == distributions_of(space)


def test_constants_are_left_out() -> None:
    constants = {
        "one": CategoricalDistribution(["only"]),
        "low": FloatDistribution(2, 2),
        "coarse": IntDistribution(3, 3, step=5),
        "same": CategoricalDistribution([1, True]),  # Optuna only stores the first of these
        "nans": CategoricalDistribution([math.nan, math.nan]),
    }
    translation = Translation.of({**constants, "x": FloatDistribution(0, 1)})
    assert translation.space == Space({"x": Float(0, 1)})
    assert {k: v for k, v in translation.constants.items() if k != "nans"} == {
        "one": "only",
        "low": 2.0,
        "coarse": 3,
        "same": 1,
    }
    assert Translation.of(constants).space is None


@given(st.data())
def test_decoded_values_are_contained_in_their_distribution(data: st.DataObject) -> None:
    warnings.filterwarnings("ignore", "The distribution is specified", UserWarning)  # Optuna moves high itself
    low = data.draw(st.floats(-1e3, 1e3))  # far from zero Optuna's own steps are not contained in their range
    width = data.draw(st.floats(1, 1e6))
    step = data.draw(st.one_of(st.none(), st.floats(1e-2, 1.0).map(lambda part: part * width)))
    whole = data.draw(st.integers(-1000, 1000))
    distributions: dict[str, BaseDistribution] = {
        "f": FloatDistribution(low, low + width, step=step),
        "l": FloatDistribution(width, 7 * width, log=True),
        "i": IntDistribution(whole, whole + data.draw(st.integers(1, 99)), step=data.draw(st.integers(1, 7))),
        "c": CategoricalDistribution([math.nan, None, True, 0, 1.0, "x"]),
    }
    translation = Translation.of(distributions)
    assert translation.space is not None
    point = translation.space.from_uniform(
        np.array(data.draw(st.lists(st.floats(0, 1), min_size=4, max_size=4)))[: translation.space.dim]
    )
    ours = translation.space.decode(point)
    theirs = translation.to_optuna(ours)
    for name, value in theirs.items():
        assert distributions[name]._contains(distributions[name].to_internal_repr(value))
        assert type(value) in (int, float, str, bool, type(None))
    assert translation.from_optuna(theirs) == ours


@pytest.mark.parametrize(
    ("name", "value"),
    [("lr", 2.0), ("lr", "x"), ("layers", 9), ("layers", 1.5), ("drop", 0.051), ("act", "tanh"), ("act", [1])],
)
def test_values_outside_are_refused_by_name(name: str, value: Any) -> None:
    with pytest.raises(ParameterError, match=name):
        Translation.of(MIXED).from_optuna({name: value})


def test_choices_that_json_cannot_represent_become_indices() -> None:
    translation = Translation.of({"c": CategoricalDistribution(["a", math.nan, math.inf])})
    assert translation.space == Space({"c": Categorical([0, 1, 2])})
    assert translation.from_optuna({"c": float("nan")}) == {"c": 1}
    assert translation.to_optuna({"c": 2}) == {"c": math.inf}


def test_linear_constraints_with_constants_inserted() -> None:
    distributions = {"a": FloatDistribution(0, 1), "b": IntDistribution(0, 3), "k": FloatDistribution(0.25, 0.25)}
    space = space_of(distributions, ["a + b + 2*k <= 2", Linear({"a": 1, "b": -1}, upper=0)])
    assert space.constraints == (Linear({"a": 1, "b": 1}, upper=1.5), Linear({"a": 1, "b": -1}, upper=0))
    with pytest.raises(SpaceError, match="cannot hold"):
        space_of(distributions, ["k <= 0.1"])
    with pytest.raises(SpaceError, match="write \\["):
        space_of(distributions, "a + b <= 1")
    with pytest.raises(SpaceError, match="not numeric"):
        space_of({**distributions, "k": CategoricalDistribution(["x"])}, ["a + k <= 1"])


@pytest.mark.parametrize("wrong", [{"x": 3}, {"x": (0, 1)}, [("x", FloatDistribution(0, 1))]])
def test_invalid_search_spaces_are_refused(wrong: Any) -> None:
    with pytest.raises(SpaceError, match="istribution"):
        space_of(wrong)


def test_a_log_scale_with_a_step_has_no_counterpart() -> None:
    with pytest.raises(SpaceError, match="log scale"):
        distributions_of(Space({"n": Int(1, 9, log=True, step=2)}))
