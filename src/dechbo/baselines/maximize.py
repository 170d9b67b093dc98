"""How the baselines maximise an acquisition: many candidates scored at once, then gradient ascents from the best few.

Candidates are the whole domain where it is small and finite, an even grid in one dimension, and otherwise a scrambled
Sobol sample with perturbed copies of the best observed points. Ascents move the continuous coordinates and alternate
with the best single change of a discrete one, until neither helps. Tests: test_ucb.py.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import numpy as np
from numpy.typing import NDArray
from scipy.stats import qmc

from dechbo.baselines.base import enumerate_points
from dechbo.search.polish import polish
from dechbo.space import Space

Array = NDArray[np.float64]
Ranked = list[tuple[float, Array]]  # values and points, the best first

GRID_SIZE = 257  # candidates for one continuous variable
SAMPLES_PER_VARIABLE, MAX_CANDIDATES = 256, 1024
N_INCUMBENTS, COPIES_PER_INCUMBENT = 3, 48  # the best observed points, and perturbed copies of each
MAX_MEAN_MOVES = 20  # coordinates that move in a perturbed copy, on average
MAX_ASCENTS, ASCENT_ITERATIONS, MAX_SWEEPS = 4, 30, 3
MIN_START_DISTANCE = 0.05  # starts of ascents differ by more than this in some coordinate
N_FALLBACKS = 32  # candidates returned besides the maximum, in case it is excluded


class DifferentiableAcquisition(Protocol):
    """An acquisition with a gradient in the continuous coordinates."""

    def values(self, points: Array) -> Array:
        """The values at many points."""
        ...

    def value_and_gradient(self, point: Array) -> tuple[float, Array]:
        """The value and the gradient at one point."""
        ...


def candidates(domain: Space, rng: np.random.Generator, incumbents: Array) -> Array:
    """Points (n, |I|) that cover ``domain``, with more of them around ``incumbents`` (m, |I|)."""
    if domain.cardinality <= MAX_CANDIDATES:
        return enumerate_points(domain)
    if domain.dim == 1:
        return np.concatenate([domain.parameters[0].grid(GRID_SIZE)[:, None], incumbents])
    count = min(2 ** int(np.ceil(np.log2(SAMPLES_PER_VARIABLE * domain.dim))), MAX_CANDIDATES)
    if domain.dim <= qmc.Sobol.MAXDIM:
        uniform = qmc.Sobol(domain.dim, rng=rng).random_base2(count.bit_length() - 1)
    else:
        uniform = rng.random((count, domain.dim))
    return np.concatenate([_from_uniform(domain, uniform), incumbents, _perturbed(domain, rng, incumbents)])


def maximize(
    acquisition: DifferentiableAcquisition, domain: Space, points: Array, values: Array, *, ascents: int | None = None
) -> Ranked:
    """The best points found from the candidates ``points`` with their ``values``, the best first."""
    ascents = min(MAX_ASCENTS, 2 * domain.dim) if ascents is None else ascents
    order = np.argsort(-values, kind="stable")
    found: Ranked = [(float(values[k]), points[k]) for k in order[:N_FALLBACKS]]
    if len(points) < domain.cardinality:  # otherwise every point is a candidate
        starts = _distinct(points[order[: 16 * ascents]], ascents)
        found += [_polish_and_exchange(acquisition, domain, start) for start in starts]
    return sorted(found, key=lambda pair: -pair[0])


def best_points(X: Array, values: Sequence[float], count: int = N_INCUMBENTS) -> Array:
    """The ``count`` points with the largest finite values."""
    usable = np.flatnonzero(np.isfinite(values))
    order = usable[np.argsort(-np.asarray(values)[usable], kind="stable")]
    chosen: Array = X[order[:count]]
    return chosen


def _polish_and_exchange(acquisition: DifferentiableAcquisition, domain: Space, start: Array) -> tuple[float, Array]:
    """Alternate ascents in the continuous coordinates with single changes of discrete ones."""
    moving = np.flatnonzero(domain.is_continuous)
    value, point = float(acquisition.values(start[None])[0]), start
    for _ in range(MAX_SWEEPS):
        before = value
        if len(moving):
            polished = polish(acquisition, point, moving, ASCENT_ITERATIONS)
            value, point = max((value, point), polished, key=lambda pair: pair[0])
        if len(moving) < domain.dim:
            value, point = _exchange_discrete(acquisition, domain, value, point)
        if len(moving) == domain.dim or value <= before + 1e-9 * abs(before):
            break
    return value, point


def _exchange_discrete(
    acquisition: DifferentiableAcquisition, domain: Space, value: float, point: Array
) -> tuple[float, Array]:
    """Change the discrete coordinate that helps most, again and again, until none helps."""
    for _ in range(2 * domain.dim):
        changed = []
        for i in np.flatnonzero(~domain.is_continuous):
            parameter = domain.parameters[i]
            wide, near = parameter.grid(17), parameter.grid(5, point[i] - 0.05, point[i] + 0.05)
            for coordinate in np.union1d(wide, near):
                if coordinate != point[i]:
                    changed.append(point.copy())
                    changed[-1][i] = coordinate
        if not changed:
            break
        values = acquisition.values(np.array(changed))
        best = int(values.argmax())
        if not values[best] > value:
            break
        value, point = float(values[best]), changed[best]
    return value, point


def _distinct(points: Array, count: int) -> list[Array]:
    """The first ``count`` of ``points`` that keep MIN_START_DISTANCE from those before them."""
    chosen: list[Array] = []
    for point in points:
        if all(np.abs(point - other).max() > MIN_START_DISTANCE for other in chosen):
            chosen.append(point)
        if len(chosen) == count:
            break
    return chosen


def _perturbed(domain: Space, rng: np.random.Generator, incumbents: Array) -> Array:
    """Copies with some coordinates moved: normal steps, half of them small; discrete coordinates are redrawn."""
    copies = np.repeat(incumbents, COPIES_PER_INCUMBENT, axis=0)
    scale = np.where(np.arange(len(copies)) % 2, 0.02, 0.15)[:, None]
    moved = np.clip(copies + scale * rng.standard_normal(copies.shape), 0.0, 1.0)
    redrawn = _from_uniform(domain, rng.random(copies.shape))
    moved = np.where(domain.is_continuous, moved, redrawn)
    return np.where(rng.random(copies.shape) < min(1.0, MAX_MEAN_MOVES / domain.dim), moved, copies)


def _from_uniform(domain: Space, uniform: Array) -> Array:
    points = uniform.copy()
    for i in np.flatnonzero(~domain.is_continuous):
        points[:, i] = [domain.parameters[i].from_uniform(u) for u in uniform[:, i].tolist()]
    return points
