"""Which score decides an ask: the portfolio, in one place.

Expected improvement and the averaged bound with a small beta take turns: the first looks where any member sees a gain,
the second is the stronger exploiter. An optimum is exhausted once as many evaluations as a quadratic in every variable
needs, 2 d + 1, have gained nothing. Then most asks go to the **doubting member**, until something is gained: its signal
variance is fixed at that of the data, so a deep well forces short lengthscales on it, and it stays unsure where nothing
was tried. As long as no feasible point is known, an ask looks for the most probably feasible one.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dechbo.acquisition.feasibility import LearnedConstraint, LogFeasibility
from dechbo.acquisition.score import ConfidenceBound, LogExpectedImprovement, Score, Sum
from dechbo.models.committee import Committee, mixture_moments
from dechbo.search.joint_search import Found, JointSearch
from dechbo.search.proposals import Proposals

Array = NDArray[np.float64]

DOUBTING = "scaled"  # the member whose variance is fixed
MIN_GAIN = 1e-3  # standard deviations of the values: less is no gain
MIN_PATIENCE = 10  # evaluations without a gain before the doubting member decides, or 2 d + 1
DOUBTS_OF_FOUR = 3  # of four asks, while nothing is gained


@dataclass(frozen=True)
class Portfolio:
    """Which scores take turns."""

    turns: tuple[str, ...] = ("improvement", "bound")
    beta: float = 0.5  # of the averaged bound
    doubt: bool = True  # whether the doubting member may decide


@dataclass(frozen=True, eq=False)
class Decision:
    """A point, and the name and beta of the score that chose it."""

    found: Found
    acquisition: str
    beta: float = math.nan


def decide(
    committee: Committee,
    search: JointSearch,
    proposals: Proposals,
    pending: Array,
    feasible: NDArray[np.bool_],
    portfolio: Portfolio,
) -> Decision:
    """The point of an ask; ``feasible`` (n,) says which observations are."""
    members, data = committee.deciding(pending), committee.data
    constraints = [LearnedConstraint.of(limit, pending) for limit in committee.constraints.values()]
    if constraints and not feasible.any():
        return Decision(search.maximum(LogFeasibility(constraints), proposals), "feasibility")
    asked = len(data) + len(pending)
    doubting = committee.named(DOUBTING)
    if (
        portfolio.doubt
        and doubting is not None
        and not constraints
        and asked % 4 < DOUBTS_OF_FOUR
        and exhausted(data.y, data.dim)
    ):
        beta = 0.2 * data.dim * math.log(2 * len(data))
        doubt = ConfidenceBound([(1.0, doubting.with_pending(pending))], beta)
        return Decision(search.maximum(doubt, proposals), "doubt", beta)
    if portfolio.turns[asked % len(portfolio.turns)] == "bound" and not constraints:
        bound = ConfidenceBound(members, portfolio.beta)
        return Decision(search.maximum(bound, proposals), "bound", portfolio.beta)
    # noisy values: improvement over the best posterior mean, one threshold for all members
    threshold = float(mixture_moments(members, data.X[feasible] if feasible.any() else data.X)[0].max())
    score: Score = LogExpectedImprovement(members, threshold)
    score = Sum([score, LogFeasibility(constraints)]) if constraints else score
    return Decision(search.maximum(score, proposals), "improvement")


def exhausted(values: Array, dim: int) -> bool:
    """Whether the last 2 d + 1 ``values`` (n,), and at least ten, gained nothing on the best before them."""
    patience = max(MIN_PATIENCE, 2 * dim + 1)
    if len(values) < 2 * patience:
        return False
    return bool(values[-patience:].max() < values[:-patience].max() + MIN_GAIN)
