"""Incremental tables: the update for new observations when the model and the candidates are unchanged."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import solve_triangular

from dechbo.acquisition.solves import candidate_rows, factor_covariances, factor_solves
from dechbo.gp import AdditivePosterior
from dechbo.tables import table_starts

Array = NDArray[np.float64]


class TableCache:
    """V_I of all factors for one model and one set of candidates, with one more row per new observation.

    A new observation x_n with last row l of L adds the row v = (k(x_n) - l^T V) / L_nn, so that tables cost a
    matrix–vector product instead of triangular solves. The cache is not used if it would need more than
    ``memory_limit`` bytes. Rows of pending points are not cached.
    """

    def __init__(self, *, memory_limit: int = 2**30) -> None:
        self.memory_limit = memory_limit
        self._posterior: AdditivePosterior | None = None
        self._candidates: list[Array] = []
        self._V = np.empty((0, 0))
        self._squares = np.empty(0)

    def prepare(self, posterior: AdditivePosterior, candidates: Sequence[Array]) -> bool:
        """Cache the solves of all observed rows; False if they do not fit in memory."""
        sizes = np.array([len(values) for values in candidates], dtype=np.int64)
        cells = int(table_starts(posterior.gp.graph, sizes)[-1])
        observed = len(posterior.X) - posterior.pending
        if 8 * cells * (_capacity(observed) + 1) > self.memory_limit:  # V, and one row for its squares
            self._posterior, self._V = None, np.empty((0, 0))
            return False
        if not self._extends(posterior, candidates, observed):
            self._rebuild(posterior, candidates, cells, observed)
        assert self._posterior is not None
        cached = len(self._posterior.X) - self._posterior.pending
        if observed > cached:
            new = self._covariances(posterior, cached)
            if observed > len(self._V):
                self._V = np.concatenate([self._V[:cached], np.empty((_capacity(observed) - cached, cells))])
            for n in range(cached, observed):
                row = posterior.L[n]
                self._V[n] = (new[n - cached] - row[:n] @ self._V[:n]) / row[n]
                self._squares += self._V[n] ** 2
        self._posterior = posterior
        return True

    def moments(self, posterior: AdditivePosterior) -> tuple[Array, Array]:
        """V^T z and |V|^2 of every cell, including pending rows."""
        z = posterior.L.T @ posterior.alpha
        observed = len(posterior.X) - posterior.pending
        means: Array = z[:observed] @ self._V[:observed]
        if posterior.pending == 0:
            return means, self._squares.copy()
        # the rows of pending points are the last rows of L: L_22^-1 [k - L_21 V]
        rows = self._covariances(posterior, observed) - posterior.L[observed:, :observed] @ self._V[:observed]
        rows = solve_triangular(posterior.L[observed:, observed:], rows, lower=True, check_finite=False)
        return means + z[observed:] @ rows, self._squares + np.einsum("pc,pc->c", rows, rows)

    def _extends(self, posterior: AdditivePosterior, candidates: Sequence[Array], observed: int) -> bool:
        old = self._posterior
        if old is None or old.gp is not posterior.gp:
            return False
        cached = len(old.X) - old.pending
        return (
            cached <= observed
            and np.array_equal(old.X[:cached], posterior.X[:cached])
            # factorised with one more row, the same matrix differs by rounding error times its condition number
            and np.allclose(old.L[:cached, :cached], posterior.L[:cached, :cached], rtol=0.0, atol=1e-8)
            and all(map(np.array_equal, self._candidates, candidates))
        )

    def _rebuild(self, posterior: AdditivePosterior, candidates: Sequence[Array], cells: int, observed: int) -> None:
        self._posterior, self._candidates = posterior, list(candidates)
        L = np.asfortranarray(posterior.L[:observed, :observed])
        self._V = np.empty((_capacity(observed), cells))
        self._squares = np.empty(cells)
        rows = [values[:observed] for values in candidate_rows(posterior, candidates)]
        start = 0
        for k in range(len(posterior.gp.graph.scopes)):
            for solved in factor_solves(posterior, rows, k, L):
                end = start + solved.shape[1]
                self._V[:observed, start:end] = solved
                self._squares[start:end] = np.einsum("pc,pc->c", solved, solved)
                start = end

    def _covariances(self, posterior: AdditivePosterior, first: int) -> Array:
        rows = candidate_rows(posterior, self._candidates, first)
        factors = range(len(posterior.gp.graph.scopes))
        return np.concatenate([factor_covariances(posterior, rows, k) for k in factors], axis=1)


def _capacity(observed: int) -> int:
    """The number of rows to allocate for ``observed`` ones; spare rows make copies rare."""
    return observed + max(8, observed // 4)
