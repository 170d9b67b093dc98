"""Classic test functions, shifted so that no method benefits from trying the centre or the diagonal.

Each function f has its global minimum over all of R^d at z*. The instance of a seed is x -> f(z* + mirror (x - x*))
with x* drawn inside the usual box: it has the same minimum, at x*. Tests: test_problems_classic.py.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from dechbo.bench.problems.paper import HARTMANN_MINIMISER, HARTMANN_MINIMUM, hartmann_value
from dechbo.bench.problems.problem import Array, Problem, box_problem, instance_rng

Scopes = Sequence[tuple[int, ...]]


def powell_value(z: Array) -> float:
    """f = sum over (a, b, c, d) of (a + 10 b)^2 + 5 (c - d)^2 + (b - 2 c)^4 + 10 (a - d)^4; least at 0."""
    a, b, c, d = z.reshape(-1, 4).T
    return float(((a + 10 * b) ** 2 + 5 * (c - d) ** 2 + (b - 2 * c) ** 4 + 10 * (a - d) ** 4).sum())


def rosenbrock_value(z: Array) -> float:
    """f = sum_i 100 (z_{i+1} - z_i^2)^2 + (1 - z_i)^2; least at (1, …, 1)."""
    return float((100 * (z[1:] - z[:-1] ** 2) ** 2 + (1 - z[:-1]) ** 2).sum())


def rastrigin_value(z: Array) -> float:
    """f = sum_i z_i^2 + 10 (1 - cos 2 pi z_i); least at 0."""
    return float((z**2 + 10 * (1 - np.cos(2 * np.pi * z))).sum())


def ackley_value(z: Array) -> float:
    """f = 20 (1 - exp(-0.2 |z| / sqrt(d))) + e (1 - exp(mean_i cos 2 pi z_i - 1)); least at 0."""
    return float(-20 * np.expm1(-0.2 * np.sqrt((z**2).mean())) - np.e * np.expm1(np.cos(2 * np.pi * z).mean() - 1))


def levy_value(z: Array) -> float:
    """With w = 1 + (z - 1) / 4: sin^2(pi w_1) + (w_d - 1)^2 (1 + sin^2(2 pi w_d))
    + sum_{i<d} (w_i - 1)^2 (1 + 10 sin^2(pi w_i + 1)); least at (1, …, 1)."""
    u = (z - 1) / 4  # w - 1; sin^2(pi w) = sin^2(pi u), without the rounding of pi
    inner = (u[:-1] ** 2 * (1 + 10 * np.sin(np.pi * (1 + u[:-1]) + 1) ** 2)).sum()
    return float(np.sin(np.pi * u[0]) ** 2 + inner + u[-1] ** 2 * (1 + np.sin(2 * np.pi * u[-1]) ** 2))


STYBLINSKI_MINIMISER = -2.9035340277711770  # the least root of 4 z^3 - 32 z + 5
STYBLINSKI_MINIMUM = -39.166165703771416


def styblinski_value(z: Array) -> float:
    """f = sum_i (z_i^4 - 16 z_i^2 + 5 z_i) / 2; least at (-2.9035, …)."""
    return float((z**4 - 16 * z**2 + 5 * z).sum() / 2)


@dataclass(frozen=True, eq=False)
class Shifted:
    """x -> f(z* + mirror (x - x*))."""

    function: Callable[[Array], float]
    original: float  # z*, equal in every coordinate
    minimiser: Array  # x*
    mirror: Array  # 1 or -1 per coordinate

    def __call__(self, x: Array) -> float:
        """The value at x (d,)."""
        return self.function(self.original + self.mirror * (x - self.minimiser))


@dataclass(frozen=True)
class Classic:
    """A function, its usual box, its minimiser z* and its minimum."""

    title: str
    function: Callable[[Array], float]
    low: float
    high: float
    original: float
    scopes: Callable[[int], Scopes | None]
    minimum: Callable[[int], float] = lambda dim: 0.0
    mirrored: bool = False

    def instance(self, dim: int, seed: int) -> Problem:
        """The function in ``dim`` dimensions, shifted by ``seed``."""
        name = f"{self.title}-{dim}"
        rng = instance_rng(name, seed)
        width = self.high - self.low
        mirror = np.ones(dim)
        if self.mirrored:
            # the minimiser is far from the centre: mirror it at random, and shift it by up to a tenth of the width
            mirror = rng.choice([-1.0, 1.0], dim)
            centre = (self.low + self.high) / 2
            minimiser = centre + mirror * (self.original - centre) + width * rng.uniform(-0.1, 0.1, dim)
        else:
            minimiser = self.low + width * rng.uniform(0.25, 0.75, dim)
        return box_problem(
            name,
            Shifted(self.function, self.original, minimiser, mirror),
            dim=dim,
            low=self.low,
            high=self.high,
            optimum=self.minimum(dim),
            minimiser=minimiser,
            scopes=self.scopes(dim),
        )


def _singletons(dim: int) -> Scopes:
    return [(i,) for i in range(dim)]


def _chain(dim: int) -> Scopes:
    return [(i, i + 1) for i in range(dim - 1)]


def _powell_scopes(dim: int) -> Scopes:
    return [(k + a, k + b) for k in range(0, dim, 4) for a, b in ((0, 1), (2, 3), (1, 2), (0, 3))]


def _none(dim: int) -> None:
    return None


POWELL = Classic("Powell", powell_value, -4.0, 5.0, 0.0, _powell_scopes)
ROSENBROCK = Classic("Rosenbrock", rosenbrock_value, -5.0, 10.0, 1.0, _chain)
RASTRIGIN = Classic("Rastrigin", rastrigin_value, -5.12, 5.12, 0.0, _singletons)
ACKLEY = Classic("Ackley", ackley_value, -5.0, 10.0, 0.0, _none)
LEVY = Classic("Levy", levy_value, -10.0, 10.0, 1.0, _singletons)
STYBLINSKI_TANG = Classic(
    "Styblinski-Tang",
    styblinski_value,
    -5.0,
    5.0,
    STYBLINSKI_MINIMISER,
    _singletons,
    minimum=lambda dim: STYBLINSKI_MINIMUM * dim,
    mirrored=True,
)


@dataclass(frozen=True, eq=False)
class Restricted:
    """x -> f(x_i for i in active)."""

    function: Callable[[Array], float]
    active: tuple[int, ...]

    def __call__(self, x: Array) -> float:
        """The value at x (d,)."""
        return self.function(x[list(self.active)])


def embedded_hartmann(dim: int, seed: int) -> Problem:
    """Hartmann-6 of six random coordinates in random order; the others have no effect."""
    name = f"Hartmann-6-in-{dim}"
    rng = instance_rng(name, seed)
    active = tuple(rng.choice(dim, 6, replace=False).tolist())
    minimiser = np.full(dim, 0.5)
    minimiser[list(active)] = HARTMANN_MINIMISER
    idle = [(i,) for i in range(dim) if i not in active]
    return box_problem(
        name,
        Restricted(hartmann_value, active),
        dim=dim,
        low=0.0,
        high=1.0,
        optimum=HARTMANN_MINIMUM,
        minimiser=minimiser,
        scopes=[tuple(sorted(active)), *idle],
    )
