"""Cross-validation of a sparse GP by partially independent conditionals (PIC; Snelson & Ghahramani 2007).

Inducing inputs u carry what the blocks b of the data have in common, and within a block the covariance is exact:

    cov(y) = Q + blockdiag(D_b),   Q = K_fu K_uu^{-1} K_uf,   D_b = K_bb - Q_bb + noise I.

One block is the exact process, and blocks of one point are FITC.

All folds cost little more than one fit. With V = L_u^{-1} K_uf, K_uu = L_u L_u^T, E = [V^T y], P_b = D_b^{-1} and
Z_b = P_b E_b, leaving the rows H of every block out leaves

    S = sum_b E_b^T Z_b - Z_H^T P_HH^{-1} Z_H          of sum_b E_b^T D_b^{-1} E_b,
    p = (I + S_VV)^{-1} S_Vy,
    y_H - prediction = P_HH^{-1} (Z_Hy - Z_HV p),

so no block is factorised again. Tests: test_sparse_gp.py.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import blas, cho_solve, cholesky, lapack, solve_triangular

Array = NDArray[np.float64]
Indices = NDArray[np.int64]

JITTER = 1e-6  # on the diagonal of K_uu, relative to the signal variance
TRAINING = -1  # the fold of rows that are never left out


@dataclass(frozen=True, eq=False)
class PICHyperparameters:
    """Of a squared exponential kernel with noise, and the inducing inputs (m, d)."""

    signal: float  # variance
    noise: float  # variance
    lengthscales: Array  # (d,)
    inducing: Array

    def covariance(self, a: Array, b: Array) -> Array:
        """K between rows that are divided by the lengthscales: signal exp(-|a - b|^2 / 2), (n, m)."""
        K = a @ b.T
        K -= 0.5 * (a * a).sum(axis=1)[:, None]
        K -= 0.5 * (b * b).sum(axis=1)
        np.minimum(K, 0.0, out=K)  # rounding
        np.exp(K, out=K)
        K *= self.signal
        return K


@dataclass(frozen=True, eq=False)
class BlockedData:
    """Rows sorted by block, and by fold within a block.

    ``order`` are their places in the data as given. ``blocks`` are slices of the sorted rows; ``folds`` says for each
    block which slices of it are left out together: (fold, start, stop), counted from the block's first row.
    """

    X: Array
    y: Array
    order: Indices
    blocks: tuple[slice, ...]
    folds: tuple[tuple[tuple[int, int, int], ...], ...]

    @classmethod
    def of(cls, X: Array, y: Array, block: Indices, fold: Indices) -> BlockedData:
        """From rows with the numbers of their blocks and folds (``TRAINING``: never left out)."""
        order = np.lexsort((fold, block))
        starts = np.flatnonzero(np.diff(block[order], prepend=block[order[0]] - 1))
        stops = np.append(starts[1:], len(order))
        blocks = tuple(slice(int(a), int(b)) for a, b in zip(starts, stops, strict=True))
        parts = tuple(_runs(fold[order[each]]) for each in blocks)
        return cls(np.ascontiguousarray(X[order]), y[order], order, blocks, parts)


def _runs(folds: Indices) -> tuple[tuple[int, int, int], ...]:
    """(fold, start, stop) of every run of equal numbers but ``TRAINING``."""
    starts = np.flatnonzero(np.diff(folds, prepend=folds[0] - 1))
    stops = np.append(starts[1:], len(folds))
    runs = ((int(folds[a]), int(a), int(b)) for a, b in zip(starts, stops, strict=True))
    return tuple(run for run in runs if run[0] != TRAINING)


def left_out_errors(data: BlockedData, hyperparameters: PICHyperparameters) -> Array:
    """y minus its prediction from the rows of other folds, in the order of the data as given; NaN for ``TRAINING``."""
    h = hyperparameters
    X, U = data.X / h.lengthscales, h.inducing / h.lengthscales
    K_uu = h.covariance(U, U)
    K_uu.flat[:: len(U) + 1] += JITTER * h.signal
    m, n = len(U), len(X)
    E = np.empty((n, m + 1), order="F")  # [V^T y]
    E[:, :m] = blas.dtrsm(1.0, cholesky(K_uu), h.covariance(X, U), side=1)
    E[:, m] = data.y
    moments = np.zeros((m + 1, m + 1), order="F")  # sum_b E_b^T P_b E_b, its upper half
    lost: dict[int, Array] = {}  # by fold: sum_b Z_H^T P_HH^{-1} Z_H, its upper half
    left_out = []
    for rows, folds in zip(data.blocks, data.folds, strict=True):
        E_b = np.asfortranarray(E[rows])
        D = h.covariance(X[rows], X[rows])
        D = blas.dsyrk(-1.0, E_b[:, :m], beta=1.0, c=np.asfortranarray(D), lower=1, overwrite_c=1)
        D.flat[:: len(D) + 1] += h.noise
        L = _lower_cholesky(D)
        whitened = blas.dtrsm(1.0, L, E_b, lower=1)
        moments = blas.dsyrk(1.0, whitened, beta=1.0, c=moments, trans=1, overwrite_c=1)
        Z = blas.dtrsm(1.0, L, whitened, lower=1, trans_a=1, overwrite_b=1)
        P = lapack.dpotri(L, lower=1, overwrite_c=1)[0]
        for fold, start, stop in folds:
            C = _lower_cholesky(np.asfortranarray(P[start:stop, start:stop]))
            W = blas.dtrsm(1.0, C, np.asfortranarray(Z[start:stop]), lower=1, overwrite_b=1)
            before = lost.get(fold)
            c = np.zeros_like(moments, order="F") if before is None else before
            lost[fold] = blas.dsyrk(1.0, W, beta=1.0, c=c, trans=1, overwrite_c=1)
            left_out.append((fold, rows.start + start, rows.start + stop, C, W))
    weights = {fold: _weights(moments - part) for fold, part in lost.items()}
    errors = np.full(n, np.nan)
    for fold, start, stop, C, W in left_out:
        errors[data.order[start:stop]] = solve_triangular(C, W[:, m] - W[:, :m] @ weights[fold], lower=True, trans=1)
    return errors


def _lower_cholesky(matrix: Array) -> Array:
    """The Cholesky factor of a matrix whose lower half counts; it is overwritten."""
    factor, failed = lapack.dpotrf(matrix, lower=1, clean=0, overwrite_a=1)
    if failed:
        raise np.linalg.LinAlgError("a covariance matrix is not positive definite")
    return np.asarray(factor)


def _weights(S: Array) -> Array:
    """p = (I + S_VV)^{-1} S_Vy from the upper half of S."""
    A = S[:-1, :-1].copy(order="F")
    A.flat[:: len(A) + 1] += 1.0
    return np.asarray(cho_solve((cholesky(A), False), S[:-1, -1]))


def bisected(X: Array, most: int) -> Indices:
    """The number of the block of every row of X: blocks of at most ``most`` near points, all of about the same size.

    Divisive clustering: the rows are cut across their principal direction, each side again, until the parts are small
    enough. The result depends on nothing else.
    """
    block = np.zeros(len(X), dtype=np.int64)
    parts: list[tuple[Indices, int]] = [(np.arange(len(X)), -(-len(X) // most))]
    done = 0
    while parts:
        rows, leaves = parts.pop()
        if leaves == 1:
            block[rows] = done
            done += 1
            continue
        centred = X[rows] - X[rows].mean(axis=0)
        axis = np.linalg.eigh(centred.T @ centred)[1][:, -1]
        axis *= np.sign(axis[np.abs(axis).argmax()])  # an eigenvector has no sign
        along = np.argsort(centred @ axis, kind="stable")
        cut = len(rows) * (leaves // 2) // leaves
        parts += [(rows[along[cut:]], leaves - leaves // 2), (rows[along[:cut]], leaves // 2)]
    return block


def rmse(errors: Array | Sequence[float]) -> float:
    """The root of the mean square."""
    return float(np.sqrt(np.mean(np.square(errors))))
