"""Numeric parameters: Float and Int. Tested by tests/space/test_parameters.py and test_encoding.py."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cached_property
from typing import Any, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray

from dechbo.errors import ParameterError, SpaceError
from dechbo.space.scales import Interval, Lattice
from dechbo.space.when import When, checked_when, when_json

Array = NDArray[np.float64]

_MAX_STEPS = 2**50  # with more, floats cannot tell neighbouring values apart


@dataclass(frozen=True)
class Float:
    """A real number in [low, high]; with ``step`` only low, low + step, … up to the last value <= high.

    ``when={"clf": "svm"}`` makes it conditional: it is there only where the parameter clf is "svm".
    """

    low: float
    high: float
    log: bool = field(default=False, kw_only=True)
    step: float | None = field(default=None, kw_only=True)
    when: When | None = field(default=None, kw_only=True, hash=False, repr=False)

    kernel_kind: ClassVar[Literal["numeric"]] = "numeric"

    def __post_init__(self) -> None:
        object.__setattr__(self, "when", checked_when("Float", self.when))
        for name in ("low", "high") if self.step is None else ("low", "high", "step"):
            object.__setattr__(self, name, _finite(name, getattr(self, name)))
        _check_range("Float", self.low, self.high, self.log)
        if self.step is not None:
            if self.log:
                raise SpaceError("Float takes log=True or a step, got both: leave one of them out")
            _check_step("Float", *(_decimal(x) for x in (self.step, self.low, self.high)))
            spacing = math.ulp(max(abs(self.low), abs(self.high)))
            if self.step < spacing or self.cardinality - 1 > _MAX_STEPS:
                raise SpaceError(
                    f"Float needs a step that floats can resolve, got step={self.step!r} on "
                    f"[{self.low!r}, {self.high!r}]: leave step out"
                )

    @property
    def cardinality(self) -> float:
        """The number of values; infinity without a step."""
        return self._values.cardinality

    def encode(self, value: object) -> float:
        """The coordinate of ``value``; a value within 1e-9 (relative) of a step counts as that step."""
        number = value if type(value) is float else real(value)
        u = None if number is None else self._values.encode(number)
        if u is None:
            raise ParameterError(f"expected a number {self._expected}, got {value!r}")
        return u

    def decode(self, u: float) -> float:
        """The value at coordinate ``u``, clamped to the bounds; with a step the nearest value."""
        return self._values.decode(u)

    def grid(self, n: int, low: float = 0.0, high: float = 1.0) -> Array:
        """At most n sorted, distinct coordinates of real values, spread evenly over [low, high], ends included."""
        return self._values.grid(n, low, high)

    def from_uniform(self, u: float) -> float:
        """The coordinate of a uniform draw ``u`` in [0, 1)."""
        return self._values.from_uniform(u)

    def to_json(self) -> dict[str, Any]:
        """Plain JSON; ``parameter_from_json`` reads it."""
        data = {"type": "float", "low": self.low, "high": self.high, "log": self.log, "step": self.step}
        return {**data, **when_json(self.when)}

    @cached_property
    def _values(self) -> Interval | Lattice:
        if self.step is None:
            return Interval(self.low, self.high, self.log)
        # exact decimal arithmetic on whole numbers, so that low + k step is the float that prints as expected
        low, high, step = _decimal(self.low), _decimal(self.high), _decimal(self.step)
        common = math.lcm(low.denominator, step.denominator)
        return Lattice(int(low * common), int(step * common), common, (high - low) // step)

    @cached_property
    def _expected(self) -> str:
        return _range_text(self.low, self.decode(1.0), self.step)


@dataclass(frozen=True)
class Int:
    """A whole number from low to high, both included; with ``step`` only low, low + step, … up to high.

    ``decode(encode(v)) == v`` up to 2**50 values (2**40 on a log scale); with more, it is the nearest value that a
    float can represent. ``when`` makes it conditional, as in ``Float``.
    """

    low: int
    high: int
    log: bool = field(default=False, kw_only=True)
    step: int = field(default=1, kw_only=True)
    when: When | None = field(default=None, kw_only=True, hash=False, repr=False)

    kernel_kind: ClassVar[Literal["numeric"]] = "numeric"

    def __post_init__(self) -> None:
        object.__setattr__(self, "when", checked_when("Int", self.when))
        for name in ("low", "high", "step"):
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, (int, np.integer)):
                raise SpaceError(f"Int needs whole numbers, got {name}={value!r}: use Float for a real parameter")
            object.__setattr__(self, name, int(value))
        _check_range("Int", self.low, self.high, self.log)
        _check_step("Int", self.step, self.low, self.high)
        if max(abs(self.low), abs(self.high)) > 2**62:
            raise SpaceError(f"Int needs bounds within ±2**62, got low={self.low}, high={self.high}: use Float")

    @property
    def cardinality(self) -> float:
        """The number of values."""
        return self._values.cardinality

    def encode(self, value: object) -> float:
        """The coordinate of ``value``; a float that is a whole number counts as one."""
        number = value if type(value) is int else _whole(value)
        k, rest = (-1, 0) if number is None else divmod(number - self.low, self.step)
        if rest or not 0 <= k <= self._values.last:
            raise ParameterError(f"expected a whole number {self._expected}, got {value!r}")
        return self._values.unit(k)

    def decode(self, u: float) -> int:
        """The value nearest to coordinate ``u``."""
        return self.low + self._values.nearest(u) * self.step

    def grid(self, n: int, low: float = 0.0, high: float = 1.0) -> Array:
        """At most n sorted, distinct coordinates of real values, spread evenly over [low, high], ends included.

        Never empty: if the interval contains no value, the one nearest to its middle.
        """
        return self._values.grid(n, low, high)

    def from_uniform(self, u: float) -> float:
        """The coordinate of a uniform draw ``u`` in [0, 1); on a log scale the draw is uniform in the logarithm."""
        return self._values.from_uniform(u)

    def to_json(self) -> dict[str, Any]:
        """Plain JSON; ``parameter_from_json`` reads it."""
        data = {"type": "int", "low": self.low, "high": self.high, "log": self.log, "step": self.step}
        return {**data, **when_json(self.when)}

    @cached_property
    def _values(self) -> Lattice:
        return Lattice(self.low, self.step, 1, (self.high - self.low) // self.step, self.log)

    @cached_property
    def _expected(self) -> str:
        return _range_text(self.low, self.decode(1.0), None if self.step == 1 else self.step)


def real(value: object) -> float | None:
    """``value`` as a float if it is a real number (a bool is not), otherwise None."""
    if isinstance(value, bool) or not isinstance(value, (int, float, np.integer, np.floating)):
        return None
    try:
        return float(value)
    except OverflowError:
        return math.inf if value > 0 else -math.inf


def _whole(value: object) -> int | None:
    """``value`` as an int if it is a whole number (a bool is not), otherwise None."""
    if isinstance(value, (int, np.integer)) and not isinstance(value, bool):
        return int(value)
    if isinstance(value, (float, np.floating)) and float(value).is_integer():
        return int(value)
    return None


def _finite(name: str, value: object) -> float:
    number = real(value)
    if number is None or not math.isfinite(number):
        raise SpaceError(f"Float needs finite numbers, got {name}={value!r}: give a finite {name}")
    return number


def _decimal(number: float) -> Fraction:
    """The number as printed: 1/10 for 0.1."""
    return Fraction(repr(number))


def _check_range(kind: str, low: float, high: float, log: object) -> None:
    if not isinstance(log, bool):
        raise SpaceError(f"{kind} needs log=True or log=False, got log={log!r}")
    if low >= high:
        hint = "swap them" if low > high else "a parameter with a single value is a constant, leave it out"
        raise SpaceError(f"{kind} needs low < high, got low={low!r}, high={high!r}: {hint}")
    if log and low <= 0:
        raise SpaceError(f"{kind} with log=True needs low > 0, got low={low!r}: raise low or leave log out")


def _check_step(kind: str, step: int | Fraction, low: int | Fraction, high: int | Fraction) -> None:
    if step <= 0:
        raise SpaceError(f"{kind} needs step > 0, got step={float(step):g}: give a positive step")
    if step > high - low:
        raise SpaceError(
            f"{kind} needs a step of at most high - low = {float(high - low):g}, got step={float(step):g}: lower it"
        )


def _range_text(low: float, last: float, step: float | None) -> str:
    return f"from {low!r} to {last!r}" + ("" if step is None else f" in steps of {step!r}")
