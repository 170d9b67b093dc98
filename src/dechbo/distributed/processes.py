"""Parts in processes of this machine: one worker each, Unix sockets between every two.

A worker lives from ask to ask and knows nothing between them. If one dies, the others find their sockets to it closed
and give the ask up; a new worker takes its place, and the ask is run again from the same data, with the same answer.
"""

from __future__ import annotations

import os
import pickle
import queue
import shutil
import socket
import subprocess
import sys
import tempfile
import threading
import weakref
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from multiprocessing.connection import Connection, wait
from pathlib import Path
from typing import Any

import numpy as np

from dechbo.distributed.exchange import Assignment, Payload, drive
from dechbo.errors import ExecutionError

START = (
    "import sys; sys.path[:] = {path!r}; from dechbo.distributed.processes import work; work({descriptor}, {folder!r})"
)
MAX_ATTEMPTS = 3  # of one ask, if workers die
LOST = (EOFError, ConnectionError, FileNotFoundError)  # the other end of a socket is gone
STOP_SECONDS = 5.0  # for idle workers to end


@dataclass(frozen=True, eq=False)
class _Run:
    """What a worker is told for one ask."""

    number: int
    part: int
    parts: int
    task: bytes


@dataclass(frozen=True, eq=False)
class _Answer:
    """What a worker answers; ``lost`` says that another part died."""

    result: Any = None
    account: dict[str, tuple[int, int]] | None = None
    lost: bool = False
    error: BaseException | None = None


class _Worker:
    """A worker process, seen from the parent."""

    def __init__(self, folder: Path) -> None:
        ours, theirs = socket.socketpair()
        descriptor = theirs.fileno()
        one_thread = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1")
        code = START.format(path=sys.path, descriptor=descriptor, folder=str(folder))
        with theirs:
            self.process = subprocess.Popen(  # a session of its own: Ctrl-C reaches the parent only
                [sys.executable, "-c", code],
                pass_fds=[descriptor],
                start_new_session=True,
                env={**os.environ, **one_thread},
            )
        self.control: Connection[Any, Any] = Connection(ours.detach())

    @property
    def alive(self) -> bool:
        return self.process.poll() is None

    def stop(self) -> None:
        """Closed sockets end an idle worker; what is still busy after a while is killed."""
        self.control.close()
        try:
            self.process.wait(STOP_SECONDS)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()


class ProcessTransport:
    """Runs each part in a process of its own; they start with the first ask and end with ``close``.

    ``traffic`` holds the number and the bytes of the arrays that the last ask sent, by kind.
    """

    def __init__(self) -> None:
        self.traffic: dict[str, tuple[int, int]] = {}
        self._folder = Path(tempfile.mkdtemp(prefix="dechbo-"))
        self._workers: list[_Worker] = []
        self._runs = 0
        self._finalizer = weakref.finalize(self, _end, self._workers, self._folder)

    def __reduce__(self) -> tuple[Any, ...]:
        return ProcessTransport, ()  # another process starts workers of its own

    @property
    def capacity(self) -> int:
        """The number of processors."""
        return os.cpu_count() or 1

    @property
    def pids(self) -> list[int]:
        """The process of each part."""
        return [worker.process.pid for worker in self._workers]

    def run(self, tasks: Sequence[Assignment]) -> list[Any]:
        """Run the program of every task; again if a worker died meanwhile."""
        pickled = [pickle.dumps(task, protocol=5) for task in tasks]
        for _ in range(MAX_ATTEMPTS):
            answers = self._attempt(pickled)
            for answer in answers:
                if answer is not None and answer.error is not None:
                    raise answer.error
            if all(answer is not None and not answer.lost for answer in answers):
                self.traffic = added(answer.account for answer in answers if answer is not None)
                return [answer.result for answer in answers if answer is not None]
        raise ExecutionError(f"processes of parts died in each of {MAX_ATTEMPTS} attempts: is there enough memory?")

    def close(self) -> None:
        """End the workers."""
        self._finalizer()

    def _attempt(self, tasks: Sequence[bytes]) -> list[_Answer | None]:
        """The answer of every part; None for one that died."""
        self._start_missing(len(tasks))
        self._runs += 1
        workers = self._workers[: len(tasks)]
        answers: dict[int, _Answer | None] = {}

        def lost(part: int) -> None:
            answers[part] = None
            workers[part].control.close()

        for part, (worker, task) in enumerate(zip(workers, tasks, strict=True)):
            try:
                worker.control.send(_Run(self._runs, part, len(tasks), task))
            except LOST:
                lost(part)
        if answers:  # only now: a part that hears of it before its task would wait for others that gave up
            _tell(workers, self._runs)
        while len(answers) < len(tasks):
            waiting = {worker.control: part for part, worker in enumerate(workers) if part not in answers}
            for control in wait(list(waiting)):
                assert isinstance(control, Connection)
                try:
                    answers[waiting[control]] = pickle.loads(_received(control))
                except LOST:
                    lost(waiting[control])
                    _tell(workers, self._runs)
        return [answers[part] for part in range(len(tasks))]

    def _start_missing(self, many: int) -> None:
        if not self._finalizer.alive:
            raise ExecutionError("this transport is closed: make a new engine")
        for n in range(many):
            if n == len(self._workers):
                self._workers.append(_Worker(self._folder))
            elif not self._workers[n].alive or self._workers[n].control.closed:
                self._workers[n].stop()
                self._workers[n] = _Worker(self._folder)


def added(accounts: Any) -> dict[str, tuple[int, int]]:
    """The sum of several parts' accounts."""
    total: dict[str, tuple[int, int]] = {}
    for account in accounts:
        for kind, (count, size) in account.items():
            before = total.get(kind, (0, 0))
            total[kind] = before[0] + count, before[1] + size
    return total


def _tell(workers: Sequence[_Worker], run: int) -> None:
    """Tell the others that a part died in this ``run``: one that waits for it to connect would wait for ever."""
    for worker in workers:
        if not worker.control.closed:
            with suppress(*LOST):
                worker.control.send(run)


def _end(workers: list[_Worker], folder: Path) -> None:
    for worker in workers:
        worker.control.close()
    for worker in workers:
        worker.stop()
    shutil.rmtree(folder, ignore_errors=True)


# ------------------------------------------------------------------ in the worker


def work(descriptor: int, folder: str) -> None:
    """Run what the parent sends until it closes the socket."""
    control: Connection[Any, Any] = Connection(descriptor)
    while True:
        try:
            run = control.recv()
            if not isinstance(run, _Run):
                continue  # the end of a run that is over
            control.send(_answered(run, control, Path(folder)))
        except LOST:
            return


def _answered(run: _Run, control: Connection[Any, Any], folder: Path) -> _Answer:
    account: dict[str, tuple[int, int]] = {}
    mesh = _Mesh(folder, run)
    try:
        mesh.connect(control)
        task: Assignment = pickle.loads(run.task)
        return _Answer(drive(task.program(), mesh.post, mesh.fetch, account), account)
    except LOST:
        return _Answer(lost=True)
    except Exception as error:
        return _Answer(error=error)
    finally:
        mesh.close()


def _received(connection: Connection[Any, Any]) -> bytes:
    """The next message; EOFError if the sender died, also in the middle of it."""
    try:
        return connection.recv_bytes()
    except OSError as error:
        if type(error) is OSError:  # "got end of file during message"
            raise EOFError(str(error)) from error
        raise


class _Mesh:
    """The sockets to all other parts, for one run; a thread sends, so that two parts may send to each other at once."""

    def __init__(self, folder: Path, run: _Run) -> None:
        self._run, self._folder = run, folder
        self._peers: dict[int, Connection[Any, Any]] = {}
        self._outgoing: queue.SimpleQueue[tuple[int, bytes] | None] = queue.SimpleQueue()
        self._sender = threading.Thread(target=self._send, daemon=True)
        self._listener = socket.socket(socket.AF_UNIX)
        self._listener.bind(str(self._address(run.part)))
        self._listener.listen(run.parts)

    def connect(self, control: Connection[Any, Any]) -> None:
        """Call the parts below this one, and wait for the calls of those above it."""
        for part in range(self._run.part):
            self._peers[part] = self._call(part, control)
            self._peers[part].send(self._run.part)
        while len(self._peers) < self._run.parts - 1:
            if control in wait([self._listener, control]) and control.recv() == self._run.number:
                raise ConnectionResetError("a part died")
            if wait([self._listener], 0):
                peer: Connection[Any, Any] = Connection(self._listener.accept()[0].detach())
                self._peers[peer.recv()] = peer
        self._sender.start()

    def _call(self, part: int, control: Connection[Any, Any]) -> Connection[Any, Any]:
        """Connect to a part as soon as it listens."""
        while True:
            caller = socket.socket(socket.AF_UNIX)
            try:
                caller.connect(str(self._address(part)))
                return Connection(caller.detach())
            except (FileNotFoundError, ConnectionRefusedError):
                caller.close()
                if wait([control], 0.005) and control.recv() == self._run.number:
                    raise ConnectionResetError("a part died") from None

    def post(self, receiver: int, payload: Payload) -> None:
        """Send; the array is copied at once."""
        self._outgoing.put((receiver, pickle.dumps(np.ascontiguousarray(payload), protocol=5)))

    def fetch(self, sender: int) -> Payload:
        """Wait for the next array of ``sender``."""
        payload: Payload = pickle.loads(_received(self._peers[sender]))
        return payload

    def close(self) -> None:
        """Close all sockets, which tells the others if the run is not over."""
        self._outgoing.put(None)
        if self._sender.ident is not None:
            self._sender.join(STOP_SECONDS)  # what is on its way to a living part still arrives
        self._listener.close()
        self._address(self._run.part).unlink(missing_ok=True)
        for peer in self._peers.values():
            peer.close()

    def _send(self) -> None:
        while (item := self._outgoing.get()) is not None:
            with suppress(*LOST, OSError):  # a dead part is noticed where its messages are awaited
                self._peers[item[0]].send_bytes(item[1])

    def _address(self, part: int) -> Path:
        return self._folder / f"{self._run.number}-{part}"
