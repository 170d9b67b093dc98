"""SynchronousMaxSum: max-sum on a schedule that parts of the graph can follow together, here in one process."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dechbo.checks import whole
from dechbo.distributed.in_process import Traffic, run_in_process
from dechbo.distributed.maximize import PartMaximum, Schedule, maximize_tables
from dechbo.distributed.partition import Partition, partition
from dechbo.distributed.plan import PartPlan, plan_parts
from dechbo.errors import OptionError
from dechbo.maxsum.maximum import Maximum
from dechbo.tables import FactorTables

Array = NDArray[np.float64]


@dataclass(frozen=True, kw_only=True)
class SynchronousMaxSum(Schedule):
    """The maximiser of the engines that run in parts; as ``maximizer`` it runs in one process, with the same choice.

    Acyclic components are solved exactly. Cyclic ones run at most ``rounds`` synchronous rounds with ``damping``, then
    at most ``dual_sweeps`` dual sweeps that visit the factors colour by colour, then a coordinate ascent that visits
    the variables colour by colour. The colours, and so the choice, do not depend on ``parts``, the number of parts into
    which the graph is cut.
    """

    parts: int = 1

    def __post_init__(self) -> None:
        for name, least in (("rounds", 1), ("dual_sweeps", 0), ("parts", 1)):
            whole(name, getattr(self, name), least)
        for name, below in (("damping", 1.0), ("tolerance", math.inf)):
            given = getattr(self, name)
            if isinstance(given, bool) or not isinstance(given, (int, float)) or not 0 <= given < below:
                raise OptionError(f"SynchronousMaxSum needs 0 <= {name} < {below}, got {given!r}")

    @property
    def schedule(self) -> Schedule:
        """What the parts are told."""
        return Schedule(
            rounds=self.rounds, damping=self.damping, tolerance=self.tolerance, dual_sweeps=self.dual_sweeps
        )

    def maximize(self, tables: FactorTables) -> Maximum:
        """The best choice found, and an upper bound on the maximum of ``tables``."""
        return self.maximize_in(tables, partition(tables.graph, tables.sizes, self.parts))

    def maximize_in(self, tables: FactorTables, cut: Partition, traffic: Traffic | None = None) -> Maximum:
        """The same for a given partition; ``traffic`` records what travels."""
        plans = plan_parts(tables.graph, tables.sizes, cut)
        programs = [maximize_tables(plan.graph, local_tables(plan, tables), self.schedule) for plan in plans]
        return joined(run_in_process(programs, traffic))


def local_tables(plan: PartPlan, tables: FactorTables) -> FactorTables:
    """The tables of one part, over its local variables."""
    values = [tables.values[k] for k in plan.factors]
    return part_tables(plan, values)


def part_tables(plan: PartPlan, values: Sequence[Array]) -> FactorTables:
    """The tables ``values`` of a part's factors, with zeros for own variables that none of them sees."""
    unseen = [np.zeros(plan.sizes[scope[0]]) for scope in plan.local.scopes[len(values) :]]
    flat = np.concatenate([np.ravel(value) for value in [*values, *unseen]])
    return FactorTables.from_flat(plan.local, plan.sizes, flat)


def joined(results: Sequence[PartMaximum]) -> Maximum:
    """The maximum of all parts."""
    first = results[0]
    choice = np.zeros(sum(len(result.variables) for result in results), dtype=np.int64)
    for result in results:
        choice[result.variables] = result.choice
    return Maximum(
        choice, first.value, first.upper_bound, first.rounds, first.converged, first.residual, mean=first.mean
    )
