"""A worker process: reads parameters from its parent, evaluates, answers; ends when its parent does.

Started as ``python -m dechbo.studies.child DESCRIPTOR``. Imports nothing but the objective.
"""

from __future__ import annotations

import os
import queue
import signal
import sys
import threading
from multiprocessing.connection import Connection
from typing import Any

from dechbo.studies.outcome import Outcome
from dechbo.studies.process import kill_group


class Child:
    """One end of the talk: tasks come in, answers go out, silence from the parent ends everything."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._tasks: queue.SimpleQueue[Any] = queue.SimpleQueue()
        self._group: int | None = None  # of the command that runs now
        self._parent = os.getppid()
        threading.Thread(target=self._listen, daemon=True).start()

    def work(self) -> None:
        """Load the objective, then evaluate what comes."""
        objective = self._tasks.get()
        try:
            if hasattr(objective, "load"):
                objective.load()
        except BaseException as error:
            self._connection.send(("broken", str(error)))
            return
        self._connection.send(("ready", None))
        while True:
            number, params = self._tasks.get()
            self._connection.send(("started", number))
            outcome = self._evaluate(objective, number, params)
            sys.stdout.flush()
            sys.stderr.flush()
            self._connection.send(("finished", outcome))

    def _evaluate(self, objective: Any, number: int, params: dict[str, Any]) -> Outcome:
        if hasattr(objective, "once"):
            outcome: Outcome = objective.once(params, number, self._command_started)
            self._group = None
            return outcome
        try:
            outcome = objective(params)
        except BaseException as error:
            return Outcome.of_exception(error, hidden=1)
        return outcome if isinstance(outcome, Outcome) else Outcome.of_result(outcome)

    def _command_started(self, group: int) -> None:
        self._group = group
        self._connection.send(("command", group))  # the parent ends it if this process dies

    def _listen(self) -> None:
        try:
            while True:
                # processes that an objective forks hold the connection open too: look at the parent's id as well
                while not self._connection.poll(1.0):
                    if os.getppid() != self._parent:
                        self._end()
                self._tasks.put(self._connection.recv())
        except BaseException:
            self._end()

    def _end(self) -> None:
        if self._group is not None:
            kill_group(self._group)
        os._exit(1)


def main() -> None:
    """Talk to the parent over the descriptor that the first argument names."""
    descriptor = int(sys.argv[1])
    os.set_inheritable(descriptor, False)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    Child(Connection(descriptor)).work()


if __name__ == "__main__":
    main()
