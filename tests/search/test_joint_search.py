"""The best point by a score: against known maxima and dense searches; what is excluded is never returned."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from dechbo import Categorical, Float, Int, Space
from dechbo.acquisition.score import ConfidenceBound, LogExpectedImprovement
from dechbo.errors import SpaceExhausted
from dechbo.search.excluded import Excluded
from dechbo.search.joint_search import Found, JointSearch
from posterior_cases import mixture
from search_cases import INSIDE, LIMITED, MIXED, AlsoExcluded, Anything, Hill, is_in

Array = NDArray[np.float64]

SMALL = Space({"a": Float(0, 1), "b": Float(0, 1), "c": Categorical(["p", "q", "r"])})  # of ``mixture``
FINITE = Space({"n": Int(0, 4), "m": Int(0, 4), "c": Categorical(["p", "q"])})


def joint_search(
    space: Space, *, fixed: Mapping[int, float] | None = None, excluded: Any = None, seed: int = 0
) -> JointSearch:
    """A search around one incumbent that the known constraints allow."""
    held = fixed or {}
    centre = INSIDE.copy() if space.constraints else space.from_uniform(np.full(space.dim, 0.3))
    centre[list(held)] = list(held.values())
    nothing = Excluded(space, np.empty((0, space.dim)))
    return JointSearch(space, held, centre[None], nothing if excluded is None else excluded, (seed, 5, 0))


def best(search: JointSearch, score: Any, given: dict[str, Array] | None = None) -> Found:
    return search.maximum(score, search.proposals(given=given))


@pytest.mark.parametrize("seed", range(4))
def test_the_top_of_a_hill_is_found(seed: int) -> None:
    peak = MIXED.from_uniform(np.random.default_rng(seed).random(4))
    found = best(joint_search(MIXED, seed=seed), Hill(MIXED, peak))
    np.testing.assert_allclose(found.point, peak, atol=1e-4)
    assert found.value == pytest.approx(0.0, abs=1e-6)
    assert found.source in ("incumbent", "spread")
    assert is_in(MIXED, found.point[None])


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("kind", ["improvement", "bound"])
def test_the_best_is_as_good_as_a_dense_search(seed: int, kind: str) -> None:
    members = mixture(seed, n=15)
    score = LogExpectedImprovement(members, 0.5) if kind == "improvement" else ConfidenceBound(members, 1.0)
    found = best(joint_search(SMALL, seed=seed), score)
    rng = np.random.default_rng(100 + seed)
    rivals = np.array([SMALL.from_uniform(u) for u in rng.random((5000, 3))])
    assert found.value == pytest.approx(score.values(found.point[None])[0], abs=1e-9)
    assert found.value >= score.values(rivals).max() - 1e-3


def test_given_proposals_are_polished_and_named() -> None:
    """A needle that no other proposal meets."""
    needle = np.array([0.123, 0.877, 0.0])

    def values(points: Array) -> Array:
        return np.asarray(-np.abs(points[:, :2] - 0.5).sum(axis=1) + 5 * (np.abs(points - needle).max(axis=1) < 1e-9))

    found = best(joint_search(SMALL), Anything(values), {"max-sum": needle})
    assert found.source == "max-sum"
    np.testing.assert_array_equal(found.point, needle)


@pytest.mark.parametrize("fixed", [{}, {2: 0.5}, {0: 0.25, 3: 1.0}])
def test_fixed_coordinates_stay_and_known_constraints_hold(fixed: dict[int, float]) -> None:
    peak = LIMITED.encode({"a": 0.9, "b": 0.8, "k": 6, "c": "r"})
    search = joint_search(LIMITED, fixed=fixed)
    assert is_in(LIMITED, search.proposals().points)
    found = best(search, Hill(LIMITED, peak))
    assert is_in(LIMITED, found.point[None])
    assert all(found.point[i] == value for i, value in fixed.items())
    rivals = LIMITED.region.pull_inside(
        np.array([LIMITED.from_uniform(u) for u in np.random.default_rng(0).random((2000, 4))]), search.incumbents[0]
    )
    rivals = rivals[np.all([rivals[:, i] == value for i, value in fixed.items()], axis=0)] if fixed else rivals
    assert found.value >= Hill(LIMITED, peak).values(rivals).max(initial=-np.inf) - 1e-3


def test_an_excluded_point_is_never_returned() -> None:
    hill = Hill(MIXED, MIXED.encode({"a": 0.4, "b": 0.6, "k": 3, "c": "q"}))
    first = best(joint_search(MIXED), hill)
    known = Excluded(MIXED, first.point[None])
    second = best(joint_search(MIXED, excluded=known), hill)
    assert second.point not in known
    assert second.value <= first.value
    away = AlsoExcluded(known, lambda p: bool(p[3] == 1.0))
    third = best(joint_search(MIXED, excluded=away), hill)
    assert third.point[3] != 1.0


def test_a_finite_space_is_walked_from_the_best_to_the_worst_and_then_exhausted() -> None:
    """Oracle: all points, sorted by their score."""
    hill = Hill(FINITE, np.array([0.3, 0.8, 1.0]))
    known = np.empty((0, 3))
    values = []
    for _ in range(50):
        found = best(joint_search(FINITE, excluded=Excluded(FINITE, known)), hill)
        values.append(found.value)
        known = np.vstack([known, found.point])
    assert len(np.unique(known, axis=0)) == 50
    assert (np.diff(values) <= 1e-12).all()
    with pytest.raises(SpaceExhausted, match="every point of this finite space"):
        best(joint_search(FINITE, excluded=Excluded(FINITE, known)), hill)
    other = joint_search(FINITE, fixed={2: 1.0}, excluded=Excluded(FINITE, known[known[:, 2] == 1.0]))
    with pytest.raises(SpaceExhausted):
        best(other, hill)


def test_where_nothing_is_left_of_a_large_space_it_is_said() -> None:
    everything = AlsoExcluded(Excluded(MIXED, np.empty((0, 4))), lambda p: True)
    with pytest.raises(SpaceExhausted, match="no point is left"):
        best(joint_search(MIXED, excluded=everything), Hill(MIXED, np.zeros(4)))


def test_the_same_seed_gives_the_same_point() -> None:
    score = ConfidenceBound(mixture(1), 1.0)
    points = [best(joint_search(SMALL, seed=seed), score).point for seed in (3, 3)]
    np.testing.assert_array_equal(points[0], points[1])
    a, b = (joint_search(SMALL, seed=seed).proposals().points for seed in (3, 4))
    assert not np.array_equal(a, b)


def test_only_the_wanted_kinds_are_proposed() -> None:
    search, needle = joint_search(SMALL), np.array([0.123, 0.877, 0.0])
    for wanted in (("incumbent",), ("spread",), ("incumbent", "spread")):
        assert set(search.proposals(wanted).sources) == set(wanted)
    assert set(search.proposals(("max-sum",), {"max-sum": needle}).sources) == {"max-sum"}
    assert set(search.proposals(("max-sum",)).sources) == {"spread"}  # there was none: the space is searched


def test_costly_scores_get_fewer_proposals() -> None:
    cheap = joint_search(MIXED)
    costly = JointSearch(cheap.space, {}, cheap.incumbents, cheap.excluded, cheap.seed, cost=1e12)
    assert 10 < len(costly.proposals().points) < len(cheap.proposals().points) / 2


def test_one_ascent_for_all_starts_ends_nowhere_lower() -> None:
    score = LogExpectedImprovement(mixture(2), 0.8)
    search = joint_search(SMALL)
    starts = search.proposals().points[:20]
    ends = search._ascended(score, starts)
    assert (score.values(ends) >= score.values(starts)).all()
    assert (score.values(ends) > score.values(starts) + 1e-3).any()
    np.testing.assert_array_equal(ends[:, 2], starts[:, 2])
