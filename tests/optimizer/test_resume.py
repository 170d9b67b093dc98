"""Determinism: the same seed and history give the same suggestion, in one process or in many."""

from __future__ import annotations

import json
import os
import pickle
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from dechbo import Categorical, Exact, FactorGraph, FactorTables, Float, Int, MaxSum, Optimizer, Space
from dechbo.errors import OptionError, ParameterError, SpaceExhausted, StudyFileError
from dechbo.maxsum import Maximum
from dechbo.models.options import ModelOptions
from dechbo.search.engine import LocalEngine
from dechbo.theory import TheoryOptions
from optimizer_cases import Params, best_of

SPACE = Space({"a": Float(0, 1), "b": Float(1e-3, 10, log=True), "c": Int(0, 40), "d": Float(-1, 1)})
EVALUATIONS = 27  # past two cold rebuilds, and into a stretch of warm asks


def objective(params: Params) -> float | None:
    if params["c"] == 13:
        return None
    bent = (params["a"] - 0.2) ** 2 + abs(params["d"]) * params["a"]
    return float(bent + 0.01 * params["c"] - 0.1 * params["b"] ** 0.5)


def step(optimizer: Optimizer, k: int) -> list[Params]:
    """One turn of a run with batches and fixed parameters, in which some points stay pending for a while."""
    fixed = {"c": 7} if k % 6 == 5 else None
    asked = optimizer.ask(2, fixed=fixed) if k % 7 == 3 else [optimizer.ask(fixed=fixed)]
    for params in asked[:1]:
        optimizer.tell(params, objective(params))
    return asked


CHILD = """
import json, os, sys
sys.path[:0] = [sys.argv[3], os.path.dirname(sys.argv[3])]
from test_resume import Optimizer, SPACE, step
path, first = sys.argv[1], int(sys.argv[2])
optimizer = Optimizer(SPACE, seed=3) if first == 0 else Optimizer.load(path)
asked = [step(optimizer, k) for k in range(first, first + int(sys.argv[4]))]
optimizer.save(path)
print(json.dumps(asked))
"""


def child(path: Path, first: int, steps: int) -> list[list[Params]]:
    """Steps in a process of their own."""
    arguments = [sys.executable, "-c", CHILD, str(path), str(first), str(Path(__file__).parent), str(steps)]
    done = subprocess.run(arguments, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    asked: list[list[Params]] = json.loads(done.stdout)
    return asked


@pytest.mark.system
def test_a_run_resumed_in_other_processes_makes_the_same_suggestions(tmp_path: Path) -> None:
    whole = child(tmp_path / "whole.json", 0, EVALUATIONS)
    parts = []
    for first, steps in ((0, 17), (17, 10)):
        parts += child(tmp_path / "parts.json", first, steps)
    assert parts == whole
    assert json.loads((tmp_path / "parts.json").read_text()) == json.loads((tmp_path / "whole.json").read_text())


def test_a_run_saved_and_loaded_at_every_step_goes_on_the_same(tmp_path: Path) -> None:
    whole = Optimizer(SPACE, seed=5)
    straight = [step(whole, k) for k in range(EVALUATIONS)]
    optimizer = Optimizer(SPACE, seed=5)
    for k in range(EVALUATIONS):
        assert step(optimizer, k) == straight[k], f"step {k}"
        optimizer.save(tmp_path / "run.json")
        optimizer = Optimizer.load(tmp_path / "run.json")
    best = best_of(whole).params
    assert best_of(optimizer).params == best
    assert optimizer.predict(best) == whole.predict(best)


def test_everything_survives_the_file(tmp_path: Path) -> None:
    graph = FactorGraph(4, ((0, 1), (2, 3), (1,)))
    optimizer = Optimizer(
        SPACE,
        graph=graph,
        seed=9,
        direction="maximize",
        model=ModelOptions(kernel="se"),
        theory=TheoryOptions(beta=2.0, delta=0.2),
        noise=0.01,
        n_initial=5,
        maximizer=Exact(max_cells=2**20),
    )
    optimizer.tell({"a": 0.1, "b": 0.1, "c": 3, "d": 0.3}, float("nan"))
    optimizer.tell({"a": 0.1, "b": 0.30000000000000004, "c": 3, "d": 0.3}, 1.5, noise=0.2, constraints={"w": -1.0})
    optimizer.save(tmp_path / "run.json")
    again = Optimizer.load(tmp_path / "run.json")
    for name in ("graph", "seed", "direction", "model", "search", "theory", "noise", "n_initial", "maximizer", "space"):
        assert getattr(again, name) == getattr(optimizer, name), name
    saved, loaded = optimizer.evaluations, again.evaluations
    assert [(e.params, e.value, e.noise, e.constraints) for e in saved] == [
        (e.params, e.value, e.noise, e.constraints) for e in loaded
    ]
    assert again.ask() == optimizer.ask()


def test_a_seed_that_nobody_gave_is_kept(tmp_path: Path) -> None:
    optimizer = Optimizer(SPACE)
    optimizer.save(tmp_path / "run.json")
    assert Optimizer.load(tmp_path / "run.json").seed == optimizer.seed
    assert Optimizer(SPACE).seed != optimizer.seed


def test_a_callable_beta_has_to_come_back_with_load(tmp_path: Path) -> None:
    optimizer = Optimizer(SPACE, seed=0, theory=TheoryOptions(beta=lambda t: 2.0))
    optimizer.save(tmp_path / "run.json")
    with pytest.raises(OptionError, match="pass load"):
        Optimizer.load(tmp_path / "run.json")
    assert Optimizer.load(tmp_path / "run.json", theory=TheoryOptions(beta=lambda t: 2.0)).ask() == optimizer.ask()


class Careful:
    """A maximiser that no file can hold."""

    def maximize(self, tables: FactorTables) -> Maximum:
        return Exact().maximize(tables)


def test_a_maximiser_of_ones_own_has_to_come_back_with_load(tmp_path: Path) -> None:
    path = tmp_path / "run.json"
    optimizer = Optimizer(SPACE, seed=0, maximizer=Careful())
    for k in range(12):
        step(optimizer, k)
    optimizer.save(path)
    with pytest.raises(OptionError, match="maximizer"):
        Optimizer.load(path)
    assert Optimizer.load(path, maximizer=Careful()).ask() == optimizer.ask()


def test_an_engine_keeps_its_maximiser(tmp_path: Path) -> None:
    path = tmp_path / "run.json"
    Optimizer(SPACE, seed=0, engine=LocalEngine(Exact(max_cells=2**21))).save(path)
    assert Optimizer.load(path).maximizer == Exact(max_cells=2**21)


def test_numpy_numbers_are_saved_as_plain_ones(tmp_path: Path) -> None:
    path = tmp_path / "run.json"
    optimizer = Optimizer(
        SPACE,
        seed=np.int64(4),  # type: ignore[arg-type]
        theory=TheoryOptions(beta=np.float32(1.5)),  # type: ignore[arg-type]
        maximizer=MaxSum(rounds=np.int64(7)),  # type: ignore[arg-type]
    )
    optimizer.ask(fixed={"c": np.int64(3), "a": np.float32(0.5)})
    optimizer.save(path)
    assert Optimizer.load(path).ask() == optimizer.ask()


def test_saving_is_all_or_nothing(tmp_path: Path) -> None:
    path = tmp_path / "run.json"
    optimizer = Optimizer(SPACE, seed=0)
    optimizer.save(path)
    before = path.read_text()
    optimizer.noise = object()  # type: ignore[assignment]  # nothing that JSON knows
    with pytest.raises(StudyFileError, match="plain JSON"):
        optimizer.save(path)
    assert path.read_text() == before
    assert list(tmp_path.iterdir()) == [path]


def test_an_optimiser_can_be_pickled() -> None:
    optimizer = Optimizer(SPACE, seed=2)
    for k in range(13):
        step(optimizer, k)
    assert pickle.loads(pickle.dumps(optimizer)).ask() == optimizer.ask()


@pytest.mark.parametrize(
    "damage",
    [
        lambda run: run.pop("space"),
        lambda run: run.pop("evaluations"),
        lambda run: run["options"].pop("graph"),
        lambda run: run["options"]["model"].update(colour="red"),
        lambda run: run["options"]["maximizer"].update(name="Minimum"),
        lambda run: run["options"]["search"]["granularity"].update(colour="red"),
        lambda run: run["evaluations"][0].update(value="low"),
        lambda run: run["evaluations"][0]["params"].pop("a"),
        lambda run: run["evaluations"][0]["params"].update(c=400),
        lambda run: run["asked"][0].update(n_evaluations=999),
        lambda run: run["asked"][0].pop("fixed"),
        lambda run: run.update(asked=3),
    ],
)
def test_a_damaged_file_is_one_clear_error(tmp_path: Path, damage: Callable[[dict[str, Any]], object]) -> None:
    path = tmp_path / "run.json"
    optimizer = Optimizer(SPACE, seed=0)
    step(optimizer, 0)
    optimizer.save(path)
    run = json.loads(path.read_text())
    damage(run)
    path.write_text(json.dumps(run))
    with pytest.raises(StudyFileError, match="damaged"):
        Optimizer.load(path)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{", "not JSON"),
        ("[]", "not a saved run"),
        ('{"format": "other"}', "not a saved run"),
        ('{"format": "dechbo run", "version": 1}', "has format 1, and dechbo 0.2 reads format 2"),
        ('{"format": "dechbo run", "version": 99}', "has format 99"),
    ],
)
def test_files_that_are_no_runs_are_refused(tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "run.json"
    path.write_text(text)
    with pytest.raises(StudyFileError, match=message):
        Optimizer.load(path)
    assert path.read_text() == text


FIRST_AND_LATER = """
import json
import os
from dechbo import FactorGraph, Float, Optimizer, Space
from dechbo.models.options import ModelOptions
from dechbo.structure import StructureOptions
space = Space({f"x{i}": Float(0, 1) for i in range(6)})
ring = FactorGraph(6, tuple((i, (i + 1) % 6) for i in range(6)))
asked = []
for graph in ("learned", ring):
    model = ModelOptions(structure=StructureOptions(chains=2, sweeps=5))
    optimizer = Optimizer(space, graph=graph, seed=0, model=model)
    for _ in range(16):
        params = optimizer.ask()
        x = list(params.values())
        optimizer.tell(params, (x[0] - 0.3) * (x[1] - 0.6) + sum(v * v for v in x[2:]))
        asked.append(params)
print(json.dumps(asked))
"""


@pytest.mark.system
def test_the_first_run_on_a_machine_suggests_what_later_ones_do(tmp_path: Path) -> None:
    """The first compiles the inner loops, later ones load them: arrays then have other addresses."""
    environment = {**os.environ, "NUMBA_CACHE_DIR": str(tmp_path)}
    answers = []
    for _ in range(2):
        done = subprocess.run(
            [sys.executable, "-c", FIRST_AND_LATER], capture_output=True, text=True, env=environment, check=False
        )
        assert done.returncode == 0, done.stderr
        answers.append(json.loads(done.stdout))
    assert answers[0] == answers[1]


def test_a_retracted_evaluation_leaves_no_trace_in_the_asks_and_a_corrected_one_counts_as_told() -> None:
    space = Space({"x": Float(0, 1), "k": Int(1, 5)})

    def value(params: dict[str, Any]) -> float:
        return float((params["x"] - 0.3) ** 2 + params["k"])

    mistaken = Optimizer(space, seed=4, n_initial=4)
    for _ in range(6):
        params = mistaken.ask()
        mistaken.tell(params, value(params))
    told = mistaken.evaluations
    mistaken.tell({"x": 0.5, "k": 3}, -0.5)
    assert mistaken.best is not None
    assert mistaken.best.value == -0.5
    mistaken.correct({"x": 0.5, "k": 3}, value({"x": 0.5, "k": 3}))
    assert mistaken.best.value > 0.9
    corrected = Optimizer(space, seed=4, n_initial=4)
    corrected.replay([*told, mistaken.evaluations[-1]])
    assert mistaken.evaluations == corrected.evaluations
    assert mistaken.ask() == corrected.ask()
    mistaken.retract({"x": 0.5, "k": 3})
    assert mistaken.evaluations == told
    assert [evaluation.value for evaluation in mistaken.retracted] == [-0.5, value({"x": 0.5, "k": 3})]
    with pytest.raises(ParameterError, match="no evaluation was told"):
        mistaken.retract({"x": 0.5, "k": 3})


def test_the_point_of_a_retracted_failure_may_come_again_and_a_saved_run_keeps_what_was_retracted(
    tmp_path: Path,
) -> None:
    optimizer = Optimizer(Space({"a": Categorical(["x", "y"])}), seed=0)
    for _ in range(2):
        optimizer.tell(optimizer.ask(), None)
    with pytest.raises(SpaceExhausted):
        optimizer.ask()
    optimizer.retract({"a": "y"})
    optimizer.save(tmp_path / "run.json")
    again = Optimizer.load(tmp_path / "run.json")
    assert again.ask() == optimizer.ask() == {"a": "y"}
    assert again.retracted == optimizer.retracted
    assert optimizer.retracted[0].params == {"a": "y"}
