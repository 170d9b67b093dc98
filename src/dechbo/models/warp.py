"""From the values told to those that are modelled: a monotone warp, then mean 0 and standard deviation 1.

The warp g(y) = -c log(1 + (y* - y) / c), y* the best value, compresses what lies more than c below the best: values of
a steep function that would otherwise hide everything near its optimum. It has slope 1 at the best value and tends to
the identity as c grows. The evidence decides between the identity and a few widths c, with the Jacobian of the warp:
models of different transforms of the same values are compared by the density of the values themselves.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dechbo.data.observations import Observations, Standardisation

Array = NDArray[np.float64]

WIDTHS = (0.5, 0.2, 0.05)  # quantiles of the distances from the best value that are tried as widths


@dataclass(frozen=True)
class ValueScale:
    """z = (g(y) - shift) / scale; larger is better."""

    standardisation: Standardisation
    best: float = 0.0
    width: float | None = None  # None: no warp

    @classmethod
    def of(cls, y: Array, width: float | None = None) -> ValueScale:
        """The scale of values y (n,)."""
        best = float(y.max())
        return cls(Standardisation.of(_warped(y, best, width)), best, width)

    def standard(self, y: Array) -> Array:
        """z of values y."""
        return self.standardisation.standard(_warped(y, self.best, self.width))

    def original(self, z: float) -> float:
        """y of a value z."""
        g = self.standardisation.original(z)
        if self.width is None:
            return g
        return self.best - self.width * float(np.expm1(min(-g / self.width, 700.0)))

    def original_deviation(self, z: float, deviation: float) -> float:
        """Half the distance between y one ``deviation`` above and below z."""
        if self.width is None:
            return self.standardisation.scale * deviation
        return 0.5 * (self.original(z + deviation) - self.original(z - deviation))

    def observations(self, raw: Observations) -> Observations:
        """``raw`` with standard values; known noise is scaled by the slope of z."""
        if self.width is None:
            return raw.standardised_by(self.standardisation)
        slope = np.exp(self._log_slopes(raw.y)) / self.standardisation.scale
        return Observations(raw.X, self.standard(raw.y), np.minimum(raw.noise * slope * slope, 1e12))

    def log_jacobian(self, y: Array) -> float:
        """sum_p log dz/dy at values y."""
        return float(self._log_slopes(y).sum() - len(y) * np.log(self.standardisation.scale))

    def _log_slopes(self, y: Array) -> Array:
        """log dg/dy."""
        return np.zeros(len(y)) if self.width is None else -np.log1p(_distances(y, self.best) / self.width)


def candidate_widths(y: Array) -> list[float | None]:
    """The identity and a few widths; only the identity where most values equal the best."""
    distances = _distances(y, float(y.max()))
    found = [float(np.quantile(distances, share)) for share in WIDTHS]
    spread = float(distances.max(initial=0.0))
    return [None, *(width for width in found if np.isfinite(width) and width > 1e-12 * spread)]


def _warped(y: Array, best: float, width: float | None) -> Array:
    if width is None:
        return y
    warped: Array = -width * np.log1p(_distances(y, best) / width)
    return warped


def _distances(y: Array, best: float) -> Array:
    """best - y, at least 0 and at most the largest double."""
    with np.errstate(over="ignore"):
        distances: Array = np.clip(best - y, 0.0, np.finfo(float).max)
    return distances
