"""Old results of other tools."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import optuna
import pytest

from dechbo.studies.store import StudyStore
from dechbo.studies.studyfile import StudyFile
from study_cases import CommandLine, write_study

POINTS: list[dict[str, Any]] = [
    {"lr": 0.01, "layers": 2, "act": "relu"},
    {"lr": 0.5, "layers": 4, "act": "tanh"},
    {"lr": 0.001, "layers": 1, "act": "relu"},
]
VALUES = [0.5, 2.25, 1.0]


@pytest.fixture
def dechbo(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> CommandLine:
    return CommandLine(capsys, monkeypatch)


def imported(study: Path) -> list[tuple[dict[str, Any], float | None]]:
    return [(trial.params, trial.value) for trial in StudyStore(StudyFile.read(study), create=False).trials]


def test_an_optuna_database(tmp_path: Path, dechbo: CommandLine) -> None:
    url = f"sqlite:///{tmp_path}/old.db"
    for name in ("first", "second"):
        old = optuna.create_study(storage=url, study_name=name)
        for params, value in zip(POINTS, VALUES, strict=True):
            old.enqueue_trial(params)
            trial = old.ask()
            trial.suggest_float("lr", 1e-4, 1, log=True)
            trial.suggest_int("layers", 1, 4)
            trial.suggest_categorical("act", ["relu", "tanh"])
            old.tell(trial, value)
        old.ask()  # running: no result
    study = write_study(tmp_path, None)
    refused = dechbo("import", study, tmp_path / "old.db")
    assert "['first', 'second']: name one with --study NAME" in refused.err
    done = dechbo("import", study, url, "--study", "second")
    assert done.code == 0, done.err
    assert "3 results imported" in done.out
    assert "1 row skipped: trials without a result" in done.out
    assert imported(study) == list(zip(POINTS, VALUES, strict=True))
    assert "0 results imported" in dechbo("import", study, tmp_path / "old.db", "--study", "second").out


@pytest.mark.parametrize("tool", ["mlflow", "wandb", "optuna"])
def test_csv_of_other_tools(tool: str, tmp_path: Path, dechbo: CommandLine) -> None:
    """MLflow: search_runs().to_csv(); W&B: the export of a table of runs; Optuna: trials_dataframe().to_csv()."""
    prefix, metric, state, good, bad = {
        "mlflow": ("params.", "metrics.loss", "status", "FINISHED", "FAILED"),
        "wandb": ("", "loss", "State", "finished", "crashed"),
        "optuna": ("params_", "value", "state", "COMPLETE", "FAIL"),
    }[tool]
    lines = [",".join(["run", state, *(prefix + name for name in POINTS[0]), metric])]
    for k, (params, value) in enumerate(zip(POINTS, VALUES, strict=True)):
        lines.append(",".join(map(str, [f"r{k}", good, *params.values(), value])))
    lines.append(",".join(["r9", bad, "0.1", "3", "tanh", ""]))
    (tmp_path / "runs.csv").write_text("\n".join(lines), encoding="utf-8")
    study = write_study(tmp_path, None)
    given = [] if tool == "optuna" else ["--value", "loss"]
    done = dechbo("import", study, tmp_path / "runs.csv", *given)
    assert done.code == 0, done.err
    assert imported(study) == [*zip(POINTS, VALUES, strict=True), ({"lr": 0.1, "layers": 3, "act": "tanh"}, None)]


def test_scikit_optimize_as_json(tmp_path: Path, dechbo: CommandLine) -> None:
    content = {"x_iters": [list(params.values()) for params in POINTS], "func_vals": VALUES}
    (tmp_path / "skopt.json").write_text(json.dumps(content), encoding="utf-8")
    study = write_study(tmp_path, None)
    assert "3 results imported" in dechbo("import", study, tmp_path / "skopt.json").out
    assert imported(study) == list(zip(POINTS, VALUES, strict=True))
    (tmp_path / "short.json").write_text(json.dumps({**content, "names": ["lr"]}), encoding="utf-8")
    assert 'a point has 3 values for 1 names: give "names": […]' in dechbo("import", study, tmp_path / "short.json").err


def test_a_snapshot_of_ax(tmp_path: Path, dechbo: CommandLine) -> None:
    def frame(index: int, value: float) -> dict[str, Any]:
        table = {"metric_name": {"0": "loss", "1": "size"}, "mean": {"0": value, "1": 7.0}, "trial_index": {"0": index}}
        return {"__type": "Data", "df": {"__type": "DataFrame", "value": json.dumps(table)}}

    experiment = {
        "trials": {
            str(k): {"generator_run": {"arms": [{"parameters": params, "name": f"{k}_0"}]}}
            for k, params in enumerate(POINTS)
        },
        "data_by_trial": {
            str(k): {"value": [[1, frame(k, 99.0)], [2, frame(k, value)]]} for k, value in enumerate(VALUES)
        },
    }
    (tmp_path / "ax.json").write_text(json.dumps({"_type": "AxClient", "experiment": experiment}), encoding="utf-8")
    study = write_study(tmp_path, None)
    refused = dechbo("import", study, tmp_path / "ax.json")
    assert "trial 0 has the metrics ['loss', 'size']: name one with --value METRIC" in refused.err
    assert "3 results imported" in dechbo("import", study, tmp_path / "ax.json", "--value", "loss").out
    assert imported(study) == list(zip(POINTS, VALUES, strict=True))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{", "not JSON"),
        ("[" * 100_000, "not JSON"),
        ("{}", "expected Ax's snapshot"),
        ('[{"value": 1}]', "KeyError 'params'"),
        ("3", "expected Ax"),
    ],
)
def test_json_that_is_something_else(text: str, message: str, tmp_path: Path, dechbo: CommandLine) -> None:
    (tmp_path / "x.json").write_text(text, encoding="utf-8")
    assert message in dechbo("import", write_study(tmp_path, None), tmp_path / "x.json").err
