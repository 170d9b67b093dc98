"""Start, run and kill worker processes: the parts that no library covers.

What is done by hand here, and why:

* ``start`` uses ``subprocess``, not ``multiprocessing``: NumPy reads its number of threads once, so the environment has
  to be right before Python starts; a worker has its own output file and folder; the user's script is imported only if
  the objective is defined in it.
* A worker leads a *session* of its own. Ctrl-C in a terminal reaches the parent only, and ``kill_session`` finds all
  that an evaluation has started, in any process group, even after the worker itself died.
* ``_WorkerLoop`` watches its parent (the only watcher there is): a worker ends with its parent even if that is killed
  with SIGKILL, and takes its session along.

Child processes import this module: it imports nothing heavy. Covered by tests/execution/test_process.py.
"""

from __future__ import annotations

import os
import pickle
import queue
import signal
import socket
import subprocess
import sys
import threading
import traceback
from collections.abc import Mapping
from contextlib import AbstractContextManager, nullcontext, suppress
from multiprocessing import spawn
from multiprocessing.connection import Connection
from pathlib import Path
from typing import IO, Any

import psutil

from dechbo.errors import DechboError, OptionError
from dechbo.execution.outcome import Outcome, evaluate

START = "import sys; sys.path[:] = {path!r}; from dechbo.execution.child import main; main({descriptor})"
PARENT_CHECK_SECONDS = 1.0  # between two checks that the parent is alive
STOP = None  # sent instead of a task: the worker ends as a Python program does

importing_script = False  # in a worker that imports the user's script, which must not start workers itself
_worker: _WorkerLoop | None = None  # of this process, if it is one


# ------------------------------------------------------------------ in the parent


def pickled(objective: object) -> bytes:
    """The objective and, if it is defined in the user's script, where that script is."""
    try:
        data = pickle.dumps(objective)
    except Exception as error:
        raise OptionError(
            f"the objective goes to other processes, but it (or an argument) cannot be pickled ({error}): define it at "
            f"the top of a module (no lambda, no function within a function), or use threads instead of processes"
        ) from error
    script = spawn.get_preparation_data("worker") if b"__main__" in data else {}
    return pickle.dumps(({name: script[name] for name in script if name.startswith("init_main")}, data))


def start(
    objective: bytes, environment: Mapping[str, str], folder: Path | None, log: Path | None
) -> tuple[subprocess.Popen[bytes], Connection]:
    """A new worker process, and the connection to it; the worker loads ``objective`` first."""
    ours, theirs = socket.socketpair()
    with theirs, _output(log) as output:
        code = START.format(path=[os.path.abspath(entry) for entry in sys.path], descriptor=theirs.fileno())
        process = subprocess.Popen(
            [sys.executable, "-P", "-c", code],
            cwd=folder,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=None if output is None else subprocess.STDOUT,
            env={**environment, "PYTHONUNBUFFERED": "1"},
            pass_fds=[theirs.fileno()],
            start_new_session=True,
        )
    connection = Connection(ours.detach())
    with suppress(OSError):  # it died at once: the first reading of the connection finds out
        connection.send_bytes(objective)
    return process, connection


def kill_session(leader: int) -> None:
    """Kill the processes of a session except the caller, until no new ones appear."""
    killed = {os.getpid()}
    while found := {pid for pid in psutil.pids() if _session(pid) == leader} - killed:
        for pid in found:
            with suppress(ProcessLookupError, PermissionError):
                os.kill(pid, signal.SIGKILL)
        killed |= found


def exit_reason(code: int) -> str:
    """How a process ended."""
    if code >= 0:
        return f"ended with exit code {code}"
    try:
        return f"died with signal {-code} ({signal.Signals(-code).name})"
    except ValueError:
        return f"died with signal {-code}"


def _session(pid: int) -> int | None:
    try:
        return os.getsid(pid)
    except OSError:
        return None


def _output(log: Path | None) -> AbstractContextManager[IO[bytes] | None]:
    if log is None:
        return nullcontext()  # this process's own
    try:
        return open(log, "ab")
    except OSError:
        return open(os.devnull, "wb")


# ------------------------------------------------------------------- in the child


class _WorkerLoop:
    """The child's end of the connection: tasks come in, messages go out; if the parent is gone, everything ends."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._pid = os.getpid()
        self._sending = threading.Lock()  # threads of the objective may report progress too
        self._received: queue.SimpleQueue[bytes] = queue.SimpleQueue()
        self._parent = os.getppid()
        threading.Thread(target=self._listen, daemon=True).start()

    def work(self) -> None:
        """Load the objective, then evaluate tasks until the parent sends STOP."""
        try:
            objective = _load(self._received.get())
        except BaseException as error:
            self.send("broken", Outcome.failure(traceback.format_exc(), exception=error).portable())
            return
        self.send("ready")
        while (task := pickle.loads(self._received.get())) is not STOP:
            number, params = task
            os.environ["DECHBO_TRIAL"] = str(number)
            self.send("started")
            outcome = evaluate(objective, params).portable()
            sys.stdout.flush()
            sys.stderr.flush()
            self.send("finished", outcome)

    def send(self, kind: str, content: object = None) -> None:
        """Send a message to the parent; in a process that the objective has forked, do nothing."""
        if os.getpid() == self._pid:
            with self._sending:
                self._connection.send((kind, content))

    def _listen(self) -> None:
        try:
            while True:
                # a process that the parent has forked may hold its end open: check the parent's id as well
                while not self._connection.poll(PARENT_CHECK_SECONDS):
                    if os.getppid() != self._parent:
                        raise EOFError
                self._received.put(self._connection.recv_bytes())
        finally:
            kill_session(os.getpid())
            os._exit(1)


def report_progress(content: object) -> None:
    """In a worker process, in any thread: send ``content`` to ``ProcessExecutor.progress``; elsewhere do nothing."""
    if _worker is not None:
        _worker.send("progress", content)


def main(descriptor: int) -> None:
    """The life of a worker process."""
    global _worker
    os.set_inheritable(descriptor, False)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    _worker = _WorkerLoop(Connection(descriptor))
    _worker.work()


def _load(data: bytes) -> Any:
    global importing_script
    try:
        script, objective_data = pickle.loads(data)
        importing_script = True
        spawn.prepare(script)
        objective = pickle.loads(objective_data)
    except DechboError:
        raise
    except BaseException as error:  # also SystemExit, of a script that ends with sys.exit
        raise OptionError(
            f"the objective cannot be loaded in a worker process ({type(error).__name__}: {error}): define it in a "
            'file, not in a notebook nor at the prompt, with what that file runs under if __name__ == "__main__":, or '
            "use threads instead of processes"
        ) from error
    finally:
        importing_script = False
    if hasattr(objective, "load"):
        try:
            objective.load()
        except Exception:
            raise
        except BaseException as error:
            raise OptionError(f"the objective's load() raised {type(error).__name__}: {error}") from error
    return objective
