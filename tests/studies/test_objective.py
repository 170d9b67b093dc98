"""Objectives: Python functions and commands without a shell; every failure is an outcome."""

from __future__ import annotations

import json
import os
import pickle
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from dechbo.errors import StudyError
from dechbo.execution import InlineExecutor, Outcome, ProcessExecutor
from dechbo.studies import CommandObjective, Objective, PythonObjective
from dechbo.studies.command import outcome_of_output
from dechbo.studies.template import placeholders, substitute

PARAMS: dict[str, Any] = {"lr": 1e-05, "layers": 3, "act": "relu"}


@pytest.fixture(autouse=True)
def _untouched(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """What an objective does to its process is undone."""
    monkeypatch.setattr(sys, "path", list(sys.path))
    before, environment = set(sys.modules), dict(os.environ)
    yield
    for name in set(sys.modules) - before:
        del sys.modules[name]
    os.environ.clear()
    os.environ.update(environment)


def python(folder: Path, code: str, target: str = "train:run", **options: Any) -> PythonObjective:
    (folder / "train.py").write_text(code, encoding="utf-8")
    return PythonObjective(folder, target=target, **options)


def command(folder: Path, *arguments: str, **options: Any) -> CommandObjective:
    return CommandObjective(folder, arguments=arguments, **options)


def script(folder: Path, code: str, *arguments: str, **options: Any) -> CommandObjective:
    (folder / "script.py").write_text(code, encoding="utf-8")
    return command(folder, sys.executable, "script.py", *arguments, **options)


def in_a_process(objective: Objective, number: int) -> Outcome:
    with ProcessExecutor(objective) as executor:
        executor.submit(number, PARAMS)
        ((finished, outcome),) = executor.wait(60.0)
    assert finished == number
    return outcome


# -------------------------------------------------------------------- Python


def test_a_function_gets_the_parameters_by_name(tmp_path: Path) -> None:
    objective = python(tmp_path, "def run(*, act, layers, lr):\n    return lr * layers if act == 'relu' else None\n")
    outcome = objective(PARAMS)
    assert outcome.value == 1e-05 * 3
    assert outcome.seconds > 0


def test_a_function_inside_of_a_class_or_package(tmp_path: Path) -> None:
    (tmp_path / "jobs").mkdir()
    (tmp_path / "jobs" / "deep.py").write_text("class Net:\n    @staticmethod\n    def run(**p): return p['layers']\n")
    assert PythonObjective(tmp_path, target="jobs.deep:Net.run")(PARAMS).value == 3.0


def test_an_exception_is_a_failure_with_its_traceback(tmp_path: Path) -> None:
    objective = python(tmp_path, "def run(**p):\n    return deeper()\ndef deeper():\n    raise ValueError('no data')\n")
    error = objective(PARAMS).error
    assert error is not None
    assert error.startswith("Traceback (most recent call last):\n")
    assert error.endswith("ValueError: no data")
    assert "train.py" in error
    assert "in deeper" in error
    assert "objective.py" not in error  # our own frames say nothing


@pytest.mark.parametrize("code", ["import sys; sys.exit(3)", "raise KeyboardInterrupt", "raise BaseException('x')"])
def test_nothing_that_an_objective_raises_gets_through(tmp_path: Path, code: str) -> None:
    outcome = python(tmp_path, f"def run(**p):\n    {code}\n")(PARAMS)
    assert outcome.failed
    assert outcome.error is not None


def test_retries_of_a_function(tmp_path: Path) -> None:
    code = "calls = []\ndef run(**p):\n    calls.append(1)\n    return 1.0 if len(calls) > 2 else 1 / 0\n"
    executor = InlineExecutor(python(tmp_path, code, retries=1))
    executor.submit(0, PARAMS)
    assert executor.wait(60.0)[0][1].failed
    del sys.modules["train"]
    executor = InlineExecutor(python(tmp_path, code, retries=2))
    executor.submit(0, PARAMS)
    assert executor.wait(60.0)[0][1].value == 1.0


@pytest.mark.parametrize(
    ("code", "target", "message"),
    [
        ("", "nowhere_to_be_found:run", "cannot be imported from(.|\n)*No module named 'nowhere_to_be_found'"),
        ("1 / 0\n", "train:run", "cannot be imported from(.|\n)*ZeroDivisionError"),
        ("import sys\nsys.exit(1)\n", "train:run", "cannot be imported from(.|\n)*SystemExit"),
        ("x = 1\n", "train:run", "train has no 'run'"),
        ("run = 1\n", "train:run", "is not a function, but int"),
    ],
)
def test_a_function_that_is_not_there(tmp_path: Path, code: str, target: str, message: str) -> None:
    objective = python(tmp_path, code, target)
    with pytest.raises(StudyError, match=message):
        objective.load()
    assert objective(PARAMS).failed


def test_a_function_can_read_its_trial_and_its_parameters(tmp_path: Path) -> None:
    code = """\
import json, os
def run(**p):
    assert json.loads(os.environ["DECHBO_PARAMS"]) == p
    return int(os.environ["DECHBO_TRIAL"])
"""
    assert in_a_process(python(tmp_path, code), 17).value == 17.0


def test_objectives_can_be_sent_to_another_process(tmp_path: Path) -> None:
    for objective in (PythonObjective(tmp_path, target="a:b", timeout=1), command(tmp_path, "x", "{lr}", retries=2)):
        assert pickle.loads(pickle.dumps(objective)) == objective


# ------------------------------------------------------------------ commands


def test_the_placeholders_an_argument() -> None:
    assert placeholders("--{name}={value}{{x}}") == ["name", "value"]
    assert substitute("--lr={lr} {{{layers}}} {{x}} {act}", PARAMS) == "--lr=1e-05 {3} {x} relu"
    assert json.loads(substitute("{params}", PARAMS)) == PARAMS
    assert substitute("{params}", {"params": "mine"}) == "mine"
    assert substitute("{a} {b} {c}", {"a": True, "b": None, "c": 0.1}) == "true null 0.1"
    for broken in ("{", "a}", "{a{b}}", "{a}}"):
        with pytest.raises(StudyError, match="single"):
            placeholders(broken)


def test_a_value_is_never_read_as_a_field_again() -> None:
    assert substitute("{a}", {"a": "{b}{{", "b": "no"}) == "{b}{{"


NASTY = [
    "a b",
    "; touch owned",
    "$(touch owned)",
    "`touch owned`",
    "' \"",
    "a\nb",
    "*",
    "-rf",
    "",
    "| touch owned",
    "é",
]


@pytest.mark.parametrize("value", NASTY)
def test_a_value_stays_one_argument_and_never_meets_a_shell(tmp_path: Path, value: str) -> None:
    code = "import json, sys\njson.dump(sys.argv[1:], open('argv.json', 'w'))\nprint(1)\n"
    assert script(tmp_path, code, "--act", "{act}", "--act={act}")({"act": value}).value == 1.0
    assert json.loads((tmp_path / "argv.json").read_text()) == ["--act", value, f"--act={value}"]
    assert not (tmp_path / "owned").exists()


def test_a_name_with_blanks_is_one_placeholder(tmp_path: Path) -> None:
    """Also with quotes, and beside braces that are meant as they are."""
    arguments = CommandObjective.split('echo --x {c d} {it\'s} "{a  b}" {{ }} x{c d}y')
    assert arguments == ("echo", "--x", "{c d}", "{it's}", "{a  b}", "{{", "}}", "x{c d}y")
    objective = CommandObjective(tmp_path, arguments=CommandObjective.split("echo {c d}"))
    assert objective({"c d": 4.5}).value == 4.5


def test_a_text_is_split_before_values_are_filled_in() -> None:
    assert CommandObjective.split("python 'a b.py' --x {x} \"{y} z\"") == ("python", "a b.py", "--x", "{x}", "{y} z")
    assert CommandObjective.split(["a b", "{x}"]) == ("a b", "{x}")


def test_a_command_knows_its_trial_and_runs_in_the_folder_of_the_study(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PASSED_ON", "yes")
    code = """\
import json, os, sys
assert os.environ["PASSED_ON"] == "yes" and sys.stdin.read() == ""
assert json.loads(os.environ["DECHBO_PARAMS"]) == {"lr": 1e-05, "layers": 3, "act": "relu"}
open("here", "w").close()
print(os.environ["DECHBO_TRIAL"])
"""
    outcome = in_a_process(script(tmp_path, code), 12)
    assert outcome.value == 12.0, outcome.error
    assert (tmp_path / "here").exists()


def test_a_command_that_fails_shows_the_end_of_its_errors(tmp_path: Path) -> None:
    code = "import sys\nprint(1.0)\nsys.stderr.write('x' * 100_000 + 'out of memory')\nsys.exit(3)\n"
    error = script(tmp_path, code)(PARAMS).error
    assert error is not None
    assert error.startswith("the command failed with exit code 3; its last output:\nx")
    assert error.endswith("out of memory")
    assert len(error) < 2000


def test_a_command_that_a_signal_ends(tmp_path: Path) -> None:
    error = script(tmp_path, "import os\nos.kill(os.getpid(), 11)\n")(PARAMS).error
    assert error == "the command died with signal 11 (SIGSEGV)"


def test_a_command_that_takes_too_long_is_ended_with_its_children(tmp_path: Path) -> None:
    code = """\
import subprocess, sys, time
child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"])
open("pids", "w").write(str(child.pid))
time.sleep(60)
"""
    outcome = script(tmp_path, code, timeout=3.0)(PARAMS)
    assert outcome.error == "stopped after 3 s (timeout)"
    assert outcome.seconds < 30
    assert is_gone(int((tmp_path / "pids").read_text()))


def test_what_a_command_said_before_its_time_was_over_is_kept(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    code = """\
import sys, time
print("epoch 1", flush=True)
if len(sys.argv) > 1:
    print("slow", file=sys.stderr, flush=True)
time.sleep(60)
"""
    assert script(tmp_path, code, timeout=1.0)(PARAMS).error == "stopped after 1 s (timeout); its last output:\nepoch 1"
    error = script(tmp_path, code, "more", timeout=1.0)(PARAMS).error
    assert error == "stopped after 1 s (timeout); its last output:\nslow"
    said = capfd.readouterr()
    assert (said.out, said.err) == ("epoch 1\nepoch 1\n", "slow\n")


def test_a_huge_error_is_shortened(tmp_path: Path) -> None:
    outcome = python(tmp_path, "def run(**_):\n    raise ValueError('begin' + 'x' * 3_000_000 + 'end')\n")(PARAMS)
    assert outcome.error is not None
    assert len(outcome.error) <= 4000
    assert outcome.error.startswith("Traceback")
    assert outcome.error.endswith("xend")


def is_gone(pid: int) -> bool:
    """Whether a process ends within some time."""
    for _ in range(100):
        try:
            if Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] in "ZX":
                return True
        except (FileNotFoundError, ProcessLookupError):
            return True
        time.sleep(0.05)
    return False


def test_a_process_that_a_command_leaves_behind_does_not_keep_us_waiting(tmp_path: Path) -> None:
    code = "import subprocess, sys\nsubprocess.Popen(['sleep', '5'])\nprint(4)\n"
    outcome = script(tmp_path, code)(PARAMS)
    assert outcome.value == 4.0
    assert outcome.seconds < 5


@pytest.mark.parametrize(
    ("program", "message"),
    [
        ("no-such-program-here", "no program 'no-such-program-here' in any folder"),
        ("./gone.sh", "no program './gone.sh'"),
    ],
)
def test_a_program_that_is_not_there(tmp_path: Path, program: str, message: str) -> None:
    objective = command(tmp_path, program, "{lr}")
    with pytest.raises(StudyError, match=message):
        objective.load()
    error = objective(PARAMS).error
    assert error is not None
    assert "cannot be started: " in error


def test_a_program_in_the_folder_of_the_study(tmp_path: Path) -> None:
    (tmp_path / "train.sh").write_text("#!/bin/sh\necho $1\n")
    (tmp_path / "train.sh").chmod(0o755)
    objective = command(tmp_path, "./train.sh", "{layers}")
    objective.load()
    assert objective(PARAMS).value == 3.0


def test_an_argument_that_no_program_can_have(tmp_path: Path) -> None:
    error = command(tmp_path, sys.executable, "{act}")({"act": "a\0b"}).error
    assert error is not None
    assert "embedded null byte" in error


def test_python_is_found_without_an_activated_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    objective = command(tmp_path, "python", "-c", "print({layers})")
    objective.load()
    assert objective(PARAMS).value == 3.0


# ------------------------------------------------------------------- its output


@pytest.mark.parametrize(
    ("text", "value", "constraints"),
    [
        ("0.5\n", 0.5, {}),
        ("epoch 1\nepoch 2\n  -1e-3  \n\n \n", -1e-3, {}),
        ('done\n{"value": 2, "constraints": [1]}', 2.0, {"0": 1.0}),
        ('{"value": 2, "constraints": {"a": -1}}\r\n', 2.0, {"a": -1.0}),
    ],
)
def test_the_last_line_of_a_command_is_its_value(text: str, value: float, constraints: dict[str, float]) -> None:
    outcome = outcome_of_output(text)
    assert (outcome.value, outcome.constraints) == (value, constraints)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "printed nothing"),
        (" \n\n", "printed nothing"),
        ("0.5\nbye\n", "last line must be a number .* got 'bye'"),
        ("[1]", "last line must be a number"),
        ("nan", "gave nan"),
        ('{"value": NaN}', "gave nan"),
        ('{"loss": 1}', r"got the fields \['loss'\]"),
    ],
)
def test_output_without_a_value(text: str, message: str) -> None:
    outcome = outcome_of_output(text)
    assert outcome.failed
    with pytest.raises(StudyError, match=message):
        raise StudyError(outcome.error)
