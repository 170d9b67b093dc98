"""Random functions over known, overlapping scopes, whose minimum is found and proved by variable elimination.

One singleton per variable and d/3 interactions, three in ten of them triples; each factor is a product of waves
sin(w (x_i - 1/2) + p) on the unit cube. Tests: test_problems_overlapping.py.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize

from dechbo.bench.problems.problem import Array, Problem, box_problem
from dechbo.graph import FactorGraph, Scope
from dechbo.maxsum import Exact
from dechbo.maxsum.exact import elimination_order
from dechbo.maxsum.reduction import aligned
from dechbo.tables import FactorTables

Wave = tuple[float, float]  # w, p


@dataclass(frozen=True)
class Waviness:
    """w is uniform in [slowest, fastest] and p in [0, phase]."""

    slowest: float
    fastest: float
    phase: float


SLOW = Waviness(1.0, 3.5, 0.5)  # nearly linear: the graph is easy to learn, most extrema are corners
WAVY = Waviness(4.0, 8.0, 6.28)  # about one period: several local minima, most coordinates of the best are interior

MAX_CELLS = 2**20  # of a table during elimination
MAX_PROOF_GAP = 1e-10  # between the stated and the true minimum of a component, in standard deviations


def random_scopes(rng: np.random.Generator, dim: int) -> list[Scope]:
    """d/3 distinct scopes: pairs with probability 0.7, triples with probability 0.3."""
    scopes: set[Scope] = set()
    while len(scopes) < dim // 3:
        size = 3 if rng.random() < 0.3 else 2
        scopes.add(tuple(sorted(rng.choice(dim, size, replace=False).tolist())))
    return sorted(scopes)


def random_waves(rng: np.random.Generator, scope: Scope, kind: Waviness = SLOW) -> tuple[Wave, ...]:
    """One wave for each variable of ``scope``."""
    spread = kind.fastest - kind.slowest
    return tuple((kind.slowest + spread * rng.random(), kind.phase * rng.random()) for _ in scope)


def wave_product(X: Array, scope: Scope, waves: Sequence[Wave]) -> Array:
    """(n,) prod_{i in scope} sin(w_i (x_i - 1/2) + p_i) at n points."""
    factors = [np.sin(w * (X[:, i] - 0.5) + p) for (w, p), i in zip(waves, scope, strict=True)]
    return np.asarray(np.prod(factors, axis=0))


@dataclass(frozen=True, eq=False)
class WaveSum:
    """g(x) = sum_I weight_I prod_{i in I} sin(w_Ii (x_i - 1/2) + p_Ii), of standard deviation 1 over the cube."""

    graph: FactorGraph
    waves: tuple[tuple[Wave, ...], ...]
    weights: Array

    @classmethod
    def random(cls, dim: int, seed: int, kind: Waviness = SLOW) -> WaveSum:
        """Factors with standard deviations between 0.5 and 1.5 times a common number."""
        rng = np.random.default_rng([seed, dim, 7])
        scopes = [(i,) for i in range(dim)] + random_scopes(rng, dim)
        waves = tuple(random_waves(rng, scope, kind) for scope in scopes)
        probes = rng.random((2000, dim))
        parts = np.stack([wave_product(probes, scope, w) for scope, w in zip(scopes, waves, strict=True)], axis=1)
        weights = (0.5 + rng.random(len(scopes))) / parts.std(axis=0)
        weights /= (parts @ weights).std()
        return cls(FactorGraph(dim, tuple(scopes)), waves, weights)

    def __call__(self, x: Array) -> float:
        """g at one point."""
        return float(self.weights @ self._sines(x).prod(axis=1))

    def negative(self, x: Array) -> float:
        """-g at one point."""
        return -self(x)

    def gradient(self, x: Array) -> Array:
        """(d,) dg/dx_i."""
        members, w, p = self._padded
        sines, slopes = self._sines(x), w * np.cos(w * (x[members] - 0.5) + p)
        answer = np.zeros(self.graph.dim)
        for k in range(members.shape[1]):
            others = np.delete(sines, k, axis=1).prod(axis=1)
            np.add.at(answer, members[:, k], self.weights * slopes[:, k] * others)
        return answer

    def _sines(self, x: Array) -> Array:
        members, w, p = self._padded
        return np.asarray(np.sin(w * (x[members] - 0.5) + p))

    @cached_property
    def _padded(self) -> tuple[NDArray[np.int64], Array, Array]:
        """Scopes, frequencies and phases, (|U|, m), padded with sin(pi / 2) = 1."""
        shape = (len(self.waves), self.graph.max_factor_size)
        members, w, p = np.zeros(shape, dtype=np.int64), np.zeros(shape), np.full(shape, np.pi / 2)
        for row, (scope, waves) in enumerate(zip(self.graph.scopes, self.waves, strict=True)):
            members[row, : len(scope)] = scope
            w[row, : len(scope)], p[row, : len(scope)] = np.array(waves).T
        return members, w, p

    def tables(self, grids: Sequence[Array]) -> FactorTables:
        """Every factor on the product of its variables' grids."""
        values = []
        for scope, waves, weight in self._factors():
            table = np.array(weight)
            for (w, p), i in zip(waves, scope, strict=True):
                table = table[..., None] * np.sin(w * (grids[i] - 0.5) + p)
            values.append(table)
        return FactorTables(self.graph, tuple(values))

    def local_maximiser(self, start: Array) -> Array:
        """A local maximiser of g over the cube, by gradient ascent from ``start``."""
        steps = {"ftol": 1e-16, "gtol": 1e-12, "maxiter": 1000}
        bounds = [(0, 1)] * self.graph.dim
        found = minimize(self.negative, start, jac=lambda x: -self.gradient(x), bounds=bounds, options=steps)
        return np.asarray(found.x)

    def slack(self, radius: float) -> float:
        """An upper bound of max g - g(x) for x within ``radius`` of the maximiser in every coordinate.

        The gradient at the maximum is 0 in coordinates that move, and |d^2 g_I / dx_i dx_j| <= |weight_I| w_i w_j:
        1/2 sum_I |weight_I| (radius sum_{i in I} w_i)^2.
        """
        return 0.5 * sum(abs(weight) * (radius * sum(w for w, _ in waves)) ** 2 for _, waves, weight in self._factors())

    def restricted(self, factors: Sequence[int]) -> tuple[list[int], WaveSum]:
        """The variables of ``factors``, and the sum of these factors over them."""
        variables = sorted({i for k in factors for i in self.graph.scopes[k]})
        index = {i: n for n, i in enumerate(variables)}
        scopes = tuple(tuple(index[i] for i in self.graph.scopes[k]) for k in factors)
        waves = tuple(self.waves[k] for k in factors)
        return variables, WaveSum(FactorGraph(len(variables), scopes), waves, self.weights[list(factors)])

    def _factors(self) -> Iterator[tuple[Scope, tuple[Wave, ...], float]]:
        return zip(self.graph.scopes, self.waves, self.weights.tolist(), strict=True)


def components(graph: FactorGraph) -> list[list[int]]:
    """The factors of each connected component."""
    answer: list[tuple[set[int], list[int]]] = []
    for k, scope in enumerate(graph.scopes):
        touched = [part for part in answer if part[0] & set(scope)]
        answer = [part for part in answer if not part[0] & set(scope)]
        variables = set(scope).union(*(part[0] for part in touched))
        answer.append((variables, sorted([k, *(factor for part in touched for factor in part[1])])))
    return [factors for _, factors in answer]


def max_marginal(tables: FactorTables, order: Sequence[int], i: int) -> Array:
    """M_i(h) = max over choices with x_i = h of the tables' sum, by eliminating the other variables in ``order``."""
    left = list(zip(tables.graph.scopes, tables.values, strict=True))
    for j in (*(other for other in order if other != i), None):
        bucket = [(scope, table) for scope, table in left if j is None or j in scope]
        left = [(scope, table) for scope, table in left if j is not None and j not in scope]
        rest = tuple(sorted({k for scope, _ in bucket for k in scope} - {j}))
        scope = rest if j is None else (*rest, j)
        total = np.zeros([tables.sizes[k] for k in scope])
        for other, table in bucket:
            total += aligned(table, other, scope)
        left.append((rest, total if j is None else total.max(axis=-1)))
    return np.asarray(left[0][1])


def proved_maximum(g: WaveSum) -> tuple[Array, float]:
    """The maximiser of g over the cube, and an upper bound at most MAX_PROOF_GAP above its value; for small graphs.

    Branch and bound: on a grid of cells that cover the cube, the centre of the maximiser's cell is at most ``slack``
    below the maximum. Cells whose max-marginal is further below a known value are dropped, the others are halved, until
    the slack is small enough. The known value comes from gradient ascent from the best centre.
    """
    dim = g.graph.dim
    grids = [np.linspace(0.0, 1.0, 17)] * dim  # the ends are centres, because the gradient there need not be 0
    radius, known, maximiser = 1 / 32, -np.inf, np.zeros(dim)
    while True:
        tables = g.tables(grids)
        best = Exact(max_cells=MAX_CELLS).maximize(tables)
        climbed = g.local_maximiser(np.array([grid[c] for grid, c in zip(grids, best.choice, strict=True)]))
        if g(climbed) > known:
            known, maximiser = g(climbed), climbed
        slack = g.slack(radius)
        if slack < MAX_PROOF_GAP:
            return maximiser, max(known, best.value + slack)
        order, _ = elimination_order([frozenset(scope) for scope in g.graph.scopes], tables.sizes)
        threshold = known - slack - 1e-12  # the last for rounding
        grids = [_halved(grid[max_marginal(tables, order, i) >= threshold], radius) for i, grid in enumerate(grids)]
        radius /= 2


def _halved(centres: Array, radius: float) -> Array:
    """The centres of the halves of the cells around ``centres``; the ends of [0, 1] stay centres."""
    halves = (centres[:, None] + radius * np.array([-0.5, 0.5])).ravel()
    ends = centres[(centres == 0) | (centres == 1)]
    return np.unique(np.concatenate([halves[(halves > 0) & (halves < 1)], ends]))


@lru_cache(maxsize=64)
def proved_minimum(dim: int, seed: int, kind: Waviness = WAVY) -> tuple[tuple[float, ...], float]:
    """The minimiser of -WaveSum.random(dim, seed, kind), component by component, and a lower bound of the minimum."""
    g = WaveSum.random(dim, seed, kind)
    minimiser, bound = np.zeros(dim), 0.0
    for factors in components(g.graph):
        variables, part = g.restricted(factors)
        minimiser[variables], above = proved_maximum(part)
        bound -= above
    return tuple(minimiser.tolist()), bound


def overlapping(dim: int, seed: int) -> Problem:
    """-g: a sum of d singletons and d/3 overlapping pairs and triples."""
    g = WaveSum.random(dim, seed, WAVY)
    minimiser = np.array(proved_minimum(dim, seed)[0])
    return box_problem(
        f"Overlapping-{dim}",
        g.negative,
        dim=dim,
        low=0.0,
        high=1.0,
        optimum=g.negative(minimiser),
        minimiser=minimiser,
        scopes=g.graph.scopes,
    )
