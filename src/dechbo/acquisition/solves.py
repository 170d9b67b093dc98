"""Covariances and triangular solves of all cells of a factor: V_I = L^-1 k_I."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray
from scipy.linalg.blas import dtrsm

from dechbo.compiled import compiled
from dechbo.gp import AdditivePosterior
from dechbo.gp.kernels import correlations

Array = NDArray[np.float64]


def candidate_rows(posterior: AdditivePosterior, candidates: Sequence[Array], first: int = 0) -> list[Array]:
    """k_i(X_pi, h) for every variable i, observation p from ``first`` on, and candidate h: (n, g_i) each."""
    gp = posterior.gp
    lengthscales = gp.hyperparameters.lengthscales
    return [
        correlations(gp.codes[i], posterior.X[first:, i], values, lengthscales[i])
        for i, values in enumerate(candidates)
    ]


def factor_covariances(posterior: AdditivePosterior, rows: Sequence[Array], k: int) -> Array:
    """k_I at every cell of factor k: (n, cells) in the order of its table."""
    scope = posterior.gp.graph.scopes[k]
    product: Array = rows[scope[0]] * posterior.gp.hyperparameters.variances[k]
    for i in scope[1:]:
        wider = np.empty((len(product), product.shape[1] * rows[i].shape[1]))
        _outer_rows(product, rows[i], wider)
        product = wider
    return product


def factor_solves(posterior: AdditivePosterior, rows: Sequence[Array], k: int, L: Array) -> Array:
    """V_I = L^-1 k_I at every cell of factor k, (n, cells): V^T L^T = k^T, solved in place."""
    product = factor_covariances(posterior, rows, k)
    solved: Array = dtrsm(1.0, L, product.T, side=1, lower=1, trans_a=1, overwrite_b=1)
    return solved.T


@compiled
def _outer_rows(a: Array, b: Array, out: Array) -> None:
    """out[p, i * width + j] = a[p, i] b[p, j]."""
    width = b.shape[1]
    for p in range(a.shape[0]):
        for i in range(a.shape[1]):
            left = a[p, i]
            start = i * width
            for j in range(width):
                out[p, start + j] = left * b[p, j]
