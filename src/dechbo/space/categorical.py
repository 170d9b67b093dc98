"""Categorical: one of several unordered choices. Tested by tests/space/test_parameters.py."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray

from dechbo.errors import ParameterError, SpaceError, format_list
from dechbo.space.when import When, checked_when, when_json

Array = NDArray[np.float64]
Choice = None | bool | int | float | str


@dataclass(frozen=True, eq=False)
class Categorical:
    """One of ``choices``, which have no order; each is None, a bool, an int, a finite float or a str.

    ``when`` makes it conditional, as in ``Float``.
    """

    choices: Sequence[Choice]
    when: When | None = field(default=None, kw_only=True, repr=False)

    kernel_kind: ClassVar[Literal["categorical"]] = "categorical"

    def __post_init__(self) -> None:
        object.__setattr__(self, "when", checked_when("Categorical", self.when))
        given: object = self.choices
        if isinstance(given, (str, bytes, set, frozenset, Mapping)) or not isinstance(given, Iterable):
            raise SpaceError(f"Categorical needs a list of choices in a fixed order, got {given!r}: write [...]")
        choices = tuple(_native(choice) for choice in given)
        object.__setattr__(self, "choices", choices)
        if not choices:
            raise SpaceError("Categorical needs at least one choice, got none: leave the parameter out")
        for choice in choices:
            kind = type(choice)
            if kind not in (type(None), bool, int, float, str) or (kind is float and not math.isfinite(choice)):
                raise SpaceError(
                    "Categorical needs choices that are None, bool, int, finite float or str (plain JSON), "
                    f"got {choice!r}: use a label and look it up in your objective"
                )
        if len(self._index) < len(choices):
            twice = next(c for i, c in enumerate(choices) if self._index[type(c), c] != i)
            raise SpaceError(f"Categorical needs distinct choices, got {twice!r} twice: keep one of them")

    def __eq__(self, other: object) -> bool:
        # 1 == True == 1.0 in Python, but they are different choices
        if not isinstance(other, Categorical):
            return NotImplemented
        return self._index == other._index and self.when == other.when

    def __hash__(self) -> int:
        return hash(tuple(self._index.items()))

    @property
    def cardinality(self) -> float:
        """The number of choices."""
        return float(len(self.choices))

    def encode(self, value: object) -> float:
        """The index of the choice ``value``; types have to match."""
        native = _native(value)
        try:
            return self._index[type(native), native]
        except (KeyError, TypeError):
            raise ParameterError(f"expected one of {format_list(self.choices)}, got {value!r}") from None

    def decode(self, u: float) -> Choice:
        """The choice whose index is nearest to ``u``."""
        return self.choices[min(max(math.floor(u + 0.5), 0), len(self.choices) - 1)]

    def grid(self, n: int, low: float = 0.0, high: float = 1.0) -> Array:
        """The indices of all choices, for every n and interval, because choices have no order."""
        return np.arange(len(self.choices), dtype=np.float64)

    def from_uniform(self, u: float) -> float:
        """The index of a uniform draw ``u`` in [0, 1)."""
        return float(min(max(int(u * len(self.choices)), 0), len(self.choices) - 1))

    def to_json(self) -> dict[str, Any]:
        """Plain JSON; ``parameter_from_json`` reads it."""
        return {"type": "categorical", "choices": list(self.choices), **when_json(self.when)}

    @cached_property
    def _index(self) -> dict[tuple[type, Choice], float]:
        index: dict[tuple[type, Choice], float] = {}
        for i, choice in enumerate(self.choices):
            index.setdefault((type(choice), choice), float(i))
        return index


def _native(value: Any) -> Any:
    """``value``, with a NumPy scalar converted to a Python value."""
    return value.item() if isinstance(value, np.generic) else value
