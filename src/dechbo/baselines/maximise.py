"""The continuous maximiser of the rivals: many candidates scored at once, then gradient ascents from the best few.

Candidates are the whole domain where it is small and finite, an even grid in one dimension, and otherwise a scrambled
Sobol sample with perturbed copies of the best observed points. Ascents move the continuous coordinates; in between the
discrete ones are moved to their best single change, until neither helps.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import numpy as np
from numpy.typing import NDArray
from scipy.stats import qmc

from dechbo.baselines.rival import all_points
from dechbo.search.polish import polish
from dechbo.space import Space

Array = NDArray[np.float64]
Ranked = list[tuple[float, Array]]  # values and points, the best first

LINE, SAMPLE, MOST = 257, 256, 1024  # candidates: of one continuous variable, per variable of more, at most
ANCHORS, COPIES = 3, 48  # observed points that are perturbed, and how often each
NEAR = 20  # coordinates of a perturbed copy that move, on average, at most
ASCENTS, STEPS, SWEEPS = 4, 30, 3  # of a line, two ascents
APART = 0.05  # starts of ascents differ by more than this in some coordinate
RESERVE = 32  # candidates kept beside the maximum, should it be taken


class Climbable(Protocol):
    """An acquisition that can be scored in bulk and climbed."""

    def values(self, points: Array) -> Array:
        """At many points."""
        ...

    def value_and_gradient(self, point: Array) -> tuple[float, Array]:
        """At one point."""
        ...


def candidates(domain: Space, rng: np.random.Generator, anchors: Array) -> Array:
    """Points (n, |I|) of ``domain`` that cover it, more of them around ``anchors`` (m, |I|)."""
    if domain.cardinality <= MOST:
        return all_points(domain)
    if domain.dim == 1:
        return np.concatenate([domain.parameters[0].grid(LINE)[:, None], anchors])
    count = min(2 ** int(np.ceil(np.log2(SAMPLE * domain.dim))), MOST)
    if domain.dim <= qmc.Sobol.MAXDIM:
        uniform = qmc.Sobol(domain.dim, rng=rng).random_base2(count.bit_length() - 1)
    else:
        uniform = rng.random((count, domain.dim))
    return np.concatenate([_from_uniform(domain, uniform), anchors, _copies(domain, rng, anchors)])


def maximise(
    acquisition: Climbable, domain: Space, points: Array, values: Array, *, ascents: int | None = None
) -> Ranked:
    """The best points found from the candidates ``points`` with their ``values``, the best first."""
    ascents = min(ASCENTS, 2 * domain.dim) if ascents is None else ascents
    order = np.argsort(-values, kind="stable")
    found: Ranked = [(float(values[k]), points[k]) for k in order[:RESERVE]]
    if len(points) < domain.cardinality:  # otherwise the candidates are all there is
        starts = _apart(points[order[: 16 * ascents]], ascents)
        found += [_climb(acquisition, domain, start) for start in starts]
    return sorted(found, key=lambda pair: -pair[0])


def best_points(X: Array, values: Sequence[float], count: int = ANCHORS) -> Array:
    """The ``count`` points with the largest values; NaN counts as nothing."""
    usable = np.flatnonzero(np.isfinite(values))
    order = usable[np.argsort(-np.asarray(values)[usable], kind="stable")]
    chosen: Array = X[order[:count]]
    return chosen


def _climb(acquisition: Climbable, domain: Space, start: Array) -> tuple[float, Array]:
    """Ascents in the continuous coordinates and best single changes of discrete ones, in turn."""
    moving = np.flatnonzero(domain.is_continuous)
    value, point = float(acquisition.values(start[None])[0]), start
    for _ in range(SWEEPS):
        before = value
        if len(moving):
            value, point = max((value, point), polish(acquisition, point, moving, STEPS), key=lambda pair: pair[0])
        if len(moving) < domain.dim:
            value, point = _best_changes(acquisition, domain, value, point)
        if len(moving) == domain.dim or value <= before + 1e-9 * abs(before):
            break
    return value, point


def _best_changes(acquisition: Climbable, domain: Space, value: float, point: Array) -> tuple[float, Array]:
    """Change the one discrete coordinate that helps most, as long as one does."""
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


def _apart(points: Array, count: int) -> list[Array]:
    """The first ``count`` of ``points`` that are apart from those before them."""
    chosen: list[Array] = []
    for point in points:
        if all(np.abs(point - other).max() > APART for other in chosen):
            chosen.append(point)
        if len(chosen) == count:
            break
    return chosen


def _copies(domain: Space, rng: np.random.Generator, anchors: Array) -> Array:
    """Copies of ``anchors`` with some coordinates moved by normal steps, half of them small; discrete ones redrawn."""
    copies = np.repeat(anchors, COPIES, axis=0)
    scale = np.where(np.arange(len(copies)) % 2, 0.02, 0.15)[:, None]
    moved = np.clip(copies + scale * rng.standard_normal(copies.shape), 0.0, 1.0)
    redrawn = _from_uniform(domain, rng.random(copies.shape))
    moved = np.where(domain.is_continuous, moved, redrawn)
    return np.where(rng.random(copies.shape) < min(1.0, NEAR / domain.dim), moved, copies)


def _from_uniform(domain: Space, uniform: Array) -> Array:
    points = uniform.copy()
    for i in np.flatnonzero(~domain.is_continuous):
        points[:, i] = [domain.parameters[i].from_uniform(u) for u in uniform[:, i].tolist()]
    return points
