"""The shifted classics: formulas against plain loops, minima on all of R^d, and what the seed shifts."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from scipy.optimize import rosen

from bench_cases import bounds, some
from dechbo.bench.problems import classic as c
from dechbo.bench.problems import problem
from dechbo.bench.problems.problem import Array, ArrayFunction

SHIFTED = ["Powell-24", "Rosenbrock-20", "Rastrigin-100", "Ackley-20", "Levy-10", "Styblinski-Tang-50", "Rosenbrock-4"]
points = arrays(np.float64, 8, elements=st.floats(-12, 12))


def powell(z: Sequence[float]) -> float:
    total = 0.0
    for k in range(0, len(z), 4):
        x1, x2, x3, x4 = z[k : k + 4]
        total += (x1 + 10 * x2) ** 2 + 5 * (x3 - x4) ** 2 + (x2 - 2 * x3) ** 4 + 10 * (x1 - x4) ** 4
    return total


def rastrigin(z: Sequence[float]) -> float:
    return 10 * len(z) + sum(x * x - 10 * math.cos(2 * math.pi * x) for x in z)


def ackley(z: Sequence[float]) -> float:
    length = math.sqrt(sum(x * x for x in z) / len(z))
    waves = sum(math.cos(2 * math.pi * x) for x in z) / len(z)
    return -20 * math.exp(-0.2 * length) - math.exp(waves) + 20 + math.e


def levy(z: Sequence[float]) -> float:
    w = [1 + (x - 1) / 4 for x in z]
    first = math.sin(math.pi * w[0]) ** 2
    last = (w[-1] - 1) ** 2 * (1 + math.sin(2 * math.pi * w[-1]) ** 2)
    return first + last + sum((v - 1) ** 2 * (1 + 10 * math.sin(math.pi * v + 1) ** 2) for v in w[:-1])


def styblinski(z: Sequence[float]) -> float:
    return sum(x**4 - 16 * x**2 + 5 * x for x in z) / 2


@pytest.mark.parametrize(
    ("function", "oracle"),
    [
        (c.powell_value, powell),
        (c.rosenbrock_value, rosen),
        (c.rastrigin_value, rastrigin),
        (c.ackley_value, ackley),
        (c.levy_value, levy),
        (c.styblinski_value, styblinski),
    ],
)
@given(z=points)
def test_formulas(function: Callable[[Array], float], oracle: Callable[[object], float], z: Array) -> None:
    assert function(z) == pytest.approx(oracle(z.tolist() if oracle is not rosen else z), rel=1e-9, abs=1e-9)


@pytest.mark.parametrize(
    ("kind", "dim"), [(c.POWELL, 8), (c.ROSENBROCK, 8), (c.RASTRIGIN, 8), (c.ACKLEY, 8), (c.LEVY, 8)]
)
@given(z=points)
def test_the_formulas_are_least_at_their_minimiser_on_the_whole_space(kind: c.Classic, dim: int, z: Array) -> None:
    assert kind.function(np.full(dim, kind.original)) == 0.0
    assert kind.function(z) >= 0.0
    if np.abs(z - kind.original).max() > 1e-3:
        assert kind.function(z) > 0.0


def test_styblinski_tang_is_least_at_the_least_root_of_its_derivative_on_the_whole_line() -> None:
    roots = np.roots([4, 0, -32, 5]).real
    terms = (roots**4 - 16 * roots**2 + 5 * roots) / 2
    assert roots[terms.argmin()] == pytest.approx(c.STYBLINSKI_MINIMISER, abs=1e-12)
    assert terms.min() == pytest.approx(c.STYBLINSKI_MINIMUM, abs=1e-12)


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("name", SHIFTED)
def test_the_shift_changes_the_place_and_nothing_else(name: str, seed: int) -> None:
    stated = problem(name, seed)
    assert isinstance(stated.evaluate, ArrayFunction)
    shifted = stated.evaluate.function
    assert isinstance(shifted, c.Shifted)
    assert set(np.unique(shifted.mirror)) <= {-1.0, 1.0}
    z = np.random.default_rng(seed).normal(size=stated.space.dim)
    x = shifted.minimiser + shifted.mirror * (z - shifted.original)
    assert shifted(x) == pytest.approx(shifted.function(z), rel=1e-9)


@pytest.mark.parametrize("name", SHIFTED)
def test_the_minimiser_lies_well_inside_and_neither_in_the_centre_nor_on_the_diagonal(name: str) -> None:
    places = np.array([list(some(problem(name, seed).minimiser).values()) for seed in range(30)])
    ((low, high),) = bounds(problem(name).space)
    u = (places - low) / (high - low)
    assert u.min() > 0.1
    assert u.max() < 0.9
    assert np.abs(u - 0.5).mean() > 0.1
    assert u.std(axis=1).min() > 0.03
    assert abs(u.mean() - 0.5) < 0.05


def test_the_embedded_hartmann_sees_six_coordinates_only() -> None:
    stated = problem("Hartmann-6-in-100", 4)
    six = some(stated.scopes)[0]
    assert len(six) == 6
    assert some(problem("Hartmann-6-in-100", 5).scopes)[0] != six
    rng = np.random.default_rng(0)
    elsewhere = {name: float(rng.random()) for name in stated.space.names if name not in six}
    minimiser = some(stated.minimiser)
    assert stated({**minimiser, **elsewhere}) == stated(minimiser)
    for name in six:
        assert stated({**minimiser, name: 0.95}) > stated(minimiser) + 1e-3
