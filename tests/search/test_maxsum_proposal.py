"""Max-sum's own proposal: the maximiser of scaled factor bounds, with its certificate."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from numpy.typing import NDArray

from dechbo import FactorGraph, Float, Int, Space
from dechbo.acquisition import EnsembleUCB
from dechbo.data.observations import Observations
from dechbo.gp import AdditiveGP, Hyperparameters
from dechbo.gp.radial import ColumnEmbedding, RadialGP
from dechbo.maxsum import Exact
from dechbo.models.committee import Committee, Member
from dechbo.models.warp import ValueScale
from dechbo.search.engine import LocalEngine
from dechbo.search.maxsum_proposal import PROPOSAL_BETA, MaxSumProposal, maxsum_proposal
from dechbo.space import Region

Array = NDArray[np.float64]

FINITE = Space({f"n{i}": Int(0, 4) for i in range(4)})
RING = FactorGraph(4, ((0, 1), (1, 2), (2, 3), (0, 3)))


def committee(graph: FactorGraph | None, seed: int = 0, n: int = 15) -> Committee:
    """A member on ``graph``, or one over all variables if there is none."""
    rng = np.random.default_rng(seed)
    raw = Observations(rng.integers(0, 5, (n, 4)) / 4, rng.standard_normal(n))
    scale = ValueScale.of(raw.y)
    members = [Member("whole", RadialGP(ColumnEmbedding((0,) * 4), np.full(4, 0.5), 1.0, 0.5))]
    if graph is not None:
        theta = Hyperparameters(np.full(4, 0.5), np.full(len(graph.scopes), 1 / len(graph.scopes)), 0.05)
        members = [Member("smooth", AdditiveGP(graph, theta))]
    return Committee(tuple(members), scale.observations(raw), scale)


def proposed(known: Committee, space: Space = FINITE, fixed: dict[int, float] | None = None) -> MaxSumProposal | None:
    incumbent = known.data.X[int(known.data.y.argmax())].copy()
    incumbent[list(fixed or {})] = list((fixed or {}).values())
    return maxsum_proposal(known, space, np.empty((0, 4)), fixed or {}, incumbent, LocalEngine(Exact()))


@pytest.mark.parametrize("seed", range(3))
def test_on_a_finite_space_it_is_the_enumerated_maximiser(seed: int) -> None:
    known = committee(RING, seed)
    proposal = proposed(known)
    assert proposal is not None
    gp = known.members[0].gp
    assert isinstance(gp, AdditiveGP)
    split = EnsembleUCB.of(gp.condition(known.data), proposal.beta)
    everything = np.array(list(itertools.product(np.linspace(0, 1, 5), repeat=4)))
    values = split.values(everything)
    assert proposal.maximum.value == pytest.approx(values.max(), rel=1e-9)
    assert proposal.maximum.upper_bound >= values.max() - 1e-9
    assert split.values(proposal.point[None])[0] == pytest.approx(values.max(), rel=1e-9)
    assert proposal.graph == RING


def test_beta_makes_the_sum_of_deviations_as_large_as_the_joint_one() -> None:
    """With one factor the two are equal; with many the sum is larger, and beta smaller."""
    betas = []
    for graph in (FactorGraph(4, ((0, 1, 2, 3),)), RING, RING.with_subsets()):
        proposal = proposed(committee(graph))
        assert proposal is not None
        betas.append(proposal.beta)
    assert betas[0] == pytest.approx(PROPOSAL_BETA, rel=1e-6)
    assert betas[0] > betas[1] > betas[2]


def test_fixed_coordinates_and_known_constraints_hold() -> None:
    known = committee(RING, 2)
    held = proposed(known, fixed={1: 0.25})
    assert held is not None
    assert held.point[1] == 0.25
    walled = Space({f"n{i}": Int(0, 4) for i in range(4)}, ["n0 + n1 <= 3", "n2 + n3 <= 3"])
    assert isinstance(walled.region, Region)
    known = committee(RING, 3)
    inside = np.zeros(4)
    found = maxsum_proposal(known, walled, np.empty((0, 4)), {}, inside, LocalEngine())
    assert found is not None
    assert walled.allows(found.point)


def test_without_small_factors_there_is_no_proposal() -> None:
    assert proposed(committee(None)) is None
    dim = 12
    space = Space({f"x{i}": Float(0, 1) for i in range(dim)})
    X = np.random.default_rng(0).random((6, dim))
    gp = AdditiveGP(FactorGraph(dim, (tuple(range(dim)),)), Hyperparameters(np.ones(dim), np.ones(1), 0.1))
    scale = ValueScale.of(X[:, 0])
    known = Committee((Member("smooth", gp),), scale.observations(Observations(X, X[:, 0])), scale)
    assert maxsum_proposal(known, space, np.empty((0, dim)), {}, X[0], LocalEngine()) is None
