"""Small problems that the tests of the optimizer share, and what every ask leaves behind."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from dechbo import FactorGraph, Float, Optimizer, Space
from dechbo.data.evaluation import Evaluation
from dechbo.data.history import History
from dechbo.models.builder import ModelBuilder
from dechbo.models.options import ModelOptions
from dechbo.optimizer import AskInfo
from dechbo.optimizer.problem import SearchProblem
from dechbo.search.options import SearchOptions
from dechbo.structure import StructureOptions
from dechbo.theory import TheoryOptions

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


def problem_in(
    space: Space,
    *,
    graph: FactorGraph | str | None = None,
    score: str = "joint",
    noise: float | None = None,
    n_initial: int = 3,
) -> SearchProblem:
    given = FactorGraph.singletons(space.dim) if graph is None else graph
    options = ModelOptions(members=("smooth", "whole"), structure=StructureOptions(chains=1, sweeps=2))
    builder = ModelBuilder(space, given, 0, -1.0, noise, options=options)
    return SearchProblem.of(builder, SearchOptions(score=score), TheoryOptions(), n_initial)


def told(space: Space, n: int) -> History:
    history = History(space)
    for u in np.random.default_rng(0).random((n, space.dim)):
        params = space.decode(space.from_uniform(u))
        history.tell(Evaluation.of(params, float(len(str(params)))))
    return history
