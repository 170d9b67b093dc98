"""A history stored outside: the next ask depends on the seed, the evaluations and the pending points alone."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from dechbo import Categorical, Float, Int, Optimizer, Space
from dechbo.data.evaluation import Evaluation
from dechbo.errors import ParameterError
from dechbo.models.options import ModelOptions
from dechbo.structure import StructureOptions

SPACE = Space({"x": Float(0, 1), "y": Float(1e-3, 1, log=True), "n": Int(1, 6), "c": Categorical(["a", "b"])})
QUICK: dict[str, Any] = {"model": ModelOptions(structure=StructureOptions(sweeps=1, rounds=1)), "n_initial": 5}


def value(params: dict[str, Any]) -> float:
    return float((params["x"] - 0.3) ** 2 + math.log(params["y"]) ** 2 / 20 + 0.1 * params["n"] * (params["c"] == "a"))


def fresh(told: list[Evaluation], pending: list[dict[str, Any]], **fixed: Any) -> dict[str, Any]:
    optimizer = Optimizer(SPACE, seed=3, **QUICK)
    optimizer.replay(told, pending)
    return optimizer.ask(fixed=fixed)


def test_one_worker_asks_what_the_plain_loop_asks() -> None:
    plain, replayed = Optimizer(SPACE, seed=3, **QUICK), Optimizer(SPACE, seed=3, **QUICK)
    told: list[Evaluation] = []
    for _ in range(24):
        params = plain.ask()
        replayed.replay(told)
        assert replayed.ask() == params
        outcome = None if len(told) in (2, 15) else value(params)
        plain.tell(params, outcome)
        told.append(Evaluation.of(params, outcome))


@pytest.mark.parametrize("seed", range(3))
def test_many_workers_ask_the_same_as_a_fresh_process(seed: int) -> None:
    rng = np.random.default_rng(seed)
    replayed = Optimizer(SPACE, seed=3, **QUICK)
    finished: dict[int, Evaluation] = {}
    running: dict[int, dict[str, Any]] = {}
    for number in range(22):
        told, pending = [finished[k] for k in sorted(finished)], [running[k] for k in sorted(running)]
        fixed = {"c": "b"} if rng.random() < 0.2 else {}
        replayed.replay(told, pending)
        running[number] = replayed.ask(fixed=fixed)
        if number % 3 == 0 or fixed:
            assert running[number] == fresh(told, pending, **fixed)
        while running and (len(running) > 3 or rng.random() < 0.4):
            done = int(rng.choice(sorted(running)))
            params = running.pop(done)
            finished[done] = Evaluation.of(params, None if rng.random() < 0.1 else value(params))
    told, pending = [finished[k] for k in sorted(finished)], [running[k] for k in sorted(running)]
    replayed.replay(told, pending)
    assert replayed.ask() == fresh(told, pending)


def test_pending_points_are_not_suggested_again() -> None:
    space = Space({"n": Int(0, 5)})
    optimizer = Optimizer(space, seed=0)
    optimizer.replay([Evaluation.of({"n": n}, float(n)) for n in (0, 2)], [{"n": 1}, {"n": 3}, {"n": 5}])
    assert optimizer.ask() == {"n": 4}


def test_a_replayed_history_is_saved_whole(tmp_path: Path) -> None:
    optimizer = Optimizer(SPACE, seed=3, **QUICK)
    point = {"x": 0.5, "y": 0.1, "n": 2, "c": "a"}
    optimizer.replay([Evaluation.of(optimizer.ask(), 1.0) for _ in range(6)], [point])
    optimizer.save(tmp_path / "run.json")
    assert Optimizer.load(tmp_path / "run.json").ask() == optimizer.ask()


def test_a_point_outside_the_space_is_refused_and_nothing_is_lost() -> None:
    optimizer = Optimizer(SPACE, seed=3, **QUICK)
    optimizer.replay([Evaluation.of({"x": 0.5, "y": 0.1, "n": 2, "c": "a"}, 1.0)])
    with pytest.raises(ParameterError, match="x"):
        optimizer.replay([Evaluation.of({"x": 5, "y": 0.1, "n": 2, "c": "a"}, 1.0)])
    assert len(optimizer.evaluations) == 1


def test_a_point_of_another_process_is_pending_until_it_is_told_or_forgotten() -> None:
    one, two = {"x": 0.5, "y": 0.1, "n": 2, "c": "a"}, {"x": 0.25, "y": 0.2, "n": 3, "c": "b"}
    optimizer = Optimizer(SPACE, seed=3, **QUICK)
    optimizer.replay([], [one, two])
    assert optimizer.pending == [one, two]
    optimizer.tell(one, 1.0)
    assert optimizer.pending == [two]
    optimizer.forget(two)
    assert optimizer.pending == []
    with pytest.raises(ParameterError, match="not pending"):
        optimizer.forget(two)
