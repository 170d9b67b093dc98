"""minimize: SciPy's manners."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.optimize import Bounds, OptimizeResult

from dechbo import Categorical, FactorGraph, Float, Int, Space, minimize
from dechbo.errors import OptionError, ParameterError, SpaceError


def bowl(x: np.ndarray) -> float:
    return float(((x - 0.3) ** 2).sum())


def test_the_result_has_scipys_fields():
    result = minimize(bowl, bounds=[(0, 1)] * 3, n_calls=18, rng=0)
    assert isinstance(result, OptimizeResult)
    assert result.nfev == len(result.x_iters) == len(result.func_vals) == 18
    assert result.fun == result.func_vals.min() == bowl(result.x)
    assert result.fun < 1e-3
    assert isinstance(result.graph, FactorGraph)
    assert result.success


def test_same_seed_same_run_in_any_spelling():
    runs = [
        minimize(bowl, bounds=b, n_calls=13, rng=7).x_iters
        for b in ([(0, 1)] * 2, Bounds([0, 0], [1, 1]), [(0.0, 1)] * 2)
    ]
    assert np.array_equal(runs[0], runs[1])
    assert np.array_equal(runs[0], runs[2])
    generators = [minimize(bowl, bounds=[(0, 1)], n_calls=5, rng=np.random.default_rng(1)).x_iters for _ in range(2)]
    assert np.array_equal(generators[0], generators[1])


def test_the_callback_sees_each_step_and_can_stop():
    seen = []

    def callback(result):
        seen.append(result.nfev)
        return result.nfev == 4

    result = minimize(bowl, bounds=[(0, 1)] * 2, n_calls=10, rng=0, callback=callback)
    assert seen == [1, 2, 3, 4]
    assert result.nfev == 4
    assert "callback" in result.message

    def stopping(result):
        raise StopIteration

    assert minimize(bowl, bounds=[(0, 1)] * 2, n_calls=10, rng=0, callback=stopping).nfev == 1


def test_starting_points_and_extra_arguments():
    result = minimize(lambda x, shift: bowl(x - shift), [(0, 1)] * 2, n_calls=4, rng=0, x0=[0.5, 0.25], args=(0.1,))
    assert np.array_equal(result.x_iters[0], [0.5, 0.25])
    assert result.func_vals[0] == bowl(np.array([0.4, 0.15]))


def test_a_space_in_place_of_bounds():
    space = Space({"x": Float(0, 1), "kind": Categorical(["good", "bad"])})
    result = minimize(lambda p: p["x"] + (p["kind"] == "bad"), space, n_calls=15, rng=0, x0={"x": 0.5, "kind": "bad"})
    assert result.x_iters[0] == {"x": 0.5, "kind": "bad"}
    assert result.x["kind"] == "good"


def test_failures_are_nan_in_the_record():
    result = minimize(lambda x: np.nan, [(0, 1)], n_calls=3, rng=0)
    assert result.x is None
    assert not result.success
    assert np.isnan(result.func_vals).all()


def test_an_exhausted_space_ends_the_run_and_keeps_it():
    result = minimize(lambda p: p["a"], Space({"a": Int(0, 4)}), n_calls=9, rng=0)
    assert result.nfev == 5
    assert result.x == {"a": 0}
    assert "every point" in result.message


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ({"bounds": []}, SpaceError, "empty"),
        ({"bounds": [(1, 0)]}, SpaceError, r"bounds\[0\]"),
        ({"bounds": [(0, np.inf)]}, SpaceError, r"bounds\[0\]"),
        ({"bounds": [(0, 1), 3]}, SpaceError, r"bounds\[1\]"),
        ({"n_calls": 0}, OptionError, "n_calls"),
        ({"x0": [0.5, 0.5, 0.5]}, OptionError, "x0"),
        ({"x0": [5.0]}, ParameterError, "x0"),
        ({"x0": "ab"}, OptionError, "x0"),
        ({"bounds": None}, SpaceError, "bounds"),
        ({"seed": 3}, OptionError, "rng"),
        ({"direction": "maximize"}, OptionError, "direction"),
    ],
)
def test_bad_arguments_are_refused_before_anything_is_evaluated(arguments, error, message):
    def never(x):
        raise AssertionError("evaluated")

    with pytest.raises(error, match=message):
        minimize(never, **{"bounds": [(0, 1)], "n_calls": 3, "rng": 0, **arguments})
