"""The families for choosing settings: what they state of minima and scopes, and what the seed changes."""

from __future__ import annotations

import itertools
import pickle
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from scipy.optimize import approx_fprime, minimize

from bench_cases import some
from dechbo.bench.problems import SUITES, Problem, families, problem
from dechbo.bench.problems.problem import Array, ArrayFunction
from dechbo.space import Float, Int

NAMES = SUITES["families"]
KNOWN = tuple(name for name in NAMES if not name.startswith("Truss"))
SMOOTH = tuple(name for name in KNOWN if not name.startswith(("Steps", "Mixed")))
SUMS = tuple(name for name in NAMES if not name.startswith(("Rotated", "Steps")))


def draws(stated: Problem, count: int, seed: int = 1) -> Iterator[dict[str, Any]]:
    rng = np.random.default_rng(seed)
    for _ in range(count):
        yield stated.space.decode(stated.space.from_uniform(rng.random(stated.space.dim)))


def true_value(stated: Problem, params: Any) -> float:
    return (stated.noise_free or stated)(params)


def exchange(stated: Problem, params: dict[str, Any], sweeps: int = 3) -> float:
    """The value after coordinate descent over the grid of each parameter."""
    space, point = stated.space, stated.space.encode(params)
    least = true_value(stated, params)
    for _ in range(sweeps):
        for i, parameter in enumerate(space.parameters):
            for u in parameter.grid(9).tolist():
                moved = point.copy()
                moved[i] = u
                value = true_value(stated, space.decode(moved))
                if value < least:
                    least, point = value, moved
    return least


@pytest.mark.parametrize("seed", [0, 100])
@pytest.mark.parametrize("name", KNOWN)
def test_the_minimum_is_attained_and_no_random_point_lies_below(name: str, seed: int) -> None:
    stated = problem(name, seed)
    assert true_value(stated, some(stated.minimiser)) == pytest.approx(stated.optimum, abs=1e-11)
    stated.space.encode(some(stated.minimiser))  # inside the domain
    assert min(stated.regret(true_value(stated, params)) for params in draws(stated, 300)) > 0


@pytest.mark.parametrize("name", [name for name in KNOWN if name not in SMOOTH])
def test_no_exchange_of_coordinates_ends_below_the_minimum(name: str) -> None:
    stated = problem(name, 101)
    for params in (*draws(stated, 2), dict(some(stated.minimiser))):
        assert stated.regret(exchange(stated, params)) >= -1e-11


@pytest.mark.parametrize("name", SMOOTH)
def test_no_descent_ends_below_the_minimum(name: str) -> None:
    stated = problem(name, 101)
    parameters = [p for p in stated.space.parameters if isinstance(p, Float)]
    low, high = (np.array(ends) for ends in zip(*((p.low, p.high) for p in parameters), strict=True))
    evaluate = some(stated.noise_free) if stated.noise_free else stated.evaluate
    assert isinstance(evaluate, ArrayFunction)
    best, rng = np.array(list(some(stated.minimiser).values())), np.random.default_rng(0)
    near = np.clip(best + 0.01 * (high - low) * rng.normal(size=best.shape), low, high)
    for start in (near, low + (high - low) * rng.random(len(best)), low + (high - low) * rng.random(len(best))):
        found = minimize(evaluate.function, start, bounds=list(zip(low, high, strict=True)), options={"maxfun": 20_000})
        assert stated.regret(found.fun) > -1e-9
        if start is near and not name.startswith("Ackley"):  # which has a cusp there
            assert stated.regret(found.fun) < max(0.1 * stated.regret(evaluate.function(start)), 1e-3)


@pytest.mark.parametrize("name", SUMS)
def test_parameters_outside_a_common_scope_do_not_interact(name: str) -> None:
    stated = problem(name, 1)
    together = {frozenset(pair) for scope in some(stated.scopes) for pair in itertools.combinations(scope, 2)}
    apart = [pair for pair in itertools.combinations(stated.space.names, 2) if frozenset(pair) not in together]
    rng = np.random.default_rng(4)
    for k in rng.permutation(len(apart))[:100]:
        here, there = draws(stated, 2, int(rng.integers(2**31)))
        corners = [
            true_value(stated, {**here, **{name: there[name] for name in moved}})
            for moved in (apart[k], apart[k][:1], apart[k][1:], ())
        ]
        assert abs(corners[0] - corners[1] - corners[2] + corners[3]) <= 1e-12 * max(*map(abs, corners), 1)


@pytest.mark.parametrize("name", NAMES)
def test_an_instance_belongs_to_its_seed_and_survives_pickling(name: str) -> None:
    first, again, other = problem(name, 7), pickle.loads(pickle.dumps(problem(name.lower(), 7))), problem(name, 8)
    assert first.name == again.name == other.name == name
    assert first.space.dim == int(name.split("-")[-1])
    point = np.random.default_rng(0).random(first.space.dim)
    values = [p(p.space.decode(p.space.from_uniform(point))) for p in (first, again, other)]
    assert values[0] == values[1] != values[2]
    assert first.minimiser == again.minimiser
    assert first.minimiser is None or first.minimiser != other.minimiser


@pytest.mark.parametrize("name", [name for name in NAMES if "-6-in-" in name])
def test_six_variables_act_together_and_the_others_not_at_all(name: str) -> None:
    stated = problem(name, 100)
    six = some(stated.scopes)[0]
    assert len(six) == 6
    params, elsewhere = draws(stated, 2)
    assert stated({**elsewhere, **{name: params[name] for name in six}}) == stated(params)
    for name in six:
        assert stated({**params, name: elsewhere[name]}) != stated(params)


def test_the_gradient_of_bumps() -> None:
    rng = np.random.default_rng(0)
    function = families.Bumps.random(rng, 4)
    z = rng.random(4)
    np.testing.assert_allclose(function.gradient(z), approx_fprime(z, function, 1e-7), atol=1e-5)


def test_a_rotation_keeps_distances_and_couples_all_variables() -> None:
    def length(z: Array) -> float:
        return float(np.linalg.norm(z))

    whole = families.Rotated.random(length, np.random.default_rng(0), 5, -1.0, 1.0)
    x = np.arange(5.0)
    assert whole(x) == pytest.approx(length(x - whole.minimiser))
    assert (np.abs(whole.rotation) > 1e-3).all()


def test_noise_is_a_tenth_of_the_spread_and_a_function_of_the_point() -> None:
    stated = problem("Noisy-12", 100)
    points = list(draws(stated, 400))
    true = np.array([true_value(stated, params) for params in points])
    noise = np.array([stated(params) for params in points]) - true
    assert noise.std() == pytest.approx(0.1 * true.std(), rel=0.15)
    assert abs(noise.mean()) < 0.02
    assert abs(np.corrcoef(noise, true)[0, 1]) < 0.15
    assert stated(points[0]) == stated(dict(points[0]))


def test_steps_are_plateaus() -> None:
    stated = problem("Steps-15", 100)
    values = np.array([stated(params) for params in draws(stated, 200)])
    np.testing.assert_allclose(values / 0.25, np.round(values / 0.25), atol=1e-9)
    assert 5 < len(np.unique(values)) < 40


def test_the_mixed_family_has_every_kind_and_pairs_of_categories_interact_too() -> None:
    stated = problem("Mixed-20", 100)
    kinds = [type(parameter).__name__ for parameter in stated.space.parameters]
    assert {kind: kinds.count(kind) for kind in kinds} == {"Float": 10, "Int": 5, "Categorical": 5}
    pairs = [scope for scope in some(stated.scopes) if len(scope) == 2]
    assert len(pairs) == 20
    for first, second in pairs:
        gaps = []
        for k in range(20):
            here, there = draws(stated, 2, k)
            a, b = {first: there[first]}, {second: there[second]}
            gaps.append(stated({**here, **a, **b}) - stated({**here, **a}) - stated({**here, **b}) + stated(here))
        assert max(map(abs, gaps)) > 1e-6


def test_a_truss_weighs_something_and_pays_for_what_it_lacks() -> None:
    stated = problem("Truss-100", 100)
    lightest = dict.fromkeys(stated.space.names, 0)
    last = [parameter.high for parameter in stated.space.parameters if isinstance(parameter, Int)]
    heaviest = dict(zip(stated.space.names, last, strict=True))
    assert stated(heaviest) == pytest.approx(100.0)  # weight alone
    assert stated(lightest) > 300.0
    found = exchange(stated, next(draws(stated, 1)), sweeps=2)
    assert 20 < found < 45 < min(stated(params) for params in draws(stated, 100))
    assert (min(last), max(last)) == (4, 9)  # 5 to 10 sections
