"""The Gram matrix of an additive kernel, and the contraction that gives the evidence its gradient.

Both loop over blocks of ``BLOCK`` pairs of observations. For one block the correlations of all variables fit in the
second-level cache, and every inner loop runs over BLOCK contiguous numbers, which the compiler vectorises. A Matérn
kernel needs no exponential per pair: exp(-a |x - x'|) is the smaller of exp(-a x) exp(a x') and its mirror image, so t
exponentials per variable serve t^2 pairs.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from dechbo.compiled import compiled
from dechbo.gp.correlation import Pairs
from dechbo.graph import FactorGraph

Array = NDArray[np.float64]
Ints = NDArray[np.int64]

BLOCK = 16


def gram(graph: FactorGraph, pairs: Pairs, variances: Array) -> Array:
    """K = sum_I s_I prod_{i in I} k_i."""
    return _gram(pairs, graph.starts, graph.members, variances)


def fixed_point_gram(graph: FactorGraph, pairs: Pairs, variances: Array, exponent: int) -> Ints:
    """2^``exponent`` K, each factor's share rounded to a whole number: sums of such matrices have no rounding error."""
    K: Ints = _fixed_point_gram(pairs, graph.starts, graph.members, variances, 2.0**exponent)
    return K


def cross_gram(graph: FactorGraph, pairs: Pairs, variances: Array, first: int) -> Array:
    """K between the ``first`` points of ``pairs`` and the others: (first, others)."""
    cross: Array = _cross_gram(pairs, graph.starts, graph.members, variances, first)
    return cross


def pair_rows(pairs: Pairs, first: Ints, second: Ints) -> NDArray[np.float32]:
    """k_i of the pairs (``first``, ``second``) of observations, in single precision: (len(first), d)."""
    rows = np.empty((len(first), pairs.z.shape[1]), dtype=np.float32)
    _fill_rows(pairs, bool((pairs.modes == 0).all()), first, second, rows)
    return rows


def contraction(graph: FactorGraph, pairs: Pairs, variances: Array, M: Array) -> tuple[Array, Array]:
    """sum M o dK / 2 for a symmetric M: in every log lengthscale (d,) and every variance (|U|,).

    Only M on and above the diagonal is read.
    """
    by_length, by_variance = _contract(pairs, graph.starts, graph.members, variances, np.ascontiguousarray(M))
    return by_length.sum(axis=1), by_variance.sum(axis=1)


def factor_sums(graph: FactorGraph, values: Array, variances: Array) -> Array:
    """sum_I s_I prod_{i in I} values_i at m points, from t numbers for each variable: (m, d, t) to (m, t)."""
    total: Array = _factor_sums(values, graph.starts, graph.members, variances)
    return total


def factor_sum_slopes(graph: FactorGraph, values: Array, slopes: Array, variances: Array, weights: Array) -> Array:
    """Derivatives of sum_p weights_p factor_sums_p in every variable: weights (m, w, t) to (m, w, d).

    ``slopes`` (m, d, t) are the derivatives of ``values``.
    """
    changes: Array = _factor_sum_slopes(values, slopes, graph.starts, graph.members, variances, weights)
    return changes


@compiled
def _factor_sums(values: Array, starts: Ints, members: Ints, variances: Array) -> Array:
    m, _, t = values.shape
    total, product = np.zeros((m, t)), np.empty(t)
    for n in range(m):
        for f in range(len(variances)):
            product[:] = variances[f]
            for a in range(starts[f], starts[f + 1]):
                i = members[a]
                for p in range(t):
                    product[p] *= values[n, i, p]
            for p in range(t):
                total[n, p] += product[p]
    return total


@compiled
def _factor_sum_slopes(
    values: Array, slopes: Array, starts: Ints, members: Ints, variances: Array, weights: Array
) -> Array:
    m, d, t = values.shape
    rest = np.empty((d, t))  # per variable i: sum over factors with i of s_I prod_{j != i} values_j
    before, behind = np.empty((d + 1, t)), np.empty(t)
    answer = np.zeros((m, weights.shape[1], d))
    for n in range(m):
        rest[:] = 0.0
        for f in range(len(variances)):
            first = starts[f]
            size = starts[f + 1] - first
            if size == 1:
                i = members[first]
                for p in range(t):
                    rest[i, p] += variances[f]
                continue
            for p in range(t):
                before[0, p] = 1.0
                behind[p] = variances[f]
            for a in range(size):
                j = members[first + a]
                for p in range(t):
                    before[a + 1, p] = before[a, p] * values[n, j, p]
            for a in range(size - 1, -1, -1):
                j = members[first + a]
                for p in range(t):
                    rest[j, p] += before[a, p] * behind[p]
                    behind[p] *= values[n, j, p]
        for w in range(weights.shape[1]):
            for i in range(d):
                total = 0.0
                for p in range(t):
                    total += weights[n, w, p] * rest[i, p] * slopes[n, i, p]
                answer[n, w, i] = total
    return answer


@compiled
def _block_correlations(pairs: Pairs, p: int, block: Array, k: Array, dk: Array) -> None:
    """k[i, b] = k_i(x_p, x_b), and dk[i, b] its derivative in log l_i, for one p and one block of b.

    ``block`` holds z, exp(z), exp(-z), a and da/dlog l of the block's observations, (5, d, BLOCK).
    """
    zb, ub, wb, ab, bb = block[0], block[1], block[2], block[3], block[4]
    for i in range(len(pairs.modes)):
        z0 = pairs.z[p, i]
        if pairs.modes[i] == 0:
            u0 = pairs.u[p, i]
            w0 = pairs.w[p, i]
            for b in range(BLOCK):
                s = abs(z0 - zb[i, b])
                decay = min(u0 * wb[i, b], w0 * ub[i, b])
                third = s * s * (1.0 / 3.0)
                k[i, b] = (1.0 + s + third) * decay
                dk[i, b] = (third + third * s) * decay
        elif pairs.modes[i] == 1:
            for b in range(BLOCK):
                s = abs(z0 - zb[i, b])
                decay = np.exp(-s)
                third = s * s * (1.0 / 3.0)
                k[i, b] = (1.0 + s + third) * decay
                dk[i, b] = (third + third * s) * decay
        elif pairs.modes[i] == 2:
            for b in range(BLOCK):
                square = (z0 - zb[i, b]) ** 2
                k[i, b] = np.exp(-0.5 * square)
                dk[i, b] = square * k[i, b]
        else:
            shared = pairs.shared[i]
            for b in range(BLOCK):
                k[i, b] = 1.0 if z0 == zb[i, b] else shared
                # if exp(-1 / l) underflows to 0, its logarithm is no longer -1 / l
                dk[i, b] = 0.0 if z0 == zb[i, b] or shared == 0.0 else -np.log(shared) * shared
        if pairs.centred:
            a0 = pairs.mean[p, i]
            b0 = pairs.mean_slope[p, i]
            inverse = pairs.inverse[i]
            log_slope = pairs.log_slope[i]
            for b in range(BLOCK):
                k[i, b] = (k[i, b] - a0 * ab[i, b]) * inverse
                dk[i, b] = (dk[i, b] - b0 * ab[i, b] - a0 * bb[i, b]) * inverse - log_slope * k[i, b]


@compiled
def _gather(pairs: Pairs, start: int, block: Array) -> int:
    """Copy observations start … start + BLOCK - 1 into the block's buffers, padded by repeating the last one."""
    n, d = pairs.z.shape
    width = int(min(BLOCK, n - start))
    for b in range(BLOCK):
        q = start + min(b, width - 1)
        for i in range(d):
            block[0, i, b] = pairs.z[q, i]
            block[1, i, b] = pairs.u[q, i]
            block[2, i, b] = pairs.w[q, i]
            block[3, i, b] = pairs.mean[q, i]
            block[4, i, b] = pairs.mean_slope[q, i]
    return width


@compiled
def _gram(pairs: Pairs, starts: Ints, members: Ints, variances: Array) -> Array:
    n, d = pairs.z.shape
    block = np.empty((5, d, BLOCK))
    k, dk = np.empty((d, BLOCK)), np.empty((d, BLOCK))
    total, product = np.empty(BLOCK), np.empty(BLOCK)
    K = np.empty((n, n))
    for start in range(0, n, BLOCK):
        width = _gather(pairs, start, block)
        for p in range(start + width):
            _block_correlations(pairs, p, block, k, dk)
            _block_sum(starts, members, variances, k, product, total)
            for b in range(width):
                K[p, start + b] = total[b]
                K[start + b, p] = total[b]
    return K


@compiled
def _fixed_point_gram(pairs: Pairs, starts: Ints, members: Ints, variances: Array, scale: float) -> Ints:
    n, d = pairs.z.shape
    block = np.empty((5, d, BLOCK))
    k, dk = np.empty((d, BLOCK)), np.empty((d, BLOCK))
    product, total = np.empty(BLOCK), np.empty(BLOCK, dtype=np.int64)
    K = np.empty((n, n), dtype=np.int64)
    for start in range(0, n, BLOCK):
        width = _gather(pairs, start, block)
        for p in range(start + width):
            _block_correlations(pairs, p, block, k, dk)
            total[:] = 0
            for f in range(len(variances)):
                for b in range(BLOCK):
                    product[b] = variances[f]
                for a in range(starts[f], starts[f + 1]):
                    i = members[a]
                    for b in range(BLOCK):
                        product[b] *= k[i, b]
                for b in range(BLOCK):
                    total[b] += np.int64(np.rint(product[b] * scale))
            for b in range(width):
                K[p, start + b] = total[b]
                K[start + b, p] = total[b]
    return K


@compiled
def _cross_gram(pairs: Pairs, starts: Ints, members: Ints, variances: Array, first: int) -> Array:
    n, d = pairs.z.shape
    block = np.empty((5, d, BLOCK))
    k, dk = np.empty((d, BLOCK)), np.empty((d, BLOCK))
    total, product = np.empty(BLOCK), np.empty(BLOCK)
    K = np.empty((first, n - first))
    for start in range(first, n, BLOCK):
        width = _gather(pairs, start, block)
        for p in range(first):
            _block_correlations(pairs, p, block, k, dk)
            _block_sum(starts, members, variances, k, product, total)
            for b in range(width):
                K[p, start - first + b] = total[b]
    return K


@compiled
def _block_sum(starts: Ints, members: Ints, variances: Array, k: Array, product: Array, total: Array) -> None:
    """total = sum_I s_I prod_{i in I} k_i of one block; ``product`` is scratch."""
    total[:] = 0.0
    for f in range(len(variances)):
        first = starts[f]
        size = starts[f + 1] - first
        variance = variances[f]
        i = members[first]
        if size == 1:
            for b in range(BLOCK):
                total[b] += variance * k[i, b]
        elif size == 2:
            j = members[first + 1]
            for b in range(BLOCK):
                total[b] += variance * k[i, b] * k[j, b]
        elif size == 3:
            j = members[first + 1]
            m = members[first + 2]
            for b in range(BLOCK):
                total[b] += variance * k[i, b] * k[j, b] * k[m, b]
        else:
            for b in range(BLOCK):
                product[b] = variance
            for a in range(first, first + size):
                j = members[a]
                for b in range(BLOCK):
                    product[b] *= k[j, b]
            for b in range(BLOCK):
                total[b] += product[b]


@compiled
def _contract(pairs: Pairs, starts: Ints, members: Ints, variances: Array, M: Array) -> tuple[Array, Array]:
    n, d = pairs.z.shape
    block = np.empty((5, d, BLOCK))
    k, dk = np.empty((d, BLOCK)), np.empty((d, BLOCK))
    others = np.empty((d, BLOCK))  # per variable i: sum over factors with i of M s_I prod_{j != i} k_j
    m = np.empty(BLOCK)
    before, behind = np.empty((d + 1, BLOCK)), np.empty(BLOCK)  # products over the variables of a large factor
    by_length = np.zeros((d, BLOCK))  # summed over the block at the end, in a fixed order
    by_variance = np.zeros((len(variances), BLOCK))
    for start in range(0, n, BLOCK):
        width = _gather(pairs, start, block)
        for p in range(start + width):
            for b in range(BLOCK):
                # each pair above the diagonal also counts for its mirror image; mirrors and padding get weight 0
                q = start + b
                m[b] = 0.0 if b >= width or q < p else (M[p, q] if q > p else 0.5 * M[p, q])
            _block_correlations(pairs, p, block, k, dk)
            others[:] = 0.0
            for f in range(len(variances)):
                first = starts[f]
                size = starts[f + 1] - first
                variance = variances[f]
                i = members[first]
                if size == 1:
                    for b in range(BLOCK):
                        others[i, b] += variance * m[b]
                        by_variance[f, b] += m[b] * k[i, b]
                elif size == 2:
                    j = members[first + 1]
                    for b in range(BLOCK):
                        weight = variance * m[b]
                        others[i, b] += weight * k[j, b]
                        others[j, b] += weight * k[i, b]
                        by_variance[f, b] += m[b] * k[i, b] * k[j, b]
                elif size == 3:
                    j = members[first + 1]
                    h = members[first + 2]
                    for b in range(BLOCK):
                        weight = variance * m[b]
                        ki = k[i, b]
                        kj = k[j, b]
                        kh = k[h, b]
                        kij = ki * kj
                        others[i, b] += weight * kj * kh
                        others[j, b] += weight * ki * kh
                        others[h, b] += weight * kij
                        by_variance[f, b] += m[b] * kij * kh
                else:  # products before and after each variable: no division, 3 |I| multiplications
                    for b in range(BLOCK):
                        before[0, b] = m[b]
                        behind[b] = variance
                    for a in range(size):
                        j = members[first + a]
                        for b in range(BLOCK):
                            before[a + 1, b] = before[a, b] * k[j, b]
                    for a in range(size - 1, -1, -1):
                        j = members[first + a]
                        for b in range(BLOCK):
                            others[j, b] += before[a, b] * behind[b]
                            behind[b] *= k[j, b]
                    for b in range(BLOCK):
                        by_variance[f, b] += before[size, b]
            for i in range(d):
                for b in range(BLOCK):
                    by_length[i, b] += others[i, b] * dk[i, b]
    return by_length, by_variance


@compiled
def _fill_rows(pairs: Pairs, matern: bool, first: Ints, second: Ints, rows: NDArray[np.float32]) -> None:
    z, u, w, mean = pairs.z, pairs.u, pairs.w, pairs.mean
    for r in range(len(first)):
        p, q = first[r], second[r]
        if matern:
            for i in range(z.shape[1]):
                s = abs(z[p, i] - z[q, i])
                rows[r, i] = (1.0 + s + s * s * (1.0 / 3.0)) * min(u[p, i] * w[q, i], w[p, i] * u[q, i])
        else:
            for i in range(z.shape[1]):
                s = abs(z[p, i] - z[q, i])
                if pairs.modes[i] <= 1:
                    rows[r, i] = (1.0 + s + s * s * (1.0 / 3.0)) * np.exp(-s)
                elif pairs.modes[i] == 2:
                    rows[r, i] = np.exp(-0.5 * s * s)
                else:
                    rows[r, i] = 1.0 if s == 0.0 else pairs.shared[i]
        if pairs.centred:
            for i in range(z.shape[1]):
                rows[r, i] = (rows[r, i] - mean[p, i] * mean[q, i]) * pairs.inverse[i]
