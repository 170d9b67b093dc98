"""Search without a model (tests: test_base.py)."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from dechbo.baselines.base import Baseline

Array = NDArray[np.float64]


class RandomSearch(Baseline):
    """Independent uniform points; a finite space is searched without repeats."""

    def _next_point(self) -> Array:
        return self._first_allowed(iter(()))


class SobolSearch(Baseline):
    """The points of one scrambled Sobol sequence, in order."""

    def _next_point(self) -> Array:
        return self._initial_point()
