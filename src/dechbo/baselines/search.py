"""Searches without a model: uniform draws, and a low-discrepancy sequence."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from dechbo.baselines.rival import AskTell

Array = NDArray[np.float64]


class RandomSearch(AskTell):
    """Independent uniform points; in a finite space none comes twice while there are others."""

    def _next_point(self) -> Array:
        return self._first_free(iter(()))


class SobolSearch(AskTell):
    """The points of one scrambled Sobol sequence, as many further as are told or pending."""

    def _next_point(self) -> Array:
        return self._initial_point()
