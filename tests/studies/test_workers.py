"""ProcessWorkers: child processes that crash, hang or outlive nobody."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from dechbo.errors import OptionError, StudyError
from dechbo.studies import CommandObjective, Outcome, ProcessWorkers, PythonObjective

TRAIN = """\
import os, signal, sys, time

def run(what):
    if what == "segfault":
        os.kill(os.getpid(), signal.SIGSEGV)
    if what == "exit":
        os._exit(3)
    if what == "hang":
        time.sleep(60)
    if what == "fork":  # a process that holds all our descriptors, and stays
        if os.fork() == 0:
            time.sleep(20)
            os._exit(0)
        os.kill(os.getpid(), signal.SIGKILL)
    if what == "raise":
        raise ValueError("no data")
    if what == "print":
        print("a word from the objective")
        sys.stderr.write("and a complaint\\n")
    if what == "flaky":
        if not os.path.exists("tried"):
            open("tried", "w").close()
            os._exit(1)
    if what == "pid":
        return os.getpid()
    if what == "session":
        return float(os.getsid(0) == os.getpid())
    if what == "threads":
        return int(os.environ["OPENBLAS_NUM_THREADS"])
    if what == "stdin":
        return len(sys.stdin.read())
    if what == "beat":
        while True:
            open("beat", "w").close()
            time.sleep(0.05)
    return 1.5
"""


def python(folder: Path, **options: Any) -> PythonObjective:
    (folder / "train.py").write_text(TRAIN, encoding="utf-8")
    return PythonObjective(folder, target="train:run", log=folder / "study.log", **options)


def evaluated(workers: ProcessWorkers, *whats: str) -> dict[str, Outcome]:
    """Evaluate one by one."""
    outcomes = {}
    for number, what in enumerate(whats):
        workers.submit(number, {"what": what})
        outcomes[what] = finished(workers, 1)[number]
    return outcomes


def finished(workers: ProcessWorkers, count: int) -> dict[int, Outcome]:
    done: dict[int, Outcome] = {}
    give_up = time.monotonic() + 60
    while len(done) < count:
        assert time.monotonic() < give_up, done
        done.update(workers.wait(5.0))
    return done


def gone(pid: int) -> bool:
    """Whether a process ends within some time."""
    for _ in range(200):
        try:
            state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
        except (FileNotFoundError, ProcessLookupError):
            return True
        if state in "ZX":
            return True
        time.sleep(0.05)
    return False


def test_one_child_evaluates_one_trial_after_the_other(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OPENBLAS_NUM_THREADS", raising=False)
    with ProcessWorkers(python(tmp_path), 1) as workers:
        first = evaluated(workers, "pid", "raise", "print", "session", "threads", "stdin")
        again = evaluated(workers, "pid")
        pid = first["pid"].value
        assert pid is not None
        assert pid != os.getpid()
        assert pid == again["pid"].value  # an exception costs no process
        assert first["print"].value == 1.5
        assert first["session"].value == 1.0  # Ctrl-C does not reach it
        assert first["threads"].value == os.cpu_count()  # all to itself
        assert first["stdin"].value == 0.0
        error = first["raise"].error
        assert error is not None
        assert error.endswith("ValueError: no data")
    assert gone(int(pid))
    log = (tmp_path / "study.log").read_text()
    assert "a word from the objective\n" in log
    assert "and a complaint\n" in log


def test_children_share_the_cores(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OPENBLAS_NUM_THREADS", raising=False)
    with ProcessWorkers(python(tmp_path), 2 * (os.cpu_count() or 1)) as workers:
        assert evaluated(workers, "threads")["threads"].value == 1.0


def test_the_user_decides_over_threads(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENBLAS_NUM_THREADS", "4")
    with ProcessWorkers(python(tmp_path), 1) as workers:
        assert evaluated(workers, "threads")["threads"].value == 4.0


def test_files_beside_the_objective_do_not_get_in_the_way_of_python(tmp_path: Path) -> None:
    for name in ("queue", "signal", "socket", "threading", "dechbo"):
        (tmp_path / f"{name}.py").write_text("raise ImportError('not this one')\n")
    with ProcessWorkers(python(tmp_path), 1) as workers:
        assert evaluated(workers, "fine")["fine"].value == 1.5


def test_a_child_that_dies_is_a_failed_evaluation_and_another_takes_its_place(tmp_path: Path) -> None:
    with ProcessWorkers(python(tmp_path), 1) as workers:
        outcomes = evaluated(workers, "segfault", "exit", "fork", "fine")
    assert outcomes["segfault"].error == "the process died with signal 11 (SIGSEGV)"
    assert outcomes["exit"].error == "the process ended with exit code 3"
    assert outcomes["fork"].error == "the process died with signal 9 (SIGKILL)"
    assert outcomes["fine"].value == 1.5


def test_a_child_that_dies_while_idle_costs_nothing(tmp_path: Path) -> None:
    with ProcessWorkers(python(tmp_path), 1) as workers:
        pid = evaluated(workers, "pid")["pid"].value
        assert pid is not None
        os.kill(int(pid), signal.SIGKILL)
        assert gone(int(pid))
        assert evaluated(workers, "fine")["fine"].value == 1.5


def test_several_side_by_side(tmp_path: Path) -> None:
    with ProcessWorkers(python(tmp_path, timeout=30.0), 2) as workers:
        workers.submit(7, {"what": "hang"})
        workers.submit(8, {"what": "pid"})
        with pytest.raises(OptionError, match="all 2 workers are busy"):
            workers.submit(9, {"what": "pid"})
        assert set(finished(workers, 1)) == {8}
        assert workers.wait(0.0) == []
        workers.submit(9, {"what": "pid"})
        assert set(finished(workers, 1)) == {9}


def test_a_python_objective_that_takes_too_long_is_ended(tmp_path: Path) -> None:
    with ProcessWorkers(python(tmp_path, timeout=0.5), 1) as workers:
        outcomes = evaluated(workers, "hang", "fine")
    assert outcomes["hang"].error == "stopped after 0.5 s (timeout)"
    assert outcomes["fine"].value == 1.5


def test_a_failed_evaluation_is_tried_again(tmp_path: Path) -> None:
    with ProcessWorkers(python(tmp_path, retries=1), 1) as workers:
        outcomes = evaluated(workers, "flaky", "raise")
    assert outcomes["flaky"].value == 1.5
    assert outcomes["raise"].failed


def test_a_command_with_a_time_limit(tmp_path: Path) -> None:
    arguments = (sys.executable, "-c", "import time; time.sleep({seconds}); print(2)")
    with ProcessWorkers(CommandObjective(tmp_path, arguments=arguments, timeout=2.0), 1) as workers:
        workers.submit(0, {"seconds": 60})
        assert finished(workers, 1)[0].error == "stopped after 2 s (timeout)"
        workers.submit(1, {"seconds": 0})
        assert finished(workers, 1)[1].value == 2.0


@pytest.mark.parametrize("target", ["train:nothing", "not_a_module:run"])
def test_an_objective_that_cannot_be_loaded_is_said_at_once(tmp_path: Path, target: str) -> None:
    python(tmp_path)
    with ProcessWorkers(PythonObjective(tmp_path, target=target), 1) as workers:
        workers.submit(0, {"what": "pid"})
        with pytest.raises(StudyError, match=target.partition(":")[2] if "train" in target else "not_a_module"):
            finished(workers, 1)


@pytest.mark.parametrize("count", [0, -1, 1.5, True, None])
def test_the_number_of_workers_is_checked(tmp_path: Path, count: Any) -> None:
    with pytest.raises(OptionError, match="workers is a whole number at least 1"):
        ProcessWorkers(python(tmp_path), count)


def test_a_study_without_an_objective_has_nothing_to_run() -> None:
    with pytest.raises(StudyError, match="no objective to run"):
        ProcessWorkers(None, 1)


# A parent that evaluates for ever: a Python function, or a command with a child of its own.
PARENT = """\
import sys, time
from pathlib import Path
from dechbo.studies import CommandObjective, ProcessWorkers, PythonObjective
here = Path.cwd()
beat = "import time\\nwhile True:\\n open('beat', 'w').close(); time.sleep(0.05)"
if sys.argv[1] == "python":
    objective = PythonObjective(here, target="train:run")
else:
    objective = CommandObjective(here, arguments=(sys.executable, "-c", beat))
workers = ProcessWorkers(objective, 1)
workers.submit(0, {"what": "beat"})
while True:
    workers.wait(0.1)
    if (here / "beat").exists():
        print("beating", flush=True)
"""


def stopped(place: Path) -> bool:
    """Whether nobody writes the file any more."""
    for _ in range(100):
        place.unlink(missing_ok=True)
        time.sleep(0.4)
        if not place.exists():
            return True
    return False


@pytest.mark.parametrize("kind", ["python", "command"])
def test_children_end_with_their_parent_however_it_ends(tmp_path: Path, kind: str) -> None:
    python(tmp_path)
    parent = subprocess.Popen(
        [sys.executable, "-c", PARENT, kind], cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    assert parent.stdout is not None
    assert parent.stdout.readline() == "beating\n"
    parent.kill()
    parent.communicate()
    assert stopped(tmp_path / "beat")


def test_a_command_ends_with_a_child_that_is_killed(tmp_path: Path) -> None:
    beat = "import time\nwhile True:\n open('beat', 'w').close(); time.sleep(0.05)"
    with ProcessWorkers(CommandObjective(tmp_path, arguments=(sys.executable, "-c", beat)), 1) as workers:
        workers.submit(0, {})
        while not (tmp_path / "beat").exists():
            workers.wait(0.05)
        (child,) = children()
        os.kill(child, signal.SIGKILL)
        assert finished(workers, 1)[0].error == "the process died with signal 9 (SIGKILL)"
        assert stopped(tmp_path / "beat")


def test_closing_ends_what_runs(tmp_path: Path) -> None:
    beat = "import time\nwhile True:\n open('beat', 'w').close(); time.sleep(0.05)"
    workers = ProcessWorkers(CommandObjective(tmp_path, arguments=(sys.executable, "-c", beat)), 1)
    workers.submit(0, {})
    while not (tmp_path / "beat").exists():
        workers.wait(0.05)
    workers.close(kill=True)
    assert stopped(tmp_path / "beat")


def children() -> list[int]:
    """Our worker processes."""
    found = []
    for place in Path("/proc").glob("[0-9]*"):
        try:
            parent = int((place / "stat").read_text().rpartition(")")[2].split()[1])
            if parent == os.getpid() and b"dechbo.studies.child" in (place / "cmdline").read_bytes():
                found.append(int(place.name))
        except OSError:
            continue
    return found
