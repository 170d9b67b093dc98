"""The proposal of max-sum: the maximiser of the factors' bounds on grids, with its certificate.

sum_I sigma_I is about sqrt(|U|) times the deviation of the sum, so with the joint bound's beta every coordinate would
explore at once. Beta is therefore scaled by the ratio of the two, squared, at points around the incumbent.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dechbo.acquisition import EnsembleUCB
from dechbo.gp.additive import AdditiveGP
from dechbo.graph import FactorGraph
from dechbo.maxsum import Maximum
from dechbo.models.committee import MIN_WEIGHT, Committee
from dechbo.search.engine import Engine
from dechbo.search.excluded import Excluded
from dechbo.search.grid_search import FactorSearch
from dechbo.search.grids import Granularity, gridded
from dechbo.search.proposals import around
from dechbo.space import Space

Array = NDArray[np.float64]

PROPOSAL_BETA = 1.0  # of the joint bound that the factors' bounds are scaled down to
GRANULARITY = Granularity(work=2e8, polish_steps=0)
N_PROBES = 8  # points at which the deviations are compared


@dataclass(frozen=True, eq=False)
class MaxSumProposal:
    """The maximiser of the factors' bounds, its certificate, and the graph of the factors."""

    point: Array
    maximum: Maximum
    graph: FactorGraph
    beta: float


def maxsum_proposal(
    committee: Committee, space: Space, pending: Array, fixed: Mapping[int, float], incumbent: Array, engine: Engine
) -> MaxSumProposal | None:
    """The proposal by the heaviest member whose factors all have tables; None if there is none."""
    tabular = tabular_members(committee, space)
    if not tabular:
        return None
    gp = max(tabular, key=lambda pair: pair[0])[1]
    posterior = gp.condition(committee.data)
    probes = space.canonical(around(space, np.random.default_rng([len(committee.data), 9]), incumbent, N_PROBES))
    split = EnsembleUCB.of(posterior, 1.0)
    ratios = posterior.joint(probes)[1] / [max(split.deviation(probe), 1e-12) for probe in probes]
    beta = PROPOSAL_BETA * float(np.median(ratios)) ** 2
    nothing = Excluded(space, np.empty((0, space.dim)))
    search = FactorSearch(space, gp, committee.data, beta, pending, fixed, incumbent, nothing, GRANULARITY)
    suggestion = search.run(engine)
    return MaxSumProposal(suggestion.point, suggestion.maximum, gp.graph, beta)


def tabular_members(committee: Committee, space: Space) -> list[tuple[float, AdditiveGP]]:
    """The members that take part and whose factors all have tables, each with its weight."""
    return [
        (float(weight), member.gp)
        for weight, member in zip(committee.weights, committee.members, strict=True)
        if weight >= MIN_WEIGHT and isinstance(member.gp, AdditiveGP) and gridded(member.gp, space) is not None
    ]
