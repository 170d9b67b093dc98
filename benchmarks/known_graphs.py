"""Families of functions with a known factor graph, and the pairs in them that really interact.

A function is a sum of terms over small scopes, plus noise of 1 % of its standard deviation. How much two variables
interact is the superset importance of the pair (Liu and Owen 2006), the variance of all effects that contain both:

    Upsilon_ij = E[(f(x) - f(x_i') - f(x_j') + f(x_i', x_j'))^2] / 4

estimated with PROBES random points; it is exactly 0 where no term holds both. A pair is *true* if that is at least
MIN_SHARE of the variance. Sums of pairs and triples have no other effects; of the classical functions, borehole, robot
arm and Friedman #2 also have effects of four and more variables, which count here.

Seeds from 100 on are for development, seeds below 100 for judgement.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dechbo.bench.problems.overlapping import random_scopes, random_waves, wave_product
from dechbo.data.observations import Observations
from dechbo.gp.centring import Domain
from dechbo.graph import Scope

Array = NDArray[np.float64]
Function = Callable[[Array], Array]  # (n, m) -> (n,)

MIN_SHARE = 0.003
PROBES = 2**13
NOISE = 0.01  # of the standard deviation


@dataclass(frozen=True)
class Term:
    """A function of the variables ``scope``, in that order."""

    scope: Scope
    function: Function


@dataclass(frozen=True, eq=False)
class Truth:
    """A noise-free function; ``scopes`` are the interactions of its factor graph."""

    terms: tuple[Term, ...]
    scopes: tuple[Scope, ...]
    kernels: tuple[str, ...]
    domains: tuple[Domain, ...]

    @property
    def dim(self) -> int:
        return len(self.kernels)

    def sample(self, rng: np.random.Generator, count: int) -> Array:
        """Uniformly random points."""
        columns = [rng.random(count) if values is None else rng.choice(values, count) for values in self.domains]
        return np.stack(columns, axis=1)

    def __call__(self, X: Array) -> Array:
        return self.within(range(len(self.terms)), X)

    def within(self, chosen: Sequence[int], X: Array) -> Array:
        """The sum of the ``chosen`` terms."""
        total = np.zeros(len(X))
        for k in chosen:
            total += self.terms[k].function(X[:, list(self.terms[k].scope)])
        return total

    def pair_shares(self, seed: int = 0) -> Array:
        """Upsilon_ij / Var f of all pairs: (d, d), symmetric."""
        rng = np.random.default_rng([seed, self.dim, 99])
        X, Z = self.sample(rng, PROBES), self.sample(rng, PROBES)
        total = self(X).var()
        shares = np.zeros((self.dim, self.dim))
        together: dict[Scope, list[int]] = {}
        for k, term in enumerate(self.terms):
            for i, j in itertools.combinations(sorted(term.scope), 2):
                together.setdefault((i, j), []).append(k)
        for (i, j), chosen in together.items():
            first, second, both = X.copy(), X.copy(), X.copy()
            first[:, i], second[:, j] = Z[:, i], Z[:, j]
            both[:, [i, j]] = Z[:, [i, j]]
            f = [self.within(chosen, points) for points in (X, first, second, both)]
            shares[i, j] = shares[j, i] = np.mean((f[0] - f[1] - f[2] + f[3]) ** 2) / 4 / total
        return shares


@dataclass(frozen=True, eq=False)
class Case:
    """Observations of a function, and what is true of it."""

    data: Observations
    truth: Truth | None  # None: pure noise
    shares: Array  # (d, d)
    kernels: tuple[str, ...]
    domains: tuple[Domain, ...]

    @property
    def is_true(self) -> NDArray[np.bool_]:
        """(d, d): pairs with at least MIN_SHARE of the variance."""
        return self.shares >= MIN_SHARE


def case(family: str, dim: int, count: int, seed: int) -> Case:
    """``count`` noisy observations at random points of function ``seed`` of a family."""
    rng = np.random.default_rng([seed, dim, sorted(FAMILIES).index(family)])
    if family == "noise":
        data = Observations(rng.random((count, dim)), rng.standard_normal(count))
        return Case(data.standardised()[0], None, np.zeros((dim, dim)), *continuous(dim))
    truth = FAMILIES[family](rng, dim, seed)
    X = truth.sample(rng, count)
    y = truth(X)
    y = y + NOISE * y.std() * rng.standard_normal(count)
    data = Observations(X, y).standardised()[0]
    return Case(data, truth, truth.pair_shares(seed), truth.kernels, truth.domains)


def continuous(dim: int) -> tuple[tuple[str, ...], tuple[Domain, ...]]:
    return ("matern52",) * dim, (None,) * dim


def build(terms: Sequence[Term], dim: int, scopes: Sequence[Scope] | None = None) -> Truth:
    """A function of continuous variables; by default every term of two and more variables is an interaction."""
    found = {tuple(sorted(term.scope)) for term in terms if len(term.scope) > 1}
    return Truth(tuple(terms), tuple(sorted(found if scopes is None else scopes)), *continuous(dim))


def random_pairs(rng: np.random.Generator, dim: int, count: int) -> list[Scope]:
    pairs: set[Scope] = set()
    while len(pairs) < count:
        pairs.add(tuple(sorted(rng.choice(dim, 2, replace=False).tolist())))
    return sorted(pairs)


def mixed_scopes(rng: np.random.Generator, dim: int, count: int, triples: float) -> list[Scope]:
    scopes: set[Scope] = set()
    while len(scopes) < count:
        size = 3 if rng.random() < triples else 2
        scopes.add(tuple(sorted(rng.choice(dim, size, replace=False).tolist())))
    return sorted(scopes)


def scaled(function: Function, deviation: float, size: int, rng: np.random.Generator) -> Function:
    """The function with that standard deviation over the cube."""
    values = function(rng.random((4000, size)))
    factor = deviation / values.std()
    return lambda X: factor * function(X)


def additive(rng: np.random.Generator, dim: int, seed: int) -> Truth:
    """No interactions: waves, steps, kinks and powers of single variables."""
    terms = []
    for i in range(dim):
        a, b = rng.uniform(1, 6), rng.random()
        kinds: list[Any] = [
            lambda X, a=a, b=b: np.sin(a * X[:, 0] + 6 * b),
            lambda X, b=b: np.where(X[:, 0] > 0.2 + 0.6 * b, 1.0, 0.0),
            lambda X, b=b: np.abs(X[:, 0] - b),
            lambda X, a=a: X[:, 0] ** a,
        ]
        kind = kinds[rng.choice(4, p=[0.55, 0.05, 0.2, 0.2])]
        terms.append(Term((i,), scaled(kind, 0.5 + rng.random(), 1, rng)))
    return build(terms, dim)


def sines(rng: np.random.Generator, dim: int, seed: int) -> Truth:
    """A sine of every variable, and d/2 products of two sines."""
    terms = [Term((i,), _sine(rng.uniform(1, 4, 1), rng.uniform(0, 6, 1), 1.0)) for i in range(dim)]
    for pair in random_pairs(rng, dim, dim // 2):
        terms.append(Term(pair, _sine(rng.uniform(2, 5, 2), rng.uniform(0, 6, 2), 2.0 * rng.choice([-1, 1]))))
    return build(terms, dim)


def _sine(w: Array, p: Array, scale: float) -> Function:
    return lambda X: scale * np.sin(w * X + p).prod(axis=1)


def generator(rng: np.random.Generator, dim: int, seed: int) -> Truth:
    """The overlapping sums of the bench: nearly linear waves, d/3 interactions, three in ten of them triples."""
    terms = []
    for scope in [(i,) for i in range(dim)] + random_scopes(rng, dim):
        product = partial(wave_product, scope=tuple(range(len(scope))), waves=random_waves(rng, scope))
        terms.append(Term(scope, scaled(product, 0.5 + rng.random(), len(scope), rng)))
    # waves do not average to zero, so a triple holds effects of its pairs
    triples = [term.scope for term in terms if len(term.scope) == 3]
    within = {pair for scope in triples for pair in itertools.combinations(scope, 2)}
    return build(terms, dim, sorted(within.union(term.scope for term in terms[dim:])))


def gp_draw(lengthscale: float) -> Callable[[np.random.Generator, int, int], Truth]:
    """Draws from an additive GP of centred squared exponential kernels, by 60 random cosines a factor."""

    def family(rng: np.random.Generator, dim: int, seed: int) -> Truth:
        terms = []
        for scope in [(i,) for i in range(dim)] + mixed_scopes(rng, dim, dim // 3, 0.3):
            w = rng.standard_normal((len(scope), 60)) / lengthscale
            p, weights = rng.uniform(0, 2 * np.pi, w.shape), rng.standard_normal(60)
            terms.append(Term(scope, scaled(_cosines(w, p, weights), 0.5 + rng.random(), len(scope), rng)))
        return build(terms, dim)

    return family


def _cosines(w: Array, p: Array, weights: Array) -> Function:
    means = (np.sin(w + p) - np.sin(p)) / w  # of cos(w x + p) over the unit interval

    def function(X: Array) -> Array:
        product = np.ones((len(X), len(weights)))
        for k in range(len(w)):
            product *= np.cos(np.outer(X[:, k], w[k]) + p[k]) - means[k]
        return np.asarray(product @ weights)

    return function


def thresholds(rng: np.random.Generator, dim: int, seed: int) -> Truth:
    """Ramps, corners and steps of two variables (d/4 pairs) beside smooth effects of each variable."""
    terms = [
        Term((i,), scaled(_sine(rng.uniform(1, 4, 1), rng.uniform(0, 6, 1), 1.0), 0.5, 1, rng)) for i in range(dim)
    ]
    for pair in random_pairs(rng, dim, dim // 4):
        a, b = rng.uniform(0.3, 0.7, 2)
        functions: list[Any] = [
            lambda X, a=a: np.maximum(X[:, 0] + X[:, 1] - 2 * a, 0.0),
            lambda X: np.minimum(X[:, 0], X[:, 1]),
            lambda X, a=a, b=b: np.where((X[:, 0] > a) & (X[:, 1] > b), 1.0, 0.0),
            lambda X, a=a, b=b: np.maximum(X[:, 0] - a, 0.0) * np.maximum(X[:, 1] - b, 0.0),
        ]
        function = functions[rng.integers(4)]
        terms.append(Term(pair, scaled(function, 1.0, 2, rng)))
    return build(terms, dim)


def discrete(rng: np.random.Generator, dim: int, seed: int) -> Truth:
    """A third each of numbers, integers and categories; d/3 pairs of any kinds."""
    kinds = rng.permutation(np.arange(dim) % 3)
    domains: list[Domain] = []
    for kind in kinds:
        if kind == 0:
            domains.append(None)
        elif kind == 1:
            domains.append(np.linspace(0.0, 1.0, int(rng.integers(3, 9))))
        else:
            domains.append(np.arange(float(rng.integers(2, 6))))
    terms = []
    for scope in [(i,) for i in range(dim)] + random_pairs(rng, dim, dim // 3):
        parts = [_level_effect(rng, int(kinds[i]), domains[i]) for i in scope]
        terms.append(Term(scope, partial(_scaled_product, parts=parts, scale=0.5 + rng.random())))
    kernels = tuple("categorical" if kind == 2 else "matern52" for kind in kinds)
    return Truth(tuple(terms), tuple(t.scope for t in terms[dim:]), kernels, tuple(domains))


def _scaled_product(X: Array, parts: Sequence[Callable[[Array], Array]], scale: float) -> Array:
    return np.asarray(scale * np.prod([part(X[:, k]) for k, part in enumerate(parts)], axis=0))


def _level_effect(rng: np.random.Generator, kind: int, domain: Domain) -> Callable[[Array], Array]:
    """A centred function of one variable with standard deviation 1."""
    if kind == 2:
        assert domain is not None
        effects = rng.standard_normal(len(domain))
        effects = (effects - effects.mean()) / effects.std()
        return lambda x: effects[x.astype(int)]
    w, p = rng.uniform(1, 4), rng.uniform(0, 6)
    at = np.linspace(0, 1, 1001) if domain is None else domain
    values = np.sin(w * at + p)
    mean, deviation = values.mean(), values.std()
    return lambda x: (np.sin(w * x + p) - mean) / deviation


def shares(rng: np.random.Generator, dim: int, seed: int) -> Truth:
    """Pairs and triples whose shares of the variance are drawn from 0.3 % to 10 %, evenly on a log scale."""
    terms = [Term((i,), _pure(rng, 1, 1.0)) for i in range(dim)]
    scopes = mixed_scopes(rng, dim, dim // 3, 0.4)
    parts = np.exp(rng.uniform(np.log(0.0035), np.log(0.1), len(scopes)))
    rest = max(1.0 - parts.sum(), 0.2)  # the singletons' part
    parts *= (1 - rest) / parts.sum()
    for scope, part in zip(scopes, parts, strict=True):
        terms.append(Term(scope, _pure(rng, len(scope), float(np.sqrt(part / rest * dim)))))
    return build(terms, dim)


def _pure(rng: np.random.Generator, size: int, deviation: float) -> Function:
    """A product of centred sines with that standard deviation."""
    w, p = rng.uniform(1.5, 5, size), rng.uniform(0, 6, size)
    at = np.linspace(0, 1, 2001)[:, None]
    values = np.sin(w * at + p)
    mean, spread = values.mean(axis=0), values.std(axis=0)
    return lambda X: deviation * ((np.sin(w * X + p) - mean) / spread).prod(axis=1)


def friedman_1(u: Array) -> Array:
    return 10 * np.sin(np.pi * u[:, 0] * u[:, 1]) + 20 * (u[:, 2] - 0.5) ** 2 + 10 * u[:, 3] + 5 * u[:, 4]


def friedman_2(u: Array) -> Array:
    a, b, c, d = 100 * u[:, 0], np.pi * (40 + 520 * u[:, 1]), u[:, 2], 1 + 10 * u[:, 3]
    impedance: Array = np.sqrt(a**2 + (b * c - 1 / (b * d)) ** 2)
    return impedance


def ishigami(u: Array) -> Array:
    x = np.pi * (2 * u - 1)
    value: Array = np.sin(x[:, 0]) + 7 * np.sin(x[:, 1]) ** 2 + 0.1 * x[:, 2] ** 4 * np.sin(x[:, 0])
    return value


def sobol_g(u: Array) -> Array:
    """Products of |4x - 2| + a over the scopes (0, 1), (2, 3) and (1, 4, 5)."""
    a = np.array([0.0, 0.5, 0.5, 1.0, 0.5, 1.0])
    g = (np.abs(4 * u - 2) + a) / (1 + a)
    value: Array = g[:, 0] * g[:, 1] + g[:, 2] * g[:, 3] + g[:, 1] * g[:, 4] * g[:, 5]
    return value


def borehole(u: Array) -> Array:
    low = np.array([0.05, 100, 63070, 990, 63.1, 700, 1120, 9855])
    high = np.array([0.15, 50000, 115600, 1110, 116, 820, 1680, 12045])
    rw, r, tu, hu, tl, hl, length, kw = (low + (high - low) * u).T
    ratio = np.log(r / rw)
    flow: Array = 2 * np.pi * tu * (hu - hl) / (ratio * (1 + 2 * length * tu / (ratio * rw**2 * kw) + tu / tl))
    return flow


def robot_arm(u: Array) -> Array:
    angles, lengths = np.cumsum(2 * np.pi * u[:, :4], axis=1), u[:, 4:]
    reach: Array = np.hypot((lengths * np.cos(angles)).sum(axis=1), (lengths * np.sin(angles)).sum(axis=1))
    return reach


CLASSICAL: tuple[tuple[str, Function, int, tuple[Scope, ...] | None], ...] = (
    ("friedman-1", friedman_1, 5, ((0, 1),)),
    ("ishigami", ishigami, 3, ((0, 2),)),
    ("sobol-g", sobol_g, 6, ((0, 1), (1, 4), (1, 4, 5), (1, 5), (2, 3), (4, 5))),
    ("friedman-2", friedman_2, 4, None),  # None: the true pairs
    ("borehole", borehole, 8, None),
    ("robot-arm", robot_arm, 8, None),
)


def classical(rng: np.random.Generator, dim: int, seed: int) -> Truth:
    """One of the functions of ``CLASSICAL`` (the seed says which) at random places among ``dim`` variables."""
    _, function, size, scopes = CLASSICAL[seed % len(CLASSICAL)]
    at = rng.choice(dim, size, replace=False).tolist()
    whole = build([Term(tuple(at), function)], dim, ())
    if scopes is None:
        pairs = np.argwhere(np.triu(whole.pair_shares(seed) >= MIN_SHARE))
        found = [(int(i), int(j)) for i, j in pairs]
    else:
        found = [tuple(sorted(at[i] for i in scope)) for scope in scopes]
    return build(whole.terms, dim, found)


def _no_function(rng: np.random.Generator, dim: int, seed: int) -> Truth:
    raise NotImplementedError


FAMILIES: dict[str, Callable[[np.random.Generator, int, int], Truth]] = {
    "sines": sines,
    "gp-short": gp_draw(0.3),
    "gp-long": gp_draw(0.8),
    "generator": generator,
    "classical": classical,
    "thresholds": thresholds,
    "discrete": discrete,
    "shares": shares,
    "additive": additive,
    "noise": _no_function,
}
