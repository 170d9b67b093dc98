"""Families on which settings are chosen: a new function for every seed, of other kinds than the judged problems.

Few active variables, rotated, noisy, mixed, step-like, ill-conditioned, overlapping and engineering-like functions; all
are minimised. Tests: test_problems_families.py.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import lru_cache, partial
from typing import Any

import numpy as np
from scipy.optimize import minimize
from scipy.stats import ortho_group

from dechbo.bench.problems.classic import Restricted, ackley_value, rosenbrock_value
from dechbo.bench.problems.overlapping import WaveSum, Waviness, proved_minimum
from dechbo.bench.problems.problem import Array, ArrayFunction, Problem, box_problem, instance_rng
from dechbo.graph import Scope
from dechbo.space import Categorical, Float, Int, Space

ACTIVE = 6
GENTLE = Waviness(2.0, 5.0, 6.28)  # half a period: fewer minima than those of Overlapping-50, many at the bounds

# ------------------------------------------------------- few active variables


@dataclass(frozen=True, eq=False)
class Bumps:
    """f(z) = -sum_k height_k exp(-1/2 sum_i ((z_i - centre_ki) / width_ki)^2) on the unit cube."""

    heights: Array  # (k,)
    centres: Array  # (k, d)
    widths: Array  # (k, d)

    @classmethod
    def random(cls, rng: np.random.Generator, dim: int, count: int = 8) -> Bumps:
        """One deep bump among ``count``; each is wide in some directions and narrow in others."""
        heights = np.concatenate([[1.5], 0.5 + 0.5 * rng.random(count - 1)])
        return cls(heights, 0.1 + 0.8 * rng.random((count, dim)), 0.2 + 0.4 * rng.random((count, dim)))

    def __call__(self, z: Array) -> float:
        """The value at z (d,)."""
        return -float(self._parts(z).sum())

    def gradient(self, z: Array) -> Array:
        """(d,) df/dz_i."""
        return np.asarray(self._parts(z) @ ((z - self.centres) / self.widths**2))

    def _parts(self, z: Array) -> Array:
        return np.asarray(self.heights * np.exp(-0.5 * (((z - self.centres) / self.widths) ** 2).sum(axis=1)))

    def minimiser(self, rng: np.random.Generator) -> Array:
        """The best of the descents from all centres and from 50 random points."""
        dim = self.centres.shape[1]
        steps = {"ftol": 1e-16, "gtol": 1e-12, "maxiter": 1000}
        starts = np.concatenate([self.centres, rng.random((50, dim))])
        ends = [minimize(self, z, jac=self.gradient, bounds=[(0, 1)] * dim, options=steps).x for z in starts]
        return np.asarray(min(ends, key=self))


@dataclass(frozen=True, eq=False)
class Rotated:
    """x -> f(R (x - x*)); f is least at 0, where it is 0."""

    function: Callable[[Array], float]
    rotation: Array  # (d, d)
    minimiser: Array  # (d,)

    @classmethod
    def random(
        cls, function: Callable[[Array], float], rng: np.random.Generator, dim: int, low: float, high: float
    ) -> Rotated:
        """A rotation of all directions alike, and a minimiser in the middle half of each side."""
        place = low + (high - low) * (0.25 + 0.5 * rng.random(dim))
        return cls(function, np.asarray(ortho_group.rvs(dim, random_state=rng)), place)

    def __call__(self, x: Array) -> float:
        """The value at x (d,)."""
        return self.function(self.rotation @ (x - self.minimiser))


def _few_active(
    name: str,
    function: Callable[[Array], float],
    best: Array,
    rng: np.random.Generator,
    dim: int,
    low: float,
    high: float,
) -> Problem:
    """``function`` of ACTIVE random coordinates in random order; the others have no effect."""
    active = tuple(rng.choice(dim, ACTIVE, replace=False).tolist())
    minimiser = np.full(dim, (low + high) / 2)
    minimiser[list(active)] = best
    scopes = [tuple(sorted(active)), *((i,) for i in range(dim) if i not in active)]
    restricted = Restricted(function, active)
    optimum = restricted(minimiser)
    return box_problem(
        name, restricted, dim=dim, low=low, high=high, optimum=optimum, minimiser=minimiser, scopes=scopes
    )


@lru_cache(maxsize=64)
def bumps(dim: int, seed: int) -> Problem:
    """Eight Gaussian bumps over six of ``dim`` coordinates; the optimum by descent."""
    name = f"Bumps-{ACTIVE}-in-{dim}"
    rng = instance_rng(name, seed)
    function = Bumps.random(rng, ACTIVE)
    return _few_active(name, function, function.minimiser(rng), rng, dim, 0.0, 1.0)


def embedded_ackley(dim: int, seed: int) -> Problem:
    """Ackley's function of six of ``dim`` coordinates, rotated among these."""
    name = f"Ackley-{ACTIVE}-in-{dim}"
    rng = instance_rng(name, seed)
    function = Rotated.random(ackley_value, rng, ACTIVE, -5.0, 10.0)
    return _few_active(name, function, function.minimiser, rng, dim, -5.0, 10.0)


# ---------------------------------------------------------------- rotated


def rippled_ellipsoid(z: Array, *, low: float, high: float, height: float, period: float) -> float:
    """Sum_i kappa_i z_i^2 + height (1 - cos(2 pi z_i / period)), kappa from ``low`` to ``high``, evenly in its log."""
    kappa = np.geomspace(low, high, len(z))
    return float((kappa * z**2 + height * (1 - np.cos(2 * np.pi / period * z))).sum())


def _rosenbrock_from_zero(z: Array) -> float:
    return rosenbrock_value(z + 1.0)


RIPPLES = partial(rippled_ellipsoid, low=0.1, high=10.0, height=1.5, period=2.5)
VALLEY = _rosenbrock_from_zero


def rotated(name: str, function: Callable[[Array], float], dim: int, side: float, seed: int) -> Problem:
    """``function`` in rotated coordinates, on [-side, side]."""
    name = f"{name}-{dim}"
    whole = Rotated.random(function, instance_rng(name, seed), dim, -side, side)
    return box_problem(name, whole, dim=dim, low=-side, high=side, optimum=0.0, minimiser=whole.minimiser)


# -------------------------------------------------- sums of smaller functions


@dataclass(frozen=True, eq=False)
class Moved:
    """x -> f(P (x - x*)) with a permutation P of the coordinates; f is least at 0, where it is 0."""

    function: Callable[[Array], float]
    order: tuple[int, ...]
    minimiser: Array

    def __call__(self, x: Array) -> float:
        """The value at x (d,)."""
        return self.function((x - self.minimiser)[list(self.order)])


STEEP = partial(rippled_ellipsoid, low=1.0, high=1e4, height=0.5, period=2.0)


def ellipsoid(dim: int, seed: int) -> Problem:
    """A sum of one-dimensional functions whose steepness ranges over four orders of magnitude."""
    name = f"Ellipsoid-{dim}"
    rng = instance_rng(name, seed)
    function = Moved(STEEP, tuple(rng.permutation(dim).tolist()), -2.5 + 5.0 * rng.random(dim))
    scopes = [(i,) for i in range(dim)]
    minimiser = function.minimiser
    return box_problem(name, function, dim=dim, low=-5.0, high=5.0, optimum=0.0, minimiser=minimiser, scopes=scopes)


def waves(dim: int, seed: int) -> Problem:
    """-g, a sum of d singletons and d/3 overlapping pairs and triples, as Overlapping-50 with slower waves."""
    g = WaveSum.random(dim, seed, GENTLE)
    best = np.array(proved_minimum(dim, seed, GENTLE)[0])
    optimum, scopes = g.negative(best), g.graph.scopes
    return box_problem(
        f"Waves-{dim}", g.negative, dim=dim, low=0.0, high=1.0, optimum=optimum, minimiser=best, scopes=scopes
    )


@dataclass(frozen=True, eq=False)
class Noisy:
    """f(x) + deviation * N(0, 1), where the random number is a function of x and the seed."""

    function: Callable[[Array], float]
    deviation: float
    seed: int

    def __call__(self, x: Array) -> float:
        """The noisy value at x (d,)."""
        words = np.frombuffer(np.ascontiguousarray(x).tobytes(), dtype=np.uint32)
        noise = np.random.default_rng([self.seed, *words.tolist()]).normal()
        return self.function(x) + self.deviation * float(noise)


def noisy_waves(dim: int, seed: int) -> Problem:
    """As ``waves``, with noise of a tenth of its standard deviation; judged by the values without noise."""
    g = WaveSum.random(dim, seed, GENTLE)
    best = np.array(proved_minimum(dim, seed, GENTLE)[0])
    noisy = Noisy(g.negative, 0.1, seed)  # g has standard deviation 1
    optimum, scopes = g.negative(best), g.graph.scopes
    stated = box_problem(
        f"Noisy-{dim}", noisy, dim=dim, low=0.0, high=1.0, optimum=optimum, minimiser=best, scopes=scopes
    )
    return stated.with_noise_free(ArrayFunction(stated.space.names, g.negative))


@dataclass(frozen=True, eq=False)
class Steps:
    """height * floor((f(x) - least) / height): plateaus; ``least`` is the minimum of f."""

    function: Callable[[Array], float]
    least: float
    height: float

    def __call__(self, x: Array) -> float:
        """The value at x (d,)."""
        return self.height * float(np.floor((self.function(x) - self.least) / self.height))


def steps(dim: int, seed: int) -> Problem:
    """As ``waves``, rounded down to multiples of a quarter of its standard deviation above its minimum."""
    g = WaveSum.random(dim, seed, GENTLE)
    best, bound = proved_minimum(dim, seed, GENTLE)
    function = Steps(g.negative, bound, 0.25)
    return box_problem(f"Steps-{dim}", function, dim=dim, low=0.0, high=1.0, optimum=0.0, minimiser=np.array(best))


# ------------------------------------------------------------------ mixed


@dataclass(frozen=True, eq=False)
class Response:
    """r(x_i) of one parameter, 0 at its best value: linear and a wave for a number, a table for a category."""

    index: int
    best: float  # in the coordinates of the space
    slope: float
    table: Array | None

    @classmethod
    def random(cls, rng: np.random.Generator, index: int, best: float, choices: int) -> Response:
        """``choices`` is 0 for a number."""
        slope = float(rng.choice([-1.0, 1.0]) * (0.5 + rng.random()))
        if not choices:
            return cls(index, best, slope, None)
        table = rng.choice([-1.0, 1.0], choices) * (0.2 + 0.5 * rng.random(choices))
        table[round(best)] = 0.0
        return cls(index, best, slope, table)

    def __call__(self, point: Array) -> float:
        """r at an encoded point (d,)."""
        x = float(point[self.index])
        if self.table is not None:
            return float(self.table[round(x)])
        return self.slope * (x - self.best) + 0.2 * float(np.sin(7.0 * (x - self.best)))


@dataclass(frozen=True, eq=False)
class SumOfSquares:
    """Sum_I weight_I (sum_{i in I} r_Ii(x_i))^2, and 0.1 (1 - cos 4 pi (x_i - x*_i)) of every number: least at x*."""

    space: Space
    weights: Array
    responses: tuple[tuple[Response, ...], ...]
    numbers: tuple[int, ...]
    best: Array

    def __call__(self, params: Mapping[str, Any]) -> float:
        """The value at ``params``."""
        point = self.space.encode(params)
        parts = [sum(response(point) for response in responses) ** 2 for responses in self.responses]
        waves = 1 - np.cos(4 * np.pi * (point - self.best)[list(self.numbers)])
        return float(self.weights @ parts + 0.1 * waves.sum())


def mixed(dim: int, seed: int) -> Problem:
    """Half floats, a quarter whole numbers from 0 to 7, a quarter categories of four; d pairs of any kinds."""
    name = f"Mixed-{dim}"
    rng = instance_rng(name, seed)
    kinds: list[Float | Int | Categorical] = [Float(0.0, 1.0)] * (dim // 2)
    kinds += [Int(0, 7)] * (dim // 4) + [Categorical(("a", "b", "c", "d"))] * (dim - dim // 2 - dim // 4)
    space = Space({f"x{i + 1}": kind for i, kind in enumerate(kinds)})
    choices = [len(kind.choices) if isinstance(kind, Categorical) else 0 for kind in kinds]
    best = space.encode(space.decode(space.from_uniform(0.1 + 0.8 * rng.random(dim))))
    pairs: set[Scope] = set()
    while len(pairs) < dim:
        pairs.add(tuple(sorted(rng.choice(dim, 2, replace=False).tolist())))
    scopes = [*((i,) for i in range(dim)), *sorted(pairs)]
    responses = tuple(tuple(Response.random(rng, i, float(best[i]), choices[i]) for i in scope) for scope in scopes)
    numbers = tuple(i for i in range(dim) if not choices[i])
    function = SumOfSquares(space, 0.5 + rng.random(len(scopes)), responses, numbers, best)
    named = tuple(tuple(space.names[i] for i in scope) for scope in scopes)
    return Problem(name, space, 0.0, named, function, space.decode(best))


# ------------------------------------------------------------ engineering


@dataclass(frozen=True, eq=False)
class Truss:
    """Weight of members and penalties of limits, where member i has the area A_i of its section.

    The weight is sum_i length_i A_i, scaled to 100 for the heaviest design. A deflection sum_i c_i / A_i may be at most
    1, a strength sum_i c_i sqrt(A_i) at least 1. An excess v > 0 of either costs PENALTY (v + v^2).
    """

    areas: tuple[Array, ...]  # of each member's sections, increasing
    lengths: Array
    deflections: Array  # (limits, d) coefficients c, 0 for members that do not take part
    strengths: Array

    PENALTY = 2.0

    def __call__(self, x: Array) -> float:
        """The value of the sections x (d,), given by their number."""
        area = np.array([sizes[round(k)] for sizes, k in zip(self.areas, x.tolist(), strict=True)])
        heaviest = np.array([sizes[-1] for sizes in self.areas])
        excess = np.maximum(np.concatenate([self.deflections @ (1 / area) - 1, 1 - self.strengths @ np.sqrt(area)]), 0)
        weight = 100 * (self.lengths @ area) / (self.lengths @ heaviest)
        return float(weight + self.PENALTY * (excess + excess**2).sum())


def truss(dim: int, seed: int) -> Problem:
    """``dim`` members with 5 to 10 sections each, and 1.2 limits a member, over 3 to 6 members each.

    A random design of middling sections keeps every limit, with up to a tenth to spare. The optimum is unknown.
    """
    name = f"Truss-{dim}"
    rng = instance_rng(name, seed)
    counts = rng.integers(5, 11, dim).tolist()
    areas = tuple(np.geomspace(1.0, 10.0, count) for count in counts)
    design = np.array([sizes[rng.integers(1, len(sizes) - 1)] for sizes in areas])
    limits = 6 * dim // 10
    scopes = [tuple(sorted(rng.choice(dim, rng.integers(3, 7), replace=False).tolist())) for _ in range(2 * limits)]
    coefficients = np.zeros((2 * limits, dim))
    for row, scope in zip(coefficients, scopes, strict=True):
        row[list(scope)] = 0.5 + rng.random(len(scope))
    spare = 1 + 0.1 * rng.random(limits)
    deflections, strengths = coefficients[:limits], coefficients[limits:]
    deflections = deflections / (deflections @ (1 / design) * spare)[:, None]
    strengths = strengths / (strengths @ np.sqrt(design) / spare)[:, None]
    function = Truss(areas, 0.5 + rng.random(dim), deflections, strengths)
    names = tuple(f"x{i + 1}" for i in range(dim))
    space = Space({each: Int(0, count - 1) for each, count in zip(names, counts, strict=True)})
    named = tuple(tuple(names[i] for i in scope) for scope in dict.fromkeys([*((i,) for i in range(dim)), *scopes]))
    return Problem(name, space, None, named, ArrayFunction(names, function))


FAMILIES: dict[str, Callable[[int], Problem]] = {
    "Bumps-6-in-100": partial(bumps, 100),
    "Bumps-6-in-200": partial(bumps, 200),
    "Ackley-6-in-100": partial(embedded_ackley, 100),
    "Ackley-6-in-200": partial(embedded_ackley, 200),
    "Rotated-Ripples-5": partial(rotated, "Rotated-Ripples", RIPPLES, 5, 5.0),
    "Rotated-Ripples-10": partial(rotated, "Rotated-Ripples", RIPPLES, 10, 5.0),
    "Rotated-Ripples-20": partial(rotated, "Rotated-Ripples", RIPPLES, 20, 5.0),
    "Rotated-Rosenbrock-5": partial(rotated, "Rotated-Rosenbrock", VALLEY, 5, 2.0),
    "Rotated-Rosenbrock-10": partial(rotated, "Rotated-Rosenbrock", VALLEY, 10, 2.0),
    "Rotated-Rosenbrock-20": partial(rotated, "Rotated-Rosenbrock", VALLEY, 20, 2.0),
    "Noisy-12": partial(noisy_waves, 12),
    "Steps-15": partial(steps, 15),
    "Mixed-20": partial(mixed, 20),
    "Ellipsoid-30": partial(ellipsoid, 30),
    "Waves-40": partial(waves, 40),
    "Waves-100": partial(waves, 100),
    "Truss-100": partial(truss, 100),
}
"""The problems of suite "families", by name."""
