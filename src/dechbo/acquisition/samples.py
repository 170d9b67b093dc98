"""Tables of a function drawn from the posterior, for additive Thompson sampling.

Matheron's rule: with f a draw from the prior and e one of the noise, f_I(x) + k_I(x)^T (K + noise)^-1 (y - f(X) - e) is
a draw from the posterior of f_I, and the sum over the factors one from that of f. The kernel of a factor is a product,
so its draw is a tensor of standard normal numbers contracted, variable by variable, with a root of k_i at the observed
coordinates and at the candidates: f_I = s_I^1/2 sum_ab.. W_ab.. F_i,a(x_i) F_j,b(x_j).., F_i F_i^T = k_i.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray
from scipy.linalg.lapack import dpstrf

from dechbo.acquisition.solves import candidate_rows, factor_covariances
from dechbo.gp import AdditivePosterior
from dechbo.gp.additive import solve_lower
from dechbo.tables import FactorTables

Array = NDArray[np.float64]

TOLERANCE = 1e-5  # variance of a one-dimensional kernel that its root may miss


def sample_tables(posterior: AdditivePosterior, candidates: Sequence[Array], rng: np.random.Generator) -> FactorTables:
    """The tables of one draw from the posterior on the grid of ``candidates``, an array of coordinates per variable."""
    gp, n = posterior.gp, len(posterior.X)
    roots = [_root(posterior, i, values) for i, values in enumerate(candidates)]
    observed = np.full(n, np.sqrt(gp.constant_variance) * rng.standard_normal())
    tables = []
    for scope, variance in zip(gp.graph.scopes, gp.hyperparameters.variances.tolist(), strict=True):
        weights = np.sqrt(variance) * rng.standard_normal([roots[i].shape[1] for i in scope])
        observed += _diagonal(weights, [roots[i][:n] for i in scope])
        tables.append(_outer(weights, [roots[i][n:] for i in scope]))
    noise = np.einsum("pq,pq->p", posterior.L, posterior.L) - gp.joint_prior_variances(posterior.X)
    observed += np.sqrt(np.maximum(noise, 0.0)) * rng.standard_normal(n)
    solved = solve_lower(posterior.L, solve_lower(posterior.L, observed), transposed=True)
    rows, alpha = candidate_rows(posterior, candidates), posterior.alpha - solved
    for k, table in enumerate(tables):
        table += (alpha @ factor_covariances(posterior, rows, k)).reshape(table.shape)
    return FactorTables(gp.graph, tuple(tables))


def _root(posterior: AdditivePosterior, i: int, values: Array) -> Array:
    """F with F F^T = k_i at the observed coordinates, then at ``values``, by a pivoted Cholesky factorisation."""
    at = np.concatenate([posterior.X[:, i], values])
    lower, pivots, rank, _ = dpstrf(posterior.gp.correlation.matrix(i, at, at), lower=1, tol=TOLERANCE)
    root = np.empty((len(at), rank))
    root[pivots - 1] = np.tril(lower)[:, :rank]
    return root


def _diagonal(weights: Array, roots: Sequence[Array]) -> Array:
    """sum_ab.. W_ab.. F_a(p) G_b(p) .. for every point p."""
    answer = roots[0] @ weights.reshape(len(weights), -1)
    for root in roots[1:]:
        answer = np.einsum("pa,pab->pb", root, answer.reshape(len(root), root.shape[1], -1))
    return answer[:, 0]


def _outer(weights: Array, roots: Sequence[Array]) -> Array:
    """sum_ab.. W_ab.. F_a(h) G_b(g) .. for all cells."""
    for root in roots:  # each contracts the first axis and appends the candidates of its variable as the last
        weights = np.tensordot(weights, root, axes=(0, 1))
    return np.ascontiguousarray(weights)
