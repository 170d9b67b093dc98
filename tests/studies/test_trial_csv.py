"""CSV: an export can be imported again; a bad row is named, and nothing is imported."""

from __future__ import annotations

import csv
import io
from pathlib import Path

import pytest
from optuna.trial import FrozenTrial

from dechbo.errors import DataError
from dechbo.space import Categorical, Float, Int, Space
from dechbo.studies.store import StudyStore
from dechbo.studies.studyfile import StudyFile
from dechbo.studies.trial_csv import read_results, to_csv
from dechbo.studies.trial_table import TrialRow
from study_cases import CommandLine, write_study

SPACE = Space({"lr": Float(1e-4, 1, log=True), "layers": Int(1, 4), "act": Categorical(["relu", "tanh"])})


@pytest.fixture
def dechbo(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> CommandLine:
    return CommandLine(capsys, monkeypatch)


def written(folder: Path, text: str) -> Path:
    path = folder / "old.csv"
    path.write_text(text, encoding="utf-8")
    return path


def trials_of(study: Path) -> list[FrozenTrial]:
    return StudyStore(StudyFile.read(study), create=False).trials


# ------------------------------------------------------------------------- export


def test_what_is_exported_can_be_imported(tmp_path: Path) -> None:
    space = Space(
        {**{n: SPACE[n] for n in SPACE}, "odd": Categorical([None, True, 1, 2.5, 'x,"y']), "value": Float(0, 1)}
    )
    params = {"lr": 0.1 + 0.2, "layers": 3, "act": "tanh", "value": 0.25}
    rows = [
        TrialRow(i, "complete", 1.0 + i, i % 2 == 0, {**params, "odd": odd}, {"size": i - 2.5}, 0.25, None)
        for i, odd in enumerate([None, True, 2.5, 'x,"y'])
    ]
    rows.append(TrialRow(4, "failed", None, None, {**params, "odd": None}, {}, 1.0, "ValueError: a, b"))
    rows.append(TrialRow(5, "asked", None, None, {**params, "odd": None}, {}, None, None))
    rows.append(TrialRow(6, "stale", None, None, {**params, "odd": None}, {}, None, None))
    results = read_results(written(tmp_path, to_csv(rows, space)), space)
    assert results.bad == results.ignored == []
    assert [old.params for old in results.good] == [row.params for row in rows[:5]]
    assert [old.outcome.value for old in results.good] == [1.0, 2.0, 3.0, 4.0, None]
    assert [old.outcome.constraints for old in results.good[:4]] == [row.constraints for row in rows[:4]]
    assert results.unfinished == 2


def test_export_writes_every_trial_with_its_state(tmp_path: Path, dechbo: CommandLine) -> None:
    study = write_study(tmp_path, None)
    assert dechbo("ask", study, "-n", 3).code == 0
    assert dechbo("tell", study, 0, "1.5", "--constraint", "size=-1").code == 0
    assert dechbo("tell", study, 1, "--failed").code == 0
    to_file = dechbo("export", study, "--csv", tmp_path / "all.csv")
    assert to_file.out.strip() == f"3 trials written to {tmp_path / 'all.csv'}"
    text = (tmp_path / "all.csv").read_text()
    assert dechbo("export", study, "--csv", "-").out == text
    table = list(csv.DictReader(io.StringIO(text)))
    assert [row["state"] for row in table] == ["complete", "failed", "asked"]
    assert [row["value"] for row in table] == ["1.5", "", ""]
    assert table[0]["constraint:size"] == "-1.0"
    assert all(row["lr"] and row["layers"] and row["act"] in ("relu", "tanh") for row in table)
    assert dechbo("export", study, "--csv", tmp_path / "no" / "all.csv").code == 2


# ------------------------------------------------------------------------- import

GOOD = "lr,layers,act,loss,note\n0.01,2,relu,0.5,first\n0.1,3,tanh,nan,exploded\n0.5,4.0,relu,2,third\n"


def test_import_is_a_warm_start_that_counts_once(tmp_path: Path, dechbo: CommandLine) -> None:
    study, old = write_study(tmp_path), written(tmp_path, GOOD)
    done = dechbo("import", study, old, "--value", "loss")
    assert done.code == 0, done.err
    assert "3 results imported into study 'small'" in done.out
    assert "columns not used: note" in done.out
    again = dechbo("import", study, old, "--value", "loss")
    assert "0 results imported" in again.out
    assert "3 rows skipped: already in the study" in again.out
    trials = trials_of(study)
    assert [(t.state.name, t.value) for t in trials] == [("COMPLETE", 0.5), ("FAIL", None), ("COMPLETE", 2.0)]
    assert trials[2].params == {"lr": 0.5, "layers": 4, "act": "relu"}
    assert '"value": 0.5' in dechbo("best", study, "--json").out
    run = dechbo("optimize", study, "--trials", 2, "--no-picture")
    assert run.code == 0
    assert len(trials_of(study)) == 5  # old results do not count as trials to make
    assert dechbo("export", study, "--csv", tmp_path / "all.csv").code == 0
    own = dechbo("import", study, tmp_path / "all.csv")
    assert "0 results imported" in own.out


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("lr,layers,act,value\n0.01,2,relu,1\n7,2,relu,1\n", "old.csv:3: parameter 'lr'"),
        ("lr,layers,act,value\n0.01,2.5,relu,1\n", "old.csv:2: parameter 'layers'"),
        ("lr,layers,act,value\nabc,2,relu,1\n", "old.csv:2: lr: expected a number, got 'abc'"),
        ("lr,layers,act,value\n0.01,2,selu,1\n", "old.csv:2: act: expected one of relu, tanh, got 'selu'"),
        ("lr,layers,act,value\n0.01,2,relu,\n", "old.csv:2: value: expected a number (nan for a failed"),
        ("lr,layers,act,value\n0.01,2,relu,good\n", "got 'good'"),
        ("lr,layers,act,value\n0.01,2,relu\n", "old.csv:2: expected 4 cells separated by ',', got 3"),
        ("lr,layers,act,value,constraint:c\n0.01,2,relu,1,nan\n", "constraint:c: expected a finite number"),
    ],
)
def test_a_bad_row_is_named_by_its_line(tmp_path: Path, text: str, message: str) -> None:
    results = read_results(written(tmp_path, text), SPACE)
    assert len(results.bad) == 1
    assert message in results.bad[0]


def test_one_bad_row_and_nothing_is_imported(tmp_path: Path, dechbo: CommandLine) -> None:
    study = write_study(tmp_path)
    done = dechbo("import", study, written(tmp_path, "lr,layers,act,value\n0.01,2,relu,1\n7,2,relu,1\n"))
    assert done.code == 2
    assert "1 row cannot be imported, so nothing was; --skip-bad" in done.err
    assert "old.csv:3: parameter 'lr'" in done.err
    assert not (tmp_path / "small.db").exists()  # not even the study


def test_skip_bad_imports_the_others_and_names_the_bad(tmp_path: Path, dechbo: CommandLine) -> None:
    study = write_study(tmp_path)
    done = dechbo("import", study, written(tmp_path, "lr,layers,act,value\n0.01,2,relu,1\n9,2,relu,1\n"), "--skip-bad")
    assert done.code == 0
    assert "1 result imported" in done.out
    assert "old.csv:3: parameter 'lr'" in done.out
    assert len(trials_of(study)) == 1


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("lr,layer,act,value\n", "old.csv:1: no column for 'layers'; is 'layer' meant to be 'layers'?"),
        ("lr,layers,act,loss\n", "no column 'value' for the value; --value COLUMN names it, of ['loss']"),
        ("lr,lr,layers,act,value\n", "the column 'lr' is there twice"),
        ("", "got an empty file"),
        ('lr,"layers\n', "not a CSV file"),
    ],
)
def test_a_header_that_does_not_fit_is_explained(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(DataError) as caught:
        read_results(written(tmp_path, text), SPACE)
    assert message in str(caught.value)


def test_a_value_column_that_is_a_parameter_and_a_missing_file_are_refused(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="'lr' is a parameter"):
        read_results(written(tmp_path, GOOD), SPACE, value="lr")
    with pytest.raises(DataError, match="cannot be read"):
        read_results(tmp_path / "none.csv", SPACE)
    (tmp_path / "old.csv").write_bytes(b"lr,\xff\xfe\n")
    with pytest.raises(DataError, match="UTF-8"):
        read_results(tmp_path / "old.csv", SPACE)


@pytest.mark.parametrize("separator", [",", ";", "\t"])
def test_spreadsheets_of_all_countries(tmp_path: Path, separator: str) -> None:
    text = "\ufeff" + GOOD.replace(",", separator).replace("\n", "\r\n")
    results = read_results(written(tmp_path, text), SPACE, value="loss")
    assert [old.outcome.value for old in results.good] == [0.5, None, 2.0]


def test_a_name_with_semicolons_does_not_separate(tmp_path: Path) -> None:
    space = Space({"a;;;;;;;;b": Float(0, 1), "c": Float(0, 1)})
    rows = [TrialRow(0, "complete", 1.0, True, {"a;;;;;;;;b": 0.5, "c": 0.25}, {}, None, None)]
    assert [old.params for old in read_results(written(tmp_path, to_csv(rows, space)), space).good] == [rows[0].params]


def test_many_bad_rows_are_counted(tmp_path: Path, dechbo: CommandLine) -> None:
    text = "lr,layers,act,value\n" + "".join(f"{i + 2},2,relu,1\n" for i in range(14))
    done = dechbo("import", write_study(tmp_path), written(tmp_path, text))
    assert "14 rows cannot be imported" in done.err
    assert "… and 4 more" in done.err


def test_a_row_that_breaks_a_known_constraint_is_named(tmp_path: Path) -> None:
    space = Space({"a": Float(0, 1), "b": Float(0, 1)}, constraints=["a + b <= 1"])
    results = read_results(written(tmp_path, "a,b,value\n0.5,0.5,1\n0.9,0.9,2\n"), space)
    assert [old.line for old in results.good] == [2]
    assert "old.csv:3: breaks the study's constraint a + b <= 1" in results.bad[0]


def test_ambiguous_choices_are_refused(tmp_path: Path) -> None:
    space = Space({"c": Categorical([None, "null", 1, "1"])})
    results = read_results(written(tmp_path, 'c,value\nnull,3\n"""1""",4\n1,5\n,6\n'), space)
    assert """expected only one of (empty), "null", 1, "1", got 'null'""" in results.bad[0]
    assert [old.params["c"] for old in results.good] == ["1", 1, None]


# fmt: off
LOOK_ALIKES: list[bool | int | float | str | None] = [
    1, "1", 1.0, "1.0", True, "true", "True", None, "null", "None", "", " ", "a", " a", "a ", "a\n", "\ta", "x\ry",
    '"a"', '"a "', '"\\"a\\""', '"', 'x,"y', "a;b", 2**60, 2**60 + 1, 1e-05, "nan", "\u00a0", "über", "\x00",
]
# fmt: on


def test_every_choice_comes_back_whatever_it_looks_like(tmp_path: Path) -> None:
    space = Space({"odd": Categorical(LOOK_ALIKES)})
    rows = [TrialRow(i, "complete", float(i), True, {"odd": odd}, {}, None, None) for i, odd in enumerate(LOOK_ALIKES)]
    path = tmp_path / "all.csv"
    path.write_text(to_csv(rows, space), encoding="utf-8", newline="")
    results = read_results(path, space)
    assert results.bad == []
    back = [old.params["odd"] for old in results.good]
    assert [(type(odd), odd) for odd in back] == [(type(odd), odd) for odd in LOOK_ALIKES]


def test_a_text_choice_is_plain_where_nothing_looks_like_it() -> None:
    choices = ["1", "relu", "a b", "null"]
    space = Space({"c": Categorical(choices)})
    rows = [TrialRow(i, "complete", 0.0, True, {"c": c}, {}, None, None) for i, c in enumerate(choices)]
    assert [row["c"] for row in csv.DictReader(io.StringIO(to_csv(rows, space)))] == choices


def test_blanks_around_a_cell_matter_only_where_a_choice_has_them(tmp_path: Path) -> None:
    space = Space({"c": Categorical([" lead", "trail\n", "plain"]), "x": Float(0, 1)})
    text = 'c, x ,value\n lead, 0.5 ,1\n"trail\n",0.5,2\n plain ,0.5, 3\n'
    results = read_results(written(tmp_path, text), space)
    assert results.bad == []
    assert [old.params["c"] for old in results.good] == [" lead", "trail\n", "plain"]


def test_a_repeated_row_is_data_if_its_number_says_so(tmp_path: Path, dechbo: CommandLine) -> None:
    study = write_study(tmp_path)
    numbered = "number,lr,layers,act,value\n0,0.01,2,relu,1\n1,0.01,2,relu,1\n1,0.01,2,relu,1\n"
    done = dechbo("import", study, written(tmp_path, numbered))
    assert "2 results imported" in done.out
    assert "1 row skipped: repeated in the file" in done.out
    assert dechbo("export", study, "--csv", tmp_path / "all.csv").code == 0
    again = dechbo("import", study, tmp_path / "all.csv")
    assert "0 results imported" in again.out
    assert "2 rows skipped: already in the study" in again.out
    bare = read_results(written(tmp_path, "lr,layers,act,value\n0.01,2,relu,1\n\n0.01,2,relu,1.0\n"), SPACE)
    assert (len(bare.good), bare.repeated, bare.bad) == (1, 1, [])


def test_a_trial_that_failed_before_it_had_parameters_is_passed_over(tmp_path: Path, dechbo: CommandLine) -> None:
    study = write_study(tmp_path, trials=1)
    assert dechbo("ask", study).code == 0
    StudyStore(StudyFile.read(study)).study.enqueue_trial({"lr": 7.0, "layers": 2, "act": "relu"})
    assert dechbo("optimize", study, "--no-picture", "--keep-going").code == 1
    assert dechbo("export", study, "--csv", tmp_path / "all.csv").code == 0
    done = dechbo("import", study, tmp_path / "all.csv")
    assert done.code == 0, done.err
    assert "2 rows skipped: trials without a result" in done.out
