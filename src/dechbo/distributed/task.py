"""The work of one part in one ask, as data: it travels to a process, and its program runs there.

Tested by tests/distributed/test_engine.py.
"""

from __future__ import annotations

import time
from dataclasses import dataclass

from dechbo.distributed.exchange import Program
from dechbo.distributed.maximize import PartMaximum, Schedule, maximize_tables
from dechbo.distributed.model import PartModel, build_tables
from dechbo.distributed.plan import PartPlan


@dataclass(frozen=True, eq=False)
class PartReport:
    """What a part found, what it took, and what it held."""

    maximum: PartMaximum
    seconds: dict[str, float]  # on the clock, of "tables" and of "messages"
    cpu_seconds: dict[str, float]  # of the process
    table_bytes: int
    message_bytes: int


@dataclass(frozen=True, eq=False)
class PartTask:
    """Build the tables of one part, and maximise those of all parts together."""

    plan: PartPlan
    model: PartModel
    schedule: Schedule

    def program(self) -> Program[PartReport]:
        """The part's program."""
        clock = [(time.perf_counter(), time.process_time())]
        tables = yield from build_tables(self.plan, self.model)
        clock.append((time.perf_counter(), time.process_time()))
        maximum = yield from maximize_tables(self.plan.graph, tables, self.schedule)
        clock.append((time.perf_counter(), time.process_time()))
        (wall, cpu), (middle, cpu_middle), (end, cpu_end) = clock
        seconds = {"tables": middle - wall, "messages": end - middle}
        cpu_seconds = {"tables": cpu_middle - cpu, "messages": cpu_end - cpu_middle}
        layout = self.plan.graph.cyclic
        return PartReport(maximum, seconds, cpu_seconds, tables.flat.nbytes, 8 * int(layout.edge_starts[-1]))
