"""What every posterior offers, whatever its kernel."""

from __future__ import annotations

from typing import Protocol, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

Array = NDArray[np.float64]


class JointPosterior(Protocol):
    """The posterior of f at any points; ``AdditivePosterior`` and ``RadialPosterior`` are such."""

    @property
    def X(self) -> Array:  # noqa: N802
        """(n, d): observed points, then pending ones."""
        ...

    @property
    def L(self) -> Array:  # noqa: N802
        """L L^T = K + noise."""
        ...

    @property
    def alpha(self) -> Array:
        """(K + noise)^-1 y, zero for pending points."""
        ...

    @property
    def jitter(self) -> float:
        """What had to be added to the diagonal to factorise K."""
        ...

    def joint(self, points: ArrayLike) -> tuple[Array, Array]:
        """Mean and standard deviation at ``points`` (n, d)."""
        ...

    def joint_gradient(self, points: Array) -> tuple[Array, Array, Array, Array]:
        """Mean and standard deviation at ``points`` (n, d), and their gradients (n, d), 0 for categories."""
        ...

    def with_pending(self, points: Array) -> Self:
        """Condition the deviations, but not the means, on ``points`` (m, d) too."""
        ...


WeightedPosterior = tuple[float, JointPosterior]
