"""The initial design: an endless sequence of scrambled Sobol points that satisfy the known constraints."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping

import numpy as np
from numpy.typing import NDArray
from scipy.stats import qmc

from dechbo.space import Space

Array = NDArray[np.float64]

LOG2_REJECTED = 6  # log2 of how many Sobol points may be rejected for each that satisfies the constraints


def initial_points(space: Space, seed: int, drawn: int, asked: int, fixed: Mapping[int, float]) -> Iterator[Array]:
    """Sobol points from number ``drawn`` on, then random ones that depend on ``asked``.

    Points that break a known constraint are left out; where few are left, random ones walk through the allowed region.
    """
    if space.dim <= qmc.Sobol.MAXDIM:
        sobol = qmc.Sobol(space.dim, rng=np.random.default_rng([seed, 0]))
        enough = max(4, drawn.bit_length() + 1)
        if space.constraints:
            yield from itertools.islice(_allowed(space, sobol, enough, fixed), drawn, None)
        else:
            yield from (_point(space, u, fixed) for u in sobol.random_base2(enough)[drawn:])
    rng = np.random.default_rng([seed, 1, asked])
    while True:
        yield space.draw(rng, fixed)


def _allowed(space: Space, sobol: qmc.Sobol, enough: int, fixed: Mapping[int, float]) -> Iterator[Array]:
    """The Sobol points that satisfy the constraints, among the first 2**(enough + LOG2_REJECTED)."""
    for block in [enough, *range(enough, enough + LOG2_REJECTED)]:  # each time as many as all before
        points = np.array([_point(space, u, fixed) for u in sobol.random_base2(block)])
        yield from points[space.region.allows(points)]


def _point(space: Space, u: Array, fixed: Mapping[int, float]) -> Array:
    point = space.from_uniform(u)
    point[list(fixed)] = list(fixed.values())
    if space.conditions:  # a fixed choice may have made others active
        point = space.canonical(space.conditions.filled(point, np.empty((0, space.dim)))[None])[0]
    return point
