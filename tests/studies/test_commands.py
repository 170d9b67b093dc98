"""The commands around a study file, as a user types them."""

from __future__ import annotations

import io
import json
import re
import sys
from pathlib import Path
from typing import Any

import pytest
from optuna.trial import FrozenTrial
from rich.console import Console

from dechbo.cli import app
from dechbo.errors import StudyError, StudyFileError
from dechbo.execution.outcome import Outcome
from dechbo.interactions import Interaction, Interactions
from dechbo.studies import starter, summary
from dechbo.studies.optimize import OptimizeArguments, OptimizeView
from dechbo.studies.run import Failures, StudyRun
from dechbo.studies.store import StudyStore
from dechbo.studies.studyfile import StudyFile
from dechbo.studies.trial_table import TrialRow
from study_cases import CommandLine, write_study

COMMANDS = (
    "optimize",
    "best",
    "trials",
    "interactions",
    "export",
    "import",
    "ask",
    "tell",
    "enqueue",
    "retract",
    "retry",
    "doctor",
    "init",
)


@pytest.fixture
def dechbo(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> CommandLine:
    return CommandLine(capsys, monkeypatch)


def store_of(study: Path) -> StudyStore:
    return StudyStore(StudyFile.read(study), create=False)


# ----------------------------------------------------------------------- optimize


def test_a_study_runs_continues_and_says_when_it_is_done(tmp_path: Path, dechbo: CommandLine) -> None:
    study = write_study(tmp_path, trials=3)
    first = dechbo("optimize", study)
    assert first.code == 0, first.err
    assert "study 'small': 3 trials, 1 worker" in first.out
    assert [line.split()[1] for line in first.out.splitlines() if line.startswith("trial ")] == ["0", "1", "2"]
    best = store_of(study).best
    assert best is not None
    for part in (f"best value {best.value:.6g}  (trial {best.number}, minimize)", "as YAML:", "as JSON:", "stored in"):
        assert part in first.out
    assert json.dumps(best.params) in first.out
    assert (tmp_path / "small.png").read_bytes().startswith(b"\x89PNG")
    assert f"dechbo optimize {study} --trials 13" in first.out
    assert "\x1b" not in first.out

    more = dechbo("optimize", study, "--trials", 5, "--no-picture")
    assert "study 'small' continues: 3 of 5 trials are done, 2 to go, 1 worker" in more.out
    assert len(store_of(study).trials) == 5

    done = dechbo("optimize", study, "--trials", 5, "--no-picture")
    assert done.code == 0
    assert done.out.startswith("all 5 trials are done; --trials 15 adds more\n")
    assert len(store_of(study).trials) == 5


def test_failures_are_shown_once_counted_and_stop_a_study_in_which_all_fail(
    tmp_path: Path, dechbo: CommandLine
) -> None:
    study = write_study(tmp_path, "fails", trials=20)
    done = dechbo("optimize", study)
    assert done.code == 1
    assert done.out.count("Traceback (most recent call last)") == 2  # the first of its kind, and why it ended
    assert len(re.findall(r"^trial \d+ +failed .*ValueError: no luck", done.out, re.MULTILINE)) == 3
    assert "stopped: 3 evaluations in a row failed with the same error" in done.out
    assert "or pass --keep-going to continue as it is" in done.out
    assert "no trial succeeded yet" in done.out
    assert "failed: 3 of 3 trials" in done.out
    kept = dechbo("optimize", study, "--trials", 7, "--keep-going")
    assert kept.code == 1
    assert store_of(study).finished == 7
    assert dechbo("optimize", study, "--trials", 7).code == 1  # done, and nothing succeeded
    assert dechbo("best", study).code == 1


def test_only_a_run_in_which_all_trials_fail_mentions_keep_going(tmp_path: Path, dechbo: CommandLine) -> None:
    study = write_study(tmp_path, "fails", trials=1)
    assert dechbo("optimize", study).code == 1
    broken = dechbo("optimize", write_study(tmp_path, "missing"))
    assert broken.code == 2
    assert "has no 'missing'" in broken.err
    assert "--keep-going" not in broken.out + broken.err


def test_a_study_that_goes_on_with_another_objective_says_so_once(tmp_path: Path, dechbo: CommandLine) -> None:
    study = write_study(tmp_path, trials=1)
    assert "another objective" not in dechbo("optimize", study, "--no-picture").out
    changed = dechbo("optimize", write_study(tmp_path, "limited", trials=2), "--no-picture")
    assert changed.code == 0
    assert changed.out.count("another objective") == 1
    assert changed.out.index("another objective") < changed.out.index("trial 1")


class Beside:
    """A worker; whenever it gets a trial, somebody else finishes another one of the same study."""

    capacity = 1

    def __init__(self, other: StudyStore) -> None:
        self._other = other
        self._numbers: list[int] = []

    def submit(self, number: int, params: dict[str, Any]) -> None:
        theirs = self._other.ask()
        self._other.tell(theirs.number, Outcome(-1.0 - theirs.number))
        self._numbers.append(number)

    def wait(self, timeout: float) -> list[tuple[int, Outcome]]:
        numbers, self._numbers = self._numbers, []
        return [(number, Outcome(1.0)) for number in numbers]

    def close(self, *, kill: bool = False) -> None: ...


def test_trials_of_others_are_counted_but_not_as_ours(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = StudyFile.read(write_study(tmp_path, trials=6))
    page = io.StringIO()
    view = OptimizeView(StudyRun(file), OptimizeArguments(file.path, no_picture=True), Console(file=page, width=120))
    monkeypatch.setattr(view, "_executor", lambda: Beside(StudyStore(file)))
    assert view.run() == 0
    lines = [line.split() for line in page.getvalue().splitlines() if line.startswith("trial ")]
    assert [(line[1], line[4], line[-3:]) for line in lines[:1]] == [("0", "-2", ["2", "of", "6"])]
    assert [line[4] for line in lines] == ["-2", "-4", "-6"]
    assert "6 of 6" in page.getvalue()
    assert re.search(r"^3 trials in ", page.getvalue(), re.MULTILINE)


def test_the_end_reads_the_trials_as_often_whatever_their_number(tmp_path: Path) -> None:
    file, reads = StudyFile.read(write_study(tmp_path)), [0]

    class Counted(StudyStore):
        @property
        def trials(self) -> list[FrozenTrial]:
            reads[0] += 1
            return super().trials

    study = Counted(file)
    counts = []
    for value in range(0, -4, -1):  # the best comes last
        study.add({"lr": 0.1, "layers": 2, "act": "relu"}, Outcome(float(value)))
        reads[0] = 0
        summary.print_summary(
            study, OptimizeArguments(file.path), Console(file=io.StringIO()), next_target=None, brief=True
        )
        counts.append(reads[0])
    assert len(counts) == 4
    assert len(set(counts)) == 1


def test_a_timeout_begins_no_trial_after_it_and_says_how_to_go_on(tmp_path: Path, dechbo: CommandLine) -> None:
    study = write_study(tmp_path)
    done = dechbo("optimize", study, "--timeout", 0)
    assert "stopped by --timeout after" in done.out
    assert f"dechbo optimize {study}\n" in done.out
    assert done.code == 1  # nothing succeeded
    assert store_of(study).trials == []


def test_a_picture_goes_where_the_option_says_and_needs_matplotlib(
    tmp_path: Path, dechbo: CommandLine, monkeypatch: pytest.MonkeyPatch
) -> None:
    study = write_study(tmp_path, trials=1)
    assert "picture    " in dechbo("optimize", study, "--picture", tmp_path / "p.png").out
    assert (tmp_path / "p.png").exists()
    assert not (tmp_path / "small.png").exists()
    unwritable = dechbo("optimize", study, "--picture", tmp_path / "no" / "p.png")
    assert unwritable.code == 0
    assert "cannot be written" in unwritable.out
    monkeypatch.setitem(sys.modules, "matplotlib", None)  # as if it were not installed
    without = dechbo("optimize", study)
    assert without.code == 0
    assert "pip install matplotlib" in without.out


def test_errors_are_one_line_with_code_2(tmp_path: Path, dechbo: CommandLine) -> None:
    no_objective = write_study(tmp_path, None, name="lab")
    cases = {
        ("optimize", tmp_path / "none.yaml"): "cannot be read",
        ("optimize", no_objective): "dechbo ask",
        ("best", no_objective): "there is no study 'lab' yet",
        ("optimize", write_study(tmp_path), "--storage", "sqlite:////none/x.db"): "no folder",
        ("trials", write_study(tmp_path), "--storage", "nonsense"): "a storage must be a URL",
        ("export", no_objective): "--csv",
        ("ask", no_objective, "--fix", "lr"): "--fix takes NAME=VALUE",
        ("ask", no_objective, "--fix", "lr=7"): "lr",
        ("ask", no_objective, "--fix", "nr=7"): "nr",
    }
    for arguments, message in cases.items():
        done = dechbo(*arguments)
        assert (done.code, "Traceback" in done.err) == (2, False), arguments
        assert message in done.err, arguments


def test_a_broken_objective_is_an_error_before_any_trial(tmp_path: Path, dechbo: CommandLine) -> None:
    study = write_study(tmp_path, "missing")
    done = dechbo("optimize", study)
    assert done.code == 2
    assert "has no 'missing'" in done.err
    assert store_of(study).finished == 0


def test_the_command_to_go_on_has_everything_but_secrets(tmp_path: Path) -> None:
    storage = "postgresql://me:secret@host/db"
    arguments = OptimizeArguments(tmp_path / "a b.yaml", trials=9, workers=2, storage=storage, seed=4, keep_going=True)
    command = arguments.command()
    expected = f"dechbo optimize '{tmp_path}/a b.yaml' --trials 9 --workers 2 --seed 4 --keep-going --storage "
    assert command.startswith(expected)
    assert "secret" not in command + arguments.other("best")
    assert "me:" in command


def test_ray_that_is_not_installed_is_one_line(
    tmp_path: Path, dechbo: CommandLine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "ray", None)  # as if it were not installed
    study = write_study(tmp_path)
    done = dechbo("optimize", study, "--ray", "auto")
    assert done.code == 2
    assert "pip install" in done.err
    assert store_of(study).trials == []


# ------------------------------------------------------------------ best and trials


def test_best_and_trials_know_infeasible_failed_and_asked_ones(tmp_path: Path, dechbo: CommandLine) -> None:
    study = write_study(tmp_path, None)
    assert dechbo("ask", study, "-n", 4).code == 0
    assert dechbo("tell", study, 0, 5).code == 0
    assert "infeasible; best is 5 (trial 0)" in dechbo("tell", study, 1, -1.5, "--constraint", "cost=0.5").out
    assert "trial 2: failed" in dechbo("tell", study, 2, "--failed").out
    best = json.loads(dechbo("best", study, "--json").out)
    assert (best["number"], best["value"], best["study"], best["direction"]) == (0, 5.0, "small", "minimize")
    assert set(best["params"]) == {"lr", "layers", "act"}
    rows = json.loads(dechbo("trials", study, "--json").out)
    assert [row["state"] for row in rows] == ["complete", "complete", "failed", "asked"]
    assert [row["feasible"] for row in rows] == [True, False, None, None]
    assert rows[1]["value"] == -1.5
    assert rows[1]["constraints"] == {"cost": 0.5}
    assert [row["number"] for row in json.loads(dechbo("trials", study, "--last", 2, "--json").out)] == [2, 3]
    table = dechbo("trials", study).out
    for part in ("feasible", "asked", "told as failed", "best"):
        assert part in table
    assert "best value 5  (trial 0, minimize)" in dechbo("best", study).out


def test_trials_show_parameters_on_request(tmp_path: Path, dechbo: CommandLine) -> None:
    study = write_study(tmp_path, None)
    dechbo("ask", study, "--fix", "lr=0.125", "--fix", "act=tanh")
    assert "0.125" not in dechbo("trials", study).out
    header, row = dechbo("trials", study, "--params").out.splitlines()
    assert header.split() == ["trial", "state", "value", "lr", "layers", "act", "time"]
    assert {"0.125", "tanh", "asked"} <= set(row.split())


def test_commands_that_read_write_nothing_and_take_no_lock(tmp_path: Path, dechbo: CommandLine) -> None:
    assert dechbo("optimize", write_study(tmp_path), "--timeout", 0).code == 1
    study = write_study(tmp_path, "limited")  # which is to be kept with the study, but not by these commands
    for lock in tmp_path.glob("*.lock"):
        lock.unlink()
    before = (tmp_path / "small.db").read_bytes()
    codes = [dechbo(name, study, "--json").code for name in ("best", "trials", "interactions")]
    assert codes == [1, 0, 2]  # there is no trial yet
    assert dechbo("export", study, "--csv", "-").code == 0
    assert list(tmp_path.glob("*.lock")) == []
    assert (tmp_path / "small.db").read_bytes() == before


def test_a_negative_value_is_a_value(tmp_path: Path, dechbo: CommandLine) -> None:
    study = write_study(tmp_path, None)
    dechbo("ask", study)
    assert "trial 0: -2.5e-05, the best so far" in dechbo("tell", study, 0, "-2.5e-05").out


# --------------------------------------------------------------- ask and tell by hand


def test_what_is_asked_stays_pending_until_it_is_told(tmp_path: Path, dechbo: CommandLine) -> None:
    study = write_study(tmp_path, None)
    asked = json.loads(dechbo("ask", study, "-n", 2, "--json").out)
    assert [trial["number"] for trial in asked] == [0, 1]
    third = dechbo("ask", study, "--fix", "layers=3", "--fix", "act=tanh")
    assert f"dechbo tell {study} 2 VALUE" in third.out
    assert "trial 2" in third.out
    trials = store_of(study).trials
    assert [trial.state.name for trial in trials] == ["RUNNING"] * 3  # their processes have ended: nobody died
    assert (trials[2].params["layers"], trials[2].params["act"]) == (3, "tanh")
    assert trials[0].params == asked[0]["params"]
    assert len({json.dumps(trial.params) for trial in trials}) == 3


def test_asking_for_more_than_is_left_shows_those_that_are(tmp_path: Path, dechbo: CommandLine) -> None:
    study, held = write_study(tmp_path, None), ("--fix", "lr=0.1", "--fix", "layers= 2 ")
    done = dechbo("ask", study, "-n", 5, *held)
    assert done.code == 0, done.err
    assert all(part in done.out for part in ("trial 0", "trial 1", "relu", "tanh"))
    assert "2 of 5: all other points are evaluated or asked for already" in done.err
    none = dechbo("ask", study, *held, "--json")
    assert (none.code, none.out, none.err.count("\n")) == (2, "", 1)
    assert "no point is left: all points with these values of --fix are evaluated or asked for" in none.err
    assert len(store_of(study).trials) == 2


def test_tell_refuses_what_makes_no_sense(tmp_path: Path, dechbo: CommandLine) -> None:
    study = write_study(tmp_path, None)
    dechbo("ask", study)
    refused = {
        (0,): "tell a VALUE, or --failed",
        (0, 1, "--failed"): "tell a VALUE, or --failed",
        (7, 1): "has no trial 7",
        (0, 1, "--constraint", "cost"): "--constraint takes NAME=VALUE",
        (0, 1, "--constraint", "cost=nan"): "finite number",
    }
    for arguments, message in refused.items():
        done = dechbo("tell", study, *arguments)
        assert done.code == 2
        assert message in done.err
    assert dechbo("tell", study, 0, "nan").out.startswith("trial 0: failed")
    assert "it cannot be told" in dechbo("tell", study, 0, 1).err


def test_a_trial_of_a_running_process_is_not_told_by_hand(tmp_path: Path, dechbo: CommandLine) -> None:
    from dechbo.integrations.optuna import OWNER, this_process
    from dechbo.integrations.optuna.adapter import storage_of, trial_id

    study = write_study(tmp_path, None)
    dechbo("ask", study)
    its = store_of(study)
    storage_of(its.study).set_trial_system_attr(trial_id(its.trials[0]), OWNER, this_process())
    assert "is being evaluated by `dechbo optimize`" in dechbo("tell", study, 0, 1).err
    storage_of(its.study).set_trial_system_attr(trial_id(its.trials[0]), OWNER, "")  # nobody's any more
    assert json.loads(dechbo("trials", study, "--json").out)[0]["state"] == "asked"
    assert dechbo("tell", study, 0, 1).code == 0


# -------------------------------------------------------------------- interactions


def test_interactions_are_sentences_or_json(tmp_path: Path, dechbo: CommandLine) -> None:
    study = write_study(tmp_path, trials=12)
    nothing = dechbo("interactions", study)
    assert nothing.code == 2
    assert dechbo("optimize", study, "--no-picture").code == 0
    said = dechbo("interactions", study)
    assert said.code == 0
    assert "interact" in said.out
    for arguments in ([], ["--stored"]):
        found = json.loads(dechbo("interactions", study, "--json", *arguments).out)
        assert isinstance(found["converged"], bool)
        assert all(set(i) == {"parameters", "probability", "share"} for i in found["interactions"])
        assert all(0 <= i["probability"] <= 1 for i in found["interactions"])


def test_weak_interactions_are_hidden_and_doubts_are_said() -> None:
    strong, weak, sure = (
        Interaction(("a", "b"), 0.6, 0.2),
        Interaction(("b", "c"), 0.9, 0.004),
        Interaction(("a",), 1, 0.5),
    )
    found = Interactions([weak, sure, strong])
    assert summary.interaction_lines(found, 3) == [
        "20% of the variance: a and b perhaps interact (60%)",
        "1 weaker one with less than 1% of the variance not shown (--all)",
    ]
    assert summary.interaction_lines(found, 3, weak=True)[1].startswith("<1% of the variance: b and c probably")
    assert summary.interaction_lines(Interactions([weak]), 3)[0].startswith("no evidence of interactions of 1%")
    assert summary.interaction_lines(Interactions(), 3, weak=True) == [
        "no evidence of interactions in the trials so far"
    ]
    for shown in ([strong], []):
        rough = summary.interaction_lines(Interactions(shown, converged=False), 3)
        assert len(rough) == 2
        assert "do not agree" in rough[-1]


def test_interactions_of_given_factors_and_of_no_model(tmp_path: Path, dechbo: CommandLine) -> None:
    given = write_study(tmp_path, name="given", trials=2, more="factors: [[lr, layers]]\n")
    done = dechbo("optimize", given, "--no-picture")
    assert "given in the study file: lr × layers" in done.out
    assert "lr × layers" in dechbo("interactions", given).err
    young = write_study(tmp_path, trials=2)
    dechbo("optimize", young, "--no-picture")
    stored = dechbo("interactions", young, "--stored")
    assert stored.code == 1
    assert "none learned yet" in stored.err


# ---------------------------------------------------------------------------- init


def test_init_writes_a_study_that_runs_as_it_is(
    tmp_path: Path, dechbo: CommandLine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    done = dechbo("init")
    assert done.out.splitlines() == ["written: study.yaml", "written: train.py", "try it:  dechbo optimize study.yaml"]
    assert "take a new one when you change what is evaluated" in (tmp_path / "study.yaml").read_text(encoding="utf-8")
    assert dechbo("optimize", "study.yaml", "--trials", 2, "--no-picture").code == 0
    refused = dechbo("init")
    assert refused.code == 2
    assert "--force" in refused.err
    (tmp_path / "train.py").write_text("mine = 1\n")
    assert dechbo("init", "--force").out.splitlines()[0] == "written: study.yaml"
    assert (tmp_path / "train.py").read_text() == "mine = 1\n"


def test_init_with_its_commented_fields_in_force_is_a_study_too(tmp_path: Path) -> None:
    (path,) = [file for file in starter.write(tmp_path / "a b.yaml") if file.suffix == ".yaml"]
    text = path.read_text(encoding="utf-8")
    for field in ("factors", "constraints", "storage"):
        text = text.replace(f"# {field}:", f"{field}:")
    path.write_text(text.replace("  # timeout:", "  timeout:").replace("  # retries:", "  retries:"), encoding="utf-8")
    file = StudyFile.read(path)
    assert file.name == "a-b"
    assert file.factors == (("lr", "width"),)
    assert file.constraints == ("layers + 10*drop <= 12",)
    assert file.objective is not None
    assert (file.objective.timeout, file.objective.retries) == (600, 1)


@pytest.mark.parametrize(("name", "message"), [("study.txt", "must end in .yaml"), ("no/study.yaml", "no folder")])
def test_init_refuses_odd_places(tmp_path: Path, name: str, message: str) -> None:
    with pytest.raises(StudyFileError, match=message):
        starter.write(tmp_path / name)


def test_every_command_has_help_with_an_example(dechbo: CommandLine) -> None:
    assert {command.name for command in app.registered_commands} >= set(COMMANDS)
    for name in COMMANDS:
        shown = dechbo(name, "--help")
        assert shown.code == 0
        assert f"Example: dechbo {name} " in shown.out


# ------------------------------------------------------------- names and values as they are

ODD = """
name: odd
parameters:
  "time [min]": {type: float, low: 0, high: 1}
  "rate [/min]": {type: float, low: 0, high: 1}
  "x[/y] = z": {type: categorical, choices: ["[red]", ":smile:"]}
"""


def odd_study(folder: Path) -> Path:
    path = folder / "odd.yaml"
    path.write_text(ODD, encoding="utf-8")
    return path


def test_markup_in_names_and_values_is_text(tmp_path: Path, dechbo: CommandLine) -> None:
    study = odd_study(tmp_path)
    asked = dechbo("ask", study, "--fix", "x[/y] = z=:smile:")
    assert asked.code == 0, asked.err
    told = dechbo("tell", study, 0, 1.5, "--constraint", "size [/kg]=-1")
    assert told.code == 0, told.err
    shown = [dechbo("best", study).out, dechbo("trials", study, "--params").out, asked.out]
    for out in shown:
        for part in ("time [min]", "rate [/min]", "x[/y] = z", ":smile:"):
            assert part in out
    assert "constraint size [/kg]" in shown[0]
    assert dechbo("export", study, "--csv", "-").out.splitlines()[0].split(",")[4:7] == [
        "time [min]",
        "rate [/min]",
        "x[/y] = z",
    ]


def test_an_error_of_a_user_is_shown_as_it_is(tmp_path: Path, dechbo: CommandLine) -> None:
    study = write_study(tmp_path, trials=1)
    text = (tmp_path / "small_objective.py").read_text(encoding="utf-8")
    (tmp_path / "small_objective.py").write_text(text.replace("no luck", "[/b] :smile: \\x1b[31m"), encoding="utf-8")
    study.write_text(study.read_text(encoding="utf-8").replace("small_objective:run", "small_objective:fails"))
    done = dechbo("optimize", study)
    assert "[/b] :smile: ␛[31m" in done.out
    assert "\x1b" not in done.out


def test_a_narrow_table_says_which_parameters_it_leaves_out(tmp_path: Path) -> None:
    rows = [TrialRow(0, "complete", 1.0, True, {f"parameter_{k}": 0.123456 for k in range(12)}, {}, None, None)]
    page = io.StringIO()
    console = Console(file=page, width=80, color_system=None)
    summary.print_trials(rows, 0, console, params=list(rows[0].params))
    table, _, rest = page.getvalue().partition("…")
    hidden = [name for name in rows[0].params if name not in table]
    assert all(len(line.rstrip()) <= 80 for line in table.splitlines())
    assert f" {len(hidden)} more parameters" in rest
    assert all(name in rest for name in hidden[:8])
    assert table.count("0.123456") == 12 - len(hidden) > 0


def test_fast_trials_have_their_time_and_told_ones_none(tmp_path: Path, dechbo: CommandLine) -> None:
    study = write_study(tmp_path, trials=2)
    dechbo("optimize", study, "--no-picture")
    rows = json.loads(dechbo("trials", study, "--json").out)
    assert all(0 < row["seconds"] < 10 for row in rows)
    by_hand = write_study(tmp_path, None, name="hand")
    dechbo("ask", by_hand)
    dechbo("tell", by_hand, 0, 1.0)
    assert json.loads(dechbo("trials", by_hand, "--json").out)[0]["seconds"] is None


def test_a_picture_has_the_format_of_its_name(tmp_path: Path, dechbo: CommandLine) -> None:
    study = write_study(tmp_path, trials=2)
    assert dechbo("optimize", study, "--picture", tmp_path / "x.pdf").code == 0
    assert (tmp_path / "x.pdf").read_bytes().startswith(b"%PDF")
    refused = dechbo("optimize", study, "--picture", tmp_path / "x.bmp", "--trials", 9)
    assert refused.code == 2
    assert "expected a name that ends in .png, .pdf, .svg, .jpg, got .bmp" in refused.err
    assert len(store_of(study).trials) == 2  # before anything ran


def test_the_interactions_come_in_the_order_that_is_shown() -> None:
    found = Interactions(
        [Interaction(("a", "b"), 0.2, 0.4), Interaction(("a", "c"), 0.99, 0.2), Interaction(("b", "c"), 0.99, 0.001)]
    )
    lines = summary.interaction_lines(found, 3)
    assert [line.split(" of")[0] for line in lines] == ["40%", "20%", "1 weaker one with less than 1%"]
    assert "too weakly to matter" in summary.interaction_lines(found, 3, weak=True)[-1]


def test_the_command_that_init_suggests_works_with_its_own_train(tmp_path: Path, dechbo: CommandLine) -> None:
    path, _ = starter.write(tmp_path / "study.yaml")
    text = path.read_text(encoding="utf-8")
    assert "password@" not in text
    lines = [line.replace("# command:", "command:") for line in text.splitlines() if "python:" not in line]
    path.write_text("\n".join(lines), encoding="utf-8")
    done = dechbo("optimize", path, "--trials", 2, "--no-picture")
    assert done.code == 0, done.out + done.err
    assert [trial.state.name for trial in store_of(path).trials] == ["COMPLETE"] * 2


def test_many_parameters_are_shown_once(tmp_path: Path, dechbo: CommandLine) -> None:
    study = tmp_path / "many.yaml"
    names = [f"weight_{k:02}" for k in range(20)]
    study.write_text("name: many\nparameters:\n" + "".join(f"  {n}: {{type: float, low: 0, high: 1}}\n" for n in names))
    dechbo("ask", study)
    dechbo("tell", study, 0, 1.5, "--constraint", "size=-1")
    shown = dechbo("best", study).out
    assert all(shown.count(name) == 1 for name in names)
    assert "constraint size" in shown
    assert str(store_of(study).trials[0].params["weight_07"]) in shown  # with all digits


# ------------------------------------------------------------------------------- undo


def test_a_wrong_value_is_corrected_and_a_trial_retracted(tmp_path: Path, dechbo: CommandLine) -> None:
    study = write_study(tmp_path, None)
    for number, value in enumerate([3.0, -0.5, 2.0]):
        dechbo("ask", study)
        dechbo("tell", study, number, value)
    refused = dechbo("tell", study, 1, 4.0)
    assert "--correct" in refused.err
    assert dechbo("tell", study, 1, 4.0, "--correct").out == "trial 1: corrected to 4; best is 2 (trial 2)\n"
    assert json.loads(dechbo("best", study, "--json").out)["value"] == 2.0
    assert dechbo("retract", study, 2).out.endswith("its point may come again; best is 3 (trial 0)\n")
    rows = json.loads(dechbo("trials", study, "--json").out)
    assert [(row["state"], row["value"]) for row in rows] == [("complete", 3.0), ("complete", 4.0), ("retracted", 2.0)]
    assert store_of(study).finished == 2
    assert dechbo("retract", study, 2, "--undo").out == "trial 2: counts again, the best so far\n"
    assert "no trial 9" in dechbo("retract", study, 0, 9).err
    assert store_of(study).finished == 3  # nothing was retracted
    assert dechbo("tell", study, 0, "--failed", "--correct").code == 0
    assert store_of(study).failed == 1


def test_second_thoughts_in_any_order_say_what_counts(tmp_path: Path, dechbo: CommandLine) -> None:
    study = write_study(tmp_path, None)
    for number, value in enumerate([3.0, 1.0]):
        dechbo("ask", study)
        dechbo("tell", study, number, value)
    assert dechbo("retract", study, 0, "--undo").out == "trial 0: not retracted, nothing to undo\n"
    dechbo("retract", study, 1)
    assert dechbo("retract", study, 1).out == "trial 1: retracted already\n"
    done = dechbo("tell", study, 1, 0.5, "--correct")
    assert done.out == "trial 1: corrected to 0.5, but the trial is retracted and does not count; best is 3 (trial 0)\n"
    assert dechbo("retry", study, 1).out.startswith("1 trial queued again")
    dechbo("retract", study, 1, "--undo")
    rows = json.loads(dechbo("trials", study, "--json").out)
    assert [row["state"] for row in rows] == ["complete", "complete", "waiting"]  # the best is not a retried one
    dechbo("tell", study, 0, "--failed", "--correct")
    assert "trial 0 is not running, but failed" in dechbo("tell", study, 0, 1.0).err


def test_a_retracted_trial_leaves_the_queue_and_can_be_queued_again(tmp_path: Path, dechbo: CommandLine) -> None:
    study = write_study(tmp_path, None)
    dechbo("ask", study)
    dechbo("tell", study, 0, 3.0)
    dechbo("retry", study, 0)
    dechbo("retract", study, 1)
    assert json.loads(dechbo("ask", study, "--json").out)[0]["number"] == 2
    assert dechbo("retry", study, 0).out.startswith("1 trial queued again")
    rows = json.loads(dechbo("trials", study, "--json").out)
    assert [row["state"] for row in rows] == ["retried", "retracted", "asked", "waiting"]


def test_three_equal_failures_stop_a_run_and_retry_mends_a_small_space(tmp_path: Path, dechbo: CommandLine) -> None:
    """A typo in a space of five points must not end the study for ever."""
    study, train = tmp_path / "five.yaml", tmp_path / "five.py"
    study.write_text(
        'name: five\nparameters: {k: {type: int, low: 1, high: 5}}\nobjective: {python: "five:run"}\ntrials: 9\n'
    )
    train.write_text("def run(k):\n    return kk\n")
    first = dechbo("optimize", study, "--no-picture")
    assert first.code == 1
    assert "3 evaluations in a row failed with the same error" in first.out
    assert f"dechbo retry {study} --failed" in first.out
    train.write_text("def run(k):\n    return (k - 3) ** 2\n")
    sys.modules.pop("five", None)
    assert dechbo("retry", study, "--failed").out.startswith("3 trials queued again")
    assert dechbo("retry", study, "--failed").out.startswith("0 trials queued again")
    second = dechbo("optimize", study, "--no-picture")
    assert second.code == 0, second.out
    assert "all points of the space are evaluated: 5 trials" in second.out
    assert "more trials" not in second.out
    assert "continue" not in second.out.partition("next")[2]
    rows = json.loads(dechbo("trials", study, "--json").out)
    assert [row["state"] for row in rows] == ["retried"] * 3 + ["complete"] * 5
    assert json.loads(dechbo("best", study, "--json").out)["value"] == 0.0


def test_different_failures_do_not_stop_a_run_and_keep_going_never_does(tmp_path: Path, dechbo: CommandLine) -> None:
    study = write_study(tmp_path, "fails", trials=4)
    assert dechbo("optimize", study, "--no-picture", "--keep-going").code == 1
    assert store_of(study).failed == 4
    failures = Failures()
    for text in ("a", "b", "a", "b"):
        failures.add(Outcome.failure(text))
        failures.check(any_success=True)
    assert failures.total == 4


def test_a_trial_of_ones_own_is_queued(tmp_path: Path, dechbo: CommandLine) -> None:
    study = write_study(tmp_path, None)
    done = dechbo("enqueue", study, "lr=0.125", "act=tanh")
    assert done.out == (
        "trial 0 queued; 1 other parameter chosen when it starts; `dechbo optimize` or `dechbo ask` takes it first\n"
    )
    assert "'lr': expected a number from 0.0001 to 1.0, got 7" in dechbo("enqueue", study, "lr=7").err
    asked = json.loads(dechbo("ask", study, "--json").out)
    assert asked[0]["number"] == 0
    assert (asked[0]["params"]["lr"], asked[0]["params"]["act"]) == (0.125, "tanh")
    with pytest.raises(StudyError, match="has no trial 4"):
        store_of(study).retract(4)
    dechbo("tell", study, 0, 1.0)
    again = [f"{name}={value}" for name, value in asked[0]["params"].items()]
    assert "trial 0 has these parameters, too, and both will count" in dechbo("enqueue", study, *again).out
    assert "'lr' is given twice" in dechbo("enqueue", study, "lr=0.1", "lr=0.2").err


# ------------------------------------------------------------------- repeats, conditions, doctor


def test_repeats_give_the_mean_and_its_noise_and_a_recommendation(tmp_path: Path, dechbo: CommandLine) -> None:
    study = write_study(tmp_path, trials=6, more="repeats: 3\n")
    (tmp_path / "small_objective.py").write_text(
        "import os\ndef run(lr, layers, act):\n    return layers + [-0.3, 0.0, 0.3][int(os.environ['DECHBO_REPEAT'])]\n"
    )
    sys.modules.pop("small_objective", None)
    assert dechbo("optimize", study, "--no-picture").code == 0
    store = store_of(study)
    for trial in store.trials:
        assert trial.value == pytest.approx(trial.params["layers"])
        assert trial.user_attrs["dechbo:noise"] == pytest.approx(0.09 / 3)  # the variance of a mean of three
    assert all(evaluation.noise == pytest.approx(0.03) for evaluation in store.optimizer().evaluations)
    found = json.loads(dechbo("best", study, "--json").out)
    assert found["recommended"]["params"]["layers"] == 1
    assert "recommended" in dechbo("best", study).out
    plain = write_study(tmp_path, None, name="plain")
    dechbo("ask", plain)
    dechbo("tell", plain, 0, 1.0)
    assert "recommended" not in dechbo("best", plain).out


CONDITIONAL = """
name: conditional
parameters:
  clf: {type: categorical, choices: [svm, forest]}
  C: {type: float, low: 1.0e-3, high: 1e3, log: true, when: {clf: svm}}
  depth: {type: int, low: 1, high: 20, when: {clf: [forest]}}
objective: {command: "echo-arguments.sh --clf {clf} --C {C} --depth={depth}"}
trials: 6
"""


def test_a_study_with_conditional_parameters(tmp_path: Path, dechbo: CommandLine) -> None:
    study = tmp_path / "conditional.yaml"
    study.write_text(CONDITIONAL.replace("echo-arguments.sh", "./echo.sh"), encoding="utf-8")
    (tmp_path / "echo.sh").write_text('#!/bin/sh\necho "$@" >> arguments\necho $#\n', encoding="utf-8")
    (tmp_path / "echo.sh").chmod(0o755)
    done = dechbo("optimize", study)
    assert done.code == 0, done.out + done.err
    trials = store_of(study).trials
    assert {tuple(trial.params) for trial in trials} == {("clf", "C"), ("clf", "depth")}
    for line, trial in zip((tmp_path / "arguments").read_text().splitlines(), trials, strict=True):
        used = f"--C {trial.params['C']!r}" if "C" in trial.params else f"--depth={trial.params['depth']}"
        assert line == f"--clf {trial.params['clf']} {used}"
    dechbo("export", study, "--csv", tmp_path / "old.csv")
    again = tmp_path / "again.yaml"
    again.write_text(study.read_text(encoding="utf-8").replace("name: conditional", "name: again"), encoding="utf-8")
    assert "6 results imported" in dechbo("import", again, tmp_path / "old.csv").out
    assert [trial.params for trial in store_of(again).trials] == [trial.params for trial in trials]
    assert dechbo("enqueue", again, "depth=4").code == 0
    assert json.loads(dechbo("ask", again, "--json").out)[0]["params"] == {"clf": "forest", "depth": 4}
    again.write_text(again.read_text(encoding="utf-8").replace("clf: svm", "clf: svn"), encoding="utf-8")
    assert "'C' is there when 'clf' is 'svn', which is not one of its choices" in dechbo("ask", again).err


def test_doctor_reports_versions_and_the_study_without_secrets(tmp_path: Path, dechbo: CommandLine) -> None:
    study = write_study(tmp_path, trials=1)
    dechbo("optimize", study, "--no-picture")
    shown = dechbo("doctor", study).out
    for part in ("dechbo ", "python ", "numba ", "BLAS ", "compiled loops", "Ray ", "1 complete"):
        assert part in shown
    found = json.loads(dechbo("doctor", study, "--storage", "postgresql://me:secret@nowhere/x", "--json").out)
    assert "secret" not in json.dumps(found)
    assert "problem" in found
