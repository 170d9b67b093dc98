"""The acquisition averaged over several factor graphs: sum_k w_k sum_{I in U_k} phi_I (Eq. 5).

Tested by tests/gp/test_ensemble.py.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dechbo.acquisition.additive import AdditiveUCB
from dechbo.acquisition.cache import TableCache
from dechbo.acquisition.grid import ucb_tables
from dechbo.gp.ensemble import EnsemblePosterior, Posterior, weighted_members
from dechbo.tables import FactorTables, table_starts

Array = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class EnsembleUCB:
    """phi averaged over the posteriors of an ensemble, with its gradient."""

    members: tuple[tuple[float, AdditiveUCB], ...]

    @classmethod
    def of(cls, posterior: Posterior, beta: float) -> EnsembleUCB:
        """The average of one AdditiveUCB per member."""
        return cls(tuple((weight, AdditiveUCB(member, beta)) for weight, member in weighted_members(posterior)))

    def values(self, points: Array) -> Array:
        """phi at ``points`` (n, d)."""
        return np.asarray(sum(weight * member.values(points) for weight, member in self.members))

    def lines(self, point: Array, candidates: Sequence[Array]) -> list[Array]:
        """phi on the axis-parallel lines through ``point``, one array per variable."""
        parts = [(weight, member.lines(point, candidates)) for weight, member in self.members]
        return [np.sum([weight * lines[i] for weight, lines in parts], axis=0) for i in range(len(candidates))]

    def deviation(self, point: Array) -> float:
        """sum_I sigma_I at one point, averaged over the members."""
        return float(sum(weight * member.factor_moments(point)[1].sum() for weight, member in self.members))

    def value_and_gradient(self, point: Array) -> tuple[float, Array]:
        """phi and its gradient, which is 0 for categorical variables."""
        parts = [(weight, *member.value_and_gradient(point)) for weight, member in self.members]
        return float(sum(w * value for w, value, _ in parts)), np.sum([w * slope for w, _, slope in parts], axis=0)


def acquisition_tables(
    posterior: Posterior, candidates: Sequence[Array], beta: float, *, caches: Sequence[TableCache] | None = None
) -> FactorTables:
    """The tables of a single model or of an ensemble; ``caches`` has one TableCache per member."""
    if isinstance(posterior, EnsemblePosterior):
        return ensemble_tables(posterior, candidates, beta, caches=caches)
    return ucb_tables(posterior, candidates, beta, cache=None if caches is None else caches[0])


def ensemble_tables(
    posterior: EnsemblePosterior,
    candidates: Sequence[Array],
    beta: float,
    *,
    caches: Sequence[TableCache] | None = None,
) -> FactorTables:
    """table_I = sum over the members k with I in U_k of w_k phi_I, on the union of their graphs.

    ``caches`` has one TableCache per member.
    """
    graph = posterior.ensemble.graph
    sizes = np.array([len(values) for values in candidates], dtype=np.int64)
    starts = table_starts(graph, sizes)
    flat = np.zeros(starts[-1])
    at = {scope: k for k, scope in enumerate(graph.scopes)}
    for m, (weight, member) in enumerate(weighted_members(posterior)):
        tables = ucb_tables(member, candidates, beta, cache=None if caches is None else caches[m])
        for scope, table in zip(tables.graph.scopes, tables.values, strict=True):
            k = at[scope]
            flat[starts[k] : starts[k + 1]] += weight * table.ravel()
    return FactorTables.from_flat(graph, sizes, flat)
