"""The synthetic functions have the minima that they state."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.optimize import minimize

from dechbo.bench.problems import HARTMANN_6, MICHALEWICZ_10, PROBLEMS, SHEKEL_4, Problem, michalewicz_value

HARTMANN_MINIMISER = [0.20169, 0.150011, 0.476874, 0.275332, 0.311652, 0.6573]
SHEKEL_MINIMISER = [4.000747, 3.99951, 4.00075, 3.99951]


def named(problem: Problem, x: object) -> dict[str, float]:
    return dict(zip(problem.space.names, np.asarray(x, dtype=float).tolist(), strict=True))


@pytest.mark.parametrize(
    ("problem", "minimiser", "tolerance"),
    [(HARTMANN_6, HARTMANN_MINIMISER, 1e-5), (SHEKEL_4, SHEKEL_MINIMISER, 1e-4), (SHEKEL_4, [4.0] * 4, 1e-3)],
)
def test_the_known_minimiser_reaches_the_optimum(problem: Problem, minimiser: list[float], tolerance: float) -> None:
    assert problem(named(problem, minimiser)) == pytest.approx(problem.optimum, abs=tolerance)


@pytest.mark.parametrize(("problem", "minimiser"), [(HARTMANN_6, HARTMANN_MINIMISER), (SHEKEL_4, SHEKEL_MINIMISER)])
def test_descent_from_near_the_minimiser_ends_at_the_optimum(problem: Problem, minimiser: list[float]) -> None:
    rng = np.random.default_rng(0)
    bounds = [(problem.low, problem.high)] * problem.dim
    for _ in range(10):
        start = np.clip(minimiser + 0.02 * (problem.high - problem.low) * rng.normal(size=problem.dim), *bounds[0])
        found = minimize(problem.function, start, bounds=bounds, tol=1e-12).fun
        assert problem.optimum - 1e-3 < found < problem.optimum + 1e-3


@pytest.mark.parametrize("problem", PROBLEMS.values(), ids=PROBLEMS)
def test_no_random_point_lies_below_the_optimum(problem: Problem) -> None:
    points = np.random.default_rng(1).uniform(problem.low, problem.high, (2000, problem.dim))
    assert min(problem.regret(problem.function(x)) for x in points) > 0


def test_michalewicz_is_separable_and_its_optimum_is_the_sum_of_the_least_terms() -> None:
    x = np.linspace(0, np.pi, 200_001)
    terms = [-np.sin(x) * np.sin(i * x**2 / np.pi) ** 20 for i in range(1, 11)]
    minimiser = [x[term.argmin()] for term in terms]
    assert sum(term.min() for term in terms) == pytest.approx(-9.66015, abs=1e-4)
    assert MICHALEWICZ_10(named(MICHALEWICZ_10, minimiser)) == pytest.approx(MICHALEWICZ_10.optimum, abs=1e-4)


def test_michalewicz_in_two_dimensions() -> None:
    assert michalewicz_value(np.array([2.20, 1.57])) == pytest.approx(-1.8013, abs=1e-3)


@pytest.mark.parametrize(
    ("key", "dim", "low", "high"),
    [("hartmann-6", 6, 0.0, 1.0), ("shekel-4", 4, 0.0, 10.0), ("michalewicz-10", 10, 0.0, np.pi)],
)
def test_space(key: str, dim: int, low: float, high: float) -> None:
    space = PROBLEMS[key].space
    assert space.names == tuple(f"x{i}" for i in range(1, dim + 1))
    assert {(parameter.low, parameter.high) for parameter in space.parameters} == {(low, high)}
    assert space.is_continuous.all()


def test_parameters_are_taken_by_name_in_any_order() -> None:
    params = named(HARTMANN_6, HARTMANN_MINIMISER)
    backwards = dict(reversed(params.items()))
    assert HARTMANN_6(backwards) == HARTMANN_6(params) == HARTMANN_6.function(np.array(HARTMANN_MINIMISER))
    assert type(HARTMANN_6(params)) is float


def test_regret_is_the_distance_above_the_optimum() -> None:
    assert SHEKEL_4.regret(-10.0) == pytest.approx(0.5364)
    assert SHEKEL_4.regret(SHEKEL_4.optimum) == 0.0
