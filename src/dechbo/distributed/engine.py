"""Engines that build and maximise the tables in parts: one protocol, three transports.

The engine cuts the graph, tells every part what it needs and puts the choice together. It never sees a table or a
message. The suggestion is the same, bit for bit, for any number of parts and any transport.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from dechbo.checks import whole
from dechbo.data.observations import Observations
from dechbo.distributed.exchange import Assignment
from dechbo.distributed.in_process import Traffic, run_in_process
from dechbo.distributed.model import PartModel, shares_of
from dechbo.distributed.partition import Partition, partition
from dechbo.distributed.plan import PartPlan, plan_parts
from dechbo.distributed.processes import ProcessTransport
from dechbo.distributed.synchronous import SynchronousMaxSum, joined
from dechbo.distributed.task import PartReport, PartTask
from dechbo.errors import OptionError
from dechbo.gp import Surrogate
from dechbo.graph import FactorGraph, Scope
from dechbo.maxsum.maximum import Maximum

Array = NDArray[np.float64]
Ints = NDArray[np.int64]


class Transport(Protocol):
    """Who runs the programs of the parts and carries their messages."""

    @property
    def capacity(self) -> int:
        """How many parts there should be if nobody says so."""
        ...

    def run(self, tasks: Sequence[Assignment]) -> list[Any]:
        """Run the program of every task, one for each part."""
        ...

    def close(self) -> None:
        """Free what the transport holds."""
        ...


class InProcessTransport:
    """All parts in this process; ``traffic`` records what travels."""

    capacity = 2

    def __init__(self) -> None:
        self.traffic = Traffic()

    def run(self, tasks: Sequence[Assignment]) -> list[Any]:
        """Run the programs one after the other."""
        return run_in_process([task.program() for task in tasks], self.traffic)

    def close(self) -> None:
        """Nothing to free."""


class PartsEngine:
    """Tables and max-sum in ``parts`` parts of the factor graph, run by ``transport``.

    Nothing is cached between asks: each part builds its tables anew, so that an ask depends on no process's past.
    ``reports`` are those of the last call, one for each part.
    """

    def __init__(
        self,
        transport: Transport | None = None,
        *,
        parts: int | None = None,
        maximizer: SynchronousMaxSum | None = None,
    ) -> None:
        if maximizer is not None and not isinstance(maximizer, SynchronousMaxSum):
            raise OptionError(f"parts run SynchronousMaxSum(rounds=…, damping=…) only, got {maximizer!r}")
        self._parts = None if parts is None else whole("parts", parts, 1)
        self.maximizer = SynchronousMaxSum() if maximizer is None else maximizer
        self.transport: Transport = InProcessTransport() if transport is None else transport
        self.reports: list[PartReport] = []
        self._cut: tuple[FactorGraph, int, Partition] | None = None

    @property
    def parts(self) -> int:
        """Into how many parts the graph is cut, at most; by default as many as the transport has processors for."""
        return self.transport.capacity if self._parts is None else self._parts

    def suggest(
        self,
        gp: Surrogate,
        data: Observations,
        beta: float,
        candidates: Sequence[Array],
        *,
        pending: Array | None = None,
        recurring: bool = False,
        extra: Sequence[tuple[Scope, Array]] = (),
    ) -> Maximum:
        """Maximise sum_I phi_I over the grid of ``candidates``; see ``Engine.suggest``."""
        self.reports = self.transport.run(self.tasks(gp, data, beta, candidates, pending=pending, extra=extra))
        return joined([report.maximum for report in self.reports])

    def prepare(self, gp: Surrogate, data: Observations, candidates: Sequence[Array]) -> None:
        """Nothing is cached, so there is nothing to prepare."""

    def tasks(
        self,
        gp: Surrogate,
        data: Observations,
        beta: float,
        candidates: Sequence[Array],
        *,
        pending: Array | None = None,
        extra: Sequence[tuple[Scope, Array]] = (),
    ) -> list[PartTask]:
        """What every part is told."""
        graph, numbers = _with_extra(gp.graph, extra)
        sizes = np.array([len(values) for values in candidates], dtype=np.int64)
        X = data.X if pending is None or len(pending) == 0 else np.vstack([data.X, pending])
        tasks = []
        for plan in plan_parts(graph, sizes, self._partition(graph, sizes)):
            variables = plan.graph.variables
            model = PartModel(
                shares_of(gp, plan, numbers),
                np.ascontiguousarray(X[:, variables]),
                data.y,
                data.noise,
                float(beta),
                tuple(candidates[i] for i in variables),
                _extra_of(plan, graph, numbers, extra),
            )
            tasks.append(PartTask(plan, model, self.maximizer.schedule))
        return tasks

    def close(self) -> None:
        """End what the transport has started."""
        self.transport.close()

    def __enter__(self) -> PartsEngine:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def _partition(self, graph: FactorGraph, sizes: Ints) -> Partition:
        """Cut anew for another graph or another number of parts; how many candidates a variable has changes little."""
        parts = self.parts
        if self._cut is None or self._cut[:2] != (graph, parts):
            self._cut = graph, parts, partition(graph, sizes, parts)
        return self._cut[2]


class ProcessEngine(PartsEngine):
    """Tables and max-sum in parts of the factor graph, each in a process of this machine, one for each processor."""

    def __init__(self, *, parts: int | None = None, maximizer: SynchronousMaxSum | None = None) -> None:
        super().__init__(ProcessTransport(), parts=parts, maximizer=maximizer)


def _with_extra(
    graph: FactorGraph, extra: Sequence[tuple[Scope, Array]]
) -> tuple[FactorGraph, dict[frozenset[int], int]]:
    """The graph with the scopes of ``extra``, and the number of each factor."""
    numbers = {frozenset(scope): k for k, scope in enumerate(graph.scopes)}
    scopes = list(graph.scopes)
    for scope, _ in extra:
        if numbers.setdefault(frozenset(scope), len(scopes)) == len(scopes):
            scopes.append(scope)
    return (graph if len(scopes) == len(graph.scopes) else FactorGraph(graph.dim, tuple(scopes))), numbers


def _extra_of(
    plan: PartPlan, graph: FactorGraph, numbers: dict[frozenset[int], int], extra: Sequence[tuple[Scope, Array]]
) -> tuple[tuple[int, Array], ...]:
    """The ``extra`` tables of the part's factors, with their axes in the order of its scopes."""
    at = {int(k): n for n, k in enumerate(plan.factors)}
    found = []
    for scope, cells in extra:
        k = numbers[frozenset(scope)]
        if k in at:
            found.append((at[k], cells.transpose([scope.index(i) for i in graph.scopes[k]])))
    return tuple(found)
