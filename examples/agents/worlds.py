"""Two worlds for teams of agents: robots that look for hotspots, and access points of a WLAN."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]


@cache
def spots(rows: int, columns: int, seed: int) -> tuple[Array, Array, Array]:
    """Where the hotspots are, how high and how wide."""
    rng = np.random.default_rng(seed)
    count = rows * columns + 2
    centres = rng.uniform(0, 1, (count, 2)) * [columns, rows]
    return centres, rng.uniform(0.5, 1.5, count), rng.uniform(0.2, 0.5, count)


@cache
def uniform(low: float, high: float, *seed: int) -> float:
    """A number that depends on the seed only."""
    return float(np.random.default_rng(seed).uniform(low, high))


@dataclass(frozen=True)
class Hotspots:
    """Robots measure a field with hotspots; two that stand close together measure the same thing twice.

    A robot's variables run over its own cell of the plane and half of each neighbouring one.
    """

    rows: int
    columns: int
    seed: int = 0
    per_side: int = 6  # candidates a coordinate
    reach: float = 0.35  # of the overlap, in cells

    def field(self, places: Array) -> Array:
        """The field at ``places`` (n, 2), in cells."""
        centres, heights, widths = spots(self.rows, self.columns, self.seed)
        squares = ((places[:, None, :] - centres) ** 2).sum(axis=2)
        return (heights * np.exp(-0.5 * squares / widths**2)).sum(axis=1)

    def place(self, agent: int, own: Array) -> Array:
        """Where a robot is on the plane, in cells."""
        row, column = divmod(agent, self.columns)
        low = np.array([column - 0.5, row - 0.5])
        return np.clip(low + 2.0 * own, 0.0, [self.columns, self.rows])

    def candidates(self, agent: int, rng: np.random.Generator) -> tuple[Array, Array]:
        steps = (np.arange(self.per_side) + rng.uniform(0, 1, (2, 1))) / self.per_side
        return steps[0], steps[1]

    def measure(self, agent: int, own: Array, neighbours: dict[int, Array]) -> float:
        here = self.place(agent, own)
        reading = float(self.field(here[None])[0])
        for other, theirs in neighbours.items():
            square = float(((here - self.place(other, theirs)) ** 2).sum())
            reading -= 0.5 * np.exp(-0.5 * square / self.reach**2)  # each of the two counts half
        return reading


@dataclass(frozen=True)
class Wlan:
    """Access points choose one of three channels and a power; those nearby on the same channel disturb each other."""

    rows: int
    columns: int
    seed: int = 0
    channels: int = 3
    powers: int = 6

    def demand(self, agent: int) -> float:
        return uniform(0.5, 2.0, self.seed, agent)

    def path_gain(self, a: int, b: int) -> float:
        return uniform(0.1, 0.6, self.seed, *sorted((a, b)))

    def candidates(self, agent: int, rng: np.random.Generator) -> tuple[Array, Array]:
        return np.arange(self.channels, dtype=np.float64), np.linspace(0.05, 1.0, self.powers)

    def measure(self, agent: int, own: Array, neighbours: dict[int, Array]) -> float:
        """Throughput: demand log2(1 + signal / (noise + interference)), less the price of power."""
        channel, power = own
        disturbance = sum(
            self.path_gain(agent, other) * theirs[1] for other, theirs in neighbours.items() if theirs[0] == channel
        )
        return self.demand(agent) * float(np.log2(1.0 + power / (0.1 + disturbance))) - 0.5 * float(power)
