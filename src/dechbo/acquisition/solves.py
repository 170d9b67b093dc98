"""Covariances and solves at the cells of a factor: V_I = L^-1 k_I. Tested by tests/acquisition/test_grid.py."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import NDArray
from scipy.linalg.blas import dtrsm

from dechbo.compiled import compiled
from dechbo.gp import AdditiveGP, AdditivePosterior

Array = NDArray[np.float64]

MAX_CHUNK = 2**22  # numbers in one solve: 32 MiB


def candidate_rows(posterior: AdditivePosterior, candidates: Sequence[Array], first: int = 0) -> list[Array]:
    """k_i(X_pi, h) for every variable i, observation p from ``first`` on, and candidate h: (n, g_i) each."""
    correlation, X = posterior.gp.correlation, posterior.X[first:]
    means = correlation.means(X)
    return [correlation.matrix(i, X[:, i], values, means[i]) for i, values in enumerate(candidates)]


def factor_priors(gp: AdditiveGP, diagonals: Sequence[Array], k: int) -> Array:
    """Var f_I at every cell of factor k, in the order of its table; ``diagonals`` holds k_i(h, h) of every variable."""
    cells = np.array([gp.hyperparameters.variances[k]])
    for i in gp.graph.scopes[k]:
        cells = np.multiply.outer(cells, diagonals[i]).ravel()
    return cells


def factor_covariances(posterior: AdditivePosterior, rows: Sequence[Array], k: int) -> Array:
    """k_I at every cell of factor k: (n, cells) in the order of its table."""
    scope = posterior.gp.graph.scopes[k]
    return _product([rows[i] for i in scope], posterior.gp.hyperparameters.variances[k])


def _product(rows: Sequence[Array], variance: float) -> Array:
    product: Array = rows[0] * variance
    for values in rows[1:]:
        wider = np.empty((len(product), product.shape[1] * values.shape[1]))
        _outer_rows(product, values, wider)
        product = wider
    return product


def factor_solves(posterior: AdditivePosterior, rows: Sequence[Array], k: int, L: Array) -> Iterator[Array]:
    """V_I = L^-1 k_I at the cells of factor k, (n, cells) part by part in the order of its table.

    V^T L^T = k^T is solved in place. A part covers as many of the last axes as fit in ``MAX_CHUNK`` numbers.
    """
    scope = posterior.gp.graph.scopes[k]
    split = len(scope) - 1
    size = len(L) * rows[scope[split]].shape[1]
    while split > 0 and size * rows[scope[split - 1]].shape[1] <= MAX_CHUNK:
        split -= 1
        size *= rows[scope[split]].shape[1]
    tail = _product([rows[i] for i in scope[split:]], posterior.gp.hyperparameters.variances[k])
    for choice in itertools.product(*(rows[i].T for i in scope[:split])):
        part = tail * np.prod(choice, axis=0)[:, None] if choice else tail
        solved: Array = dtrsm(1.0, L, part.T, side=1, lower=1, trans_a=1, overwrite_b=1)
        yield solved.T


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


def leave_one_out_products(values: Array) -> Array:
    """prod_{j != i} of ``values`` along axis 1, for every i."""
    before, after = np.ones_like(values), np.ones_like(values)
    np.cumprod(values[:, :-1], axis=1, out=before[:, 1:])
    after[:, :-1] = np.cumprod(values[:, :0:-1], axis=1)[:, ::-1]
    return before * after
