"""Values and coordinates of one numeric parameter, vectorised and between its values too.

Tested by tests/space/test_region.py.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from dechbo.space.numeric import Float, Int
from dechbo.space.parameters import Parameter

Array = NDArray[np.float64]


def bounds(parameter: Parameter) -> tuple[float, float]:
    """The values at coordinates 0 and 1."""
    return float(parameter.decode(0.0)), float(parameter.decode(1.0))  # type: ignore[arg-type]


def is_log(parameter: Parameter) -> bool:
    """Whether the parameter is on a log scale."""
    return isinstance(parameter, (Float, Int)) and parameter.log


def values_at(parameter: Parameter, coordinates: Array) -> Array:
    """The values at many coordinates at once."""
    if parameter.cardinality < np.inf:
        distinct, where = np.unique(coordinates, return_inverse=True)
        return np.array([parameter.decode(u) for u in distinct.tolist()], dtype=np.float64)[where]
    low, high = bounds(parameter)
    u = np.clip(coordinates, 0.0, 1.0)
    if is_log(parameter):
        values = np.exp((1 - u) * np.log(low) + u * np.log(high))
    else:
        values = 2 * ((1 - u) * (low / 2) + u * (high / 2))
    return np.asarray(np.clip(values, low, high))


def coordinate_of(parameter: Parameter, value: float) -> float:
    """The coordinate of a real number, which need not be one of the parameter's values."""
    low, high = bounds(parameter)
    value = min(max(value, low), high)
    if is_log(parameter):
        return float(np.log(value / low) / np.log(high / low))
    return float((value / 2 - low / 2) / (high / 2 - low / 2))


def derivative_at(parameter: Parameter, value: float) -> float:
    """dvalue / dcoordinate at ``value``."""
    low, high = bounds(parameter)
    return float(value * np.log(high / low) if is_log(parameter) else high - low)


def snap(parameter: Parameter, coordinate: float) -> float:
    """The coordinate of the value nearest to ``coordinate``; unchanged for a continuous parameter."""
    return coordinate if parameter.cardinality == np.inf else parameter.encode(parameter.decode(coordinate))
