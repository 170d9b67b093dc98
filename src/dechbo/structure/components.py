"""Variance components: how much of the variance every scope explains, all scopes fitted at once.

    K = 1 + Σ_i s_i K_i + Σ_{i<j} s_ij K_ij + Σ_{i<j<k} s_ijk K_ijk + r_2 e_2 + r_3 e_3 + noise,

where K_I is the elementwise product of centred one-dimensional Gram matrices. A chain that starts from singletons sees
every missing interaction as noise, which hides the others; here none is missing. Each step multiplies every variance by

    sqrt(α' K_I α / tr(K^-1 K_I)),   α = K^-1 y,

a minorise–maximise step that never lowers the evidence (Zhou, Hu, Zhou and Lange 2019). Longer steps, with the ratio
itself or its square in place of the root, nearly always raise it more; they are tried first.

Over all pairs both sums are one matrix product; over all triples they are d of them. Where that is too much work, only
the variables that take part in most of the variance have pairs and triples of their own (``screen``); all others share
the variances r_2 and r_3 (e_2 and e_3 are the elementary symmetric sums over all pairs and triples), so that they do
not pass for noise. Single precision is enough: the solution is a start for the chains.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray
from scipy.linalg.lapack import dpotrf, dpotri

from dechbo.compiled import compiled
from dechbo.data.observations import Observations
from dechbo.gp.additive import CONSTANT_VARIANCE
from dechbo.gp.correlation import Correlation
from dechbo.gp.gram import pair_rows
from dechbo.graph import Scope

Array = NDArray[np.float64]
Ints = NDArray[np.int64]
Single = NDArray[np.float32]

MAX_PAIR_WORK = 1.6e10  # operations of a step: all pairs to d = 360 at t = 200
MAX_TRIPLE_WORK = 2e9  # all triples to d = 46 at t = 200, d = 25 at t = 500
MAX_COMPONENTS = 1_000_000  # of pairs, and of triples: 8 MiB for each array of their variances
MIN_NOISE = 1e-4  # of values with variance 1; single precision needs some
START_SHARES = {"singles": 0.5, "pairs": 0.3, "triples": 0.15, "noise": 0.05}  # of the variance
_POWERS = (2.0, 1.0, 0.5)  # of the ratio, tried in turn; 1/2 never lowers the evidence
_SCREEN_STEPS = 4
_CHUNK = 512  # pairs of observations at a time
_PRODUCTS = 64  # pairs of variables at a time: their products stay in the second-level cache
_MAX_STORED = 2**27  # numbers, 512 MiB; beyond, rows are computed again in every pass


@dataclass(frozen=True, eq=False)
class Components:
    """Variances of singletons (d,), of pairs and triples of some variables, shared by all others, and the noise.

    ``pairs`` is the upper triangle of a matrix over ``paired``. ``triples`` has a row for each pair i < j of
    ``tripled`` (sorted by j, then i) and a column for each k, and is 0 unless k > j.
    """

    paired: Ints  # variables
    tripled: Ints  # variables
    singles: Array
    pairs: Array
    triples: Array
    shared: Array  # (2,): r_2 and r_3
    noise: float

    @classmethod
    def start(
        cls, dim: int, paired: Ints, tripled: Ints, *, max_size: int = 3, noise: float | None = None
    ) -> Components:
        """Equal variances in every group; r_2 and r_3 are 0 where every scope of that size has its own variance."""
        m, n = len(paired), len(tripled)
        all_pairs, all_triples = dim * (dim - 1) / 2, dim * (dim - 1) * (dim - 2) / 6
        pair = START_SHARES["pairs"] / max(all_pairs, 1)
        triple = START_SHARES["triples"] / max(all_triples, 1) if max_size > 2 else 0.0
        behind = np.arange(n) > np.repeat(np.arange(n), np.arange(n))[:, None]  # k > j
        return cls(
            paired,
            tripled,
            np.full(dim, START_SHARES["singles"] / dim),
            np.triu(np.full((m, m), pair), 1),
            np.where(behind, triple, 0.0),
            np.array([pair * (m < dim), triple * (n < dim)]),
            START_SHARES["noise"] if noise is None else noise,
        )

    def interactions(self, most: int) -> dict[Scope, float]:
        """The ``most`` pairs and triples with the largest variances, largest first."""
        found: list[tuple[float, Scope]] = []
        for i, j in _largest(self.pairs, most):
            found.append((float(self.pairs[i, j]), _scope(self.paired[[i, j]])))
        for row, k in _largest(self.triples, most):
            found.append((float(self.triples[row, k]), _scope(self.tripled[[*_pair_at(row), k]])))
        found.sort(key=lambda item: (-item[0], item[1]))
        return {scope: variance for variance, scope in found[:most]}

    def pair_variances(self) -> Array:
        """The variances of all scopes that contain a pair, summed: (d, d), symmetric."""
        d, n = len(self.singles), len(self.tripled)
        total = np.zeros((d, d))
        total[np.ix_(self.paired, self.paired)] += self.pairs
        within = np.zeros((n, n))
        i, j = np.tril_indices(n, -1)[::-1]  # the rows: sorted by j, then i
        if len(self.triples):
            within[i, j] += self.triples.sum(axis=1)
            np.add.at(within, i, self.triples)
            np.add.at(within, j, self.triples)
        total[np.ix_(self.tripled, self.tripled)] += within
        return total + total.T

    def multiplied(self, up: Components, down: Components, power: float) -> Components:
        """Every variance times (up / down)^power."""

        def scaled(s: Array, a: Array, c: Array) -> Array:
            return np.asarray(s * (np.maximum(a, 1e-30) / np.maximum(c, 1e-12)) ** power)

        return replace(
            self,
            singles=scaled(self.singles, up.singles, down.singles),
            pairs=scaled(self.pairs, up.pairs, down.pairs),
            triples=scaled(self.triples, up.triples, down.triples),
            shared=scaled(self.shared, up.shared, down.shared),
        )


def _scope(variables: Ints) -> Scope:
    return tuple(sorted(variables.tolist()))


def _largest(values: Array, most: int) -> list[tuple[int, int]]:
    """Where the largest positive entries of a matrix are, at most ``most``."""
    flat = values.ravel()
    order = np.argsort(-flat, kind="stable")[:most]
    return [(int(at) // values.shape[1], int(at) % values.shape[1]) for at in order if flat[at] > 0]


def _pair_at(row: int) -> tuple[int, int]:
    """The pair i < j of a row: pairs are sorted by j, so row = j (j - 1) / 2 + i."""
    j = int((1 + np.sqrt(1 + 8 * row)) // 2)
    return row - j * (j - 1) // 2, j


class ComponentGrams:
    """K_I of every scope for the pairs p >= q of observations, in single precision and chunk by chunk."""

    def __init__(self, correlation: Correlation, data: Observations) -> None:
        self._pairs = correlation.pairs(data.X)
        self.rows = np.tril_indices(len(data))
        self.dim = data.dim
        stored = len(self.rows[0]) * self.dim <= _MAX_STORED
        self._stored = list(self._computed()) if stored else None

    def _computed(self) -> Iterator[tuple[slice, Single]]:
        for start in range(0, len(self.rows[0]), _CHUNK):
            part = slice(start, start + _CHUNK)
            k = pair_rows(self._pairs, self.rows[0][part], self.rows[1][part])
            yield part, np.ascontiguousarray(k.T)

    def chunks(self) -> Iterator[tuple[slice, Single]]:
        """Slices of the pairs of observations, and k_i of them: (d, chunk)."""
        return iter(self._stored) if self._stored is not None else self._computed()

    def combined(self, s: Components) -> Array:
        """Σ_I s_I k_I for every pair of observations."""
        total = np.empty(len(self.rows[0]))
        singles, pairs, triples, shared = (
            part.astype(np.float32) for part in (s.singles, s.pairs, s.triples, s.shared)
        )
        for part, k in self.chunks():
            value = singles @ k
            paired, tripled = k[s.paired], k[s.tripled]
            value += ((pairs @ paired) * paired).sum(axis=0)
            for block, first, products in _pair_products(tripled, len(triples)):
                _add_products(products, triples[block, first:] @ tripled[first:], value)
            if shared.any():
                value += shared @ elementary_sums(k)
            total[part] = value
        return total

    def contracted(self, weights: Sequence[Single], like: Components) -> list[Components]:
        """Σ_p w_p k_I(p) of every scope of ``like``, for each vector of ``weights``."""
        count, m, n = len(weights), len(like.paired), len(like.tripled)
        singles, shared = np.zeros((count, self.dim)), np.zeros((count, 2))
        pairs, triples = np.zeros((count, m, m)), np.zeros((len(like.triples), count, n))
        for part, k in self.chunks():
            w = np.stack([weight[part] for weight in weights])
            singles += w @ k.T
            paired, tripled = k[like.paired], k[like.tripled]
            pairs += (paired[None] * w[:, None]) @ paired.T
            weighted = tripled[None] * w[:, None]  # (count, n, chunk)
            for block, first, products in _pair_products(tripled, len(triples)):
                third = weighted[:, first:].reshape(-1, len(w[0]))
                triples[block, :, first:] += (products @ third.T).reshape(len(products), count, -1)
            if like.shared.any():
                shared += w @ elementary_sums(k).T
        return [
            replace(like, singles=singles[c], pairs=np.triu(pairs[c], 1), triples=triples[:, c], shared=shared[c])
            for c in range(count)
        ]

    def involvement(self, weights: Sequence[Single]) -> Array:
        """Σ_p w_p over all pairs, and over all triples, that contain a variable: (weights, 2, d)."""
        answer = np.zeros((len(weights), 2, self.dim))
        for part, k in self.chunks():
            w = np.stack([weight[part] for weight in weights])
            square = k * k
            rest = k.sum(axis=0) - k
            answer[:, 0] += w @ (k * rest).T
            answer[:, 1] += w @ (k * (rest * rest - (square.sum(axis=0) - square)) / 2).T
        return answer


def _pair_products(k: Single, count: int) -> Iterator[tuple[slice, int, Single]]:
    """k_i k_j of the first ``count`` pairs i < j, some j at a time: rows, the smallest k > j of them, products."""
    buffer = np.empty((_PRODUCTS + len(k), k.shape[1]), dtype=np.float32)
    j = 1
    while j * (j - 1) // 2 < count:
        last = j
        while last + 1 < len(k) and (last + 1) * last // 2 - j * (j - 1) // 2 < _PRODUCTS:
            last += 1
        rows = slice(j * (j - 1) // 2, (last + 1) * last // 2)
        products = buffer[: rows.stop - rows.start]
        _fill_products(k, j, last, products)
        yield rows, j + 1, products
        j = last + 1


@compiled
def _fill_products(k: Single, first: int, last: int, products: Single) -> None:
    """k_i k_j for all i < j and first <= j <= last, sorted by j, then i."""
    row = 0
    for j in range(first, last + 1):
        for i in range(j):
            for p in range(k.shape[1]):
                products[row, p] = k[i, p] * k[j, p]
            row += 1


@compiled
def _add_products(a: Single, b: Single, total: Single) -> None:
    """total += sum over rows of a b."""
    for i in range(len(a)):
        for p in range(a.shape[1]):
            total[p] += a[i, p] * b[i, p]


def elementary_sums(k: Single) -> Single:
    """e_2 = (p_1^2 − p_2) / 2 and e_3 = (p_1^3 − 3 p_1 p_2 + 2 p_3) / 6 with the power sums p of k: (2, chunk)."""
    square = k * k
    p1, p2, p3 = k.sum(axis=0), square.sum(axis=0), (square * k).sum(axis=0)
    answer: Single = np.stack([(p1**2 - p2) / 2, (p1**3 - 3 * p1 * p2 + 2 * p3) / 6])
    return answer


class ComponentFit:
    """The steps of one fit, and the evidence after each."""

    def __init__(self, grams: ComponentGrams, data: Observations, start: Components, *, free_noise: bool) -> None:
        self.grams = grams
        self.data = data
        self.free_noise = free_noise
        self._twice = np.where(grams.rows[0] == grams.rows[1], 1.0, 2.0)
        self.components = start
        self.evidence: list[float] = []
        self._solved = self._solve(start)
        if self._solved is not None:
            self.evidence.append(self._solved[0])

    def run(self, steps: int) -> Components:
        """Take ``steps`` steps, fewer if the evidence no longer rises in single precision."""
        for _ in range(steps):
            if not self._step():
                break
        return self.components

    def weights(self) -> list[Single]:
        """α α' and K^-1 for the pairs p >= q of observations, twice where p > q."""
        assert self._solved is not None
        _, alpha, inverse = self._solved
        rows = self.grams.rows
        return [(matrix[rows] * self._twice).astype(np.float32) for matrix in (np.outer(alpha, alpha), inverse)]

    def _step(self) -> bool:
        if self._solved is None:
            return False
        now, alpha, inverse = self._solved
        up, down = self.grams.contracted(self.weights(), self.components)
        ratio = float(alpha @ alpha / np.trace(inverse))
        for power in _POWERS:
            noise = self.components.noise
            if self.free_noise:
                noise = max(MIN_NOISE, noise * ratio ** min(power, 1.0))
            proposal = replace(self.components.multiplied(up, down, power), noise=noise)
            then = self._solve(proposal)
            if then is not None and then[0] >= now:
                self.components, self._solved = proposal, then
                self.evidence.append(then[0])
                return True
        return False

    def _solve(self, s: Components) -> tuple[float, Array, Array] | None:
        """The evidence, α and K^-1; None if K is not positive definite."""
        t, y = len(self.data), self.data.y
        K = np.zeros((t, t), order="F")
        K[self.grams.rows] = self.grams.combined(s) + CONSTANT_VARIANCE
        K[np.diag_indices(t)] += s.noise + self.data.noise
        L, failed = dpotrf(K, lower=1, clean=1, overwrite_a=1)
        if failed:
            return None
        log_root = float(np.log(np.diagonal(L)).sum())
        inverse, _ = dpotri(L, lower=1, overwrite_c=1)
        inverse = inverse + np.tril(inverse, -1).T
        alpha = inverse @ y
        return -0.5 * float(y @ alpha) - log_root - 0.5 * t * float(np.log(2 * np.pi)), alpha, inverse


def affordable(count: int, pair_work: float = MAX_PAIR_WORK, triple_work: float = MAX_TRIPLE_WORK) -> tuple[int, int]:
    """How many variables can have pairs, and how many triples, with ``count`` pairs of observations."""
    paired = int(np.sqrt(min(pair_work / (6 * count), MAX_COMPONENTS)))
    return max(2, paired), max(3, int(np.cbrt(min(triple_work / count, 2 * MAX_COMPONENTS))))


def screen(
    grams: ComponentGrams, data: Observations, max_size: int, *, noise: float | None, most: tuple[int, int]
) -> tuple[Ints, Ints]:
    """The variables that get pairs of their own, and those that get triples: all, or the ``most`` promising.

    Otherwise those with the largest α' G α / tr(K^-1 G), G the sum over all pairs (or triples) with that variable, in
    a model where all pairs share one variance and all triples another.
    """
    d = data.dim
    paired, tripled = min(d, most[0]), min(d, most[1]) if max_size > 2 else 0
    if paired == d and (tripled == d or max_size == 2):
        return np.arange(d), np.arange(tripled)
    none = np.arange(0)
    fit = ComponentFit(
        grams, data, Components.start(d, none, none, max_size=max_size, noise=noise), free_noise=noise is None
    )
    fit.run(_SCREEN_STEPS)
    return largest_involvement(grams, fit.weights(), (paired, tripled))


def largest_involvement(grams: ComponentGrams, weights: Sequence[Single], most: tuple[int, int]) -> tuple[Ints, Ints]:
    """The variables with the largest α' G α / tr(K^-1 G) over all pairs, and over all triples, that contain them."""
    up, down = grams.involvement(weights)
    ranks = np.argsort(-(up / np.maximum(down, 1e-12)), axis=1, kind="stable")
    return np.sort(ranks[0, : most[0]]), np.sort(ranks[1, : most[1]])
