"""Commands that print the steps of a learning curve: curves are kept and shown, bad ones are pruned."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from dechbo.errors import StudyFileError
from dechbo.studies.pruning import CurveReporter, PrunerSettings, Reporting, step_of
from dechbo.studies.storage import file_url
from dechbo.studies.store import StudyStore
from dechbo.studies.studyfile import StudyFile
from study_cases import CommandLine

STUDY = """
name: curves
parameters:
  a: {type: float, low: 0, high: 1}
objective: {command: "python train.py {a}"}
trials: 8
"""
# every trial but the first two is worse than all before it, and would go on for a minute
TRAIN = """
import json, os, pathlib, sys, time

number = int(os.environ["DECHBO_TRIAL"])
for step in range(4):
    print(json.dumps({"step": step, "value": 10 * number + 4 - step}), flush=True)
    time.sleep(0.02)
if number >= 3 and pathlib.Path("wait").exists():
    time.sleep(60)
print(10 * number)
"""


@pytest.fixture
def dechbo(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> CommandLine:
    return CommandLine(capsys, monkeypatch)


def study_in(folder: Path, more: str = "") -> Path:
    (folder / "train.py").write_text(TRAIN, encoding="utf-8")
    path = folder / "curves.yaml"
    path.write_text(STUDY + more, encoding="utf-8")
    return path


def test_the_curves_of_a_command_are_kept_and_shown(tmp_path: Path, dechbo: CommandLine) -> None:
    path = study_in(tmp_path)
    assert dechbo("optimize", path, "--trials", 2, "--no-picture").code == 0
    rows = json.loads(dechbo("trials", path, "--json").out)
    assert [row["curve"] for row in rows] == [{"0": 4, "1": 3, "2": 2, "3": 1}, {"0": 14, "1": 13, "2": 12, "3": 11}]
    assert [row["value"] for row in rows] == [0.0, 10.0]
    assert "█▅▃▁" in dechbo("trials", path).out


def test_a_pruner_of_the_study_file_stops_bad_commands(tmp_path: Path, dechbo: CommandLine) -> None:
    path = study_in(tmp_path, "pruner: {name: median, n_startup_trials: 2, n_warmup_steps: 1}\n")
    (tmp_path / "wait").touch()
    done = dechbo("optimize", path, "--trials", 5, "--no-picture")  # without pruning: two minutes
    assert done.code == 0, done.out + done.err
    rows = json.loads(dechbo("trials", path, "--json").out)
    assert [row["state"] for row in rows[3:]] == ["pruned", "pruned"]
    assert all(row["curve"] for row in rows)
    assert "pruned" in done.out
    store = StudyStore(StudyFile.read(path), create=False)
    assert (store.finished, store.failed) == (5, 0)


def test_a_storage_out_of_reach_prunes_nothing_and_keeps_the_curve(tmp_path: Path) -> None:
    reporting = Reporting(file_url(tmp_path / "none.db"), "x", PrunerSettings("median"))
    reporter = CurveReporter(reporting, "0")
    assert not reporter.report(1, 5.0)
    assert reporter.curve == {1: 5.0}


@pytest.mark.parametrize(
    ("line", "found"),
    [
        ('{"step": 3, "value": 0.5}', (3, 0.5)),
        ('  {"value": 2, "step": 0}  ', (0, 2.0)),
        ('{"step": 3}', None),
        ('{"step": 3, "value": 0.5, "loss": 1}', None),
        ('{"step": -1, "value": 0.5}', None),
        ('{"step": true, "value": 0.5}', None),
        ('{"step": 1, "value": NaN}', None),
        ('{"step": 1, "value"', None),
        ('{"step": 2147483647, "value": -1e308}', (2147483647, -1e308)),
        ('{"step": 2147483648, "value": 1}', None),  # more than PostgreSQL stores
        (f'{{"step": 1, "value": 1{"0" * 400}}}', None),
        ('{"step": ' + "[" * 50_000, None),
        ("0.5", None),
    ],
)
def test_the_lines_that_are_steps(line: str, found: Any) -> None:
    assert step_of(line) == found


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ("pruner: meridian\n", "expected the name of a pruner; did you mean 'median'"),
        ("pruner: {name: median, warmup: 3}\n", "pruner 'median' does not take {'warmup': 3}"),
    ],
)
def test_a_pruner_that_optuna_does_not_have(tmp_path: Path, given: str, message: str) -> None:
    with pytest.raises(StudyFileError, match=message):
        StudyFile.read(study_in(tmp_path, given))
