"""The paper's synthetic functions (Appendix F): formulas, domains and minima as printed there.

The paper does not print its constants; these are the usual ones, with Michalewicz's m = 10. The minima have more digits
than the printed ones, so that no value is below them. Tests: test_problems.py.
"""

from __future__ import annotations

import numpy as np

from dechbo.bench.problems.problem import Array, Problem, box_problem


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


HARTMANN_MINIMISER = np.array([0.2016895091, 0.1500106935, 0.4768739729, 0.2753324275, 0.3116516172, 0.6573005346])
HARTMANN_MINIMUM = -3.3223680114155156

MICHALEWICZ_10 = box_problem(
    "Michalewicz-10",
    michalewicz_value,
    dim=10,
    low=0.0,
    high=float(np.pi),
    optimum=-9.660151715641349,
    minimiser=np.array(
        [
            2.202905520,
            1.570796327,
            1.284991570,
            1.923058470,
            1.720469772,
            1.570796327,
            1.454413971,
            1.756086521,
            1.655717417,
            1.570796327,
        ]
    ),
    scopes=[(i,) for i in range(10)],
)
SHEKEL_4 = box_problem(
    "Shekel-4",
    shekel_value,
    dim=4,
    low=0.0,
    high=10.0,
    optimum=-10.536443153483534,
    minimiser=np.array([4.0007468668, 3.9995094815, 4.0007468668, 3.9995094815]),
)
HARTMANN_6 = box_problem(
    "Hartmann-6",
    hartmann_value,
    dim=6,
    low=0.0,
    high=1.0,
    optimum=HARTMANN_MINIMUM,
    minimiser=HARTMANN_MINIMISER,
)
PROBLEMS: dict[str, Problem] = {problem.name.lower(): problem for problem in (HARTMANN_6, SHEKEL_4, MICHALEWICZ_10)}
