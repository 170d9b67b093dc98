"""The rules that end a run early."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from dechbo.errors import OptionError, StudyFileError
from dechbo.studies.stopping import NoGain, Stopping, StoppingCheck, default_epsilon, expected_outlook, seconds
from dechbo.studies.store import StudyStore
from dechbo.studies.studyfile import StudyFile
from study_cases import CommandLine, write_study


@pytest.fixture
def dechbo(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> CommandLine:
    return CommandLine(capsys, monkeypatch)


def test_the_rules_of_the_file_and_of_the_command(tmp_path: Path) -> None:
    more = "stop: {no-gain: {trials: 7, epsilon: 0.1}, target: 0.25, time: 2h, evaluations: 30}\n"
    file = StudyFile.read(write_study(tmp_path, more=more))
    assert file.stopping == Stopping(NoGain(7, 0.1), 0.25, 7200.0, 30)
    assert StudyFile.read(write_study(tmp_path, more="stop: {no-gain: true}\n")).stopping == Stopping(NoGain())
    assert StudyFile.read(write_study(tmp_path)).stopping == Stopping()
    assert Stopping.parse(["target=3", "no-gain=0.5"], file.stopping) == Stopping(NoGain(epsilon=0.5), 3.0, 7200.0, 30)
    assert Stopping.parse(["never"], file.stopping) == Stopping()
    for text in (
        "target",
        "target=nan",
        "evaluations=0",
        "evaluations=x",
        "time=soon",
        "gain",
        "no-gain=x",
        "no-gain=nan",
        "no-gain=-1",
    ):
        with pytest.raises(OptionError, match="--stop takes"):
            Stopping.parse([text], Stopping())
    assert [seconds(text) for text in ("90", "1.5min", "2 h", "1d")] == [90, 90, 7200, 86400]


@pytest.mark.parametrize(
    ("more", "message"),
    [
        ("stop: {no_gain: true}\n", "stop.no_gain: unknown field; did you mean 'no-gain'"),
        ("stop: {time: soon}\n", "expected a time such as"),
        ("stop: {evaluations: 0}\n", "stop.evaluations"),
    ],
)
def test_rules_that_are_none(tmp_path: Path, more: str, message: str) -> None:
    with pytest.raises(StudyFileError, match=message):
        StudyFile.read(write_study(tmp_path, more=more))


def test_a_run_stops_at_its_target_or_its_number_of_evaluations_and_says_so(
    tmp_path: Path, dechbo: CommandLine
) -> None:
    study = write_study(tmp_path, trials=12, more="stop: {evaluations: 2}\n")
    first = dechbo("optimize", study, "--no-picture")
    assert "stopped by stop: evaluations, 2 in this run" in first.out
    assert len(StudyStore(StudyFile.read(study), create=False).trials) == 2
    second = dechbo("optimize", study, "--no-picture", "--stop", "never", "--stop", "target=1000")
    assert "stopped by stop: target" in second.out
    assert len(StudyStore(StudyFile.read(study), create=False).trials) == 2
    assert "--stop target=1000" in second.out.partition("next")[2]


def test_a_run_without_more_to_gain_stops_and_one_with_it_goes_on(tmp_path: Path, dechbo: CommandLine) -> None:
    """(log10 lr + 2)^2 + |layers - 2| is solved within forty trials; at the start much is left to gain."""
    study = write_study(tmp_path, trials=60, more="stop: {no-gain: {trials: 10, epsilon: 0.01}}\n")
    done = dechbo("optimize", study, "--no-picture")
    assert done.code == 0
    store = StudyStore(StudyFile.read(study), create=False)
    assert "stopped by stop: no-gain: the model expects another 10 trials to improve the best by" in done.out
    assert 20 <= store.finished < 60
    assert json.loads(dechbo("best", study, "--json").out)["value"] < 0.05
    early = write_study(tmp_path, name="early", trials=8)
    dechbo("optimize", early, "--no-picture")
    found = StudyStore(StudyFile.read(early), create=False).optimizer().outlook(20)
    assert found.probability > 0.5
    assert found.gain > 0


def test_a_gain_worth_having_does_not_depend_on_the_worst_values() -> None:
    values = [0.055, 0.06, 0.08, 0.1, 0.155, 0.2, 0.3, 0.4, 0.5]
    assert default_epsilon(values, 0.055) == pytest.approx(0.001)
    assert default_epsilon([*values[:-2], 28.0, 1e9], 0.055) == pytest.approx(0.001)
    assert default_epsilon([-value for value in values], -0.055) == pytest.approx(0.001)
    assert default_epsilon([2.0, 2.0], 2.0) == 0.0
    assert default_epsilon([1e308, 1.7e308], -1.7e308) == 0.0


def test_the_end_of_a_run_asks_for_a_gain_worth_having(tmp_path: Path, dechbo: CommandLine) -> None:
    """One value of a million among ten: a thousandth of the range was a thousand."""
    study = write_study(tmp_path, None)
    for number in range(10):
        dechbo("ask", study)
        dechbo("tell", study, number, 1e6 if number == 4 else 1.0 + number / 10)
    found = expected_outlook(StudyStore(StudyFile.read(study), create=False))
    assert found.epsilon == pytest.approx(0.0055)


def test_time_is_over(tmp_path: Path) -> None:
    now = [0.0]
    check = StoppingCheck(Stopping(time=60.0), StudyStore(StudyFile.read(write_study(tmp_path))), clock=lambda: now[0])
    assert check.reason() is None
    now[0] = 60.0
    assert check.reason() == "stopped by stop: time, 60 s"
