"""Told constraints: the search ends at the feasible optimum, and odd constraints do not break it."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.optimize import minimize

from dechbo import Categorical, FactorGraph, Float, Int, Optimizer, Space
from dechbo.data.evaluation import Evaluation
from dechbo.models.options import ModelOptions
from dechbo.search.options import SearchOptions

Array = NDArray[np.float64]

QUICK: dict[str, Any] = {"model": ModelOptions(members=("whole",))}
SQUARE = Space({"x": Float(0, 1), "y": Float(0, 1)})
MIXED = Space({"x": Float(0, 1), "n": Int(1, 6), "c": Categorical(["a", "b"])})


def wave(x: float, y: float) -> float:
    return 1.5 - x - 2 * y - 0.5 * math.sin(2 * math.pi * (x**2 - 2 * y))


def disc(x: float, y: float) -> float:
    return x**2 + y**2 - 1.5


def test_gramacys_problem_is_solved() -> None:
    """Gramacy et al. (2016); SciPy's SLSQP with the true functions, from many starts, is the oracle."""
    limits = {"type": "ineq", "fun": lambda p: [-wave(*p), -disc(*p)]}
    runs = [
        minimize(lambda p: p[0] + p[1], start, method="SLSQP", bounds=[(0, 1)] * 2, constraints=limits)
        for start in np.random.default_rng(0).uniform(0.1, 0.9, (20, 2))
    ]
    optimum = min(run.fun for run in runs if run.success and max(wave(*run.x), disc(*run.x)) < 1e-6)
    assert optimum == pytest.approx(0.5998, abs=1e-3)
    optimizer = Optimizer(SQUARE, seed=0, **QUICK)
    for _ in range(22):
        p = optimizer.ask()
        optimizer.tell(p, p["x"] + p["y"], constraints={"wave": wave(**p), "disc": disc(**p)})
    assert optimizer.info is not None
    assert optimizer.info.acquisition == "improvement"
    assert optimizer.best is not None
    assert optimizer.best.feasible
    assert 0 <= optimizer.best.number_value - optimum + 1e-6 < 0.02


def test_eight_parameters_and_a_ball() -> None:
    """An additive objective whose free optimum is infeasible; SLSQP is the oracle."""
    target, weights = np.linspace(0.9, 0.4, 8), np.arange(1, 9)
    space = Space({f"x{i}": Float(0, 1) for i in range(8)})

    def value(x: Array) -> float:
        return float(((x - target) ** 2 * weights).sum())

    def ball(x: Array) -> float:
        return float(x @ x) - 1.5

    oracle = minimize(
        value,
        np.full(8, 0.1),
        method="SLSQP",
        bounds=[(0, 1)] * 8,
        constraints={"type": "ineq", "fun": lambda x: -ball(x)},
    ).fun
    optimizer = Optimizer(space, graph=FactorGraph.singletons(8), seed=1, model=ModelOptions(members=("smooth",)))
    first = math.inf
    for k in range(28):
        p = optimizer.ask()
        x = np.array(list(p.values()))
        optimizer.tell(p, value(x), constraints={"ball": ball(x)})
        if k == 9 and optimizer.best is not None:
            first = optimizer.best.number_value
    assert optimizer.best is not None
    regret = optimizer.best.number_value - oracle
    assert -1e-6 <= regret < 0.2
    assert regret < (first - oracle) / 3
    late = [evaluation.feasible for evaluation in optimizer.evaluations[18:]]
    assert np.mean(late) >= 0.4  # at the edge, but not far beyond it


def tell_some(optimizer: Optimizer, many: int) -> None:
    for k in range(many):
        p = optimizer.ask()
        limits = {"size": p["x"] + p["n"] / 6 - 0.9, "odd": -0.1 if p["c"] == "a" else p["x"] - 0.4}
        if k % 4 == 3:  # some report only one of the two
            del limits["odd"]
        optimizer.tell(p, None if k == 7 else -p["x"] - 0.2 * p["n"], constraints=None if k == 5 else limits)


def test_the_same_after_save_load_and_replay_and_with_pending_points(tmp_path: Path) -> None:
    optimizer = Optimizer(MIXED, seed=4, n_initial=5, **QUICK)
    tell_some(optimizer, 13)
    optimizer.save(tmp_path / "run.json")
    loaded, replayed = Optimizer.load(tmp_path / "run.json"), Optimizer(MIXED, seed=4, n_initial=5, **QUICK)
    replayed.replay(optimizer.evaluations)
    asked = optimizer.ask(3)
    assert len({tuple(p.values()) for p in asked}) == 3
    assert loaded.ask(3) == asked
    assert replayed.ask(3) == asked
    replayed.replay(optimizer.evaluations, asked[:1])
    assert replayed.ask() not in asked[:1]


def test_feasible_points_are_sought_first() -> None:
    """Only a small corner is feasible, far from where the objective is good."""
    optimizer = Optimizer(SQUARE, seed=2, **QUICK)
    for _ in range(16):
        p = optimizer.ask()
        corner = math.hypot(p["x"] - 0.9, p["y"] - 0.9) - 0.08
        optimizer.tell(p, p["x"] + p["y"], constraints={"corner": corner})
        assert optimizer.info is not None
        assert optimizer.info.acquisition in ("", "feasibility")
        if optimizer.best is not None:
            break
    assert optimizer.best is not None
    optimizer.ask()
    assert optimizer.info is not None
    assert optimizer.info.acquisition == "improvement"


def test_known_and_learned_constraints_together() -> None:
    space = Space({"x": Float(0, 1), "y": Float(0, 1)}, ["x + y <= 0.8"])
    optimizer = Optimizer(space, seed=0, **QUICK)
    for k in range(16):
        p = optimizer.ask(fixed={"x": 0.3} if k == 12 else None)
        assert p["x"] + p["y"] <= 0.8 + 1e-8
        optimizer.tell(p, -p["x"] - 2 * p["y"], constraints={"low": p["y"] - 0.5})
    assert optimizer.best is not None
    assert optimizer.best.number_value == pytest.approx(-1.3, abs=0.03)  # x = 0.3, y = 0.5


@pytest.mark.parametrize(
    "limit",
    [lambda x: -1.0, lambda x: 1.0, lambda x: 0.0, lambda x: 1e300 * (x - 0.5), lambda x: 10 ** (600 * x - 300)],
    ids=["never broken", "always broken", "zero", "huge", "all sizes"],
)
def test_odd_constraints_do_not_break_it(limit: Any) -> None:
    optimizer = Optimizer(SQUARE, seed=0, n_initial=4, **QUICK)
    for _ in range(7):
        p = optimizer.ask()
        optimizer.tell(p, p["x"] * p["y"], constraints={"c": min(limit(p["x"]), 1e300)})
    mean, deviation = optimizer.predict_constraints(p)["c"]
    assert math.isfinite(mean)
    assert deviation >= 0
    assert 0 <= optimizer.feasible_probability(p) <= 1
    assert all(e.feasible for e in [optimizer.best] if e is not None)


def test_answers_about_constraints() -> None:
    space = Space({"x": Float(0, 1), "y": Float(0, 1)}, ["x + y <= 1.5"])
    optimizer = Optimizer(space, seed=0, **QUICK)
    rng = np.random.default_rng(0)
    for x, y in rng.random((12, 2)) / 2:
        optimizer.tell({"x": x, "y": y}, x, constraints={"plane": 10 * (x + y - 0.5), "other": y - 2})
    answers = optimizer.predict_constraints({"x": 0.2, "y": 0.4})
    assert list(answers) == ["other", "plane"]
    mean, deviation = answers["plane"]
    assert abs(mean - 1.0) < max(4 * deviation, 0.3)
    assert optimizer.feasible_probability({"x": 0.05, "y": 0.05}) > 0.9
    assert optimizer.feasible_probability({"x": 0.45, "y": 0.45}) < 0.1
    assert optimizer.feasible_probability({"x": 0.9, "y": 0.9}) == 0.0  # breaks the known constraint
    plain = Optimizer(SQUARE, seed=0, **QUICK)
    plain.tell({"x": 0.1, "y": 0.1}, 1.0)
    assert plain.predict_constraints({"x": 0.5, "y": 0.5}) == {}
    assert plain.feasible_probability({"x": 0.5, "y": 0.5}) == 1.0


def test_constraints_of_failed_evaluations_are_not_learned_from() -> None:
    def asked(*more: Evaluation) -> dict[str, Any]:
        optimizer = Optimizer(SQUARE, seed=0, **QUICK)
        points = np.random.default_rng(1).random((11, 2)).tolist()
        optimizer.replay([Evaluation.of({"x": x, "y": y}, x, None, {"c": 0.5 - y}) for x, y in points] + list(more))
        return optimizer.ask()

    failed = {"x": 0.5, "y": 0.5}
    assert asked(Evaluation.of(failed, None, None, {"c": -1e6})) == asked(Evaluation.of(failed, None))


def test_constraints_are_told_to_the_papers_optimiser_too() -> None:
    """Where constraints are told the committee decides, whatever the score."""
    optimizer = Optimizer(SQUARE, seed=0, n_initial=5, search=SearchOptions(score="factors"), **QUICK)
    for _ in range(8):
        p = optimizer.ask()
        optimizer.tell(p, p["x"] + p["y"], constraints={"half": 0.5 - p["x"]})
    assert optimizer.info is not None
    assert optimizer.info.acquisition == "improvement"


def test_an_infeasible_region_is_avoided() -> None:
    """The objective pulls to x = 1; everything beyond 0.6 is infeasible."""
    optimizer = Optimizer(SQUARE, seed=3, **QUICK)
    for _ in range(20):
        p = optimizer.ask()
        optimizer.tell(p, -p["x"] + (p["y"] - 0.5) ** 2, constraints={"wall": p["x"] - 0.6})
    late = np.array([evaluation.params["x"] for evaluation in optimizer.evaluations[10:]])
    assert (late < 0.65).mean() >= 0.7  # once the edge is known to the last digit, a look elsewhere is worth more
    assert optimizer.best is not None
    assert optimizer.best.params["x"] > 0.55
