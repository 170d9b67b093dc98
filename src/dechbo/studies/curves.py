"""Curves: what the model of a study says along one parameter."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dechbo.optimizer import Optimizer
from dechbo.space import Categorical, Space

Array = NDArray[np.float64]

POINTS = 25  # of a curve
MOST_CURVES = 8
MOST_PARAMETERS = 40  # whose curves are computed


@dataclass(frozen=True)
class Curve:
    """The model's value along one parameter, all others as in the best trial."""

    name: str
    settings: list[Any]
    means: Array
    deviations: Array
    best: Any
    log: bool = False

    @property
    def reach(self) -> float:
        """How much this parameter alone changes the value."""
        return float(self.means.max() - self.means.min())


def curves_of(optimizer: Optimizer, space: Space, best: dict[str, Any]) -> list[Curve]:
    """The curves of the parameters with the largest effect, the largest first."""
    names = _promising(optimizer, space) if space.dim > MOST_PARAMETERS else space.names
    curves = []
    for name in names:
        settings = _settings(space, name)
        told = [optimizer.predict({**best, name: setting}) for setting in settings]
        means, deviations = np.array(told).T
        parameter = space[name]
        curves.append(Curve(name, settings, means, deviations, best[name], bool(getattr(parameter, "log", False))))
    return sorted(curves, key=lambda curve: -curve.reach)[:MOST_CURVES]


def _settings(space: Space, name: str) -> list[Any]:
    parameter = space[name]
    if isinstance(parameter, Categorical):
        return list(parameter.choices)
    return list(dict.fromkeys(parameter.decode(u) for u in np.linspace(0, 1, POINTS)))


def _promising(optimizer: Optimizer, space: Space) -> list[str]:
    """The parameters whose values go most with the objective's, where there are too many to look at all."""
    told = [evaluation for evaluation in optimizer.evaluations if not evaluation.failed]
    X = np.array([space.encode(evaluation.params) for evaluation in told])
    y = np.array([evaluation.number_value for evaluation in told])
    X, y = X - X.mean(axis=0), y - y.mean()
    strength = np.abs(y @ X) / np.sqrt((X**2).sum(axis=0) * (y**2).sum() + 1e-300)
    return [space.names[i] for i in np.argsort(-strength, kind="stable")[:MOST_PARAMETERS]]
