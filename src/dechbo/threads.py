"""One BLAS thread: faster than several at these sizes, and suggestions stay bit-identical."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from typing import ParamSpec, TypeVar

import scipy.linalg  # noqa: F401  (its BLAS has to be loaded before it can be limited)
from threadpoolctl import ThreadpoolController

P = ParamSpec("P")
R = TypeVar("R")

# The number of BLAS threads is global: two threads that set and restore it concurrently would leave it wrong.
_LOCK = threading.RLock()


@cache
def _controller() -> ThreadpoolController:
    return ThreadpoolController()


@contextmanager
def _limited() -> Iterator[None]:
    with _LOCK, _controller().limit(limits=1, user_api="blas"):
        yield


def one_blas_thread(function: Callable[P, R]) -> Callable[P, R]:
    """Run ``function`` with one BLAS thread, one caller at a time, and restore what was set before."""
    return _limited()(function)
