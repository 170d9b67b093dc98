"""Scores with known maxima, and a mixed space, that tests of the search share."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dechbo import Categorical, Float, Int, Space
from dechbo.search.excluded import Exclusion

Array = NDArray[np.float64]

MIXED = Space({"a": Float(0, 1), "b": Float(0, 1), "k": Int(0, 6), "c": Categorical(["p", "q", "r"])})
LIMITED = Space(
    {"a": Float(0, 1), "b": Float(0, 1), "k": Int(0, 6), "c": Categorical(["p", "q", "r"])},
    constraints=["a + b <= 1", "k <= 4 + 2 * a"],
)


@dataclass(frozen=True, eq=False)
class Hill:
    """-sum_i (x_i - peak_i)^2, where a category counts as 1 apart from the peak's."""

    space: Space
    peak: Array

    def values(self, points: Array) -> Array:
        total: Array = -(self._differences(points) ** 2).sum(axis=1)
        return total

    def gradients(self, points: Array) -> tuple[Array, Array]:
        slopes = -2 * self._differences(points)
        slopes[:, self.space.is_categorical] = 0.0
        return self.values(points), slopes

    def _differences(self, points: Array) -> Array:
        apart: Array = points - self.peak
        return np.where(self.space.is_categorical, (apart != 0).astype(float), apart)


@dataclass(frozen=True, eq=False)
class Anything:
    """A score of which only the values are known."""

    function: Callable[[Array], Array]

    def values(self, points: Array) -> Array:
        return self.function(points)

    def gradients(self, points: Array) -> tuple[Array, Array]:
        return self.function(points), np.zeros(points.shape)


INSIDE = LIMITED.encode({"a": 0.25, "b": 0.3, "k": 3, "c": "q"})  # satisfies the constraints


def is_in(space: Space, points: Array) -> bool:
    """Whether every point is one that the space can have, and satisfies the known constraints."""
    again = np.array([space.encode(space.decode(point)) for point in points])
    numbers = points[:, ~space.is_categorical]
    possible = np.allclose(again, points, atol=1e-12) and bool(((numbers >= 0) & (numbers <= 1)).all())
    return possible and (not space.constraints or bool(space.region.allows(points).all()))


@dataclass(frozen=True, eq=False)
class AlsoExcluded:
    """The points of ``excluded``, and those for which ``rule`` is true."""

    excluded: Exclusion
    rule: Callable[[Array], bool]

    def __contains__(self, point: Array, /) -> bool:
        return self.rule(point) or point in self.excluded
