"""The acquisition on a grid: one table per factor (Eq. 2).

With z = L^T alpha and V_I = L^-1 k_I, the table of a factor is V_I^T z + sqrt(beta (s_I - |V_I|^2)): one triangular
solve per factor serves both the mean and the deviation.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from dechbo.acquisition.cache import TableCache
from dechbo.acquisition.solves import candidate_rows, factor_priors, factor_solves
from dechbo.compiled import compiled
from dechbo.gp import AdditivePosterior
from dechbo.tables import FactorTables, table_starts

Array = NDArray[np.float64]


def ucb_tables(
    posterior: AdditivePosterior, candidates: Sequence[Array], beta: float, *, cache: TableCache | None = None
) -> FactorTables:
    """The tables of all factors on the grid of ``candidates`` (one array of coordinates per variable).

    With a ``cache``, the solves of an earlier call for the same model and candidates are extended by the rows of new
    observations instead of being recomputed.
    """
    gp, graph = posterior.gp, posterior.gp.graph
    sizes = np.array([len(values) for values in candidates], dtype=np.int64)
    starts = table_starts(graph, sizes)
    flat = np.empty(starts[-1])
    root = float(np.sqrt(beta))
    diagonals = [gp.correlation.diagonal(i, values) for i, values in enumerate(candidates)]
    priors = [factor_priors(gp, diagonals, k) for k in range(len(graph.scopes))]
    if cache is not None and cache.prepare(posterior, candidates):
        means, squares = cache.moments(posterior)
        np.subtract(np.concatenate(priors), squares, out=flat)
        np.sqrt(np.maximum(flat, 0.0, out=flat), out=flat)
        flat *= root
        flat += means
        return FactorTables.from_flat(graph, sizes, flat)
    z = posterior.L.T @ posterior.alpha
    rows = candidate_rows(posterior, candidates)
    for k in range(len(graph.scopes)):
        start = starts[k]
        for V in factor_solves(posterior, rows, k, posterior.L):
            cells = slice(start - starts[k], start - starts[k] + V.shape[1])
            _finish(V, z, priors[k][cells], root, flat[start : start + V.shape[1]])
            start += V.shape[1]
    return FactorTables.from_flat(graph, sizes, flat)


@compiled
def _finish(V: Array, z: Array, prior: Array, root: float, out: Array) -> None:
    """out = V^T z + root sqrt(prior - |V|^2), column by column."""
    squares = np.zeros(out.shape[0])
    out[:] = 0.0
    for p in range(V.shape[0]):
        zp = z[p]
        for c in range(out.shape[0]):
            v = V[p, c]
            out[c] += v * zp
            squares[c] += v * v
    for c in range(out.shape[0]):
        out[c] += root * np.sqrt(max(prior[c] - squares[c], 0.0))
