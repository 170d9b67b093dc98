"""The peer's end of the pipe: JSON lines on stdin and stdout. Standard library only, for foreign environments.

    {"op": "start", "method": …, "space": […], "constraints": […], "seed": …, "n_initial": …, "budget": …,
     "cpu_left": …}                               -> {"versions": {…}, "options": {…}, "cpu": …}
    {"op": "tell", "params": {…}, "value": …}     -> {"cpu": …}          value null: the evaluation failed
    {"op": "ask"}                                 -> {"params": {…}, "cpu": …}

``cpu`` is the CPU time that this process has spent on asks and tells; the answer to an error is {"error": …}. When the
other end of the pipe closes, this process exits. Tests: test_peers.py.
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


class Setup:
    """The first message: the method, the parameters, the seed and the budget."""

    def __init__(self, message: dict[str, Any]) -> None:
        self.method: str = message["method"]
        self.space: list[dict[str, Any]] = message["space"]
        self.constraints: list[dict[str, Any]] = message["constraints"]  # sum of coefficients x values <= upper
        self.seed: int = message["seed"]
        self.n_initial: int = message["n_initial"]
        self.budget: int = message["budget"]  # initial points included


class PeerMethod:
    """A peer with ask and tell; ``options`` are its settings, for the record of the run."""

    options: Mapping[str, Any] = {}

    def tell(self, params: Params, value: float | None) -> None:
        """Add the value of a point, asked for or not."""
        raise NotImplementedError

    def ask(self) -> Params:
        """Return the next point to evaluate."""
        raise NotImplementedError


class UnitCube:
    """The space as a unit cube, for peers without parameter types.

    A number has one coordinate, on a linear or log scale; decoding rounds it to the nearest value if it is discrete. A
    category has one coordinate per choice (one-hot); decoding takes the largest.
    """

    def __init__(self, space: list[dict[str, Any]]) -> None:
        self.space = space
        self.dim = sum(len(entry["choices"]) if entry["type"] == "categorical" else 1 for entry in space)

    def encode(self, params: Params) -> list[float]:
        """The coordinates of ``params``."""
        point: list[float] = []
        for entry in self.space:
            value = params[entry["name"]]
            if entry["type"] == "categorical":
                point += [float(same_choice(choice, value)) for choice in entry["choices"]]
            else:
                scale = math.log if entry["log"] else float
                low, high = scale(entry["low"]), scale(entry["high"])
                point.append(min(max((scale(value) - low) / (high - low), 0.0), 1.0))
        return point

    def decode(self, point: Sequence[float]) -> Params:
        """The parameters at ``point``."""
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


def same_choice(choice: Any, value: Any) -> bool:
    """Equality that distinguishes 1, 1.0 and True."""
    return type(choice) is type(value) and bool(choice == value)


def _number(entry: dict[str, Any], u: float) -> Any:
    low, high, u = entry["low"], entry["high"], min(max(float(u), 0.0), 1.0)
    scale, back = (math.log, math.exp) if entry["log"] else (float, float)
    return nearest_legal(entry, back(scale(low) + u * (scale(high) - scale(low))))


def nearest_legal(entry: dict[str, Any], value: Any) -> Any:
    """The nearest number within the bounds, on the steps and of the type of a parameter."""
    low, high, step = entry["low"], entry["high"], entry.get("step")
    if step is not None:
        last = math.floor((high - low) / step + 1e-9)
        value = low + min(round((value - low) / step), last) * step
    value = min(max(value, low), high)
    return int(value) if entry["type"] == "int" else float(value)


def serve(build: Callable[[Setup], PeerMethod], packages: Sequence[str]) -> None:
    """Answer messages until the other end of the pipe closes; report the versions of ``packages``."""
    warnings.simplefilter("ignore")
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)  # packages that print must not disturb the answers
    messages: queue.Queue[dict[str, Any]] = queue.Queue()
    threading.Thread(target=_read, args=(messages,), daemon=True).start()
    method: PeerMethod | None = None
    spent = 0.0
    while True:
        message = messages.get()
        before = time.process_time()
        answer: dict[str, Any] = {}
        try:
            if message["op"] == "start":
                _limit_cpu(message["cpu_left"])
                method = build(Setup(message))
                versions = {"python": sys.version.split()[0], **{name: metadata.version(name) for name in packages}}
                answer = {"versions": versions, "options": dict(method.options)}
                before = time.process_time()  # imports and set-up do not count
            elif method is None:
                raise RuntimeError("the first message must be a start")
            elif message["op"] == "tell":
                method.tell(message["params"], message["value"])
            else:
                answer = {"params": method.ask()}
        except Exception as error:
            answer = {"error": f"{type(error).__name__}: {error}"}
        spent += time.process_time() - before
        answers.write(json.dumps({**answer, "cpu": spent}) + "\n")
        answers.flush()


def _read(messages: queue.Queue[dict[str, Any]]) -> None:
    for line in sys.stdin:
        messages.put(json.loads(line))
    os._exit(0)  # the benchmark has ended: stop at once, also during an ask


def _limit_cpu(seconds: float | None) -> None:
    """Let the kernel end this process (SIGXCPU) after ``seconds`` more of CPU time, plus 10 for set-up."""
    if seconds is not None:
        limit = math.ceil(time.process_time() + max(seconds, 0.0) + 10.0)
        resource.setrlimit(resource.RLIMIT_CPU, (limit, limit + 5))
