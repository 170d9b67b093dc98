"""The peer's end of the pipe: JSON lines on stdin and stdout. Standard library only: this runs in foreign environments.

    {"op": "start", "method": …, "space": […], "seed": …, "n_initial": …, "budget": …, "cpu_left": …}
                                                  -> {"versions": {…}, "options": {…}, "cpu": …}
    {"op": "tell", "params": {…}, "value": …}     -> {"cpu": …}          value null: the evaluation failed
    {"op": "ask"}                                 -> {"params": {…}, "cpu": …}

``cpu`` is the CPU time that this process has spent on asks and tells; an error answers {"error": …}. The bench's end of
the pipe closes when the run ends, however it ends, and this process with it.
"""

from __future__ import annotations

import json
import math
import os
import queue
import resource
import sys
import threading
import time
import warnings
from collections.abc import Callable, Mapping, Sequence
from importlib import metadata
from typing import Any

Params = dict[str, Any]


class Start:
    """What a peer is told at the start: its name, the parameters, the seed and the budget."""

    def __init__(self, message: dict[str, Any]) -> None:
        self.method: str = message["method"]
        self.space: list[dict[str, Any]] = message["space"]
        self.seed: int = message["seed"]
        self.n_initial: int = message["n_initial"]
        self.budget: int = message["budget"]  # initial points included


class Worker:
    """A peer behind ask and tell. ``options`` says how it was set up, for the record of the run."""

    options: Mapping[str, Any] = {}

    def tell(self, params: Params, value: float | None) -> None:
        """Record the value of a point, asked for or not."""
        raise NotImplementedError

    def ask(self) -> Params:
        """The next point to evaluate."""
        raise NotImplementedError


class Cube:
    """Points of the unit cube for peers that know nothing else.

    A number has one coordinate, on its own scale (log included), rounded to the nearest value where it is discrete; a
    category has one coordinate per choice (one-hot), and the largest of them chooses.
    """

    def __init__(self, space: list[dict[str, Any]]) -> None:
        self.space = space
        self.dim = sum(len(entry["choices"]) if entry["type"] == "categorical" else 1 for entry in space)

    def encode(self, params: Params) -> list[float]:
        """The point of ``params``."""
        point: list[float] = []
        for entry in self.space:
            value = params[entry["name"]]
            if entry["type"] == "categorical":
                point += [float(same(choice, value)) for choice in entry["choices"]]
            else:
                scale = math.log if entry["log"] else float
                low, high = scale(entry["low"]), scale(entry["high"])
                point.append(min(max((scale(value) - low) / (high - low), 0.0), 1.0))
        return point

    def decode(self, point: Sequence[float]) -> Params:
        """The parameters at ``point``, rounded to values that exist."""
        params: Params = {}
        rest = list(point)
        for entry in self.space:
            if entry["type"] == "categorical":
                count = len(entry["choices"])
                hot, rest = rest[:count], rest[count:]
                params[entry["name"]] = entry["choices"][hot.index(max(hot))]
            else:
                params[entry["name"]] = _number(entry, rest.pop(0))
        return params


def same(choice: Any, value: Any) -> bool:
    """Whether ``value`` is this choice: 1, 1.0 and True are different ones."""
    return type(choice) is type(value) and bool(choice == value)


def _number(entry: dict[str, Any], u: float) -> Any:
    low, high, u = entry["low"], entry["high"], min(max(float(u), 0.0), 1.0)
    scale, back = (math.log, math.exp) if entry["log"] else (float, float)
    return legal(entry, back(scale(low) + u * (scale(high) - scale(low))))


def legal(entry: dict[str, Any], value: Any) -> Any:
    """A number as the parameter has it: within its bounds, on its steps, of its type."""
    low, high, step = entry["low"], entry["high"], entry.get("step")
    if step is not None:
        last = math.floor((high - low) / step + 1e-9)
        value = low + min(round((value - low) / step), last) * step
    value = min(max(value, low), high)
    return int(value) if entry["type"] == "int" else float(value)


def serve(build: Callable[[Start], Worker], packages: Sequence[str]) -> None:
    """Answer the bench until its end of the pipe closes; ``packages`` are the ones whose versions it reports."""
    warnings.simplefilter("ignore")
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)  # whatever a package prints goes to stderr, not between the answers
    messages: queue.Queue[dict[str, Any]] = queue.Queue()
    threading.Thread(target=_read, args=(messages,), daemon=True).start()
    worker: Worker | None = None
    spent = 0.0
    while True:
        message = messages.get()
        before = time.process_time()
        answer: dict[str, Any] = {}
        try:
            if message["op"] == "start":
                _limit_cpu(message["cpu_left"])
                worker = build(Start(message))
                versions = {"python": sys.version.split()[0], **{name: metadata.version(name) for name in packages}}
                answer = {"versions": versions, "options": dict(worker.options)}
                before = time.process_time()  # importing and building is no part of an ask
            elif worker is None:
                raise RuntimeError("the first message has to be a start")
            elif message["op"] == "tell":
                worker.tell(message["params"], message["value"])
            else:
                answer = {"params": worker.ask()}
        except Exception as error:
            answer = {"error": f"{type(error).__name__}: {error}"}
        spent += time.process_time() - before
        answers.write(json.dumps({**answer, "cpu": spent}) + "\n")
        answers.flush()


def _read(messages: queue.Queue[dict[str, Any]]) -> None:
    for line in sys.stdin:
        messages.put(json.loads(line))
    os._exit(0)  # the bench is gone: stop at once, in the middle of an ask if need be


def _limit_cpu(seconds: float | None) -> None:
    """Let the kernel end this process (SIGXCPU) once it has used that much more, and a little for building."""
    if seconds is not None:
        limit = math.ceil(time.process_time() + max(seconds, 0.0) + 10.0)
        resource.setrlimit(resource.RLIMIT_CPU, (limit, limit + 5))
