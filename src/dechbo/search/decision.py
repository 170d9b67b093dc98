"""Which score an ask maximises: the portfolio, in one place.

Expected improvement and the averaged bound with a small beta share the asks in turns. While nothing is gained, most
asks go to the doubting member: its signal variance is fixed at that of the data, so it stays unsure where nothing was
tried.
As long as no feasible point is known, an ask looks for the most probably feasible one.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dechbo.acquisition.feasibility import LearnedConstraint, LogFeasibility
from dechbo.acquisition.score import ConfidenceBound, LogExpectedImprovement, Score, Sum
from dechbo.models.committee import Committee, mixture_moments

Array = NDArray[np.float64]

DOUBTING = "scaled"  # the member whose variance is fixed


@dataclass(frozen=True)
class Portfolio:
    """Which scores take turns."""

    turns: tuple[str, ...] = ("improvement", "bound")
    beta: float = 0.5  # of the averaged bound
    doubt: bool = True  # whether the doubting member may decide


@dataclass(frozen=True, eq=False)
class Decision:
    """A score, its name in ``info.acquisition``, and its beta where it has one."""

    name: str
    score: Score
    beta: float = math.nan


def decide(committee: Committee, pending: Array, feasible: NDArray[np.bool_], portfolio: Portfolio) -> Decision:
    """The score of an ask; ``feasible`` (n,) says which observations are."""
    members, data = committee.deciding(pending), committee.data
    constraints = [LearnedConstraint.of(limit, pending) for limit in committee.constraints.values()]
    if constraints and not feasible.any():
        return Decision("feasibility", LogFeasibility(constraints))
    turn = portfolio.turns[(len(data) + len(pending)) % len(portfolio.turns)]
    if turn == "bound" and not constraints:
        return Decision("bound", ConfidenceBound(members, portfolio.beta), portfolio.beta)
    # noisy values: improvement over the best posterior mean, one threshold for all members
    threshold = float(mixture_moments(members, data.X[feasible] if feasible.any() else data.X)[0].max())
    score = LogExpectedImprovement(members, threshold)
    return Decision("improvement", Sum([score, LogFeasibility(constraints)]) if constraints else score)
