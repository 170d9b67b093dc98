"""The studies of ``examples/``: they are what they say, their objectives evaluate, and the real command runs them."""

from __future__ import annotations

import importlib.util
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from dechbo import Categorical, Float, Int, Space
from dechbo.bench.problems import problem
from dechbo.space import Parameter
from dechbo.studies.studyfile import StudyFile

ROOT = Path(__file__).parents[1]
STUDIES = {"boosting": ("sklearn", "lightgbm"), "compressor": (), "voltages": ("pypower",), "wine": ("sklearn",)}


@pytest.fixture
def copied(tmp_path: Path) -> Path:
    """The folder without what earlier runs left in it."""
    leave = shutil.ignore_patterns("*.db*", "*.lock", "*.log", "*.png", "*.bin", "__pycache__", "agents")
    return Path(shutil.copytree(ROOT / "examples", tmp_path / "examples", ignore=leave))


def need(name: str) -> None:
    """Skip the test where the example's packages or programs are missing."""
    for module in STUDIES[name]:
        pytest.importorskip(module)
    if name == "compressor" and shutil.which("xz") is None:
        pytest.skip("xz is not installed")


def parameters_of(space: Space) -> list[Parameter]:
    return [space[name] for name in space]


@pytest.mark.parametrize(
    ("name", "dim", "trials"), [("boosting", 21, 100), ("compressor", 10, 80), ("voltages", 54, 120)]
)
def test_the_studies_are_read(name: str, dim: int, trials: int) -> None:
    study = StudyFile.read(ROOT / "examples" / f"{name}.yaml")
    assert (study.name, study.space.dim, study.trials) == (name, dim, trials)
    assert study.objective is not None


def test_boosting_has_parameters_of_every_kind() -> None:
    parameters = parameters_of(StudyFile.read(ROOT / "examples" / "boosting.yaml").space)
    kinds = {(type(each), bool(getattr(each, "log", False)), each.when is not None) for each in parameters}
    assert kinds == {
        (Float, True, False),
        (Float, False, False),
        (Int, True, False),
        (Int, False, False),
        (Categorical, False, False),
        (Float, True, True),
        (Float, False, True),
    }


def test_the_compressor_evaluates_what_its_constraint_allows(copied: Path) -> None:
    need("compressor")
    study = StudyFile.read(copied / "compressor.yaml")
    assert study.constraints == ("lc + lp <= 4",)
    assert study.objective is not None
    rng = np.random.default_rng(0)
    for chosen in ("none", "delta"):
        at = {8: float(chosen == "delta")}  # the coordinate of "filter"
        params = study.space.decode(study.space.draw(rng, at))
        assert params["filter"] == chosen
        assert ("distance" in params) == (chosen == "delta")
        assert params["lc"] + params["lp"] <= 4
        value = study.objective(params).value
        assert value is not None
        assert 30_000 < value < 320_000
        assert study.objective(params).value == value
    refused = study.objective({**params, "lc": 4, "lp": 4})  # what the constraint is for
    assert refused.value is None
    assert "lc and lp" in str(refused.error)


def test_the_table_of_the_examples_is_that_of_the_records() -> None:
    spec = importlib.util.spec_from_file_location("benchmark_of_examples", ROOT / "benchmarks" / "examples.py")
    assert spec is not None
    assert spec.loader is not None
    script: Any = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(script)
    text = (ROOT / "examples" / "README.md").read_text(encoding="utf-8")
    assert "\n".join(script.table()) in text


@pytest.mark.system
def test_the_voltages_are_those_of_the_bench(monkeypatch: pytest.MonkeyPatch) -> None:
    need("voltages")
    monkeypatch.setattr("sys.path", sys.path.copy())  # the study adds its folder
    study, stated = StudyFile.read(ROOT / "examples" / "voltages.yaml"), problem("Voltages-54")
    assert parameters_of(study.space) == parameters_of(stated.space)
    assert study.objective is not None
    point = np.random.default_rng(0).random(54)
    assert study.objective(study.space.decode(point)).value == stated(stated.space.decode(point))


@pytest.mark.system
@pytest.mark.parametrize("name", ["boosting", "compressor", "voltages"])
def test_a_few_trials_of_each_study_by_the_command(name: str, copied: Path) -> None:
    need(name)
    command = [sys.executable, "-c", "from dechbo.cli import main; main()"]
    done = subprocess.run(
        [*command, "optimize", str(copied / f"{name}.yaml"), "--trials", "24"],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "COLUMNS": "110"},
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert re.search(r"best value \d", done.stdout)
    assert "failed" not in done.stdout
    assert (copied / f"{name}.png").read_bytes().startswith(b"\x89PNG")


@pytest.mark.system
@pytest.mark.parametrize("name", ["boosting", "voltages", "wine"])
def test_the_objectives_show_untuned_settings(name: str) -> None:
    need(name)
    script = ROOT / "examples" / f"{name}.py"
    done = subprocess.run([sys.executable, str(script)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert len(done.stdout.splitlines()) == 4
