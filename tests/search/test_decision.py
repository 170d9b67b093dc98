"""The portfolio: who decides an ask, and by which threshold."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from dechbo import Float, Space
from dechbo.acquisition.feasibility import LearnedConstraint, LogFeasibility
from dechbo.acquisition.score import ConfidenceBound, LogExpectedImprovement, Score
from dechbo.data.observations import Observations
from dechbo.gp.radial import ColumnEmbedding, RadialGP
from dechbo.models.committee import Committee, Member, mixture_moments
from dechbo.models.warp import ValueScale
from dechbo.search.decision import MIN_GAIN, MIN_IMPROVEMENT, Decision, Portfolio, decide
from dechbo.search.excluded import Excluded
from dechbo.search.joint_search import JointSearch

Array = NDArray[np.float64]

SPACE = Space({"x": Float(0, 1), "y": Float(0, 1)})
NONE = np.empty((0, 2))


def committee(values: Array, X: Array, *, relevance: float = 10.0) -> Committee:
    """A smooth member and a rough one."""
    scale = ValueScale.of(values)
    data, embedding = scale.observations(Observations(X, values)), ColumnEmbedding((0, 0))
    members = (
        Member("whole", RadialGP(embedding, np.full(2, relevance), 1.0, 1e-6)),
        Member("scaled", RadialGP(embedding, np.full(2, 20 * relevance), 1.0, 1e-6, "se")),
    )
    return Committee(members, data, scale)


def told(n: int = 8, seed: int = 0) -> tuple[Committee, Array]:
    X = np.random.default_rng(seed).random((n, 2))
    return committee(np.sin(4 * X).sum(axis=1), X), X


def decided(
    known: Committee, feasible: NDArray[Any] | None = None, portfolio: Portfolio | None = None, pending: Array = NONE
) -> Decision:
    search = JointSearch(SPACE, {}, known.data.X[:1], Excluded(SPACE, known.data.X), (0, 0, 0))
    flags = np.ones(len(known.data), dtype=bool) if feasible is None else feasible.astype(bool)
    return decide(known, search, search.proposals(), pending, pending, flags, portfolio or Portfolio())


def test_the_improvement_is_that_over_the_best_mean_of_the_mixture() -> None:
    known, X = told()
    members = known.deciding()
    score = LogExpectedImprovement(members, float(mixture_moments(members, X)[0].max()) + MIN_IMPROVEMENT)
    decision = decided(known, portfolio=Portfolio(("improvement",)))
    assert decision.acquisition == "improvement"
    assert math.isnan(decision.beta)
    assert decision.found.value == pytest.approx(float(score.values(decision.found.point[None])[0]), abs=1e-9)
    rivals = np.random.default_rng(1).random((2000, 2))
    assert decision.found.value >= score.values(rivals).max() - 1e-3


@pytest.mark.parametrize("turn", ["improvement", "bound"])
def test_a_point_that_would_probably_fail_is_not_chosen(turn: str) -> None:
    """The values rise with x, and evaluations fail beyond 0.6."""
    rng = np.random.default_rng(2)
    X = rng.random((150, 2))
    succeeds = X[:, 0] < 0.6
    known = committee(X[succeeds, 0], X[succeeds], relevance=2.0)
    success = committee(np.where(succeeds, 1.0, -1.0), X, relevance=10.0)
    careless = decided(known, portfolio=Portfolio((turn,)))
    careful = decided(replace(known, success=success), portfolio=Portfolio((turn,)))
    assert careless.found.point[0] > 0.9
    assert careful.found.point[0] < 0.8  # nearer to the edge, for a gain there
    assert careful.acquisition == turn
    limits = LogFeasibility([LearnedConstraint.of(success)])
    chosen = careful.found.point[None]
    best = float(mixture_moments(known.deciding(), X[succeeds])[0].max())
    plain: Score = LogExpectedImprovement(known.deciding(), best + MIN_IMPROVEMENT)
    if turn == "bound":
        plain = ConfidenceBound(known.deciding(), 0.5)
    expected = plain.values(chosen)[0] + limits.values(chosen)[0]
    assert careful.found.value == pytest.approx(expected, abs=1e-9)


def test_scores_take_turns_as_the_evaluations_come() -> None:
    portfolio = Portfolio(("improvement", "bound"), beta=0.7)
    for n, name in ((8, "improvement"), (9, "bound"), (10, "improvement")):
        known, _ = told(n)
        decision = decided(known, portfolio=portfolio)
        assert decision.acquisition == name
        if name == "bound":
            assert decision.beta == 0.7
            bound = ConfidenceBound(known.deciding(), 0.7)
            assert decision.found.value == pytest.approx(float(bound.values(decision.found.point[None])[0]))
    known, _ = told(8)
    assert decided(known, portfolio=portfolio, pending=np.array([[0.5, 0.5]])).acquisition == "bound"
    own = replace(portfolio, turns=("bound",))
    assert decided(known, portfolio=own, pending=np.array([[0.5, 0.5]])).acquisition == "bound"


@pytest.mark.parametrize("turns", [("improvement", "bound"), ("bound", "improvement")])
@pytest.mark.parametrize("batch", [2, 3, 4])
def test_every_batch_has_one_bound(batch: int, turns: tuple[str, ...]) -> None:
    """However many evaluations there are, and in whichever order the scores are named."""
    pending = np.random.default_rng(5).random((batch, 2))
    for n in (8, 9):
        known, _ = told(n)
        chosen = [decided(known, portfolio=Portfolio(turns), pending=pending[:k]).acquisition for k in range(batch)]
        assert sorted(chosen) == ["bound", *["improvement"] * (batch - 1)]


def test_what_an_awaited_point_should_bring_is_no_improvement_any_more() -> None:
    known, _ = told()
    portfolio = Portfolio(("improvement",))
    first = decided(known, portfolio=portfolio).found
    second = decided(known, portfolio=portfolio, pending=first.point[None])
    assert np.abs(second.found.point - first.point).max() > 0.02
    members = known.deciding(first.point[None])
    threshold = max(mixture_moments(members, np.vstack([known.data.X, first.point]))[0])
    score = LogExpectedImprovement(members, float(threshold) + MIN_IMPROVEMENT)
    assert second.found.value == pytest.approx(float(score.values(second.found.point[None])[0]), abs=1e-9)


def crowded(spacing: float, n: int) -> Committee:
    """Some values all over the square, and a grid of ``spacing`` around the top of a narrow hill."""
    steps = np.arange(-2, 3) * spacing
    around = np.stack(np.meshgrid(0.3 + steps, 0.6 + steps), axis=-1).reshape(-1, 2)
    X = np.vstack([np.random.default_rng(3).random((n - len(around), 2)), around])
    return committee(np.exp(-40 * ((X - [0.3, 0.6]) ** 2).sum(axis=1)), X, relevance=40.0)


def test_where_the_bound_promises_nothing_its_turn_looks_elsewhere() -> None:
    known = crowded(0.004, 37)
    bound = decided(known, portfolio=Portfolio(("bound",)))
    assert bound.acquisition == "bound"  # the only score decides, whatever it promises
    assert np.abs(bound.found.point - [0.3, 0.6]).max() < 0.02
    assert bound.found.value < mixture_moments(known.deciding(), known.data.X)[0].max() + MIN_GAIN
    elsewhere = decided(known, portfolio=Portfolio(("improvement", "bound")))
    assert elsewhere.acquisition == "improvement"
    assert np.abs(elsewhere.found.point - [0.3, 0.6]).max() > 0.1
    coarse = decided(crowded(0.05, 37), portfolio=Portfolio(("improvement", "bound")))
    assert coarse.acquisition == "bound"  # the top between the grid's points is still worth a look


def test_until_a_feasible_point_is_known_the_most_probably_feasible_one_is_sought() -> None:
    known, X = told()
    limit = committee(X[:, 0] - 2.0, X)  # g = -c: nowhere feasible so far
    constrained = replace(known, constraints={"limit": limit})
    decision = decided(constrained, np.zeros(8))
    assert decision.acquisition == "feasibility"
    score = LogFeasibility([LearnedConstraint.of(limit)])
    assert decision.found.value >= score.values(np.random.default_rng(1).random((500, 2))).max() - 1e-6


@pytest.mark.parametrize("own", ["improvement", "bound"])
def test_with_constraints_the_improvement_counts_where_they_may_hold(own: str) -> None:
    known, X = told(20)
    limit = committee(X[:, 0] - 0.6, X, relevance=1.0)  # feasible where x >= 0.6
    constrained = replace(known, constraints={"limit": limit})
    other = "bound" if own == "improvement" else "improvement"
    decision = decided(constrained, X[:, 0] >= 0.6, Portfolio((own, other)))
    least = 0.0 if own == "bound" else MIN_IMPROVEMENT  # the turns of the bound polish
    assert decision.acquisition == "improvement"
    assert decision.found.point[0] > 0.55
    best = known.data.X[X[:, 0] >= 0.6]
    threshold = float(mixture_moments(known.deciding(), best)[0].max())
    whole = LogExpectedImprovement(known.deciding(), threshold + least).values(decision.found.point[None])
    whole += LogFeasibility([LearnedConstraint.of(limit)]).values(decision.found.point[None])
    assert decision.found.value == pytest.approx(float(whole[0]), abs=1e-9)


def test_pending_points_are_not_suggested_again() -> None:
    known, _ = told()
    first = decided(known).found.point
    second = decided(known, pending=first[None]).found.point
    assert np.abs(second - first).max() > 1e-2
