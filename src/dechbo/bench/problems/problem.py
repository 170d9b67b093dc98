"""What a problem is, and what a problem may need: a generator of its own, a package, a data file."""

from __future__ import annotations

import os
import zlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
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
    """A problem needs a package or a data file that is not there."""


@dataclass(frozen=True, eq=False)
class Problem:
    """A function of named parameters, to be minimised, and what is known of it.

    ``optimum`` is the minimum (None where nobody knows it), ``minimiser`` a place where it is reached, and ``scopes``
    the scopes of a sum of factors that the function is (None where it is not a sum of smaller factors).
    """

    name: str
    space: Space
    optimum: float | None
    scopes: tuple[Names, ...] | None
    evaluate: Callable[[Mapping[str, Any]], float] = field(repr=False)
    minimiser: Mapping[str, Any] | None = field(default=None, repr=False)

    def __call__(self, params: Mapping[str, Any]) -> float:
        """The value at one value for each name."""
        return float(self.evaluate(params))

    def regret(self, value: float) -> float:
        """How far ``value`` lies above the minimum; ``value`` itself where the minimum is unknown."""
        return value if self.optimum is None else value - self.optimum


@dataclass(frozen=True)
class ArrayFunction:
    """A function of an array (d,) as a function of named numbers."""

    names: Names
    function: Callable[[Array], float]

    def __call__(self, params: Mapping[str, Any]) -> float:
        """The value at one number for each name."""
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
    """The problem of parameters x1, x2, … in [low, high]; scopes by index from 0."""
    names = tuple(f"x{i + 1}" for i in range(dim))
    known = None if minimiser is None else dict(zip(names, minimiser.tolist(), strict=True))
    named = None if scopes is None else tuple(tuple(names[i] for i in scope) for scope in scopes)
    space = Space({each: Float(low, high) for each in names})
    return Problem(name, space, optimum, named, ArrayFunction(names, function), known)


def instance_rng(name: str, seed: int) -> np.random.Generator:
    """Random numbers of the instance ``seed`` of the problem ``name``, the same in every process."""
    return np.random.default_rng([seed, zlib.crc32(name.lower().encode())])


def require_module(problem: str, module: str) -> ModuleType:
    """The module that ``problem`` needs, imported now."""
    try:
        return import_module(module)
    except ImportError as error:
        raise ProblemUnavailable(
            f'{problem} needs the package {module.split(".")[0]!r} ({error}): pip install "dechbo[bench]"'
        ) from error


def data_file(problem: str, *parts: str) -> Path:
    """A file under the folder that the environment variable DECHBO_DATA names."""
    wanted = "/".join(parts)
    folder = os.environ.get("DECHBO_DATA")
    if not folder:
        raise ProblemUnavailable(f"{problem} needs the file {wanted}: set DECHBO_DATA to the folder that holds it")
    path = Path(folder).joinpath(*parts)
    if not path.is_file():
        raise ProblemUnavailable(f"{problem} needs the file {wanted}, but DECHBO_DATA={folder} does not hold it")
    return path
