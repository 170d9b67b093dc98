"""Problems keep what they state: minima, scopes, one instance for each (name, seed)."""

from __future__ import annotations

import itertools
import os
import pickle
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.optimize import minimize

from bench_cases import bounds, some
from dechbo import FactorGraph
from dechbo.bench.problems import (
    HARTMANN_6,
    MICHALEWICZ_10,
    PROBLEMS,
    SHEKEL_4,
    SUITES,
    Problem,
    ProblemUnavailable,
    michalewicz_value,
    names,
    problem,
)
from dechbo.bench.problems.problem import data_file, require_module
from dechbo.errors import DechboError, OptionError

SYNTHETIC = (*SUITES["table1"], *SUITES["synthetic"], *SUITES["smoke"])
CONTINUOUS = tuple(name for name in SYNTHETIC if not name.startswith("NK"))
PER_SEED = (*SUITES["synthetic"], *SUITES["smoke"])
WHOLE = ("Hartmann-6", "Shekel-4", "Ackley-20")  # not sums of smaller factors


def draws(problem: Problem, count: int, seed: int = 1) -> Iterator[dict[str, Any]]:
    rng = np.random.default_rng(seed)
    for _ in range(count):
        yield problem.space.decode(problem.space.from_uniform(rng.random(problem.space.dim)))


def values_of(problem: Problem, x: np.ndarray) -> float:
    return problem(dict(zip(problem.space.names, x.tolist(), strict=True)))


# ---------------------------------------------------------------- minima


@pytest.mark.parametrize("seed", [0, 3])
@pytest.mark.parametrize("name", SYNTHETIC)
def test_the_stated_minimiser_reaches_the_stated_minimum(name: str, seed: int) -> None:
    stated = problem(name, seed)
    assert stated(some(stated.minimiser)) == pytest.approx(stated.optimum, abs=1e-11)
    assert stated.regret(some(stated.optimum)) == 0.0
    stated.space.encode(some(stated.minimiser))  # inside the domain


@pytest.mark.parametrize("name", SYNTHETIC)
def test_no_random_point_lies_below_the_minimum(name: str) -> None:
    stated = problem(name, 1)
    least = min(stated.regret(stated(params)) for params in draws(stated, 500))
    assert least >= 0 if stated.space.is_finite else least > 0


@pytest.mark.parametrize("name", CONTINUOUS)
def test_descent_from_near_the_minimiser_ends_at_the_minimum(name: str) -> None:
    stated = problem(name, 2)
    ((low, high),) = bounds(stated.space)
    minimiser = np.array(list(some(stated.minimiser).values()))
    rng = np.random.default_rng(0)
    starts = np.clip(minimiser + 0.002 * (high - low) * rng.normal(size=(3, len(minimiser))), low, high)
    for start in starts:
        found = minimize(lambda x: values_of(stated, x), start, bounds=[(low, high)] * len(start), tol=1e-10)
        assert -1e-9 < stated.regret(found.fun) <= max(stated.regret(values_of(stated, start)) / 2, 1e-3)


@pytest.mark.parametrize(
    ("stated", "printed", "digits"), [(HARTMANN_6, -3.32237, 5), (SHEKEL_4, -10.5364, 4), (MICHALEWICZ_10, -9.66015, 5)]
)
def test_the_minima_are_those_that_the_paper_prints(stated: Problem, printed: float, digits: int) -> None:
    assert round(some(stated.optimum), digits) == printed


def test_michalewicz_is_separable_and_its_minimum_is_the_sum_of_the_least_terms() -> None:
    x = np.linspace(0, np.pi, 200_001)
    terms = [-np.sin(x) * np.sin(i * x**2 / np.pi) ** 20 for i in range(1, 11)]
    minimiser = np.array([x[term.argmin()] for term in terms])
    assert sum(term.min() for term in terms) == pytest.approx(MICHALEWICZ_10.optimum, abs=1e-6)
    assert values_of(MICHALEWICZ_10, minimiser) == pytest.approx(MICHALEWICZ_10.optimum, abs=1e-6)


def test_michalewicz_in_two_dimensions() -> None:
    assert michalewicz_value(np.array([2.20, 1.57])) == pytest.approx(-1.8013, abs=1e-3)


@pytest.mark.parametrize(
    ("key", "dim", "low", "high"),
    [("hartmann-6", 6, 0.0, 1.0), ("shekel-4", 4, 0.0, 10.0), ("michalewicz-10", 10, 0.0, np.pi)],
)
def test_the_papers_domains(key: str, dim: int, low: float, high: float) -> None:
    space = PROBLEMS[key].space
    assert space.names == tuple(f"x{i}" for i in range(1, dim + 1))
    assert bounds(space) == {(low, high)}
    assert problem(key, 5) is PROBLEMS[key]  # exactly the paper's function, whatever the seed


# ---------------------------------------------------------------- scopes


def mixed_difference(stated: Problem, rng: np.random.Generator, pair: tuple[str, str]) -> tuple[float, float]:
    """f(a', b') - f(a', b) - f(a, b') + f(a, b) with all else equal, and the size of the numbers in it."""
    here, there = draws(stated, 2, int(rng.integers(2**31)))
    corners = [stated({**here, **{name: there[name] for name in moved}}) for moved in (pair, pair[:1], pair[1:], ())]
    return corners[0] - corners[1] - corners[2] + corners[3], max(map(abs, corners))


@pytest.mark.parametrize("name", [name for name in SYNTHETIC if name not in WHOLE])
def test_parameters_interact_exactly_within_the_stated_scopes(name: str) -> None:
    stated = problem(name, 1)
    together = {frozenset(pair) for scope in some(stated.scopes) for pair in itertools.combinations(scope, 2)}
    apart = [pair for pair in itertools.combinations(stated.space.names, 2) if frozenset(pair) not in together]
    rng = np.random.default_rng(4)
    for k in rng.permutation(len(apart))[:150]:
        difference, size = mixed_difference(stated, rng, apart[k])
        assert abs(difference) <= 1e-12 * max(size, 1)
    for first, second in sorted(map(sorted, together)):
        trials = (mixed_difference(stated, rng, (first, second)) for _ in range(40))
        assert any(abs(difference) > 1e-9 * size for difference, size in trials), (first, second)


@pytest.mark.parametrize("name", SYNTHETIC)
def test_scopes_make_a_factor_graph(name: str) -> None:
    stated = problem(name, 1)
    if stated.scopes is None:
        assert name in WHOLE
    else:
        assert FactorGraph.from_names(stated.space, stated.scopes).dim == stated.space.dim


# ---------------------------------------------------------------- instances


@pytest.mark.parametrize("name", PER_SEED)
def test_an_instance_belongs_to_its_seed(name: str) -> None:
    first, again, other = problem(name, 7), problem(name.upper(), 7), problem(name, 8)
    assert first.name == again.name == other.name == name
    points = list(draws(first, 3))
    assert [first(params) for params in points] == [again(params) for params in points]
    assert [first(params) for params in points] != [other(params) for params in points]
    assert first.space == other.space
    assert first.minimiser == again.minimiser != other.minimiser


def test_another_process_makes_the_same_instance() -> None:
    chosen = ("Levy-10", "NK-8", "Overlapping-20")
    code = f"from dechbo.bench.problems import problem\nfor n in {chosen}: print(repr(problem(n, 3).minimiser))"
    environment = {**os.environ, "PYTHONHASHSEED": "12345"}
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True)
    assert done.stdout.splitlines() == [repr(problem(name, 3).minimiser) for name in chosen]


@pytest.mark.parametrize("name", [*SYNTHETIC, "Rover-60"])
def test_a_problem_survives_pickling(name: str) -> None:
    stated = problem(name, 2)
    copy = pickle.loads(pickle.dumps(stated))
    params = next(draws(stated, 1))
    assert copy(params) == stated(params)
    assert type(stated(params)) is float


def test_parameters_are_taken_by_name_in_any_order() -> None:
    params = dict(some(HARTMANN_6.minimiser))
    assert HARTMANN_6(dict(reversed(params.items()))) == HARTMANN_6(params)


# ---------------------------------------------------------------- names


def test_suites_hold_known_problems() -> None:
    assert set().union(*SUITES.values()) == set(names()) - {"CNN-6-full"}  # it needs a GPU
    assert SUITES["table1"] == ("Hartmann-6", "Shekel-4", "Michalewicz-10")
    judged_last = {*SUITES["table1"], *SUITES["real"], *SUITES["example"]}
    assert set(SUITES["choice"]) <= set(SUITES["synthetic"]) - judged_last
    assert not set(SUITES["families"]) & set(SUITES["all"])
    only_examples = set(SUITES["example"]) - {"Wine-12"}  # the tables of "all" have the study of the README only
    elsewhere = {*SUITES["smoke"], *SUITES["families"], *SUITES["table2"], "CNN-6-full", *only_examples}
    assert set(SUITES["all"]) == set(names()) - elsewhere
    assert all(len(set(suite)) == len(suite) for suite in SUITES.values())
    assert all(problem(name).space.dim <= 8 for name in SUITES["smoke"])


def test_a_name_says_its_dimension() -> None:
    for name in SYNTHETIC:
        assert problem(name).space.dim == int(name.split("-")[-1])


@pytest.mark.parametrize("name", ["hartman-6", "", None])
def test_an_unknown_name_lists_the_known_ones(name: Any) -> None:
    with pytest.raises(OptionError, match=r"Hartmann-6, .*LunarLander-12.* got"):
        problem(name)


@pytest.mark.parametrize("seed", [-1, 0.5, "0"])
def test_a_seed_is_a_whole_number(seed: Any) -> None:
    with pytest.raises(OptionError, match=r"seed .*whole number"):
        problem("Levy-10", seed)


def test_regret_where_the_minimum_is_unknown_is_the_value() -> None:
    rover = problem("Rover-60")
    assert rover.optimum is None
    assert rover.regret(3.5) == 3.5
    assert SHEKEL_4.regret(-10.0) == pytest.approx(0.536443, abs=1e-6)


def test_a_missing_package_names_the_extra() -> None:
    with pytest.raises(ProblemUnavailable, match=r"Voltages-54 needs .*'no_such_grid'.* \"dechbo\[bench\]\""):
        require_module("Voltages-54", "no_such_grid.api")
    assert issubclass(ProblemUnavailable, DechboError)


def test_missing_data_names_the_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("DECHBO_DATA", raising=False)
    with pytest.raises(ProblemUnavailable, match="set DECHBO_DATA"):
        problem("Lasso-DNA-180")
    monkeypatch.setenv("DECHBO_DATA", str(tmp_path))
    with pytest.raises(ProblemUnavailable, match="which is not in DECHBO_DATA"):
        problem("Lasso-DNA-180")
    (tmp_path / "lasso").mkdir()
    (tmp_path / "lasso" / "some").touch()
    assert data_file("X", "lasso", "some") == tmp_path / "lasso" / "some"
