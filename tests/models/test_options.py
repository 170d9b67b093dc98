"""ModelOptions: defaults and refusals."""

from __future__ import annotations

from dataclasses import FrozenInstanceError
from typing import Any

import numpy as np
import pytest

from dechbo.errors import OptionError
from dechbo.models.options import ModelOptions


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"kernel": "rbf"}, "'matern52', 'se'"),
        ({"centred": "yes"}, "centred must be True or False"),
        ({"warp": "yes"}, "warp must be True or False"),
        ({"members": ()}, "members must be some of smooth, rough"),
        ({"members": "whole"}, "members must be some of"),
        ({"members": ("whole", "whole")}, "each once"),
        ({"members": ("whole", "wide")}, "wide"),
        ({"members": 3}, "members"),
        ({"graph_samples": 0}, "graph_samples must be a whole number of at least 1"),
        ({"graph_samples": 1.5}, "graph_samples"),
    ],
)
def test_bad_options_are_refused(options: dict[str, Any], message: str) -> None:
    with pytest.raises(OptionError, match=message):
        ModelOptions(**options)


def test_options_are_values_of_plain_types() -> None:
    assert ModelOptions(members=["whole", "rough"]).members == ("whole", "rough")  # type: ignore[arg-type]
    options = ModelOptions(graph_samples=np.int64(4))  # type: ignore[arg-type]
    assert type(options.graph_samples) is int
    assert options == ModelOptions(graph_samples=4) != ModelOptions()
    with pytest.raises(FrozenInstanceError):
        options.kernel = "se"  # type: ignore[misc]
