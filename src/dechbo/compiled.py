"""Compilation of inner loops by Numba: cached on disk, without the interpreter lock.

Tested by what it compiles: tests/maxsum/ and tests/gp/test_gram.py.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from typing import ParamSpec, TypeVar, cast

import numba
from numba.core import event

P = ParamSpec("P")
R = TypeVar("R")

# These two flags let LLVM vectorise maxima. Flags that reorder or fuse sums are out: whether a loop runs as vector code
# may depend on the memory addresses of arrays, and suggestions have to be the same in every process. Infinities keep
# their meaning (forbidden cells are -inf).
_FASTMATH_FLAGS = {"nsz", "nnan"}


class _Compilations(event.Listener):
    """Numba's own reports of compilations; code that is loaded from the cache makes none."""

    def __init__(self) -> None:
        self.active = 0
        self.ended = -math.inf  # when the last one did

    def on_start(self, event: event.Event) -> None:
        """One begins."""
        self.active += 1

    def on_end(self, event: event.Event) -> None:
        """One ends."""
        self.active -= 1
        self.ended = time.monotonic()


_COMPILATIONS = _Compilations()
event.register("numba:compile", _COMPILATIONS)  # type: ignore[no-untyped-call]


def is_compiling(pause: float = 2.0) -> bool:
    """Whether a loop is being compiled now, or was ``pause`` seconds ago: one follows the other."""
    return _COMPILATIONS.active > 0 or time.monotonic() - _COMPILATIONS.ended < pause


def compiled(function: Callable[P, R]) -> Callable[P, R]:
    """Compile at the first call (never at import), and cache the machine code next to the source file.

    The loops assume that no NaN reaches them: inputs are checked where they enter the package.
    """
    return cast(Callable[P, R], numba.njit(cache=True, nogil=True, fastmath=_FASTMATH_FLAGS)(function))
