"""Crews: who evaluates points, this process, processes of its own, or a map of the user's.

A crew is given points as it takes them and gives each back, in the same order, with a call that waits for its value. It
takes the next point after that value was told: so how a run goes depends on the crew's size, never on who is faster.
Nothing heavy is imported here, because every child process imports it.
"""

from __future__ import annotations

import multiprocessing
import os
import pickle
import signal
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from itertools import islice
from multiprocessing.process import BaseProcess
from typing import Any, Protocol

import numpy as np

from dechbo.errors import OptionError

Params = dict[str, Any]
Map = Callable[[Callable[[Any], Any], Iterable[Any]], Iterable[Any]]
Waiting = tuple[Params, Callable[[], Any]]

LAST_WORDS = 5.0  # seconds that a process has to end by itself
THREADS = "evaluate in threads with workers=ThreadPoolExecutor(4).map"


@dataclass(frozen=True)
class Objective:
    """A function of an array of coordinates (or, without ``names``, of a dict) with its extra arguments."""

    fun: Callable[..., Any]
    args: tuple[Any, ...]
    names: tuple[str, ...] | None

    def __call__(self, params: Params) -> Any:
        """The function's value."""
        return self.fun(as_given(params, self.names), *self.args)


def as_given(params: Params, names: tuple[str, ...] | None) -> Any:
    """Parameters as the user has them: coordinates in the order of ``names``, or without names a dict."""
    return dict(params) if names is None else np.array([params[name] for name in names])


class Crew(Protocol):
    """Evaluates points; a context manager that leaves nothing running."""

    def evaluate(self, points: Iterable[Params]) -> Iterator[Waiting]:
        """Each point with the call that waits for its value."""

    def close(self) -> None:
        """End what still runs."""


@dataclass(frozen=True)
class Here:
    """One point at a time, in this process."""

    objective: Objective

    def evaluate(self, points: Iterable[Params]) -> Iterator[Waiting]:
        """Each point with the call that evaluates it."""
        for params in points:
            yield params, partial(self.objective, params)

    def close(self) -> None:
        """Nothing runs."""


@dataclass(frozen=True)
class Batches:
    """Several points at a time, by a map-like callable."""

    objective: Objective
    map: Map
    size: int

    def evaluate(self, points: Iterable[Params]) -> Iterator[Waiting]:
        """Each point of a batch with its value, which is known by then."""
        remaining = iter(points)
        while batch := list(islice(remaining, self.size)):
            values = list(self.map(self.objective, batch))
            if len(values) != len(batch):
                raise OptionError(f"a map-like workers gives one value per point, got {len(values)} for {len(batch)}")
            for params, value in zip(batch, values, strict=True):
                yield params, partial(_itself, value)

    def close(self) -> None:
        """What the map uses is its owner's."""


def _itself(value: Any) -> Any:
    return value


@dataclass
class Processes:
    """Processes of our own, each with one evaluation at a time; none outlives the run, nor what they started."""

    objective: Objective
    count: int
    _waiting: deque[tuple[Params, Future[Any]]] = field(default_factory=deque, init=False)
    _children: list[BaseProcess] = field(default_factory=list, init=False)

    def __post_init__(self) -> None:
        try:
            pickled = pickle.dumps(self.objective)
        except Exception as error:
            raise OptionError(
                f"with workers={self.count} fun and args go to other processes, but cannot be pickled ({error}): "
                f"define fun at the top of a module (no lambda, no function within a function), or {THREADS}"
            ) from error
        spawn = multiprocessing.get_context("spawn")
        self._pool = ProcessPoolExecutor(self.count, spawn, initializer=_begin_child, initargs=(pickled,))

    def evaluate(self, points: Iterable[Params]) -> Iterator[Waiting]:
        """Each point with the call that waits for its value, while the others are under way."""
        for params in points:
            self._waiting.append((params, self._pool.submit(_evaluate_in_child, params)))
            self._children = list((self._pool._processes or {}).values()) or self._children
            if len(self._waiting) == self.count:
                yield self._waiting[0][0], self._first_value
        while self._waiting:
            yield self._waiting[0][0], self._first_value

    def close(self) -> None:
        """End all processes, also in the middle of an evaluation: it may take hours, and nobody waits for it."""
        if self._waiting:
            for child in self._children:
                child.terminate()
                _signal_group(child, "SIGTERM")
            for child in self._children:
                child.join(LAST_WORDS)
                child.kill()
                _signal_group(child, "SIGKILL")
        self._pool.shutdown(cancel_futures=True)

    def _first_value(self) -> Any:
        first = self._waiting[0][1]
        running = {future for _, future in self._waiting}
        try:
            while not first.done():
                ended, running = wait(running, return_when=FIRST_COMPLETED)
                for future in ended:
                    future.result()  # what an evaluation raised ends the run, though others came before it
            value = first.result()
        except BrokenProcessPool as error:
            raise BrokenProcessPool(
                "a worker process died, its output may say why: in a script the call of minimize needs to stand under "
                'if __name__ == "__main__":; else fun crashed its process, or used up the memory'
            ) from error
        self._waiting.popleft()
        return value


def _signal_group(child: BaseProcess, name: str) -> None:
    """To a child's process group, as far as there is one: what an evaluation has started ends with it."""
    if hasattr(os, "killpg") and child.pid is not None:
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(child.pid, getattr(signal, name))


# ------------------------------------------------------------- in a child

_pickled = b""
_objective: Objective | None = None


def _begin_child(pickled: bytes) -> None:
    global _pickled
    _pickled = pickled
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the parent, which ends its children
    if hasattr(os, "setpgid"):
        os.setpgid(0, 0)
    threading.Thread(target=_end_with_parent, daemon=True).start()


def _end_with_parent() -> None:
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
        if hasattr(os, "killpg") and os.getpgrp() == os.getpid():
            os.killpg(0, signal.SIGKILL)  # with what the evaluation has started
        os._exit(1)


def _evaluate_in_child(params: Params) -> Any:
    global _objective
    if _objective is None:
        try:
            _objective = pickle.loads(_pickled)
        except Exception as error:
            raise OptionError(
                f"fun cannot be loaded in a worker process ({error}): define it in a file, not in a notebook nor at "
                f"the prompt, or {THREADS}"
            ) from error
    try:
        return _objective(params)
    except Exception as error:
        try:
            pickle.loads(pickle.dumps(error))
        except Exception:
            raise RuntimeError(f"{type(error).__name__}: {error}") from error  # its own class cannot travel
        raise
