"""AlsoExcluded: an exclusion with one more rule."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dechbo.data.excluded import Exclusion

Array = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class AlsoExcluded:
    """The points of ``excluded``, and those for which ``rule`` is true."""

    excluded: Exclusion
    rule: Callable[[Array], bool]

    def __contains__(self, point: Array, /) -> bool:
        return self.rule(point) or point in self.excluded
