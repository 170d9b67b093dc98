"""Rover-60: a trajectory through 30 points among obstacles (Wang, Gehring, Kohli & Jegelka, AISTATS 2018).

Parameters in [0, 1] map to points in [-0.1, 1.1]^2. A cubic spline with SciPy's default smoothing follows the points,
as in the published experiments. The cost is 10 times the L1 distance of the curve's ends from start and goal, plus the
integral along the curve of 0.05, or 20.05 in an obstacle and outside the unit square. The problem minimises cost - 5.

The published obstacles are data, not a formula. Here the same number of squares of the same size is drawn once, away
from start and goal. The original adds noise of 1e-4 to the points; this version does not. Tests: test_problems_real.py.
"""

from __future__ import annotations

from functools import cache

import numpy as np
from scipy.interpolate import splev, splprep

from dechbo.bench.problems.problem import Array, Problem, box_problem, instance_rng

NAME = "Rover-60"
POINTS = 30
SQUARES = 113
HALF_SIDE = 0.025
START, GOAL = np.array([0.05, 0.05]), np.array([0.95, 0.95])
SAMPLES = 1000
REWARD = 5.0


@cache
def obstacles() -> Array:
    """The centres of the squares, (113, 2): uniform, away from start and goal, the same for every seed."""
    rng = instance_rng(NAME, 0)
    centres: list[Array] = []
    while len(centres) < SQUARES:
        centre = rng.random(2)
        if min(np.abs(centre - end).max() for end in (START, GOAL)) > 2 * HALF_SIDE:
            centres.append(centre)
    return np.array(centres)


def blocked(places: Array) -> Array:
    """1.0 where a place is in an obstacle or outside the unit square, (n,)."""
    outside = np.any(np.logical_or(places < 0, places >= 1), axis=1)
    offset = places[:, None] - obstacles()
    within = np.logical_and(offset >= -HALF_SIDE, offset < HALF_SIDE)
    hit = np.any(np.all(within, axis=2), axis=1)
    return np.asarray(np.logical_or(outside, hit), dtype=np.float64)


def trajectory(points: Array) -> Array:
    """Places (1000, 2) along the spline through ``points`` (30, 2), parametrised by chord length."""
    # the parameter of the spline must increase, also between equal points
    steps = np.maximum(np.linalg.norm(np.diff(points, axis=0), axis=1), 1e-9)
    u = np.concatenate([[0.0], np.cumsum(steps)])
    spline, _ = splprep(points.T, u=u / u[-1], k=3)
    return np.stack(splev(np.linspace(0.0, 1.0, SAMPLES), spline), axis=1)


def cost(places: Array) -> float:
    """The integral of the cost along the polygon ``places``, by the trapezoidal rule, and the penalties of its ends."""
    rate = 20.0 * blocked(places) + 0.05
    lengths = np.linalg.norm(np.diff(places, axis=0), axis=1)
    along = (lengths * (rate[1:] + rate[:-1]) / 2).sum()
    ends = np.abs(places[0] - START).sum() + np.abs(places[-1] - GOAL).sum()
    return float(along + 10.0 * ends)


def rover_value(x: Array) -> float:
    """cost - 5 of 60 numbers in [0, 1]: x1, y1, x2, y2, …"""
    return cost(trajectory((-0.1 + 1.2 * x).reshape(POINTS, 2))) - REWARD


def rover(seed: int) -> Problem:
    """The problem; the seed has no effect."""
    return box_problem(NAME, rover_value, dim=2 * POINTS, low=0.0, high=1.0)
