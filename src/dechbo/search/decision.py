"""Which score decides an ask: the portfolio, in one place.

Expected improvement and the averaged bound with a small beta take turns: the first looks where any member sees a gain,
the second is the stronger exploiter. Where the committee has a doubting member (see ``models/members.py``), three of
four asks go to it, by its upper confidence bound. As long as no feasible point is known, an ask looks for the most
probably feasible one.
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

DOUBTS_OF_FOUR = 3  # asks of four, while the known optimum is exhausted


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
    unresolved: Array,
    awaited: Array,
    feasible: NDArray[np.bool_],
    portfolio: Portfolio,
) -> Decision:
    """The point of an ask.

    ``unresolved`` points (m, d) shrink the deviations: those whose values are ``awaited``, and failures. ``feasible``
    (n,) says which observations are.
    """
    members, data = committee.deciding(unresolved), committee.data
    constraints = [LearnedConstraint.of(limit, unresolved) for limit in committee.constraints.values()]
    if constraints and not feasible.any():
        return Decision(search.maximum(LogFeasibility(constraints), proposals), "feasibility")
    asked = len(data) + len(unresolved)
    if portfolio.doubt and committee.doubting is not None and not constraints and asked % 4 < DOUBTS_OF_FOUR:
        beta = 0.2 * data.dim * math.log(2 * len(data))
        doubt = ConfidenceBound([(1.0, committee.doubting.with_pending(unresolved))], beta)
        return Decision(search.maximum(doubt, proposals), "doubt", beta)
    turns = portfolio.turns if len(awaited) == 0 else portfolio.turns[:1]  # a second bound would stay beside the first
    if turns[asked % len(turns)] == "bound" and not constraints:
        bound = ConfidenceBound(members, portfolio.beta)
        return Decision(search.maximum(bound, proposals), "bound", portfolio.beta)
    # noisy values: improvement over the best posterior mean, one threshold for all members; what an awaited point is
    # expected to bring is no improvement any more
    known = np.vstack([data.X[feasible] if feasible.any() else data.X, awaited])
    threshold = float(mixture_moments(members, known)[0].max())
    score: Score = LogExpectedImprovement(members, threshold)
    score = Sum([score, LogFeasibility(constraints)]) if constraints else score
    return Decision(search.maximum(score, proposals), "improvement")
