"""Which score decides an ask: the portfolio, in one place.

Expected improvement and the averaged bound with a small beta take turns. Where the committee expects next to no
improvement anywhere, it knows one optimum and is sure of the rest: then the **doubting member** decides by its upper
confidence bound. Its signal variance is fixed at that of the data, so a deep well forces short lengthscales on it and
it stays unsure where nothing was tried. As long as no feasible point is known, an ask looks for the most probably
feasible one.
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
NEGLIGIBLE = 1e-3  # expected improvement, in standard deviations of the values, below which the committee is in doubt


@dataclass(frozen=True)
class Portfolio:
    """Which scores take turns."""

    turns: tuple[str, ...] = ("improvement",)
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
    turn = portfolio.turns[(len(data) + len(pending)) % len(portfolio.turns)]
    if turn == "bound" and not constraints:
        bound = ConfidenceBound(members, portfolio.beta)
        return Decision(search.maximum(bound, proposals), "bound", portfolio.beta)
    # noisy values: improvement over the best posterior mean, one threshold for all members
    threshold = float(mixture_moments(members, data.X[feasible] if feasible.any() else data.X)[0].max())
    improvement = LogExpectedImprovement(members, threshold)
    score: Score = Sum([improvement, LogFeasibility(constraints)]) if constraints else improvement
    found = search.maximum(score, proposals)
    doubting = committee.named(DOUBTING)
    if not portfolio.doubt or doubting is None or constraints or found.value >= math.log(NEGLIGIBLE):
        return Decision(found, "improvement")
    beta = 0.2 * data.dim * math.log(2 * len(data))
    doubt = ConfidenceBound([(1.0, doubting.with_pending(pending))], beta)
    return Decision(search.maximum(doubt, proposals), "doubt", beta)
