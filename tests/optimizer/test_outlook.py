"""How much another few evaluations may bring."""

from __future__ import annotations

import numpy as np
import pytest

from dechbo import Float, Int, Optimizer, Space
from dechbo.errors import NoObservations, OptionError
from dechbo.optimizer.outlook import N_DRAWS, joint_draws


@pytest.mark.parametrize("direction", ["minimize", "maximize"])
def test_much_is_left_at_the_start_and_little_at_the_end(direction: str) -> None:
    """A parabola of range 25, solved within twenty evaluations."""
    sign = 1.0 if direction == "minimize" else -1.0
    optimizer = Optimizer(Space({"x": Float(-5, 5), "k": Int(0, 3)}), seed=1, direction=direction, n_initial=5)
    found = []
    for n in range(24):
        params = optimizer.ask()
        optimizer.tell(params, sign * (params["x"] ** 2 + params["k"]))
        if n in (5, 23):
            found.append(optimizer.outlook(10, epsilon=0.05))
    early, late = found
    assert early.gain > late.gain >= 0
    assert early.probability > 0.2
    assert late.probability < 0.02
    assert "another 10 trials to improve the best by" in str(late)


def test_more_trials_promise_more_and_a_larger_step_less() -> None:
    optimizer = Optimizer(Space({"x": Float(-5, 5), "y": Float(0, 1)}), seed=2, n_initial=4)
    for _ in range(6):
        params = optimizer.ask()
        optimizer.tell(params, params["x"] ** 2 + params["y"])
    few, many = optimizer.outlook(2), optimizer.outlook(30)
    assert many.gain >= few.gain
    assert many.probability >= few.probability
    assert optimizer.outlook(30, epsilon=1.0).probability <= many.probability
    assert optimizer.outlook(30) == many  # the same history, the same answer


def test_draws_are_those_of_the_joint_posterior() -> None:
    """Equal points have equal values, and each has the committee's mean and deviation."""
    optimizer = Optimizer(Space({"x": Float(0, 1), "y": Float(0, 1)}), seed=3, n_initial=8)
    for _ in range(12):
        params = optimizer.ask()
        optimizer.tell(params, float(np.sin(6 * params["x"]) + params["y"]))
    committee = optimizer._beliefs.committee(optimizer._history)
    points = np.array([[0.1, 0.9], [0.1, 0.9], [0.8, 0.2]])
    draws = joint_draws(committee, points, np.random.default_rng(0))
    assert draws.shape == (N_DRAWS, 3)
    np.testing.assert_allclose(draws[:, 0], draws[:, 1], atol=1e-2 * draws.std())
    mean, deviation = committee.moments(points)
    np.testing.assert_allclose(draws.mean(axis=0), mean, atol=5 * deviation.max() / np.sqrt(N_DRAWS))
    np.testing.assert_allclose(draws.std(axis=0), deviation, rtol=0.15, atol=1e-3)


def test_what_has_no_outlook() -> None:
    optimizer = Optimizer(Space({"x": Float(0, 1)}), seed=0)
    with pytest.raises(NoObservations, match="no best to improve on"):
        optimizer.outlook()
    optimizer.tell({"x": 0.5}, 1.0)
    with pytest.raises(OptionError, match="epsilon"):
        optimizer.outlook(epsilon=-1)
    with pytest.raises(OptionError, match="trials"):
        optimizer.outlook(0)


@pytest.mark.parametrize("fails", [False, True], ids=["constraint", "failures"])
def test_what_is_infeasible_promises_nothing(fails: bool) -> None:
    """The values rise up to x = 1, but nothing beyond 0.5 is feasible."""
    space = Space({"x": Float(0, 1), "y": Float(0, 1)})
    optimizer = Optimizer(space, seed=0, direction="maximize", n_initial=4)
    for x, y in np.random.default_rng(0).random((40, 2)):
        if fails:
            optimizer.tell({"x": x, "y": y}, None if x > 0.5 else x)
        else:
            optimizer.tell({"x": x, "y": y}, x, constraints={"half": x - 0.5})
    assert optimizer.best is not None
    left = 0.5 - optimizer.best.number_value
    seen = optimizer.outlook(10, epsilon=left + 0.1)
    assert seen.probability < 0.3
    assert seen.gain < left + 0.1


def test_gains_are_in_the_units_of_the_values_beside_a_better_infeasible_one() -> None:
    """Steep values, which are warped: the draws are told in units that do not depend on the warp."""
    optimizer = Optimizer(Space({"x": Float(0, 1)}), seed=0, direction="maximize", n_initial=4)
    for x in np.linspace(0, 1, 25):
        value = -float(np.exp(8 * (1 - x)))
        optimizer.tell({"x": float(x)}, value, constraints={"c": float(x) - 0.7})
    committee = optimizer._beliefs.committee(optimizer._history)
    assert committee.scale.width is not None
    best = optimizer.best
    assert best is not None
    possible = -float(np.exp(8 * 0.3)) - best.number_value  # up to the edge
    assert 0 <= optimizer.outlook(5).gain < 3 * possible
