"""Compilation of inner loops by Numba: cached on disk, without the interpreter lock.

Tested by what it compiles: tests/maxsum/ and tests/gp/test_gram.py.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import ParamSpec, TypeVar, cast

import numba

P = ParamSpec("P")
R = TypeVar("R")

# These two flags let LLVM vectorise maxima. Flags that reorder or fuse sums are out: whether a loop runs as vector code
# may depend on the memory addresses of arrays, and suggestions have to be the same in every process. Infinities keep
# their meaning (forbidden cells are -inf).
_FASTMATH_FLAGS = {"nsz", "nnan"}


def compiled(function: Callable[P, R]) -> Callable[P, R]:
    """Compile at the first call (never at import), and cache the machine code next to the source file.

    The loops assume that no NaN reaches them: inputs are checked where they enter the package.
    """
    return cast(Callable[P, R], numba.njit(cache=True, nogil=True, fastmath=_FASTMATH_FLAGS)(function))
