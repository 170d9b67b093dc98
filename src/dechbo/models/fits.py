"""Fits: what is kept between asks, each a function of a prefix of the evaluations.

A warm fit makes a model depend on the past of its process, and a resumed run has no such past. So the cold fit is made
from a prefix of the evaluations whose length is a function of their number alone (``cold_size``), and every ask
refits that cold fit to all evaluations. The same holds for the graph (``graph_size``): its prefix doubles, because
learning a graph costs more than anything else, and it is learned between two cold fits, for the later one. With many
evaluations hyperparameters hardly move: then they come from an evenly spaced subset, and the cold fit's are kept as
they are. So are those of thousands of factors, whose fits would cost more than they bring.

The values that come in between one cold fit and the next were unknown to it. What it had predicted for them weighs the
members (``forecast``), for the last ``FORECAST_BLOCKS`` cold fits and the present one. A resume repeats these fits, and
learns the one or two graphs that they were made with.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from dechbo.data.observations import Observations
from dechbo.gp.additive import one_by_one, solve_lower
from dechbo.graph import FactorGraph
from dechbo.models.committee import Member
from dechbo.models.warp import ValueScale
from dechbo.structure import StructurePosterior

Array = NDArray[np.float64]

COLD_EVERY = 10  # evaluations between two cold fits
GRAPH_OFFSET = 5  # evaluations between a cold fit and the learning of a graph: no ask pays for both
MAX_DEVIATIONS = 100.0  # values farther out are moved here: they would spoil the forecasts of those after them
FORECAST_BLOCKS = 2  # cold fits before the present one whose forecasts weigh the members


def cold_size(n: int) -> int:
    """The number of evaluations of the cold fit that an ask with ``n`` evaluations refits: every ten, later a tenth."""
    step = COLD_EVERY
    while n >= 20 * step:
        step *= 2
    return n if n < COLD_EVERY else n - n % step


def graph_size(n: int) -> int:
    """The number of evaluations of the latest graph learned once there are ``n``: 15, 25, 45, 85, …; 0: none yet.

    A cold fit to n evaluations is made with that graph.
    """
    size = COLD_EVERY
    while 2 * size + GRAPH_OFFSET <= n:
        size *= 2
    return size + GRAPH_OFFSET if size + GRAPH_OFFSET <= n else 0


def previous_size(size: int) -> int:
    """The size of the cold fit before the one of ``size`` evaluations; 0: too few for its forecasts to count."""
    return cold_size(size - 1) if size > COLD_EVERY else 0


@dataclass(frozen=True, eq=False)
class LearnedGraph:
    """The graph learned from the first ``size`` evaluations."""

    size: int
    graph: FactorGraph
    posterior: StructurePosterior


@dataclass(frozen=True, eq=False)
class ColdFit:
    """The fit to the first ``size`` evaluations of one quantity."""

    size: int
    scale: ValueScale  # the units of these evaluations
    members: tuple[Member, ...]
    graph: LearnedGraph | None = None  # that of the members with small factors, if one is learned
    earlier: tuple[Array, ...] = ()  # forecasts of the cold fits before it, (members, values) each

    def forecast(self, raw: Observations) -> Array:
        """log p_m(y_p | the values before it) of the values of ``raw`` after the first ``size``, (members, values)."""
        low, high = self.scale.original(-MAX_DEVIATIONS), self.scale.original(MAX_DEVIATIONS)
        data = self.scale.observations(Observations(raw.X, np.clip(raw.y, low, high), raw.noise))
        posteriors = [member.gp.condition(data) for member in self.members]
        return np.array([one_by_one(p.L, solve_lower(p.L, data.y))[self.size :] for p in posteriors])


@dataclass(frozen=True, eq=False)
class Fits:
    """What is kept between asks: nothing that the evaluations do not determine."""

    cold: ColdFit | None = None
    latest_graph: LearnedGraph | None = None  # that of the present cold fit, or one for the next
    fitted: int = 0  # the evaluations that the latest fit of a member knew, cold or warm
    constraints: dict[str, Fits] = field(default_factory=dict)
    success: Fits | None = None

    @property
    def graph(self) -> LearnedGraph | None:
        """The learned graph that the members use."""
        return None if self.cold is None else self.cold.graph
