"""A part of the space fails: the search learns where, and does not run into it again and again."""

from __future__ import annotations

from typing import Any

import pytest

from dechbo import Categorical, Float, Int, Optimizer, Space
from dechbo.errors import SpaceExhausted
from dechbo.search.options import SearchOptions


def run(n: int) -> tuple[Optimizer, list[bool]]:
    """Minimise where the values get better towards a region, a fifth of the space, in which nothing works."""
    optimizer = Optimizer(Space({"a": Float(0, 1), "b": Float(0, 1), "c": Float(0, 1)}), seed=0, n_initial=8)

    def value(p: dict[str, Any]) -> float | None:
        return None if p["a"] > 0.8 else -p["a"] + (p["b"] - 0.4) ** 2 + (p["c"] - 0.5) ** 2

    failed = []
    for _ in range(n):
        params = optimizer.ask()
        found = value(params)
        optimizer.tell(params, found)
        failed.append(found is None)
    return optimizer, failed


def test_a_region_that_fails_is_left_and_its_edge_is_found() -> None:
    optimizer, failed = run(35)
    assert optimizer.best is not None
    assert optimizer.best.number_value < -0.78  # the best there is, at the edge, is -0.8
    assert any(failed[8:])
    assert any(not each for each in failed[-12:])  # before failures were learned from, the search ended beyond the edge


def test_the_same_history_gives_the_same_point_after_a_replay() -> None:
    optimizer, _ = run(20)
    again = Optimizer(optimizer.space, seed=0, n_initial=8)
    again.replay(list(optimizer.evaluations), [])
    assert again.ask() == optimizer.ask()


@pytest.mark.parametrize("score", ["joint", "factors"])
def test_a_point_that_failed_is_not_suggested_again_however_noisy_the_values(score: str) -> None:
    space = Space({"n": Int(0, 2), "c": Categorical(["a", "b"])})
    optimizer = Optimizer(space, seed=0, noise=0.01, n_initial=3, search=SearchOptions(score=score))
    asked = []
    for _ in range(16):
        params = optimizer.ask()
        asked.append((params["n"], params["c"]))
        optimizer.tell(params, None if params["c"] == "b" and params["n"] < 2 else params["n"] + 0.1 * len(asked) % 0.3)
    failed = [point for point in asked if point in {(0, "b"), (1, "b")}]
    assert len(failed) == len(set(failed))
    assert len(asked) > len(set(asked))  # the others come again


def test_a_space_where_everything_failed_is_exhausted() -> None:
    optimizer = Optimizer(Space({"n": Int(0, 2)}), seed=0, noise=0.01, n_initial=2)
    for n in range(3):
        optimizer.tell({"n": n}, None)
    with pytest.raises(SpaceExhausted, match="each of the 3 points failed"):
        optimizer.ask()
    optimizer.retract({"n": 1})
    assert optimizer.ask() == {"n": 1}
