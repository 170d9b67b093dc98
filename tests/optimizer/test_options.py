"""Options of an optimizer: refusals, and a round trip through plain JSON."""

from __future__ import annotations

import json
from typing import Any

import pytest

from dechbo import BoundedMaxSum, Exact, FactorGraph, MaxSum, Optimizer, Toulbar2
from dechbo.errors import OptionError, ScopeError
from dechbo.maxsum import Auto, Maximizer
from dechbo.models.options import ModelOptions
from dechbo.optimizer.options import CUSTOM, checked_graph, from_json, known_options, to_json
from dechbo.search.grids import Granularity
from dechbo.search.options import SearchOptions
from dechbo.structure import StructureOptions
from dechbo.theory import TheoryOptions
from optimizer_cases import box


def some_options(**changes: Any) -> dict[str, Any]:
    return {
        "graph": "learned",
        "maximizer": MaxSum(rounds=7, damping=0.25),
        "model": ModelOptions(kernel="se", graph_samples=2, structure=StructureOptions(chains=3, sweeps=5)),
        "search": SearchOptions(score="joint", granularity=Granularity(work=1e7, zoom=4)),
        "theory": TheoryOptions(beta=2.5, delta=0.2),
        "seed": 4,
        "noise": None,
        **changes,
    }


@pytest.mark.parametrize("graph", ["learned", "random", FactorGraph(3, ((0, 1), (2,)))])
@pytest.mark.parametrize(
    "maximizer", [MaxSum(restarts=3), Exact(max_cells=100), Auto(max_cells=9), BoundedMaxSum(), Toulbar2(time_limit=5)]
)
def test_options_survive_json(graph: FactorGraph | str, maximizer: Maximizer) -> None:
    options = some_options(graph=graph, maximizer=maximizer)
    assert from_json(box(3), json.loads(json.dumps(to_json(options)))) == options


def test_what_json_cannot_hold_is_marked() -> None:
    class Own:
        """A maximiser that no file can hold."""

    saved = to_json(some_options(maximizer=Own(), theory=TheoryOptions(beta=lambda t: 2.0)))
    back = from_json(box(3), json.loads(json.dumps(saved)))
    assert back["maximizer"] == back["theory"] == CUSTOM
    assert to_json(some_options(maximizer=MaxSum))["maximizer"] == CUSTOM  # a class is not a maximiser


def test_graphs_are_checked() -> None:
    assert checked_graph(None, box(3)) == "learned"
    assert checked_graph("random", box(3)) == "random"
    assert checked_graph(FactorGraph.singletons(3), box(3)) == FactorGraph.singletons(3)
    with pytest.raises(OptionError, match="'tree'"):
        checked_graph("tree", box(3))
    with pytest.raises(ScopeError, match="2 variables, the space has 3: "):
        checked_graph(FactorGraph.singletons(2), box(3))


def test_auto_is_a_name() -> None:
    assert Optimizer(box(2), maximizer="auto").maximizer == Auto()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"direction": "down"}, "minimize"),
        ({"seed": -1}, "seed"),
        ({"seed": 1.5}, "seed"),
        ({"model": "matern52"}, r"ModelOptions\(…\)"),
        ({"search": 3}, r"SearchOptions\(…\)"),
        ({"theory": 2.0}, r"TheoryOptions\(…\)"),
        ({"maximizer": 3}, "maximizer"),
        ({"maximizer": MaxSum}, "maximizer"),
        ({"maximizer": "fast"}, "maximizer"),
        ({"noise": 10**400}, "noise"),
        ({"noise": -0.1}, "noise"),
        ({"noise": "low"}, "noise"),
        ({"n_initial": 0}, "n_initial"),
        ({"graph": [(0, 1)]}, "FactorGraph"),
    ],
)
def test_bad_options_are_refused(options: dict[str, Any], message: str) -> None:
    with pytest.raises(OptionError, match=message):
        Optimizer(box(2), **options)


@pytest.mark.parametrize(
    ("options", "message"),
    [({"beta": "huge"}, "theory"), ({"beta": -1.0}, "beta"), ({"delta": 1.0}, "delta"), ({"delta": "a"}, "delta")],
)
def test_bad_theory_options_are_refused(options: dict[str, Any], message: str) -> None:
    with pytest.raises(OptionError, match=message):
        TheoryOptions(**options)


def test_an_unknown_option_says_what_to_write() -> None:
    class Owner:
        @known_options("Owner", {"beta": "theory=TheoryOptions(beta=…)"})
        def __init__(self, space: str, *, seed: int = 0) -> None:
            self.made = (space, seed)

    assert Owner("s", seed=2).made == ("s", 2)
    for name, advice in (
        ("beta", r"write theory=TheoryOptions\(beta=…\)"),
        ("betas", r"write theory=TheoryOptions\(beta=…\)"),
        ("seeds", "write seed=…"),
        ("colour", "known are space, seed"),
    ):
        with pytest.raises(OptionError, match=f"Owner has no option '{name}': {advice}"):
            Owner("s", **{name: 1})
