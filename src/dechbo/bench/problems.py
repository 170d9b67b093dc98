"""The paper's synthetic functions (Appendix F), to be minimised."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dechbo.space import Float, Space

Array = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Problem:
    """A function over a box, its domain and its known minimum."""

    name: str
    function: Callable[[Array], float]
    low: float
    high: float
    dim: int
    optimum: float

    @property
    def space(self) -> Space:
        """Parameters x1, x2, … over the box."""
        return Space({f"x{i + 1}": Float(self.low, self.high) for i in range(self.dim)})

    def __call__(self, params: Mapping[str, Any]) -> float:
        """The value at parameters x1, x2, …."""
        return self.function(np.array([params[f"x{i + 1}"] for i in range(self.dim)]))

    def regret(self, value: float) -> float:
        """How far ``value`` lies above the minimum."""
        return value - self.optimum


def michalewicz_value(x: Array, steepness: float = 10.0) -> float:
    """f(x) = -sum_i sin(x_i) sin^{2m}(i x_i^2 / pi)."""
    i = np.arange(1, len(x) + 1)
    return float(-(np.sin(x) * np.sin(i * x**2 / np.pi) ** (2 * steepness)).sum())


_SHEKEL_BETA = np.array([1, 2, 2, 4, 4, 6, 3, 7, 5, 5]) / 10
_SHEKEL_C = np.array(
    [
        [4, 1, 8, 6, 3, 2, 5, 8, 6, 7],
        [4, 1, 8, 6, 7, 9, 3, 1, 2, 3.6],
        [4, 1, 8, 6, 3, 2, 5, 8, 6, 7],
        [4, 1, 8, 6, 7, 9, 3, 1, 2, 3.6],
    ]
).T


def shekel_value(x: Array) -> float:
    """f(x) = -sum_i 1 / (beta_i + |x - C_i|^2)."""
    return float(-(1 / (_SHEKEL_BETA + ((x - _SHEKEL_C) ** 2).sum(axis=1))).sum())


_HARTMANN_ALPHA = np.array([1.0, 1.2, 3.0, 3.2])
_HARTMANN_A = np.array(
    [[10, 3, 17, 3.5, 1.7, 8], [0.05, 10, 17, 0.1, 8, 14], [3, 3.5, 1.7, 10, 17, 8], [17, 8, 0.05, 10, 0.1, 14]]
)
_HARTMANN_P = 1e-4 * np.array(
    [
        [1312, 1696, 5569, 124, 8283, 5886],
        [2329, 4135, 8307, 3736, 1004, 9991],
        [2348, 1451, 3522, 2883, 3047, 6650],
        [4047, 8828, 8732, 5743, 1091, 381],
    ]
)


def hartmann_value(x: Array) -> float:
    """f(x) = -sum_i alpha_i exp(-sum_j A_ij (x_j - P_ij)^2)."""
    return float(-(_HARTMANN_ALPHA * np.exp(-(_HARTMANN_A * (x - _HARTMANN_P) ** 2).sum(axis=1))).sum())


MICHALEWICZ_10 = Problem("Michalewicz-10", michalewicz_value, 0.0, float(np.pi), 10, -9.66015)
SHEKEL_4 = Problem("Shekel-4", shekel_value, 0.0, 10.0, 4, -10.5364)
HARTMANN_6 = Problem("Hartmann-6", hartmann_value, 0.0, 1.0, 6, -3.32237)
PROBLEMS = {problem.name.lower(): problem for problem in (HARTMANN_6, SHEKEL_4, MICHALEWICZ_10)}
