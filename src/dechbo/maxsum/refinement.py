"""What MaxSum does where bound and value still differ after its messages: more search, a tighter bound.

Tested by tests/maxsum/test_maxsum.py.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from dechbo.maxsum.decimation import READS, decimate
from dechbo.maxsum.dual import bound_terms
from dechbo.maxsum.local_search import ascend
from dechbo.maxsum.messages import Array, Indices, Packed, score
from dechbo.maxsum.smoothing import smoothed_bound
from dechbo.maxsum.tabu import tabu_search
from dechbo.maxsum.tightening import Tightening

DAMPINGS = (0.2, 0.5, 0.7)  # one decimation each
ASCENT_SWEEPS = 20


@dataclass
class Refinement:
    """A choice and dual messages, both improved in place, until the bound meets the value or the stages end."""

    packed: Packed
    choice: Indices
    dual: Array
    bound: float
    scale: float  # the largest range of a table
    tolerance: float  # a smaller gap is none

    def run(self, smooth_sweeps: int, restarts: int, cluster_cells: int, work: int) -> float:
        """Each stage runs only while the gap is open; returns the bound."""
        packed, cells = self.packed, self._cells()
        rounding = 64.0 * float(np.finfo(np.float64).eps) * bound_terms(packed, self.dual)[1]
        closed = self.tolerance + rounding
        sweeps = min(smooth_sweeps, work // cells)
        if sweeps and self._gap() > closed:
            self.bound, _ = smoothed_bound(
                packed, self.dual, self.choice, score(packed, self.choice), self.scale, sweeps, closed
            )
        if restarts and self._gap() > closed:
            self._search(restarts, min(len(DAMPINGS), work // (READS * cells)), self.bound - closed)
        if cluster_cells and cells <= work // 4 and self._gap() > closed:
            tightening = Tightening(packed, self.choice, self.bound, cluster_cells, work, closed)
            tightening.run(self.dual)
            self.bound = tightening.bound
        return self.bound

    def _gap(self) -> float:
        return self.bound - score(self.packed, self.choice)

    def _cells(self) -> int:
        first = self.packed.scopes[:-1]
        return int((self.packed.lengths[first] * self.packed.strides[first]).sum())

    def _search(self, restarts: int, decimations: int, target: float) -> None:
        """Decimation from several dampings, then a tabu search from the best, then factor by factor."""
        start = self.choice.copy()
        for damping in DAMPINGS[:decimations]:
            decimate(self.packed, damping, self.scale, start)
            ascend(self.packed, start, ASCENT_SWEEPS)
            if score(self.packed, start) > score(self.packed, self.choice):
                self.choice[:] = start
        tabu_search(self.packed, self.choice, restarts, target)
        ascend(self.packed, self.choice, ASCENT_SWEEPS)
