"""Maps between values and coordinates in [0, 1]: an interval of reals, or a lattice of evenly spaced values.

Tested by tests/space/test_encoding.py.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from dechbo.errors import OptionError

Array = NDArray[np.float64]

_TOLERANCE = 1e-9  # relative distance within which a value counts as a step of the lattice


@dataclass(frozen=True)
class LinearScale:
    """u = (v - low) / (high - low)."""

    low: float
    high: float

    @cached_property
    def _half(self) -> float:
        """1, or ½ if high - low would overflow."""
        return 1.0 if math.isfinite(self.high - self.low) else 0.5

    @cached_property
    def _span(self) -> float:
        return self._half * self.high - self._half * self.low

    def unit(self, value: float) -> float:
        """The coordinate of ``value``."""
        return (self._half * value - self._half * self.low) / self._span

    def value(self, u: float) -> float:
        """The value at coordinate ``u``."""
        return (self._half * self.low + u * self._span) / self._half


@dataclass(frozen=True)
class LogScale:
    """u = log(v / low) / log(high / low), by log1p, which keeps precision if the bounds are close to each other."""

    low: float
    high: float

    @cached_property
    def _wide(self) -> bool:
        return math.log(self.high) - math.log(self.low) > 600.0  # high / low would overflow, or nearly

    @cached_property
    def _span(self) -> float:
        return self._log_ratio(self.high)

    def _log_ratio(self, value: float) -> float:
        if self._wide:
            return math.log(value) - math.log(self.low)
        return math.log1p((value - self.low) / self.low)

    def unit(self, value: float) -> float:
        """The coordinate of ``value``."""
        return self._log_ratio(value) / self._span

    def value(self, u: float) -> float:
        """The value at coordinate ``u``."""
        if self._wide:
            return math.exp(math.log(self.low) + u * self._span)
        return self.low + self.offset(u)

    def offset(self, u: float) -> float:
        """The value at coordinate ``u`` minus low, at full precision."""
        return self.low * math.expm1(u * self._span)


@dataclass(frozen=True)
class Interval:
    """All real values from low to high."""

    low: float
    high: float
    log: bool

    cardinality: ClassVar[float] = math.inf

    @cached_property
    def _scale(self) -> LinearScale | LogScale:
        return LogScale(self.low, self.high) if self.log else LinearScale(self.low, self.high)

    def encode(self, value: float) -> float | None:
        """The coordinate of ``value``; None outside the bounds."""
        return self._scale.unit(value) if self.low <= value <= self.high else None

    def decode(self, u: float) -> float:
        """The value at coordinate ``u``, clamped to the bounds."""
        if u <= 0.0:
            return self.low
        return self.high if u >= 1.0 else min(max(self._scale.value(u), self.low), self.high)

    def grid(self, n: int, low: float, high: float) -> Array:
        """n coordinates spread evenly over [low, high], ends included; for n = 1 the middle."""
        low, high = _checked_interval(n, low, high)
        return np.unique(np.linspace(low, high, n)) if n > 1 else np.array([(low + high) / 2])

    def from_uniform(self, u: float) -> float:
        """The coordinate of a uniform draw: the draw itself."""
        return u


@dataclass(frozen=True)
class Lattice:
    """The values (first + k step) / common for k = 0 … last, computed in whole numbers and rounded once."""

    first: int
    step: int
    common: int
    last: int
    log: bool = False

    @property
    def cardinality(self) -> float:
        """The number of values, last + 1."""
        return float(self.last + 1)

    @cached_property
    def _scale(self) -> LogScale:
        return LogScale(self.first, self.first + self.last * self.step)

    @cached_property
    def _uniform_scale(self) -> LogScale:
        return LogScale(self.first, self.first + (self.last + 1) * self.step)

    def encode(self, value: float) -> float | None:
        """The coordinate of the value nearest to ``value``; None if the two differ by more than rounding error."""
        if not math.isfinite(value):
            return None
        above, below = value.as_integer_ratio()
        offset, width = above * self.common - self.first * below, below * self.step
        k = min(max((2 * offset + width) // (2 * width), 0), self.last)
        slack = _TOLERANCE * (self.step / self.common)
        return self.unit(k) if math.isclose(value, self._value(k), rel_tol=_TOLERANCE, abs_tol=slack) else None

    def decode(self, u: float) -> float:
        """The value nearest to coordinate ``u``."""
        return self._value(self.nearest(u))

    def _value(self, k: int) -> float:
        return (self.first + k * self.step) / self.common

    def unit(self, k: int) -> float:
        """The coordinate of the k-th value."""
        return self._scale.unit(self.first + k * self.step) if self.log else k / self.last

    def nearest(self, u: float) -> int:
        """The k whose coordinate is nearest to ``u``."""
        if u <= 0.0:
            return 0
        if u >= 1.0:
            return self.last
        if not self.log:
            return round(u * self.last)
        below = min(int(self._scale.offset(u) / self.step), self.last - 1)
        return below if u - self.unit(below) <= self.unit(below + 1) - u else below + 1

    def from_uniform(self, u: float) -> float:
        """The coordinate of value number floor(u (last + 1)), or of the value below the draw on a log scale."""
        k = int(self._uniform_scale.offset(u) / self.step if self.log else u * (self.last + 1))
        return self.unit(min(max(k, 0), self.last))

    def grid(self, n: int, low: float, high: float) -> Array:
        """At most n distinct coordinates in [low, high], evenly spaced on the scale; never empty."""
        low, high = _checked_interval(n, low, high)
        start, stop = self.nearest(low), self.nearest(high)
        start += self.unit(start) < low
        stop -= self.unit(stop) > high
        if start > stop or n == 1:
            return np.array([self.unit(self.nearest((low + high) / 2))])
        chosen = range(start, stop + 1) if stop - start < n else self._spread(n, start, stop)
        return np.unique([min(max(self.unit(k), low), high) for k in chosen])

    def _spread(self, n: int, start: int, stop: int) -> list[int]:
        """n distinct k from start to stop, nearest to evenly spaced coordinates, ends included."""
        chosen = [self.nearest(u) for u in np.linspace(self.unit(start), self.unit(stop), n).tolist()]
        chosen[0], chosen[-1] = start, stop
        for j in range(1, n):  # a log scale may have fewer values than targets: move up
            chosen[j] = min(max(chosen[j], chosen[j - 1] + 1), stop - (n - 1 - j))
        return chosen


def _checked_interval(n: int, low: float, high: float) -> tuple[float, float]:
    """Check n, and clip [low, high] to [0, 1]."""
    if n < 1:
        raise OptionError(f"a grid needs n >= 1 candidates, got {n}")
    return min(max(low, 0.0), 1.0), min(max(high, 0.0), 1.0)
