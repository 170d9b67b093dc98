"""What a run consists of: evaluations that were told, and points that were asked for."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dechbo.errors import OptionError, ParameterError

Array = NDArray[np.float64]
Params = dict[str, Any]


class ItemAccess:
    """A dataclass whose fields can also be read as items: ``info.gap`` and ``info["gap"]``."""

    def __getitem__(self, name: str) -> Any:
        if name not in self.keys():
            raise KeyError(f"{name!r} is not among {', '.join(self.keys())}")
        return getattr(self, name)

    def keys(self) -> tuple[str, ...]:
        """The names of the fields."""
        return tuple(field.name for field in fields(self))  # type: ignore[arg-type]


@dataclass(frozen=True)
class Evaluation(ItemAccess):
    """One evaluation; ``value`` is None where it failed."""

    params: Params
    value: float | None
    noise: float | None = None
    constraints: Mapping[str, float] | None = None
    number: int = 0

    @classmethod
    def of(
        cls, params: Params, value: object, noise: object = None, constraints: Mapping[str, object] | None = None
    ) -> Evaluation:
        """Check what a user tells; None, NaN, infinities and masked values become a failure."""
        limits = None if constraints is None else _constraints(constraints)
        return cls(params, _number(value), None if noise is None else variance(noise), limits)

    @property
    def failed(self) -> bool:
        """Whether the evaluation gave no number."""
        return self.value is None

    @property
    def feasible(self) -> bool:
        """Whether it gave a number and every constraint is at most 0."""
        return not self.failed and all(c <= 0 for c in (self.constraints or {}).values())

    @property
    def number_value(self) -> float:
        """The value, NaN where there is none."""
        return math.nan if self.value is None else self.value


@dataclass(frozen=True, eq=False)
class Asked:
    """One point that was asked for, when ``n_evaluations`` were known; pending until its own evaluation is told."""

    params: Params
    point: Array
    n_evaluations: int
    fixed: Mapping[str, Any]
    modelled: bool  # chosen by a model, not by the initial design
    answered: bool = False


def variance(noise: object) -> float:
    """A noise variance that a user gives."""
    number = _real(noise)
    if number is None or not 0 <= number < math.inf:
        raise OptionError(f"noise must be a variance, a finite number of at least 0 (0: noise-free), got {noise!r:.80}")
    return number


def _real(value: object) -> float | None:
    """``value`` as a float if it is one real number (bools, texts and dates are not), otherwise None."""
    if isinstance(value, int) and not isinstance(value, bool):
        return float(value) if abs(value) < 2**1023 else math.inf
    array = np.asarray(value)
    if array.size != 1 or array.dtype.kind not in "iuf":
        return None
    return float(array.item())


def _number(value: object) -> float | None:
    if value is None or value is np.ma.masked:
        return None
    number = _real(value)
    if number is None:
        raise ParameterError(f"a value needs to be one number (or None for a failed evaluation), got {value!r:.80}")
    return number if math.isfinite(number) else None


def _constraints(constraints: Mapping[str, object]) -> dict[str, float]:
    if not isinstance(constraints, Mapping):
        raise ParameterError(f"constraints are a dict of name to number (feasible at or below 0), got {constraints!r}")
    checked = {}
    for name, value in constraints.items():
        number = _number(value)
        if not isinstance(name, str) or number is None:
            raise ParameterError(f"constraint {name!r} needs a finite number (feasible at or below 0), got {value!r}")
        checked[name] = number
    return checked
