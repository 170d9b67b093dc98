"""The Gram matrix of an additive kernel, and the contraction that gives the evidence its gradient.

Both walk over blocks of ``BLOCK`` pairs of observations: for one block the correlations of all variables stay in the
second-level cache, every inner loop runs over BLOCK contiguous numbers, and the compiler turns it into vector
instructions. A Matérn kernel needs no exponential per pair: exp(-a |x - x'|) is the smaller of
exp(-a x) exp(a x') and its mirror image, so t exponentials per variable serve t^2 pairs.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from dechbo.compiled import compiled
from dechbo.gp.kernels import CATEGORICAL, MATERN52, SQRT5
from dechbo.graph import FactorGraph

Array = NDArray[np.float64]
Ints = NDArray[np.int64]

BLOCK = 16
# Products exp(a x) stay within doubles up to here; beyond it the exponential is taken per pair.
_SAFE_EXPONENT = 600.0


class Pairs(NamedTuple):
    """What the compiled loops need to know of observations to correlate any two of them.

    Modes: 0 Matérn by products, 1 Matérn by exponentials, 2 squared exponential, 3 categorical.
    """

    z: Array  # (n, d) scaled coordinates a (x - centre)
    u: Array  # exp(z)
    w: Array  # exp(-z)
    modes: Ints  # (d,)
    shared: Array  # (d,) the correlation of unequal categories

    @classmethod
    def of(cls, X: Array, codes: Ints, lengthscales: Array) -> Pairs:
        """Observations X (n, d), one kernel code and one lengthscale per variable."""
        centre = 0.5 * (X.max(axis=0) + X.min(axis=0))
        scale = np.where(codes == CATEGORICAL, 1.0, np.where(codes == MATERN52, SQRT5, 1.0) / lengthscales)
        z = np.ascontiguousarray((X - centre) * scale)
        fits = np.abs(z).max(axis=0) <= _SAFE_EXPONENT
        modes = np.where(codes == MATERN52, np.where(fits, 0, 1), codes + 1).astype(np.int64)
        safe = np.where(modes == 0, z, 0.0)
        return cls(z, np.exp(safe), np.exp(-safe), modes, np.exp(-1.0 / lengthscales))


def gram(graph: FactorGraph, pairs: Pairs, variances: Array) -> Array:
    """K = sum_I s_I prod_{i in I} k_i."""
    return _gram(*pairs, graph.starts, graph.members, variances)


def contraction(graph: FactorGraph, pairs: Pairs, variances: Array, M: Array) -> tuple[Array, Array]:
    """sum M o dK / 2 for a symmetric M: in every log lengthscale (d,) and every variance (|U|,)."""
    by_length, by_variance = _contract(*pairs, graph.starts, graph.members, variances, np.ascontiguousarray(M))
    return by_length, by_variance.sum(axis=1)


@compiled
def _block_correlations(
    zp: Array, up: Array, wp: Array, zb: Array, ub: Array, wb: Array, modes: Ints, shared: Array, k: Array, dk: Array
) -> None:
    """k[i, b] = k_i(x_p, x_b), and dk[i, b] its derivative in log l_i, for one p and one block of b."""
    for i in range(zp.shape[0]):
        z0 = zp[i]
        if modes[i] == 0:
            u0 = up[i]
            w0 = wp[i]
            for b in range(BLOCK):
                s = abs(z0 - zb[i, b])
                decay = min(u0 * wb[i, b], w0 * ub[i, b])
                third = s * s * (1.0 / 3.0)
                k[i, b] = (1.0 + s + third) * decay
                dk[i, b] = (third + third * s) * decay
        elif modes[i] == 1:
            for b in range(BLOCK):
                s = abs(z0 - zb[i, b])
                decay = np.exp(-s)
                third = s * s * (1.0 / 3.0)
                k[i, b] = (1.0 + s + third) * decay
                dk[i, b] = (third + third * s) * decay
        elif modes[i] == 2:
            for b in range(BLOCK):
                square = (z0 - zb[i, b]) ** 2
                k[i, b] = np.exp(-0.5 * square)
                dk[i, b] = square * k[i, b]
        else:
            for b in range(BLOCK):
                k[i, b] = 1.0 if z0 == zb[i, b] else shared[i]
                # exp(-1 / l) may underflow to 0: its logarithm is then no longer -1 / l
                dk[i, b] = 0.0 if z0 == zb[i, b] or shared[i] == 0.0 else -np.log(shared[i]) * shared[i]


@compiled
def _gather(z: Array, u: Array, w: Array, start: int, zb: Array, ub: Array, wb: Array) -> int:
    """Copy observations start … start + BLOCK - 1 into (d, BLOCK) buffers, the last one repeated as padding."""
    n = z.shape[0]
    width = int(min(BLOCK, n - start))
    for b in range(BLOCK):
        q = start + min(b, width - 1)
        for i in range(z.shape[1]):
            zb[i, b] = z[q, i]
            ub[i, b] = u[q, i]
            wb[i, b] = w[q, i]
    return width


@compiled
def _gram(
    z: Array, u: Array, w: Array, modes: Ints, shared: Array, starts: Ints, members: Ints, variances: Array
) -> Array:
    n, d = z.shape
    zb, ub, wb = np.empty((d, BLOCK)), np.empty((d, BLOCK)), np.empty((d, BLOCK))
    k, dk = np.empty((d, BLOCK)), np.empty((d, BLOCK))
    total = np.empty(BLOCK)
    product = np.empty(BLOCK)
    K = np.empty((n, n))
    for start in range(0, n, BLOCK):
        width = _gather(z, u, w, start, zb, ub, wb)
        for p in range(start + width):
            _block_correlations(z[p], u[p], w[p], zb, ub, wb, modes, shared, k, dk)
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
            for b in range(width):
                K[p, start + b] = total[b]
                K[start + b, p] = total[b]
    return K


@compiled
def _contract(
    z: Array, u: Array, w: Array, modes: Ints, shared: Array, starts: Ints, members: Ints, variances: Array, M: Array
) -> tuple[Array, Array]:
    n, d = z.shape
    zb, ub, wb = np.empty((d, BLOCK)), np.empty((d, BLOCK)), np.empty((d, BLOCK))
    k, dk = np.empty((d, BLOCK)), np.empty((d, BLOCK))
    others = np.empty((d, BLOCK))  # per variable i: sum over factors with i of M s_I prod_{j != i} k_j
    m = np.empty(BLOCK)
    product = np.empty(BLOCK)
    by_length = np.zeros(d)
    by_variance = np.zeros((len(variances), BLOCK))
    for start in range(0, n, BLOCK):
        width = _gather(z, u, w, start, zb, ub, wb)
        for p in range(start + width):
            for b in range(BLOCK):
                # pairs below the diagonal stand for their mirror images; padding and mirrors weigh nothing
                q = start + b
                m[b] = 0.0 if b >= width or q < p else (M[p, q] if q > p else 0.5 * M[p, q])
            _block_correlations(z[p], u[p], w[p], zb, ub, wb, modes, shared, k, dk)
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
                else:
                    for a in range(first, first + size):
                        for b in range(BLOCK):
                            product[b] = m[b]
                        for c in range(first, first + size):
                            if c != a:
                                for b in range(BLOCK):
                                    product[b] *= k[members[c], b]
                        for b in range(BLOCK):
                            others[members[a], b] += variance * product[b]
                    for b in range(BLOCK):
                        by_variance[f, b] += product[b] * k[members[first + size - 1], b]
            for i in range(d):
                part = 0.0
                for b in range(BLOCK):
                    part += others[i, b] * dk[i, b]
                by_length[i] += part
    return by_length, by_variance
