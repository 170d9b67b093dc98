"""Exclusions: the points that a search must not suggest."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from dechbo.data.history import same_coordinates
from dechbo.space import Space

Array = NDArray[np.float64]


class Exclusion(Protocol):
    """Says of a point whether it must not be suggested: ``point in exclusion``."""

    def __contains__(self, point: Array, /) -> bool: ...


@dataclass(frozen=True, eq=False)
class Excluded:
    """Given points, and every point that breaks a known constraint: ``point in excluded``."""

    space: Space
    points: Array  # (n, d), evaluated or pending; none where points may be evaluated again

    def __contains__(self, point: Array, /) -> bool:
        here = self.space.canonical(point[None])[0]
        return bool(same_coordinates(self.space, self.points, here).all(axis=1).any()) or not self.space.allows(here)
