"""Packed problems for the tests of tests/maxsum, and the linear program that dual bounds approach."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import linprog
from scipy.sparse import csr_array

from dechbo.graph import FactorGraph
from dechbo.maxsum.messages import Packed
from dechbo.maxsum.reduction import merge_plan, reduce_tables
from dechbo.tables import FactorTables

PLAIN = {"smooth_sweeps": 0, "restarts": 0, "cluster_cells": 0}  # MaxSum without what follows an open gap


def packed_of(tables: FactorTables) -> tuple[Packed, float]:
    """All remaining factors, and the unary maxima of the variables that they do not see."""
    reduced = reduce_tables(tables)
    packed = reduced.packed(merge_plan(tables.graph).remaining)
    unary = np.split(reduced.unary, reduced.unary_starts[1:-1])
    return packed, sum(unary[i].max() for i in range(tables.graph.dim) if i not in packed.variables)


def random_pairs(seed: int, dim: int = 20, pairs: int = 40, candidates: int = 4) -> FactorTables:
    """A ring and random chords, with normal tables and no singletons."""
    rng = np.random.default_rng(seed)
    scopes = {(i, i + 1) for i in range(dim - 1)} | {(0, dim - 1)}
    while len(scopes) < pairs:
        i, j = sorted(int(k) for k in rng.choice(dim, 2, replace=False))
        scopes.add((i, j))
    graph = FactorGraph(dim, tuple(sorted(scopes)))
    return FactorTables(graph, tuple(rng.normal(size=(candidates, candidates)) for _ in graph.scopes))


def linear_program(tables: FactorTables) -> float:
    """The LP relaxation: max sum_I <phi_I, mu_I> with factor marginals mu_I that agree on every variable."""
    starts = np.concatenate([[0], np.cumsum(tables.sizes)])
    objective: list[NDArray[np.float64]] = [np.zeros(starts[-1])]
    rows = [(list(range(starts[i], starts[i + 1])), [1.0] * int(n), 1.0) for i, n in enumerate(tables.sizes)]
    first = int(starts[-1])
    for scope, table in zip(tables.graph.scopes, tables.values, strict=True):
        cells = first + np.arange(table.size).reshape(table.shape)
        objective.append(table.ravel())
        first += table.size
        for axis, i in enumerate(scope):
            for h in range(table.shape[axis]):
                marginal = cells.take(h, axis=axis).ravel().tolist()
                rows.append(([*marginal, int(starts[i]) + h], [1.0] * len(marginal) + [-1.0], 0.0))
    columns = [column for row, _, _ in rows for column in row]
    owners = [r for r, (row, _, _) in enumerate(rows) for _ in row]
    entries = [entry for _, values, _ in rows for entry in values]
    matrix = csr_array((entries, (owners, columns)), shape=(len(rows), first))
    answer = linprog(-np.concatenate(objective), A_eq=matrix, b_eq=[right for _, _, right in rows], bounds=(0, None))
    return -float(answer.fun)
