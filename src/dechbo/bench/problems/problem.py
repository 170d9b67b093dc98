"""Problem, and helpers to build one: random numbers, a package, a data file (tests: test_problems.py)."""

from __future__ import annotations

import os
import zlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dechbo.errors import DechboError
from dechbo.space import Float, Space

Array = NDArray[np.float64]
Names = tuple[str, ...]


class ProblemUnavailable(DechboError, RuntimeError):
    """A problem needs a package or a data file that is missing."""


@dataclass(frozen=True, eq=False)
class Problem:
    """A function of named parameters, to be minimised.

    ``optimum`` is the minimum and ``minimiser`` a point that attains it, None if unknown. ``scopes`` are the scopes of
    the factors whose sum the function is; None if it is no sum of smaller factors. A noisy function also has its
    ``noise_free`` values, which the minimum speaks of and a method never sees.
    """

    name: str
    space: Space
    optimum: float | None
    scopes: tuple[Names, ...] | None
    evaluate: Callable[[Mapping[str, Any]], float] = field(repr=False)
    minimiser: Mapping[str, Any] | None = field(default=None, repr=False)
    noise_free: Callable[[Mapping[str, Any]], float] | None = field(default=None, repr=False)

    def __call__(self, params: Mapping[str, Any]) -> float:
        """The value at ``params``."""
        return float(self.evaluate(params))

    def regret(self, value: float) -> float:
        """``value`` minus the minimum; ``value`` itself if the minimum is unknown."""
        return value if self.optimum is None else value - self.optimum

    def with_noise_free(self, function: Callable[[Mapping[str, Any]], float]) -> Problem:
        """The same problem, judged by the values of ``function``."""
        return replace(self, noise_free=function)


@dataclass(frozen=True)
class ArrayFunction:
    """A function of named numbers, from a function of an array (d,)."""

    names: Names
    function: Callable[[Array], float]

    def __call__(self, params: Mapping[str, Any]) -> float:
        """The value at ``params``."""
        return self.function(np.array([params[name] for name in self.names], dtype=np.float64))


def box_problem(
    name: str,
    function: Callable[[Array], float],
    *,
    dim: int,
    low: float,
    high: float,
    optimum: float | None = None,
    minimiser: Array | None = None,
    scopes: Sequence[Sequence[int]] | None = None,
) -> Problem:
    """A problem with parameters x1, x2, … in [low, high]; scopes are indices from 0."""
    names = tuple(f"x{i + 1}" for i in range(dim))
    known = None if minimiser is None else dict(zip(names, minimiser.tolist(), strict=True))
    named = None if scopes is None else tuple(tuple(names[i] for i in scope) for scope in scopes)
    space = Space({each: Float(low, high) for each in names})
    return Problem(name, space, optimum, named, ArrayFunction(names, function), known)


def instance_rng(name: str, seed: int) -> np.random.Generator:
    """The random numbers of one instance of a problem, the same in every process."""
    return np.random.default_rng([seed, zlib.crc32(name.lower().encode())])


def require_module(problem: str, module: str, *, extra: str = "bench") -> ModuleType:
    """Import a module that ``problem`` needs and an extra of dechbo installs."""
    try:
        return import_module(module)
    except ImportError as error:
        raise ProblemUnavailable(
            f'{problem} needs the package {module.split(".")[0]!r} ({error}): pip install "dechbo[{extra}]"'
        ) from error


def data_file(problem: str, *parts: str) -> Path:
    """The path of a file in the folder $DECHBO_DATA."""
    wanted = "/".join(parts)
    folder = os.environ.get("DECHBO_DATA")
    if not folder:
        raise ProblemUnavailable(f"{problem} needs the file {wanted}: set DECHBO_DATA to the folder that contains it")
    path = Path(folder).joinpath(*parts)
    if not path.is_file():
        raise ProblemUnavailable(f"{problem} needs the file {wanted}, which is not in DECHBO_DATA={folder}")
    return path
