"""Checks of option values: return the value as a plain Python type, or raise OptionError."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

import numpy as np

from dechbo.errors import OptionError

T = TypeVar("T")


def one_of(name: str, value: str, allowed: tuple[str, ...]) -> str:
    """One of the strings ``allowed``."""
    if value not in allowed:
        raise OptionError(f"{name} must be one of {', '.join(map(repr, allowed))}, got {value!r}")
    return value


def some_of(name: str, value: object, allowed: tuple[str, ...]) -> tuple[str, ...]:
    """One or several of the strings ``allowed``, each once."""
    listed = tuple(value) if isinstance(value, Sequence) and not isinstance(value, str) else ()
    if not listed or len(set(listed)) < len(listed) or any(each not in allowed for each in listed):
        raise OptionError(f"{name} must be some of {', '.join(allowed)}, each once, got {value!r}")
    return listed


def whole(name: str, value: object, least: int) -> int:
    """An int of at least ``least``."""
    if isinstance(value, bool) or not isinstance(value, (int, np.integer)) or value < least:
        raise OptionError(f"{name} must be a whole number of at least {least}, got {value!r}")
    return int(value)


def flag(name: str, value: object) -> bool:
    """True or False."""
    if not isinstance(value, (bool, np.bool_)):
        raise OptionError(f"{name} must be True or False, got {value!r}")
    return bool(value)


def probability(name: str, value: object) -> float:
    """A number strictly between 0 and 1."""
    if isinstance(value, bool) or not isinstance(value, (int, float, np.floating)) or not 0 < value < 1:
        raise OptionError(f"{name} must be a probability between 0 and 1, got {value!r}")
    return float(value)


def instance(name: str, value: T | None, kind: type[T]) -> T:
    """An instance of ``kind``; the default one for None."""
    if value is None:
        return kind()
    if not isinstance(value, kind):
        raise OptionError(f"{name} must be a {kind.__name__}(…), got {value!r:.80}")
    return value
