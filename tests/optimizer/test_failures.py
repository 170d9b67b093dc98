"""A part of the space fails: the search learns where, and does not run into it again and again."""

from __future__ import annotations

from typing import Any

from dechbo import Float, Optimizer, Space


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
