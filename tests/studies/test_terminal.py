"""``dechbo optimize`` in a pseudo-terminal, from the first trial over Ctrl-C to the end."""

from __future__ import annotations

import os
import pty
import re
import select
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from dechbo.studies.store import StudyStore
from dechbo.studies.studyfile import StudyFile
from study_cases import write_study

SLOW = """
import pathlib, time

from small_objective import run


def slow(lr, layers, act):
    time.sleep(0.3)
    return run(lr, layers, act)


def gated(lr, layers, act):
    pathlib.Path("begun").touch()
    while not pathlib.Path("go").exists():
        time.sleep(0.02)
    return run(lr, layers, act)
"""
PATIENCE = 120.0  # seconds until a test gives up; nothing waits so long unless it hangs


class Terminal:
    """A command on a pseudo-terminal."""

    def __init__(self, folder: Path, *arguments: str, code: str = "from dechbo.cli import main; main()") -> None:
        self._leader, follower = pty.openpty()
        environment = {**os.environ, "TERM": "xterm-256color", "COLUMNS": "100", "LINES": "40"}
        self.process = subprocess.Popen(
            [sys.executable, "-c", code, *arguments],
            cwd=folder,
            env=environment,
            stdin=follower,
            stdout=follower,
            stderr=follower,
            start_new_session=True,
            preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),
        )
        os.close(follower)
        self.raw = ""

    @property
    def shown(self) -> str:
        """What was shown, without control codes."""
        return re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]", "", self.raw).replace("\r", "")

    def until(self, pattern: str) -> str:
        """Read until ``pattern`` was shown."""
        deadline = time.monotonic() + PATIENCE
        while not re.search(pattern, self.shown):
            assert time.monotonic() < deadline, f"never saw {pattern!r} in:\n{self.shown[-3000:]}"
            assert self._read(), f"ended without {pattern!r}:\n{self.shown[-3000:]}"
        return self.shown

    def end(self) -> int:
        """Read to the end; the exit code."""
        deadline = time.monotonic() + PATIENCE
        while self._read():
            assert time.monotonic() < deadline, self.shown[-3000:]
        os.close(self._leader)
        return self.process.wait()

    def interrupt(self) -> None:
        self.process.send_signal(signal.SIGINT)

    def _read(self) -> bool:
        if not select.select([self._leader], [], [], 1.0)[0]:
            return True
        try:
            part = os.read(self._leader, 65536)
        except OSError:  # the last writer has closed the terminal
            return False
        self.raw += part.decode(errors="replace")
        return bool(part)


def study_in(folder: Path, function: str, trials: int) -> Path:
    path = write_study(folder, trials=trials)
    (folder / "waiting.py").write_text(SLOW, encoding="utf-8")
    text = path.read_text(encoding="utf-8").replace("small_objective:run", f"waiting:{function}")
    path.write_text(text, encoding="utf-8")
    return path


def store_of(path: Path) -> StudyStore:
    return StudyStore(StudyFile.read(path), create=False)


def states(path: Path) -> list[str]:
    return [trial.state.name for trial in store_of(path).trials]


@pytest.mark.system
def test_one_ctrl_c_finishes_what_runs_and_the_same_command_continues(tmp_path: Path) -> None:
    path = study_in(tmp_path, "gated", 3)
    first = Terminal(tmp_path, "optimize", path.name, "--no-picture")
    first.until(r"0 of 3[\s\S]*trial 0 for")
    while not (tmp_path / "begun").exists():
        time.sleep(0.02)
    assert "\x1b[?25l" in first.raw  # a live display hides the cursor
    first.interrupt()
    first.until("waiting for 1 running evaluation; Ctrl-C again to stop at once")
    (tmp_path / "go").touch()
    assert first.end() == 130
    assert "stopped early, nothing is lost" in first.shown
    assert f"continue        dechbo optimize {path.name}\n" in first.shown
    assert first.raw.rindex("\x1b[?25h") > first.raw.rindex("\x1b[?25l")  # and gives it back
    assert states(path) == ["COMPLETE"]

    second = Terminal(tmp_path, "optimize", path.name, "--no-picture")
    assert second.end() == 0
    assert "continues: 1 of 3 trials are done" in second.shown
    assert "best value" in second.shown
    assert states(path) == ["COMPLETE"] * 3


@pytest.mark.system
def test_a_second_ctrl_c_stops_at_once_and_the_trial_is_made_again(tmp_path: Path) -> None:
    path = study_in(tmp_path, "gated", 2)
    first = Terminal(tmp_path, "optimize", path.name, "--no-picture")
    first.until("trial 0 for")
    first.interrupt()
    first.until("waiting for 1 running")
    first.interrupt()
    assert first.end() == 130
    assert f"dechbo optimize {path.name}" in first.shown
    assert "Traceback" not in first.shown
    lost = store_of(path).trials
    (tmp_path / "go").touch()
    second = Terminal(tmp_path, "optimize", path.name, "--no-picture")
    assert second.end() == 0
    run = store_of(path)
    complete = [trial for trial in run.trials if trial.state.name == "COMPLETE"]
    assert len(complete) == run.finished == 2
    assert complete[0].params == lost[0].params
    assert run.failed == 0


ENDLESS = """
import sys
from dechbo.integrations.optuna import DecHBOSampler

first = DecHBOSampler.suggest


def endless(self, study, *, fixed=None):
    if not study.trials:
        return first(self, study, fixed=fixed)
    swallowed = {swallow}
    while True:
        try:
            while True:
                pass
        except BaseException:  # as Numba does while it compiles
            if not swallowed:
                raise
            swallowed = False
            if {error}:
                raise RuntimeError("no compiled object yet")


DecHBOSampler.suggest = endless
from dechbo.cli import main

main()
"""


@pytest.mark.parametrize(("swallow", "error"), [(False, False), (True, True)])
def test_ctrl_c_ends_an_ask_that_would_never_end(tmp_path: Path, swallow: bool, error: bool) -> None:
    path = study_in(tmp_path, "slow", 3)
    (tmp_path / "endless.py").write_text(ENDLESS.format(swallow=swallow, error=error), encoding="utf-8")
    terminal = Terminal(tmp_path, "optimize", path.name, "--no-picture", code="import endless")
    terminal.until("1 of 3[\\s\\S]*choosing the next point")
    terminal.interrupt()
    assert terminal.end() == 130
    assert "stopped early, nothing is lost" in terminal.shown
    assert "Traceback" not in terminal.shown
    assert states(path) == ["COMPLETE"]


def test_markup_in_names_and_errors_is_text_in_the_panel(tmp_path: Path) -> None:
    path = study_in(tmp_path, "gated", 2)
    text = path.read_text(encoding="utf-8").replace("name: small", 'name: "a[b] :x:"')
    path.write_text(text.replace("objective:", "factors: [[lr, layers]]\nobjective:"), encoding="utf-8")
    (tmp_path / "waiting.py").write_text(
        "import pathlib, time\n"
        "def gated(lr, layers, act):\n"
        "    if not pathlib.Path('one').exists():\n"
        "        pathlib.Path('one').touch()\n"
        "        raise ValueError('[/red] :smile:')\n"
        "    while not pathlib.Path('go').exists():\n"
        "        time.sleep(0.02)\n"
        "    return lr\n",
        encoding="utf-8",
    )
    terminal = Terminal(tmp_path, "optimize", path.name, "--no-picture")
    terminal.until(r"dechbo · a\[b\] :x:")
    terminal.until(r"last +trial 0 failed after .*ValueError: \[/red\] :smile:")
    (tmp_path / "go").touch()
    assert terminal.end() == 0
    assert "MarkupError" not in terminal.shown


@pytest.mark.system
def test_the_whole_study_in_a_terminal_with_two_workers(tmp_path: Path) -> None:
    path = study_in(tmp_path, "slow", 16)
    terminal = Terminal(tmp_path, "optimize", path.name, "--workers", "2")
    terminal.until(r"trial \d+ for .*trial \d+ for")
    terminal.until("left")
    terminal.until(r"gap +(0: proven|at most|none: (?!a point))")
    assert terminal.end() == 0
    for part in ("study 'small': 16 trials, 2 workers", "interactions", "as JSON", "Interactions", "small.png"):
        assert part in terminal.shown
    assert states(path) == ["COMPLETE"] * 16
    assert (tmp_path / "small.png").stat().st_size > 20_000


@pytest.mark.system
def test_sigterm_stops_at_once_and_the_next_run_recovers_the_trial(tmp_path: Path) -> None:
    path = study_in(tmp_path, "gated", 2)
    for sign, code in ((signal.SIGTERM, 143), (signal.SIGKILL, -9)):
        terminal = Terminal(tmp_path, "optimize", path.name, "--no-picture")
        terminal.until(r"trial \d+ for")
        terminal.process.send_signal(sign)
        assert terminal.end() == code
    (tmp_path / "go").touch()
    last = Terminal(tmp_path, "optimize", path.name, "--no-picture")
    assert last.end() == 0
    assert "died with its process: it is evaluated again" in last.shown
    assert store_of(path).finished == 2
    assert store_of(path).failed == 0


@pytest.mark.system
def test_a_log_has_one_line_per_trial_and_no_control_codes(tmp_path: Path) -> None:
    path = study_in(tmp_path, "slow", 5)
    code = "from dechbo.cli import main; main()"
    environment = {**os.environ, "FORCE_COLOR": "1", "LANG": "C", "PYTHONIOENCODING": "ascii"}
    done = subprocess.run(
        [sys.executable, "-c", code, "optimize", str(path)],
        capture_output=True,
        text=True,
        env=environment,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert len(re.findall(r"^trial \d+ ", done.stdout, re.MULTILINE)) == 5
    assert "\x1b" not in done.stdout
