from __future__ import annotations

from pathlib import Path

import pytest

from dechbo.distributed import PartsEngine, ProcessEngine
from dechbo.studies.engines import quiet_engine, running_engine
from dechbo.studies.store import StudyStore
from dechbo.studies.studyfile import StudyFile
from study_cases import CommandLine, write_study


@pytest.fixture
def dechbo(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> CommandLine:
    return CommandLine(capsys, monkeypatch)


def test_names() -> None:
    assert running_engine("local", None, None) is None
    assert quiet_engine("local") is None
    engine = running_engine("processes", 3, None)
    assert isinstance(engine, ProcessEngine)
    assert engine.parts == 3
    engine.close()
    quiet = quiet_engine("ray")
    assert isinstance(quiet, PartsEngine)
    assert quiet.parts == 1


@pytest.mark.system
def test_a_study_on_processes_makes_the_trials_of_one_process(tmp_path: Path, dechbo: CommandLine) -> None:
    found = []
    for name, extra in (("a", []), ("b", ["--engine", "processes", "--parts", "2"])):
        (tmp_path / name).mkdir()
        study = write_study(tmp_path / name, trials=14, more="options: {engine: ray}\n")
        extra = extra or ["--engine", "processes", "--parts", "1"]
        assert dechbo("optimize", study, "--no-picture", *extra).code == 0
        found.append([trial.params for trial in StudyStore(StudyFile.read(study)).trials])
    assert found[0] == found[1]


def test_an_unknown_engine_is_refused(tmp_path: Path, dechbo: CommandLine) -> None:
    done = dechbo("optimize", write_study(tmp_path), "--engine", "spark")
    assert done.code == 2
    assert "'processes'" in done.err
