"""SearchOptions: defaults and refusals."""

from __future__ import annotations

from dataclasses import FrozenInstanceError
from typing import Any

import pytest

from dechbo.errors import OptionError
from dechbo.search.grids import Granularity
from dechbo.search.options import SearchOptions


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"score": "best"}, "'factors', 'joint'"),
        ({"granularity": 3}, "granularity"),
        ({"proposals": ()}, "proposals must be some of max-sum, sample"),
        ({"proposals": ("sample", "guess")}, "guess"),
        ({"acquisitions": "bound"}, "acquisitions must be some of improvement, bound"),
    ],
)
def test_bad_options_are_refused(options: dict[str, Any], message: str) -> None:
    with pytest.raises(OptionError, match=message):
        SearchOptions(**options)


@pytest.mark.parametrize("bad", [{"work": -1.0}, {"zoom": 2}, {"polish_steps": -1}])
def test_bad_granularities_are_refused(bad: dict[str, Any]) -> None:
    with pytest.raises(OptionError, match="work >= 0, zoom >= 3 and polish_steps >= 0"):
        Granularity(**bad)


def test_options_are_values() -> None:
    assert SearchOptions() == SearchOptions(score="joint", granularity=Granularity())
    assert SearchOptions(proposals=["sample"]).proposals == ("sample",)  # type: ignore[arg-type]
    with pytest.raises(FrozenInstanceError):
        SearchOptions().score = "factors"  # type: ignore[misc]
