"""How dechbo compiles its inner loops: Numba, cached on disk, without the interpreter lock."""

from __future__ import annotations

from collections.abc import Callable
from typing import ParamSpec, TypeVar, cast

import numba

P = ParamSpec("P")
R = TypeVar("R")

# These two let LLVM vectorise maxima. Nothing that lets it reorder or fuse sums: whether a loop runs as vector code may
# depend on where arrays lie in memory, and suggestions have to be the same in every process. Infinities keep their
# meaning (forbidden cells are -inf).
_FAST = {"nsz", "nnan"}


def compiled(function: Callable[P, R]) -> Callable[P, R]:
    """Compile at the first call (never at import), keep the machine code beside the source file.

    The loops assume that no NaN reaches them: inputs are checked where they enter the package.
    """
    return cast(Callable[P, R], numba.njit(cache=True, nogil=True, fastmath=_FAST)(function))
