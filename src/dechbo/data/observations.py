"""What has been measured: points X, values y, and the known noise of each value."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dechbo.errors import DataError

Array = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Observations:
    """n evaluations: ``X`` (n, d), ``y`` (n,) and ``noise`` (n,), the known noise variance of each value.

    ``noise`` comes on top of the model's own noise variance, and is zero where nothing is known.
    """

    X: Array
    y: Array
    noise: Array = field(default_factory=lambda: np.zeros(0))

    def __post_init__(self) -> None:
        X, y = np.array(self.X, dtype=np.float64), np.array(self.y, dtype=np.float64)
        noise = np.array(self.noise, dtype=np.float64)
        noise = np.zeros(len(y)) if noise.size == 0 and y.ndim == 1 else noise
        if X.ndim != 2 or y.shape != (len(X),) or noise.shape != y.shape:
            raise DataError(
                f"expected X of shape (n, d) with y and noise of shape (n,), got {X.shape}, {y.shape}, {noise.shape}"
            )
        if not (np.isfinite(X).all() and np.isfinite(y).all() and np.isfinite(noise).all()):
            raise DataError("X, y and noise need finite numbers; leave failed evaluations out")
        if (noise < 0).any():
            raise DataError(f"a noise variance is at least 0, got {noise.min()}")
        for name, array in (("X", X), ("y", y), ("noise", noise)):
            array.flags.writeable = False
            object.__setattr__(self, name, array)

    def __len__(self) -> int:
        return len(self.y)

    @property
    def dim(self) -> int:
        """The number of variables."""
        return int(self.X.shape[1])

    def append(self, point: ArrayLike, value: float, noise: float = 0.0) -> Observations:
        """One more evaluation, as a new object."""
        coordinates = np.asarray(point, dtype=np.float64)
        if coordinates.shape != (self.dim,):
            raise DataError(f"a point needs {self.dim} coordinates, got shape {coordinates.shape}")
        X = np.vstack([self.X, coordinates])
        return Observations(X, np.append(self.y, value), np.append(self.noise, noise))

    def evenly_spaced(self, size: int) -> Observations:
        """At most ``size`` observations, evenly spaced in the order of evaluation."""
        if size >= len(self):
            return self
        chosen = np.linspace(0, len(self) - 1, size).round().astype(np.int64)
        return Observations(self.X[chosen], self.y[chosen], self.noise[chosen])

    def standardised(self) -> tuple[Observations, Standardisation]:
        """The same points with values of mean 0 and standard deviation 1, and the way back."""
        scaling = Standardisation.of(self.y)
        return self.standardised_by(scaling), scaling

    def standardised_by(self, scaling: Standardisation) -> Observations:
        """The same points with values and noise in the units of ``scaling``."""
        # divided twice: the square of the scale may leave the range of doubles, the quotient does not
        with np.errstate(over="ignore"):  # but noise far above tiny values still may: it is cut just below
            noise = np.minimum(self.noise / scaling.scale / scaling.scale, 1e12)
        return Observations(self.X, scaling.standard(self.y), noise)


@dataclass(frozen=True)
class Standardisation:
    """y = shift + scale z, robust for values anywhere between 1e-300 and 1e300."""

    shift: float
    scale: float

    @classmethod
    def of(cls, y: Array) -> Standardisation:
        """Mean and standard deviation, computed on values divided by their largest magnitude."""
        top = float(np.abs(y).max(initial=0.0))
        if top == 0.0:
            return cls(0.0, 1.0)
        ratios = y / top
        # the spread of a constant is rounding of the mean: below 1e-14 of the magnitude there is nothing to see
        spread = float(ratios.std())
        return cls(float(ratios.mean()) * top, spread * top if spread > 1e-14 and spread * top > 0 else top)

    def standard(self, y: Array) -> Array:
        """z = (y - shift) / scale, halved inside so that differences of huge values do not overflow."""
        z: Array = 2.0 * ((y / 2 - self.shift / 2) / self.scale)
        return z

    def original(self, z: float) -> float:
        """y = shift + scale z."""
        return self.shift + self.scale * z
