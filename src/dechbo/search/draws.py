"""Points of a space one after another: all of a finite one, or random ones until it counts as exhausted."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Mapping

import numpy as np
from numpy.typing import NDArray

from dechbo.data.history import RESOLUTION
from dechbo.space import Space

Array = NDArray[np.float64]

MAX_ENUMERATED = 20_000  # finite spaces up to this size are searched point by point where points are excluded
MAX_DRAWS = 10_000  # random points after which a space counts as exhausted
MAX_CONSTRAINED_DRAWS, MAX_IDLE_DRAWS = 200, 50  # under constraints: in all, and in a row without a new point


def listed_points(space: Space, fixed: Mapping[int, float]) -> Array:
    """Every point of a finite space that has the coordinates ``fixed``, (n, d)."""
    parameters = enumerate(space.parameters)
    values = [[fixed[i]] if i in fixed else p.grid(MAX_ENUMERATED) for i, p in parameters]
    points = np.array(list(itertools.product(*values)))
    return np.unique(space.canonical(points), axis=0) if space.conditions else points


def bounded_draws(space: Space, points: Iterable[Array], known: int) -> Iterator[Array]:
    """The first of ``points``, enough to find that a space is exhausted of which ``known`` points are excluded.

    Under constraints a draw is expensive and the region may hold few points: the draws end when they only repeat.
    """
    if not space.constraints:
        yield from itertools.islice(points, known + MAX_DRAWS)
        return
    met: set[bytes] = set()
    idle = 0
    for point in itertools.islice(points, known + MAX_CONSTRAINED_DRAWS):
        place = (point / RESOLUTION).round().tobytes()
        idle = idle + 1 if place in met else 0
        met.add(place)
        if idle == MAX_IDLE_DRAWS:
            return
        yield point
