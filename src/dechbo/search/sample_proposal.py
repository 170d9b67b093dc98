"""The proposal of Thompson sampling: max-sum's maximiser of a function drawn from the posterior of small factors.

A draw differs from ask to ask, and from point to point of a batch: it looks at hills that one bound does not reach.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from dechbo.acquisition.samples import sample_tables
from dechbo.maxsum import MaxSum
from dechbo.models.committee import Committee
from dechbo.search.grids import base_candidates
from dechbo.search.maxsum_proposal import GRANULARITY, tabular_members
from dechbo.space import Space

Array = NDArray[np.float64]

MAXIMIZER = MaxSum(dual_sweeps=0, smooth_sweeps=0, restarts=0, cluster_cells=0)  # nothing is certified of a draw


def sample_proposal(
    committee: Committee, space: Space, fixed: Mapping[int, float], seed: Sequence[int]
) -> Array | None:
    """A point (d,) on the base grid, by a member drawn by weight; None if no member has tables."""
    tabular = tabular_members(committee, space)
    if not tabular:
        return None
    rng = np.random.default_rng(seed)
    weights = np.array([weight for weight, _ in tabular])
    gp = tabular[int(rng.choice(len(tabular), p=weights / weights.sum()))][1]
    candidates = base_candidates(space, gp.graph, len(committee.data), fixed, GRANULARITY)
    tables = sample_tables(gp.condition(committee.data), candidates, rng)
    walls = [*space.region.tables(candidates), *space.conditions.tables(candidates)]
    maximum = MAXIMIZER.maximize(tables.plus(walls) if walls else tables)
    if maximum.value == -np.inf:  # loopy max-sum met no allowed cell
        return None
    return np.array([values[k] for values, k in zip(candidates, maximum.choice, strict=True)])
