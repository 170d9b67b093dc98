"""Small records of invented runs, and typed access to what may be None: for the tests of bench and report."""

from __future__ import annotations

import os
from pathlib import Path
from typing import NoReturn, TypeVar

import numpy as np
import pytest

from dechbo.bench import paper
from dechbo.bench.problems.problem import DATA
from dechbo.bench.records import Run, RunRecord, Step, write_unavailable
from dechbo.space import Categorical, Space

T = TypeVar("T")

PNG = b"\x89PNG\r\n\x1a\n"
EVALUATIONS = 8


def some(value: T | None) -> T:
    """The value, which is not None."""
    assert value is not None
    return value


def data_folder() -> Path:
    """The folder of the real data; without it a test fails on CI and is skipped elsewhere."""
    folder = os.environ.get(DATA)
    if not folder or not Path(folder).is_dir():
        missing(f"set {DATA} to the folder of the data files (docs/problems.md)")
    return Path(folder)


def missing(reason: str) -> NoReturn:
    """What a test needs is not here: a failure on CI, which installs it, and a skipped test elsewhere."""
    if os.environ.get("CI"):
        pytest.fail(reason)
    pytest.skip(reason)


def bounds(space: Space) -> set[tuple[float, float]]:
    """The bounds of all parameters, which are numbers."""
    found = set()
    for parameter in (space[name] for name in space):
        assert not isinstance(parameter, Categorical)
        found.add((parameter.low, parameter.high))
    return found


def make_record(
    results: Path, problem: str, method: str, seed: int, *, stop: int | None = None, optimum: float | None = -3.0
) -> RunRecord:
    """Write the record of a run with random values, which crashed after ``stop`` evaluations if given."""
    rng = np.random.default_rng([seed, len(problem), len(method)])
    run = Run(problem, method, seed, initial=10, evaluations=EVALUATIONS)
    values = (rng.random(run.total) - 2.5).tolist()[:stop]
    steps = [Step({"x": value}, value, 0.1, 0.05 * rng.random(), 1e-3) for value in values]
    record = RunRecord.from_steps(
        run,
        steps,
        "finished" if stop is None else "crashed: RuntimeError: <no memory>",
        versions={"dechbo": "0.1.0"},
        optimum=optimum,
        dim=1,
        date="2026-11-15",
        machine={"cpu": "a & b", "cores": 2},
    )
    record.write(results)
    return record


def make_results(folder: Path) -> Path:
    """Three seeds of five methods on the paper's problems, a crashed run, an unknown optimum, a missing peer."""
    for problem in paper.PROBLEMS:
        for method in ("dechbo", "paper-mf3", "add-gp-ucb", "random", "turbo-1"):
            for seed in range(3):
                make_record(folder, problem, method, seed)
    make_record(folder, "shekel-4", "gp-ucb", 0, stop=12)
    make_record(folder, "rover-60", "dechbo", 0, optimum=None)
    write_unavailable(folder, {"hebo": "could not be installed: no wheel"})
    return folder
