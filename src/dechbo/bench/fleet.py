"""A fleet of worker processes that make runs side by side: one thread each, watched, replaced when one dies."""

from __future__ import annotations

import multiprocessing
import os
import signal
import threading
import time
from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Protocol

from dechbo.bench.peers import ONE_THREAD
from dechbo.bench.records import Run, RunRecord

NOT_RUN = "not run"


class Audience(Protocol):
    """Who hears how the work goes on."""

    def started(self, run: Run) -> None:
        """A worker took up the run."""
        ...

    def step(self, run: Run, done: int, regret: float) -> None:
        """One more evaluation is on disk."""
        ...

    def over(self, run: Run, status: str, regret: float, seconds: float) -> None:
        """The run has its record, or has not (status "not run: …") for a reason that is not the method's."""
        ...

    def tick(self) -> None:
        """Nothing happened for a moment."""
        ...


def work_off(runs: Sequence[Run], results: Path, *, workers: int, cpu_limit: float | None, audience: Audience) -> None:
    """Make all ``runs``, in this order, ``workers`` at a time; Ctrl-C stops them and leaves nothing running."""
    waiting = deque(runs)
    fleet = [_Hand(results, cpu_limit) for _ in range(min(workers, len(runs)))]
    try:
        for hand in fleet:
            hand.give(waiting.popleft(), audience)
        while any(hand.run for hand in fleet):
            ready = wait([hand.pipe for hand in fleet if hand.run], timeout=0.5)
            audience.tick()
            for hand in fleet:
                if hand.pipe in ready and hand.hear(audience) and waiting:
                    hand.give(waiting.popleft(), audience)
    finally:
        for hand in fleet:
            hand.stop()


@dataclass(frozen=True)
class _Progress:
    done: int
    regret: float


@dataclass(frozen=True)
class _Over:
    status: str
    regret: float


class _Hand:
    """One worker as the supervisor sees it: its process, its pipe and the run it is at."""

    def __init__(self, results: Path, cpu_limit: float | None) -> None:
        self.results, self.cpu_limit = results, cpu_limit
        self.run: Run | None = None
        self._started = 0.0
        self._start()

    def _start(self) -> None:
        context = multiprocessing.get_context("spawn")
        self.pipe, theirs = context.Pipe()
        self._process: BaseProcess = context.Process(
            target=_work, args=(theirs, self.results, self.cpu_limit), daemon=True
        )
        with _one_thread():
            self._process.start()
        theirs.close()

    def give(self, run: Run, audience: Audience) -> None:
        """Let it make ``run``."""
        self.run, self._started = run, time.perf_counter()
        audience.started(run)
        self.pipe.send(run)

    def hear(self, audience: Audience) -> bool:
        """Pass on what it says; True once its run is over."""
        assert self.run is not None
        try:
            news = self.pipe.recv()
        except (EOFError, OSError):
            news = self._bury()
        if isinstance(news, _Progress):
            audience.step(self.run, news.done, news.regret)
            return False
        audience.over(self.run, news.status, news.regret, time.perf_counter() - self._started)
        self.run = None
        return True

    def _bury(self) -> _Over:
        """The process died in the middle of a run: record that, and start another one."""
        from dechbo.bench.runner import record_crash

        assert self.run is not None
        self._process.join()
        code = self._process.exitcode or 0
        how = f"killed by {signal.Signals(-code).name}" if code < 0 else f"exit code {code}"
        record = record_crash(self.run, self.results, f"its process died ({how})")
        self.pipe.close()
        self._start()
        return _Over(record.status, record.final_regret)

    def stop(self) -> None:
        """End the process; what it was at stays on disk."""
        self._process.terminate()
        self._process.join(5.0)
        if self._process.is_alive():
            self._process.kill()
            self._process.join()
        self.pipe.close()


def _work(pipe: Connection, results: Path, cpu_limit: float | None) -> None:
    """The life of a worker process."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is the supervisor's
    signal.signal(signal.SIGTERM, _leave)
    threading.Thread(target=_die_with_parent, daemon=True).start()
    from dechbo.bench.runner import execute

    while True:
        try:
            run: Run = pipe.recv()
        except EOFError:
            return
        try:
            record: RunRecord = execute(
                run,
                results,
                cpu_limit=cpu_limit,
                report=lambda done, regret: pipe.send(_Progress(done, regret)),
            )
            pipe.send(_Over(record.status, record.final_regret))
        except Exception as error:  # not the method's fault: nothing is recorded, and the run can be made again
            pipe.send(_Over(f"{NOT_RUN}: {error}", float("inf")))


def _leave(number: int, frame: object) -> None:
    raise SystemExit(0)


def _die_with_parent() -> None:
    """Nobody may write to a run that the next bench takes up: a worker ends with its supervisor, even a killed one."""
    parent = multiprocessing.parent_process()
    assert parent is not None
    wait([parent.sentinel])
    os._exit(1)


@contextmanager
def _one_thread() -> Iterator[None]:
    """Threads are counted when NumPy is first imported: a process started here will count one."""
    before = {name: os.environ.get(name) for name in ONE_THREAD}
    os.environ.update(ONE_THREAD)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value
