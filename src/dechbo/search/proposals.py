"""Proposals: points worth a score, from all over the space and from around the incumbents."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.stats import qmc

from dechbo.space import Space

Array = NDArray[np.float64]

CHANGED = (1, 2, 5, 20)  # how many coordinates a point around an incumbent changes, or all of them
SMALLEST_STEP, LARGEST_STEP = -2.5, -0.3  # log10 of the standard deviation of its steps
FRESH_SHARE = 0.3  # of the changes of a discrete coordinate that go anywhere, not to a value nearby
MAX_VALUES = 4096  # of a discrete parameter


@dataclass(frozen=True, eq=False)
class Proposals:
    """Points (n, d) and where each comes from."""

    points: Array
    sources: tuple[str, ...]

    @classmethod
    def joined(cls, parts: Sequence[tuple[str, Array]]) -> Proposals:
        """The points of all parts, each with the name of its part."""
        sources = tuple(name for name, points in parts for _ in range(len(points)))
        return cls(np.vstack([points for _, points in parts]), sources)


def spread(space: Space, rng: np.random.Generator, count: int) -> Array:
    """Scrambled Sobol points over the whole space, (count, d); every value of a discrete parameter is possible."""
    if space.dim <= qmc.Sobol.MAXDIM:
        uniform = qmc.Sobol(space.dim, rng=rng).random_base2(max(0, (count - 1).bit_length()))[:count]
    else:
        uniform = rng.random((count, space.dim))
    points = np.array(uniform)
    for i in np.flatnonzero(~space.is_continuous).tolist():
        parameter = space.parameters[i]
        points[:, i] = [parameter.from_uniform(u) for u in uniform[:, i].tolist()]
    return points


def around(space: Space, rng: np.random.Generator, centre: Array, count: int) -> Array:
    """Points that share most coordinates with ``centre``, (count, d).

    In high dimensions a point that differs in every coordinate from a good one is rarely better, however near it is.
    """
    d = space.dim
    if space.conditions:
        changed = _changed_where_active(space, rng, centre, count)
    else:
        many = rng.choice([*(n for n in CHANGED if n < d), d], size=(count, 1))
        changed = rng.random((count, d)) < many / d
        changed[np.arange(count), rng.integers(d, size=count)] = True
    steps = 10 ** rng.uniform(SMALLEST_STEP, LARGEST_STEP, (count, 1)) * rng.standard_normal((count, d))
    moved = np.clip(centre + steps, 0.0, 1.0)
    for i in np.flatnonzero(~space.is_continuous).tolist():
        moved[:, i] = _other_values(space, rng, i, float(centre[i]), count)
    points: Array = np.where(changed, moved, centre)
    return points


def _changed_where_active(space: Space, rng: np.random.Generator, centre: Array, count: int) -> NDArray[np.bool_]:
    """Which coordinates to change, (count, d), at least one of them active at ``centre``.

    Inactive ones change half of the time: it matters where the change of another makes them active.
    """
    active = np.flatnonzero(space.conditions.active(centre[None])[0])
    many = rng.choice([*(n for n in CHANGED if n < len(active)), len(active)], size=(count, 1))
    changed = rng.random((count, space.dim)) < 0.5
    changed[:, active] = rng.random((count, len(active))) < many / len(active)
    changed[np.arange(count), rng.choice(active, size=count)] = True
    return changed


def _other_values(space: Space, rng: np.random.Generator, i: int, here: float, count: int) -> Array:
    """Values of a discrete parameter: any category, or a number a few steps from ``here`` and sometimes any."""
    values = space.parameters[i].grid(MAX_VALUES)
    anywhere = rng.choice(values, count)
    if space.is_categorical[i]:
        return anywhere
    at = int(np.abs(values - here).argmin())
    jumps = rng.choice([-1, 1], count) * np.maximum(1, np.rint(rng.exponential(1.0, count))).astype(np.int64)
    nearby = values[np.clip(at + jumps, 0, len(values) - 1)]
    return np.where(rng.random(count) < FRESH_SHARE, anywhere, nearby)


def within_reach(space: Space, points: Array, fixed: Mapping[int, float], allowed: Array) -> Array:
    """``points`` with the coordinates ``fixed``, pulled towards the point ``allowed`` where they break a constraint."""
    answer = points.copy()
    answer[:, list(fixed)] = list(fixed.values())
    return space.region.pull_inside(answer, allowed) if space.constraints else answer
