"""AskInfo: what the last ask did."""

from __future__ import annotations

import math
from dataclasses import dataclass

from dechbo.data.evaluation import ItemAccess
from dechbo.graph import FactorGraph


@dataclass(frozen=True, eq=False)
class AskInfo(ItemAccess):
    """What the last ask did; acquisition values are in standard deviations of the values told.

    ``value``, ``upper_bound`` and ``gap`` speak of the final grid, ``polished_value`` of the point itself.
    """

    source: str  # "initial design", "acquisition", "joint bound", "restart", "constrained"
    seconds: float
    graph: FactorGraph | None = None
    beta: float = math.nan
    value: float = math.nan
    upper_bound: float = math.inf
    gap: float = math.nan
    rounds: int = 0
    converged: bool = False
    certified: bool = False
    polished_value: float = math.nan
    step_bound: float = math.nan  # regret of this step is at most this, with the probability of the beta schedule
    jitter: float = 0.0
    refitted: bool = False
    graph_converged: bool | None = None  # whether the chains behind a learned graph agree; None if none is learned
    switched_off: tuple[str, ...] = ()  # options that another option overrides, e.g. "restarts" under beta="theory"
