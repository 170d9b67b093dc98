"""ProcessExecutor: children that crash, hang or die while idle, and none that outlives its parent."""

from __future__ import annotations

import importlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import CancelledError
from pathlib import Path
from typing import Any

import pytest

from dechbo.errors import ExecutionError, OptionError, StudyError, WorkerDied
from dechbo.execution import Outcome, ProcessExecutor, process, report_progress
from dechbo.execution.process import usable_cores
from dechbo.studies import CommandObjective, PythonObjective
from process_cases import children, gone

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


def evaluated(executor: ProcessExecutor, *whats: str) -> dict[str, Outcome]:
    """Evaluate one by one."""
    outcomes = {}
    for number, what in enumerate(whats):
        executor.submit(number, {"what": what})
        outcomes[what] = finished(executor, 1)[number]
    return outcomes


def finished(executor: ProcessExecutor, count: int) -> dict[int, Outcome]:
    done: dict[int, Outcome] = {}
    give_up = time.monotonic() + 60
    while len(done) < count:
        assert time.monotonic() < give_up, done
        done.update(executor.wait(5.0))
    return done


def test_one_child_evaluates_one_trial_after_the_other(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OPENBLAS_NUM_THREADS", raising=False)
    with ProcessExecutor(python(tmp_path), 1) as executor:
        first = evaluated(executor, "pid", "raise", "print", "session", "threads", "stdin")
        again = evaluated(executor, "pid")
        pid = first["pid"].value
        assert pid is not None
        assert pid != os.getpid()
        assert pid == again["pid"].value  # an exception costs no process
        assert first["print"].value == 1.5
        assert first["session"].value == 1.0  # Ctrl-C does not reach it
        assert first["threads"].value == usable_cores()  # all to itself
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
    with ProcessExecutor(python(tmp_path), 2 * usable_cores()) as executor:
        assert evaluated(executor, "threads")["threads"].value == 1.0


def test_the_user_decides_over_threads(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENBLAS_NUM_THREADS", "4")
    with ProcessExecutor(python(tmp_path), 1) as executor:
        assert evaluated(executor, "threads")["threads"].value == 4.0


def test_files_beside_the_objective_do_not_get_in_the_way_of_python(tmp_path: Path) -> None:
    for name in ("queue", "signal", "socket", "threading", "dechbo"):
        (tmp_path / f"{name}.py").write_text("raise ImportError('not this one')\n")
    with ProcessExecutor(python(tmp_path), 1) as executor:
        assert evaluated(executor, "fine")["fine"].value == 1.5


def test_a_child_that_dies_is_a_failed_evaluation_and_another_takes_its_place(tmp_path: Path) -> None:
    with ProcessExecutor(python(tmp_path), 1) as executor:
        outcomes = evaluated(executor, "segfault", "exit", "fork", "fine")
    assert outcomes["segfault"].error == "the process died with signal 11 (SIGSEGV)"
    assert outcomes["exit"].error == "the process ended with exit code 3"
    assert outcomes["fork"].error == "the process died with signal 9 (SIGKILL)"
    assert all(isinstance(outcomes[what].exception, WorkerDied) for what in ("segfault", "exit", "fork"))
    assert outcomes["fine"].value == 1.5


def test_a_child_that_dies_while_idle_costs_nothing(tmp_path: Path) -> None:
    with ProcessExecutor(python(tmp_path), 1) as executor:
        pid = evaluated(executor, "pid")["pid"].value
        assert pid is not None
        os.kill(int(pid), signal.SIGKILL)
        assert gone(int(pid))
        assert evaluated(executor, "fine")["fine"].value == 1.5


def test_several_side_by_side(tmp_path: Path) -> None:
    with ProcessExecutor(python(tmp_path, timeout=30.0), 2) as executor:
        executor.submit(7, {"what": "hang"})
        executor.submit(8, {"what": "pid"})
        with pytest.raises(OptionError, match="all 2 workers are busy"):
            executor.submit(9, {"what": "pid"})
        assert set(finished(executor, 1)) == {8}
        assert executor.wait(0.0) == []
        executor.submit(9, {"what": "pid"})
        assert set(finished(executor, 1)) == {9}


def test_a_python_objective_that_takes_too_long_is_ended(tmp_path: Path) -> None:
    with ProcessExecutor(python(tmp_path, timeout=0.5), 1) as executor:
        outcomes = evaluated(executor, "hang", "fine")
    assert outcomes["hang"].error == "stopped after 0.5 s (timeout)"
    assert isinstance(outcomes["hang"].exception, TimeoutError)
    assert outcomes["fine"].value == 1.5


def test_a_failed_evaluation_is_tried_again(tmp_path: Path) -> None:
    with ProcessExecutor(python(tmp_path, retries=1), 1) as executor:
        outcomes = evaluated(executor, "flaky", "raise")
    assert outcomes["flaky"].value == 1.5
    assert outcomes["raise"].failed


def test_a_command_with_a_time_limit(tmp_path: Path) -> None:
    arguments = (sys.executable, "-c", "import time; time.sleep({seconds}); print(2)")
    with ProcessExecutor(CommandObjective(tmp_path, arguments=arguments, timeout=2.0), 1) as executor:
        executor.submit(0, {"seconds": 60})
        assert finished(executor, 1)[0].error == "stopped after 2 s (timeout)"
        executor.submit(1, {"seconds": 0})
        assert finished(executor, 1)[1].value == 2.0


@pytest.mark.parametrize("target", ["train:nothing", "not_a_module:run"])
def test_an_objective_that_cannot_be_loaded_is_said_at_once(tmp_path: Path, target: str) -> None:
    python(tmp_path)
    with ProcessExecutor(PythonObjective(tmp_path, target=target), 1) as executor:
        executor.submit(0, {"what": "pid"})
        with pytest.raises(StudyError, match=target.partition(":")[2] if "train" in target else "not_a_module"):
            finished(executor, 1)


@pytest.mark.parametrize("count", [0, -1, 1.5, True, None])
def test_the_number_of_workers_is_checked(tmp_path: Path, count: Any) -> None:
    with pytest.raises(OptionError, match="workers must be a whole number of at least 1"):
        ProcessExecutor(python(tmp_path), count)


def test_a_study_without_an_objective_has_nothing_to_run() -> None:
    with pytest.raises(OptionError, match="no objective to run"):
        ProcessExecutor(None, 1)


def test_a_cancelled_task_ends_and_its_place_is_free(tmp_path: Path) -> None:
    with ProcessExecutor(python(tmp_path, retries=1), 1) as executor:
        executor.submit(0, {"what": "beat"})
        while not (tmp_path / "beat").exists():
            executor.wait(0.05)
        executor.cancel(0)
        outcome = finished(executor, 1)[0]
        assert outcome.error == "cancelled"
        assert isinstance(outcome.exception, CancelledError)
        assert stopped(tmp_path / "beat")
        assert evaluated(executor, "fine")["fine"].value == 1.5


def test_closing_lets_a_running_task_finish(tmp_path: Path) -> None:
    executor = ProcessExecutor(python(tmp_path), 1)
    executor.submit(0, {"what": "print"})
    executor.close()
    assert "a word from the objective\n" in (tmp_path / "study.log").read_text()
    assert children() == []


COUNTING = """\
import os
from dechbo.execution import report_progress

def count_up(params):
    for step in range(params["steps"]):
        report_progress((step, "made"))
    return float(os.environ["ANSWER"])
"""


def test_progress_and_an_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "counting.py").write_text(COUNTING)
    monkeypatch.syspath_prepend(str(tmp_path))
    count_up = importlib.import_module("counting").count_up
    with ProcessExecutor(count_up, environment={"ANSWER": "42"}) as executor:
        executor.submit(7, {"steps": 3})
        assert finished(executor, 1)[7].value == 42.0
        assert executor.progress() == [(7, (step, "made")) for step in range(3)]
        assert executor.progress() == []
    report_progress("nobody hears it")  # not in a worker


# Objectives that are defined beside a test: a worker imports them by name.
ODD = """\
import atexit, os, sys, threading, time
from dechbo.execution import Outcome, report_progress

class LoadExits:
    def load(self):
        sys.exit(0)

    def __call__(self, params):
        return 0.0

class LoadFails(LoadExits):
    def load(self):
        raise KeyError("no such table")

load_exits, load_fails = LoadExits(), LoadFails()

def talking(params):
    end = time.monotonic() + 30
    while time.monotonic() < end:
        report_progress("still there")
        time.sleep(params["pause"])
    return 1.0

talking.timeout = 0.5

def unsendable(params):
    return Outcome(lambda: None)

def at_exit(params):
    if params["seconds"]:
        time.sleep(params["seconds"])
    atexit.register(lambda: (time.sleep(params["pause"]), open(params["file"], "w").close()))
    return float(os.getpid())

def many_threads(params):
    def talk(k):
        for step in range(50):
            report_progress(bytes([k]) * 50_000)  # more than a pipe takes at once
    threads = [threading.Thread(target=talk, args=(k,)) for k in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return 1.0

def forking(params):
    pid = os.fork()
    if pid == 0:
        report_progress("from the fork")
        os._exit(0)
    os.waitpid(pid, 0)
    report_progress("from the worker")
    return 1.0
"""


@pytest.fixture
def odd(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    (tmp_path / "odd_objectives.py").write_text(ODD)
    monkeypatch.syspath_prepend(str(tmp_path))
    yield importlib.import_module("odd_objectives")
    del sys.modules["odd_objectives"]


def test_an_objective_that_exits_while_it_loads_is_an_error_here(odd: Any) -> None:
    with ProcessExecutor(odd.load_exits) as executor:
        executor.submit(0, {})
        with pytest.raises(OptionError, match=r"load\(\) raised SystemExit: 0"):
            finished(executor, 1)
    with ProcessExecutor(odd.load_fails) as executor:  # an ordinary error stays what it is
        executor.submit(0, {})
        with pytest.raises(KeyError, match="no such table"):
            finished(executor, 1)


def test_what_a_worker_raises_never_ends_this_process(odd: Any) -> None:
    with ProcessExecutor(odd.forking) as executor:
        executor.submit(0, {})
        (worker,) = executor._workers
        broken = Outcome.failure("Traceback", exception=SystemExit(0))
        with pytest.raises(ExecutionError, match="a worker process cannot start: SystemExit: 0"):
            executor._handle_message(worker, "broken", broken)


@pytest.mark.parametrize("pause", [0.01, 0.0])
def test_a_task_that_reports_progress_all_the_time_has_a_time_limit_too(odd: Any, pause: float) -> None:
    with ProcessExecutor(odd.talking) as executor:
        executor.submit(0, {"pause": pause})
        ((_, outcome),) = executor.wait(600.0)
        assert isinstance(outcome.exception, TimeoutError)
        assert (0, "still there") in executor.progress()


def test_a_value_that_cannot_be_pickled_is_no_crash(odd: Any) -> None:
    with ProcessExecutor(odd.unsendable) as executor:
        executor.submit(0, {})
        outcome = finished(executor, 1)[0]
        (worker,) = children()
        executor.submit(1, {})
        finished(executor, 1)
        assert children() == [worker]
    assert isinstance(outcome.exception, TypeError)
    assert str(outcome.error).startswith("the value cannot be sent to another process: ")


def test_idle_workers_run_their_exit_handlers_and_running_ones_are_killed(odd: Any, tmp_path: Path) -> None:
    files = [tmp_path / "idle", tmp_path / "running"]
    with ProcessExecutor(odd.at_exit, 2) as executor:
        executor.submit(1, {"seconds": 600.0, "pause": 0.0, "file": str(files[1])})
        executor.submit(0, {"seconds": 0.0, "pause": 0.0, "file": str(files[0])})
        finished(executor, 1)
    assert [file.exists() for file in files] == [True, False]
    assert children() == []


def test_a_worker_whose_exit_takes_too_long_is_killed(
    odd: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(process, "STOP_SECONDS", 0.2)
    executor = ProcessExecutor(odd.at_exit)
    executor.submit(0, {"seconds": 0.0, "pause": 600.0, "file": str(tmp_path / "never")})
    finished(executor, 1)
    executor.close()
    assert children() == []
    assert not (tmp_path / "never").exists()


def test_threads_of_an_objective_may_report_progress(odd: Any) -> None:
    with ProcessExecutor(odd.many_threads) as executor:
        executor.submit(0, {})
        assert finished(executor, 1)[0].value == 1.0
        progress = sorted(content for _, content in executor.progress())
    assert progress == [bytes([k]) * 50_000 for k in range(4) for _ in range(50)]


def test_a_process_that_an_objective_forks_sends_nothing(odd: Any) -> None:
    with ProcessExecutor(odd.forking) as executor:
        executor.submit(0, {})
        assert finished(executor, 1)[0].value == 1.0
        assert executor.progress() == [(0, "from the worker")]


def test_a_worker_in_another_folder_finds_modules_on_a_relative_path(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("library", "elsewhere"):
        (tmp_path / name).mkdir()
    code = "from pathlib import Path\ndef run(params): return 2.5\nrun.folder = Path('elsewhere')\n"
    (tmp_path / "library" / "relative_module.py").write_text(code)
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend("library")
    with ProcessExecutor(importlib.import_module("relative_module").run) as executor:
        executor.submit(0, {})
        assert finished(executor, 1)[0].value == 2.5


def test_workers_share_the_cores_that_this_process_may_use(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OPENBLAS_NUM_THREADS", raising=False)
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: set(range(6)), raising=False)
    with ProcessExecutor(python(tmp_path), 2) as executor:
        assert evaluated(executor, "threads")["threads"].value == 3.0


# A script whose objective is defined in it: workers import the script.
SCRIPT = """\
from dechbo.execution import ProcessExecutor

class Odd(Exception):
    pass

def objective(params):
    if params["x"] < 0:
        raise Odd("negative")
    return params["x"] ** 2

def main():
    with ProcessExecutor(objective, 2) as executor:
        executor.submit(0, {"x": 3})
        print([outcome.value for _, outcome in executor.wait(60.0)])
        executor.submit(1, {"x": -1})
        print([isinstance(outcome.exception, Odd) for _, outcome in executor.wait(60.0)])

GUARD
    main()
"""


def test_an_objective_of_the_script_itself(tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text(SCRIPT.replace("GUARD", 'if __name__ == "__main__":'))
    done = subprocess.run([sys.executable, str(script)], capture_output=True, text=True, timeout=120)
    assert done.stdout == "[9.0]\n[True]\n", done.stderr


def test_a_script_that_starts_workers_when_it_is_imported_is_told_so(tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text(SCRIPT.replace("GUARD", "if True:"))
    done = subprocess.run([sys.executable, str(script)], capture_output=True, text=True, timeout=120)
    assert done.returncode == 1
    assert "OptionError: a worker process imports the script" in done.stderr
    assert 'if __name__ == "__main__":' in done.stderr.splitlines()[-1]


def test_a_worker_imports_nothing_heavy(tmp_path: Path) -> None:
    code = "import sys\ndef run(): return sum(name in sys.modules for name in ('numpy', 'scipy', 'optuna', 'ray'))\n"
    (tmp_path / "light.py").write_text(code)
    with ProcessExecutor(PythonObjective(tmp_path, target="light:run")) as executor:
        executor.submit(0, {})
        assert finished(executor, 1)[0].value == 0.0


# A parent that evaluates for ever: a Python function, or a command with a child of its own.
PARENT = """\
import sys, time
from pathlib import Path
from dechbo.execution import ProcessExecutor
from dechbo.studies import CommandObjective, PythonObjective
here = Path.cwd()
beat = "import time\\nwhile True:\\n open('beat', 'w').close(); time.sleep(0.05)"
if sys.argv[1] == "python":
    objective = PythonObjective(here, target="train:run")
else:
    objective = CommandObjective(here, arguments=(sys.executable, "-c", beat))
executor = ProcessExecutor(objective, 1)
executor.submit(0, {"what": "beat"})
while True:
    executor.wait(0.1)
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
    with ProcessExecutor(CommandObjective(tmp_path, arguments=(sys.executable, "-c", beat)), 1) as executor:
        executor.submit(0, {})
        while not (tmp_path / "beat").exists():
            executor.wait(0.05)
        (child,) = children()
        os.kill(child, signal.SIGKILL)
        assert finished(executor, 1)[0].error == "the process died with signal 9 (SIGKILL)"
        assert stopped(tmp_path / "beat")


def test_closing_ends_what_runs(tmp_path: Path) -> None:
    beat = "import time\nwhile True:\n open('beat', 'w').close(); time.sleep(0.05)"
    executor = ProcessExecutor(CommandObjective(tmp_path, arguments=(sys.executable, "-c", beat)), 1)
    executor.submit(0, {})
    while not (tmp_path / "beat").exists():
        executor.wait(0.05)
    executor.close(kill=True)
    assert stopped(tmp_path / "beat")
