"""One BLAS thread: faster than several at these sizes, and suggestions stay bit-identical."""

from __future__ import annotations

import threading
from collections.abc import Callable
from functools import cache, wraps
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


def one_blas_thread(function: Callable[P, R]) -> Callable[P, R]:
    """Run ``function`` with one BLAS thread, one caller at a time, and restore the previous limit."""

    @wraps(function)
    def limited(*args: P.args, **kwargs: P.kwargs) -> R:
        with _LOCK, _controller().limit(limits=1, user_api="blas"):
            return function(*args, **kwargs)

    return limited
