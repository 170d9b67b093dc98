"""MaxSum: exact on acyclic components, damped max-sum with a dual bound on cyclic ones."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from dechbo.checks import whole
from dechbo.errors import OptionError
from dechbo.maxsum.decoding import decode_sequentially
from dechbo.maxsum.dual import dual_sweeps, upper_bound
from dechbo.maxsum.forest import connected_components, solve_forest
from dechbo.maxsum.local_search import ascend, coordinate_ascent
from dechbo.maxsum.maximum import Maximum
from dechbo.maxsum.messages import Array, Indices, Packed, max_sum_rounds, score
from dechbo.maxsum.reduction import reduce_tables
from dechbo.maxsum.refinement import Refinement
from dechbo.tables import FactorTables

MAX_ASCENT_SWEEPS = 20  # of factor ascent; each may read every table once


@dataclass(frozen=True, kw_only=True)
class MaxSum:
    """Message passing on the factor graph (Eqs. 3 and 4).

    Acyclic components are solved exactly by one undamped pass. Cyclic components run at most ``rounds`` synchronous
    rounds, new <- damping old + (1 - damping) new, until no message changes by more than ``tolerance`` times the
    largest range of a table. At most ``dual_sweeps`` sweeps of dual messages then give the upper bound, and a local
    search over variables and factors improves the best choice decoded so far. ``Maximum.rounds`` counts the rounds on
    cyclic components; it is 0 if there are none.

    Only where bound and value still differ, more follows, and stops as soon as they meet: at most ``smooth_sweeps``
    smoothed dual sweeps lower the bound; decimation and a tabu search with ``restarts`` starts improve the choice; then
    values that cannot beat it are removed, and what is left is eliminated exactly or bounded by clusters of variables
    with tables of at most ``cluster_cells`` cells. Smoothing, decimation and clusters may read ``work`` cells each.
    0 leaves a stage out. Nothing depends on the clock: the same tables give the same choice and bound.
    """

    rounds: int = 30
    damping: float = 0.5
    tolerance: float = 1e-9
    dual_sweeps: int = 10
    smooth_sweeps: int = 200
    restarts: int = 20
    cluster_cells: int = 2**16
    work: int = 2**25

    def __post_init__(self) -> None:
        least = {"rounds": 1, "dual_sweeps": 0, "smooth_sweeps": 0, "restarts": 0, "cluster_cells": 0, "work": 0}
        for name, smallest in least.items():
            whole(name, getattr(self, name), smallest)
        for name, below in (("damping", 1.0), ("tolerance", math.inf)):
            given = getattr(self, name)
            if isinstance(given, bool) or not isinstance(given, (int, float)) or not 0 <= given < below:
                raise OptionError(f"MaxSum needs 0 <= {name} < {below}, got {given!r}")

    def maximize(self, tables: FactorTables) -> Maximum:
        """The best choice found, and an upper bound on the maximum of ``tables``."""
        reduced, plan = reduce_tables(tables), connected_components(tables.graph)
        choice = np.zeros(tables.graph.dim, dtype=np.int64)
        forest = reduced.packed(plan.forest)
        solve_forest(forest, plan.parents, plan.roots, choice)
        if not plan.cyclic:
            value = tables.value(choice)
            return Maximum(choice, value, value, 0, True, 0.0, mean=tables.mean)
        cyclic = reduced.packed(plan.cyclic)
        bound, rounds, residual, converged = self._cyclic(cyclic, choice, reduced.scale)
        bound += _value_beside(cyclic, forest, choice)
        value = tables.value(choice)
        # big-M cells keep the bound finite if every choice is forbidden: a bound below the floor proves that
        bound = -math.inf if bound < reduced.floor and value == -math.inf else max(bound, value)
        return Maximum(choice, value, bound, rounds, converged, residual, mean=tables.mean)

    def _cyclic(self, packed: Packed, choice: Indices, scale: float) -> tuple[float, int, float, bool]:
        """Solve the cyclic components, ``choice`` in place; returns (upper bound, rounds run, residual, converged)."""
        tolerance = self.tolerance * scale
        messages, dual = packed.zero_messages(), packed.zero_messages()
        best, rounds, residual = max_sum_rounds(
            packed, messages, choice, int(self.rounds), float(self.damping), tolerance
        )
        dual_sweeps(packed, dual, choice, best, int(self.dual_sweeps), tolerance)
        _improve(packed, (messages, dual), choice)
        bound = upper_bound(packed, dual)
        more = Refinement(packed, choice, dual, bound, scale, tolerance)
        bound = more.run(int(self.smooth_sweeps), int(self.restarts), int(self.cluster_cells), int(self.work))
        return bound, int(rounds), float(residual), bool(residual <= tolerance)


def _improve(packed: Packed, sources: tuple[Array, ...], choice: Indices) -> None:
    """Replace ``choice`` by the best local maximum reached from it and from each source of messages."""
    starts = [choice.copy() for _ in range(len(sources) + 1)]
    for messages, start in zip(sources, starts[1:], strict=True):
        decode_sequentially(packed, messages, start)
    for start in starts:
        coordinate_ascent(packed, start)
    best = max(starts, key=lambda start: score(packed, start))
    choice[:] = best
    ascend(packed, choice, MAX_ASCENT_SWEEPS)


def _value_beside(cyclic: Packed, forest: Packed, choice: Indices) -> float:
    """sum_I phi_I + sum_i unary_i over the forest's factors and all variables outside ``cyclic``, rounded up."""
    outside = np.ones(len(choice), dtype=bool)
    outside[cyclic.variables] = False
    terms = forest.unary[forest.unary_starts[:-1] + choice][outside]
    if len(forest.tables):
        steps = np.add.reduceat(forest.strides * choice[forest.members], forest.scopes[:-1])
        terms = np.concatenate([terms, forest.flat[forest.tables + steps]])
    return math.fsum(terms) + 16.0 * float(np.finfo(np.float64).eps) * float(np.abs(terms).sum())
