"""Gradient ascent in parts: each moves its own coordinates, within bounds; what they share is a few dot products.

Spectral projected gradients: the direction is the projected slope times a step length by Barzilai and Borwein, s^T s /
|s^T y| of the last move; it is halved until the value rises enough.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from dechbo.distributed.exchange import Place, Program, all_reduce

Array = NDArray[np.float64]
Objective = Callable[[Array], Program[tuple[Array, Array]]]  # own coordinates (n, own) to values (n,) and own slopes

MAX_HALVINGS = 12
RISE = 1e-4  # of what the slope promises
LENGTHS = (1e-8, 1e4)  # of a step, relative to the slope


def ascend(
    place: Place, objective: Objective, start: Array, low: Array | float, high: Array | float, steps: int
) -> Program[tuple[Array, Array]]:
    """(own coordinates, values) at the ends of ascents from ``start`` (n, own); no value is below that of its start."""
    x = start.copy()
    value, slope = yield from objective(x)
    largest = yield from all_reduce(place, np.abs(slope).max(axis=1, initial=0.0), np.maximum, "ascent")
    length = np.clip(0.1 / np.maximum(largest, 1e-300), *LENGTHS)
    for _ in range(steps):
        direction = np.clip(x + length[:, None] * slope, low, high) - x
        promised = yield from all_reduce(place, (slope * direction).sum(axis=1), kind="ascent")
        share, moved = np.ones(len(x)), np.zeros(len(x), dtype=bool)
        trial, found, found_slope = x, value, slope
        for _ in range(MAX_HALVINGS):
            trial = np.where(moved[:, None], trial, x + share[:, None] * direction)
            found, found_slope = yield from objective(trial)
            moved = found >= value + RISE * share * promised
            if moved.all():
                break
            share = np.where(moved, share, 0.5 * share)
        better = moved & (found > value)
        s = np.where(better[:, None], trial - x, 0.0)
        change = np.where(better[:, None], found_slope - slope, 0.0)
        products = np.stack([(s * s).sum(axis=1), (s * change).sum(axis=1)])
        products = yield from all_reduce(place, products, kind="ascent")
        x = x + s
        value, slope = np.where(better, found, value), slope + change
        if not better.any():
            break
        curved = np.abs(products[1]) > 1e-300
        length = np.where(curved, np.clip(products[0] / np.where(curved, np.abs(products[1]), 1.0), *LENGTHS), length)
    return x, value
