"""The Maximizer protocol and its result, Maximum. Tested by tests/maxsum/test_maxsum.py."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from dechbo.tables import FactorTables


@dataclass(frozen=True, eq=False)
class Maximum:
    """A choice and its certificate: value = phi(choice) <= max phi <= upper_bound."""

    choice: NDArray[np.int64]  # one candidate index per variable
    value: float
    upper_bound: float
    rounds: int
    converged: bool
    residual: float  # the largest change of a message entry in the last round
    mean: float = float("nan")  # sum_I mean(table_I): the value of a random choice

    @property
    def gap(self) -> float:
        """(upper_bound - value) / (value - mean): 0 for a proven maximum, inf if value <= mean."""
        if self.upper_bound == self.value:
            return 0.0
        if self.value <= self.mean:
            return float("inf")
        return (self.upper_bound - self.value) / (self.value - self.mean)


class Maximizer(Protocol):
    """Anything that maximises sum_I phi_I: MaxSum, Exact."""

    def maximize(self, tables: FactorTables) -> Maximum:
        """The best choice found, with an upper bound on the maximum."""
        ...
