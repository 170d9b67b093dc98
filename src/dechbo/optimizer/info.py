"""AskInfo: what the last ask did."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field

from dechbo.data.evaluation import ItemAccess
from dechbo.graph import FactorGraph


@dataclass(frozen=True)
class Opinion(ItemAccess):
    """What one member of the committee thought of the point, in standard deviations of the values."""

    member: str
    weight: float
    mean: float
    deviation: float


@dataclass(frozen=True, eq=False)
class AskInfo(ItemAccess):
    """What the last ask did; acquisition values are in standard deviations of the values told.

    ``value``, ``upper_bound`` and ``gap`` are the certificate of max-sum's own proposal on its final grid, if it made
    one; ``certified`` says whether that proposal, as it was, is the point that was suggested.
    """

    source: str  # of the point: "initial design", "max-sum", "sample", "incumbent", "spread"
    seconds: float
    acquisition: str = ""  # what was maximised: "improvement", "bound", "feasibility", "factors"
    members: tuple[Opinion, ...] = ()
    parts: Mapping[str, float] = field(default_factory=dict)  # seconds of each part of the ask
    graph: FactorGraph | None = None
    beta: float = math.nan
    value: float = math.nan
    upper_bound: float = math.inf
    gap: float = math.nan
    rounds: int = 0
    converged: bool = False
    certified: bool = False
    polished_value: float = math.nan  # the acquisition at the point itself
    step_bound: float = math.nan  # regret of this step is at most this, with the probability of the beta schedule
    jitter: float = 0.0
    refitted: bool = False
    graph_converged: bool | None = None  # whether the chains behind a learned graph agree; None if none is learned
    switched_off: tuple[str, ...] = ()  # options that another one overrides, e.g. 'score="joint"' under beta="theory"
