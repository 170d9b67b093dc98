"""Small problems that the tests of the optimizer share, and what every ask leaves behind."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from dechbo import Float, Optimizer, Space
from dechbo.data.evaluation import Evaluation
from dechbo.optimizer import AskInfo

Params = dict[str, Any]


def box(dim: int) -> Space:
    return Space({f"x{i}": Float(0, 1) for i in range(dim)})


def bowl(params: Params) -> float:
    return float(sum((x - 0.3) ** 2 for x in params.values()))


def run(optimizer: Optimizer, objective: Callable[[Params], float | None], evaluations: int) -> list[Params]:
    """Ask and tell in turn; the points asked for."""
    points = []
    for _ in range(evaluations):
        params = optimizer.ask()
        optimizer.tell(params, objective(params))
        points.append(params)
    return points


def info_of(optimizer: Optimizer) -> AskInfo:
    assert optimizer.info is not None
    return optimizer.info


def best_of(optimizer: Optimizer) -> Evaluation:
    assert optimizer.best is not None
    return optimizer.best
