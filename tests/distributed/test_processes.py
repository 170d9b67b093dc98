from __future__ import annotations

import os
import pickle
import signal
import socket
import threading
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import numpy as np
import psutil
import pytest

from dechbo import ProcessEngine
from dechbo.distributed import processes
from dechbo.distributed.engine import PartsEngine
from dechbo.distributed.processes import ProcessTransport
from dechbo.errors import DataError, ExecutionError
from distributed_cases import Swap, random_data, random_gp


def test_large_messages_a_dead_part_and_an_error(tmp_path: Path) -> None:
    transport = ProcessTransport()
    first = transport.run([Swap(0), Swap(1)])
    assert [total for _, total in first] == [1e6, 0.0]
    assert [pid for pid, _ in first] == transport.pids
    assert os.getpid() not in transport.pids
    assert transport.traffic == {"swap": (2, 16 * 10**6), "end": (2, 16)}

    again = transport.run([Swap(0), Swap(1, str(tmp_path / "died"))])  # killed in the middle, once
    assert [total for _, total in again] == [1e6, 0.0]
    assert again[0][0] == first[0][0]  # the other worker lives on
    assert again[1][0] != first[1][0]

    with pytest.raises(DataError, match="no such luck"):
        transport.run([Swap(0), Swap(1, wrong=True)])
    assert [total for _, total in transport.run([Swap(0), Swap(1)])] == [1e6, 0.0]
    pids = transport.pids
    transport.close()
    assert not any(map(psutil.pid_exists, pids))
    with pytest.raises(ExecutionError, match="closed"):
        transport.run([Swap(0), Swap(1)])


def test_a_message_cut_short_is_that_of_a_dead_sender() -> None:
    ours, theirs = socket.socketpair()
    theirs.sendall((100).to_bytes(4, "big") + b"only a part of it")
    theirs.close()
    connection: Connection[Any, Any] = Connection(ours.detach())
    with pytest.raises(EOFError):
        processes._received(connection)
    connection.close()


def test_parts_in_processes_suggest_what_one_process_suggests() -> None:
    rng = np.random.default_rng(0)
    gp, data, candidates = random_gp(rng, 20), random_data(rng, 20, 30), [np.linspace(0, 1, 4)] * 20
    one = PartsEngine(parts=1).suggest(gp, data, 1.0, candidates)
    with ProcessEngine(parts=2) as engine:
        assert isinstance(pickle.loads(pickle.dumps(engine)).transport, ProcessTransport)  # of its own
        answer = engine.suggest(gp, data, 1.0, candidates)
    assert (answer.choice == one.choice).all()
    assert (answer.value, answer.rounds) == (one.value, one.rounds)


def test_a_part_that_dies_before_its_task_is_sent_holds_up_no_other(monkeypatch: pytest.MonkeyPatch) -> None:
    """The part after it is told of its death only once it has a task: it would wait for the one before it for ever."""
    rng = np.random.default_rng(2)
    gp, data, candidates = random_gp(rng, 9), random_data(rng, 9, 12), [np.linspace(0, 1, 3)] * 9
    one = PartsEngine(parts=1).suggest(gp, data, 1.0, candidates)
    with ProcessEngine(parts=3) as engine:
        assert isinstance(engine.transport, ProcessTransport)
        engine.suggest(gp, data, 1.0, candidates)
        os.kill(engine.transport.pids[1], signal.SIGKILL)
        psutil.Process(engine.transport.pids[1]).wait(10)
        start_missing, calls = ProcessTransport._start_missing, iter(range(2))

        def unaware(transport: ProcessTransport, many: int) -> None:
            if next(calls) > 0:  # the first attempt looked just before the part died
                start_missing(transport, many)

        monkeypatch.setattr(ProcessTransport, "_start_missing", unaware)
        answers: list[Any] = []
        asking = threading.Thread(target=lambda: answers.append(engine.suggest(gp, data, 1.0, candidates)), daemon=True)
        asking.start()
        asking.join(60)
        assert not asking.is_alive()
    assert (answers[0].choice == one.choice).all()
    assert next(calls, None) is None


@pytest.mark.system
def test_parts_killed_at_any_moment_are_rebuilt() -> None:
    rng = np.random.default_rng(1)
    gp, data, candidates = random_gp(rng, 60, centred=True), random_data(rng, 60, 80), [np.linspace(0, 1, 5)] * 60
    one = PartsEngine(parts=1).suggest(gp, data, 1.0, candidates)
    with ProcessEngine(parts=3) as engine:
        assert isinstance(engine.transport, ProcessTransport)
        engine.suggest(gp, data, 1.0, candidates)
        for n, delay in enumerate((0.0, 0.02, 0.05, 0.1, 0.15, 0.2)):
            victim = engine.transport.pids[n % 3]
            threading.Timer(delay, os.kill, (victim, signal.SIGKILL)).start()
            answer = engine.suggest(gp, data, 1.0, candidates)
            assert (answer.choice == one.choice).all()
            assert answer.value == one.value
