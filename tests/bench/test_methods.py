"""The registry: every name builds a method that asks within the space once it has its points."""

from __future__ import annotations

import numpy as np
import pytest

from dechbo.bench import methods
from dechbo.bench.peers import PEERS
from dechbo.errors import OptionError
from dechbo.space import Categorical, Float, Int, Space

SPACE = Space({"x": Float(-1, 2), "k": Int(1, 8), "c": Categorical(["a", "b"]), "y": Float(1e-3, 1, log=True)})


@pytest.mark.parametrize("name", list(methods.METHODS))
def test_every_method_of_ours_takes_over_from_given_points(name: str) -> None:
    reason = methods.unavailable_reason(name)
    if reason is not None:
        pytest.skip(reason)
    space = SPACE
    method = methods.METHODS[name].create(space, 0, 3)
    for k in range(3):
        params = space.decode(space.from_uniform(np.array([0.1 + 0.3 * k, 0.3 * k, 0.4 * k, 0.9 - 0.2 * k])))
        method.tell(params, float(k))
    asked = method.ask()
    assert space.decode(space.encode(asked)).keys() == asked.keys()
    method.tell(asked, None)  # a failed evaluation is ordinary


def test_names_are_distinct_and_labelled() -> None:
    assert len(set(methods.names())) == len(methods.names())
    assert {"dechbo", "paper-mf3", "add-mes-r", "random", *PEERS} <= set(methods.names())
    assert len({methods.label(name) for name in methods.names()}) == len(methods.names())


def test_groups_and_lists() -> None:
    assert methods.parse_methods("random, dechbo,random") == ("random", "dechbo")
    assert methods.parse_methods("baselines,dechbo") == (*methods.GROUPS["baselines"], "dechbo")
    assert methods.parse_methods("all") == methods.names()


@pytest.mark.parametrize(("text", "message"), [("turbo", "turbo-1"), ("x", "botorch-logei"), ("", "at least one")])
def test_an_unknown_name_lists_the_known_ones(text: str, message: str) -> None:
    with pytest.raises(OptionError, match=message):
        methods.parse_methods(text)
