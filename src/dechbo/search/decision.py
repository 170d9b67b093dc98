"""Which score decides an ask: the portfolio, in one place.

Expected improvement and the averaged bound with a small beta take turns: the first looks where any member sees a gain,
the second is the stronger exploiter. With two and more points pending the improvement decides: the bound has had its
turn in this batch, and would go back to the same place. A search that has found one optimum could go on for ever within
a hair of it. So a gain counts only if it is worth having: the improvement is one by at least ``MIN_IMPROVEMENT``, and
where the bound's best point promises less than ``MIN_GAIN``, its turn goes to the improvement, which then looks
elsewhere. Under constraints there is no bound: its turns go to the improvement however small. As long as no feasible
point is known, an ask looks for the most probably feasible one.
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
from dechbo.search.options import ACQUISITIONS
from dechbo.search.proposals import Proposals

Array = NDArray[np.float64]

MIN_IMPROVEMENT = 1e-2  # standard deviations of the values, by which an expected improvement has to exceed the best
MIN_GAIN = 3e-4  # standard deviations of the values that the bound has to promise


@dataclass(frozen=True)
class Portfolio:
    """Which scores take turns."""

    turns: tuple[str, ...] = ACQUISITIONS
    beta: float = 0.5  # of the averaged bound


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
    told = [LearnedConstraint.of(limit, unresolved) for limit in committee.constraints.values()]
    failing = [] if committee.success is None else [LearnedConstraint.of(committee.success, awaited)]
    limits = LogFeasibility([*told, *failing])
    if told and not feasible.any():
        return Decision(search.maximum(limits, proposals), "feasibility")
    # noisy values: gains over the best posterior mean, one threshold for all members; what an awaited point is expected
    # to bring is no gain any more
    known = np.vstack([data.X[feasible] if feasible.any() else data.X, awaited])
    best = float(mixture_moments(members, known)[0].max())
    turn, least = portfolio.turns[(len(data) + len(unresolved)) % len(portfolio.turns)], MIN_IMPROVEMENT
    if len(awaited) > 1 and "improvement" in portfolio.turns:
        turn = "improvement"
    if turn == "bound" and told:
        least = 0.0
    elif turn == "bound":
        found = search.maximum(limited(ConfidenceBound(members, portfolio.beta), limits), proposals)
        # a slice with fixed coordinates is searched for its own best point, which may lie far below the best of all
        if search.fixed or found.value > best + MIN_GAIN or "improvement" not in portfolio.turns:
            return Decision(found, "bound", portfolio.beta)
    score = limited(LogExpectedImprovement(members, best + least), limits)
    return Decision(search.maximum(score, proposals), "improvement")


def limited(score: Score, limits: LogFeasibility) -> Score:
    """``score`` plus the log probability that all limits hold: of a gain that is lost otherwise, or as a penalty."""
    return Sum([score, limits]) if limits.constraints else score
