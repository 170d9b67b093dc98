"""Coordinate exchange: the ascent of a score in the discrete coordinates of a point."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from dechbo.acquisition.score import Score
from dechbo.space import Space

Array = NDArray[np.float64]
Indices = NDArray[np.int64]

MAX_VALUES = 16  # of one parameter that are tried in a round, evenly spaced, besides its neighbours
MAX_ROUNDS = 20
MIN_GAIN = 1e-9


def exchange(score: Score, space: Space, point: Array, discrete: Indices) -> Array:
    """The end of an ascent in the coordinates ``discrete``, never worse than ``point``.

    Each round scores every single exchange, then the best one, two, four, … of them together, and takes the best.
    Points that break a known constraint are left out.
    """
    here, value = point, float(score.values(point[None])[0])
    for _ in range(MAX_ROUNDS):
        tried = _neighbours(space, here, discrete)
        if len(tried) == 0:
            break
        gains = score.values(tried) - value
        order = [int(k) for k in np.argsort(-gains, kind="stable") if gains[k] > MIN_GAIN]
        if not order:
            break
        together = _combined(here, tried, order)
        allowed = space.region.allows(together) if space.constraints else np.ones(len(together), dtype=bool)
        values = np.where(allowed, score.values(together), -np.inf)
        here, value = together[int(values.argmax())], float(values.max())
    return here


def _neighbours(space: Space, here: Array, discrete: Indices) -> Array:
    """All allowed points that differ from ``here`` in one discrete coordinate, (n, d)."""
    points = []
    for i in discrete.tolist():
        for value in _tried_values(space, i, float(here[i])):
            moved = here.copy()
            moved[i] = value
            points.append(moved)
    found = np.array(points).reshape(-1, len(here))
    return found[space.region.allows(found)] if space.constraints and len(found) else found


def _tried_values(space: Space, i: int, here: float) -> Array:
    parameter = space.parameters[i]
    if space.is_categorical[i] or parameter.cardinality <= MAX_VALUES:
        values = parameter.grid(int(min(parameter.cardinality, 2**20)))
    else:
        step = 1.5 / (parameter.cardinality - 1)
        near = parameter.grid(3, max(here - step, 0.0), min(here + step, 1.0))
        values = np.unique(np.concatenate([parameter.grid(MAX_VALUES), near]))
    return values[np.abs(values - here) > 1e-12]


def _combined(here: Array, tried: Array, order: list[int]) -> Array:
    """The best exchange, then the best two, four, … of different coordinates together, (n, d)."""
    best: dict[int, float] = {}
    for k in order:
        i = int(np.flatnonzero(tried[k] != here)[0])
        best.setdefault(i, float(tried[k, i]))
    points, count = [], 1
    while True:
        moved = here.copy()
        for i, value in list(best.items())[:count]:
            moved[i] = value
        points.append(moved)
        if count >= len(best):
            return np.array(points)
        count *= 2
