"""Polish: gradient ascent of an acquisition in the continuous coordinates of a point, free or within limits.

Limits are smooth functions that stay at or above 0. With few coordinates sequential quadratic programming holds them;
with many an augmented Lagrangian does, a(x) - sum_c (max(0, m_c - w h_c(x))^2 - m_c^2) / 2w, whose multipliers m and
weight w are updated between ascents.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Protocol

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize

from dechbo.space import Region

Array = NDArray[np.float64]
Indices = NDArray[np.int64]

MAX_SLSQP_DIM = 30  # coordinates up to which SLSQP is cheap
MULTIPLIER_ROUNDS = 5  # updates of the multipliers
MULTIPLIER_TOLERANCE = 1e-2  # a multiplier that moves less has converged
LIMIT_TOLERANCE = 1e-6  # a limit missed by less is met


class Smooth(Protocol):
    """An acquisition, or a limit, with a gradient."""

    def value_and_gradient(self, point: Array) -> tuple[float, Array]:
        """The value at one point, and its slope in every variable."""
        ...


@dataclass(frozen=True)
class Edge:
    """A known linear constraint: how far a point lies inside."""

    region: Region
    number: int

    def value_and_gradient(self, point: Array) -> tuple[float, Array]:
        """Positive inside."""
        return self.region.slack_and_gradient(self.number, point)


def polish(
    acquisition: Smooth, start: Array, moving: Indices, steps: int, region: Region | None = None
) -> tuple[float, Array]:
    """Gradient ascent in the coordinates ``moving``, within the unit cube and ``region``; never below the start."""
    point = start.copy()

    def descent(free: Array) -> tuple[float, Array]:
        point[moving] = free
        value, gradient = acquisition.value_and_gradient(point)
        return -value, -gradient[moving]

    before = -descent(start[moving])[0]
    found = minimize(
        descent,
        start[moving],
        jac=True,
        method="L-BFGS-B",
        bounds=[(0.0, 1.0)] * len(moving),
        options={"maxiter": steps},
    )
    if not -found.fun > before:
        return before, start
    point[moving] = np.clip(found.x, 0.0, 1.0)
    if region is None or not region.constraints or region.allows(point[None])[0]:
        return float(-found.fun), point
    end = within(region, start, polish_within(acquisition, edges(region), start, moving, steps), moving)
    value = acquisition.value_and_gradient(end)[0]
    return (value, end) if value > before else (before, start)


def polish_within(acquisition: Smooth, limits: Sequence[Smooth], start: Array, moving: Indices, steps: int) -> Array:
    """The end of an ascent that keeps all ``limits`` at or above 0, up to the last step's error."""
    ascent = _sequential if len(moving) <= MAX_SLSQP_DIM else _augmented
    point = start.copy()
    point[moving] = np.clip(ascent(acquisition, limits, start, moving, steps), 0.0, 1.0)
    return point


def _sequential(acquisition: Smooth, limits: Sequence[Smooth], start: Array, moving: Indices, steps: int) -> Array:
    """SLSQP; the unit cube is among the limits because SLSQP warns of bounds missed by rounding."""
    many = len(moving)
    walls = np.vstack([np.eye(many), -np.eye(many)])
    tops = np.append(np.zeros(many), np.ones(many))

    @lru_cache(maxsize=4)
    def at(key: bytes) -> tuple[float, Array, Array, Array]:
        point = start.copy()
        point[moving] = np.clip(np.frombuffer(key), 0.0, 1.0)
        value, gradient = acquisition.value_and_gradient(point)
        values = [limit.value_and_gradient(point) for limit in limits]
        inside, slopes = np.array([h for h, _ in values]), np.array([slope[moving] for _, slope in values])
        return -value, -gradient[moving], inside, slopes.reshape(-1, many)

    def inside(free: Array) -> Array:
        return np.append(at(free.tobytes())[2], walls @ free + tops)

    def slopes(free: Array) -> Array:
        return np.vstack([at(free.tobytes())[3], walls])

    found = minimize(
        lambda free: at(free.tobytes())[:2],
        start[moving],
        jac=True,
        method="SLSQP",
        constraints={"type": "ineq", "fun": inside, "jac": slopes},
        options={"maxiter": steps, "ftol": 1e-7},
    )
    ended: Array = found.x
    return ended if np.isfinite(ended).all() else start[moving]


def _augmented(acquisition: Smooth, limits: Sequence[Smooth], start: Array, moving: Indices, steps: int) -> Array:
    """The augmented Lagrangian, by L-BFGS-B."""
    point = start.copy()
    multipliers = np.zeros(len(limits))
    steepness = float(np.abs(acquisition.value_and_gradient(start)[1][moving]).max(initial=0.0))
    weight = 10.0 * max(1.0, steepness)

    def descent(free: Array) -> tuple[float, Array]:
        point[moving] = free
        value, gradient = acquisition.value_and_gradient(point)
        total, slope = -value, -gradient
        for m, limit in zip(multipliers, limits, strict=True):
            h, change = limit.value_and_gradient(point)
            short = max(0.0, m - weight * h)
            total += (short**2 - m**2) / (2 * weight)
            slope = slope - short * change
        return total, slope[moving]

    free = start[moving]
    bounds, options = [(0.0, 1.0)] * len(moving), {"maxiter": (steps + 1) // 2}
    for _ in range(MULTIPLIER_ROUNDS):
        found = minimize(descent, free, jac=True, method="L-BFGS-B", bounds=bounds, options=options)
        free = np.clip(found.x, 0.0, 1.0)
        point[moving] = free
        inside = np.array([limit.value_and_gradient(point)[0] for limit in limits])
        updated = np.maximum(0.0, multipliers - weight * inside)
        settled = (
            inside.min(initial=0.0) >= -LIMIT_TOLERANCE
            and np.abs(updated - multipliers).max(initial=0.0) <= MULTIPLIER_TOLERANCE
        )
        multipliers, weight = updated, 3 * weight
        if settled:
            break
    return free


def edges(region: Region) -> list[Smooth]:
    """All known constraints as limits."""
    return [Edge(region, k) for k in range(len(region.scopes))]


def within(region: Region, start: Array, end: Array, moving: Indices) -> Array:
    """``end`` moved onto the edges that it has crossed; failing that, the last allowed point on the way from ``start``.

    ``start`` is allowed, and the two differ in the coordinates ``moving`` only.
    """
    if not region.constraints:
        return end
    repaired = end.copy()
    for _ in range(10):
        if region.allows(repaired[None])[0]:
            return repaired
        for edge in edges(region):
            inside, gradient = edge.value_and_gradient(repaired)
            length = float(gradient[moving] @ gradient[moving])
            if inside < 0 and length > 0:
                repaired[moving] = np.clip(repaired[moving] - inside / length * gradient[moving], 0.0, 1.0)
    return region.last_allowed(start, end)
