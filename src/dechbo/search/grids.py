"""Grids: a base grid over the whole domain within a budget of work, and which factors can have tables."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dechbo.errors import OptionError
from dechbo.gp import AdditiveGP, Ensemble, Surrogate
from dechbo.graph import FactorGraph
from dechbo.space import Space
from dechbo.space.conditions import Coordinate

Array = NDArray[np.float64]

MAX_CANDIDATES, MAX_PAIR_CANDIDATES, MIN_CANDIDATES = 65, 33, 5  # candidates of a continuous variable on the base grid
MAX_CONSTRAINT_CELLS = 2**16  # of the table of a known constraint
OVERHEAD = 50  # a cell costs about as much as (t + 50)^2 multiply-adds: building and reading it is not free
MAX_TABLE_SIZE = 8  # variables; a factor with more of them, or of cells, has no table
MAX_TABLE_CELLS = 2**21


@dataclass(frozen=True)
class Granularity:
    """How fine the grids are: ``work`` multiply-adds for the tables of the base grid, ``zoom`` candidates a level.

    ``polish_steps`` limits the gradient ascent that follows; 0 leaves the point on its grid.
    """

    work: float = 4e9
    zoom: int = 5
    polish_steps: int = 20

    def __post_init__(self) -> None:
        if not self.work >= 0 or not self.zoom >= 3 or not self.polish_steps >= 0:
            raise OptionError(f"Granularity needs work >= 0, zoom >= 3 and polish_steps >= 0, got {self}")

    def levels(self, evaluations: int) -> int:
        """How often to zoom: log2(1 + t) / 4, rounded up; each time halves the spacing."""
        return int(np.ceil(np.log2(1 + evaluations) / 4))


def gridded(gp: Surrogate, space: Space) -> Surrogate | None:
    """The model, or those of its members, whose factors can all have tables; None if there is none."""
    cells = np.array(
        [p.cardinality if is_category else min(p.cardinality, MIN_CANDIDATES) for p, is_category in _kinds(space)]
    )

    def has_tables(member: AdditiveGP) -> bool:
        sizes = (np.log(cells[list(scope)]).sum() for scope in member.graph.scopes if len(scope) > 1)
        return member.graph.max_factor_size <= MAX_TABLE_SIZE and max(sizes, default=0.0) <= np.log(MAX_TABLE_CELLS)

    if isinstance(gp, AdditiveGP):
        return gp if has_tables(gp) else None
    small = [k for k, member in enumerate(gp.members) if has_tables(member)]
    if len(small) in (0, len(gp.members)):
        return gp if small else None
    total = sum(gp.weights[k] for k in small)
    return Ensemble(tuple(gp.members[k] for k in small), tuple(gp.weights[k] / total for k in small))


def _kinds(space: Space) -> Iterator[tuple[Coordinate, bool]]:
    return zip(space.parameters, space.is_categorical.tolist(), strict=True)


def grid_graph(gp: Surrogate, space: Space) -> FactorGraph:
    """The graph of the base grid: the factors that can have tables, or singletons if none can."""
    on_grid = gridded(gp, space)
    return FactorGraph.singletons(gp.graph.dim) if on_grid is None else on_grid.graph


def base_candidates(
    space: Space, graph: FactorGraph, evaluations: int, fixed: Mapping[int, float], granularity: Granularity
) -> list[Array]:
    """The base grid: as many candidates as the budget of work allows, all values of a small discrete domain."""
    largest = np.zeros(space.dim)
    for scope in graph.scopes:
        largest[list(scope)] = np.maximum(largest[list(scope)], len(scope))
    cardinalities = np.array([parameter.cardinality for parameter in space.parameters])
    cells = float(MAX_PAIR_CANDIDATES**2)
    while True:
        counts = np.clip(np.floor(cells ** (1 / largest) + 1e-9), MIN_CANDIDATES, MAX_CANDIDATES).astype(np.int64)
        sizes = np.where(space.is_categorical, cardinalities, np.minimum(counts, cardinalities))
        sizes[list(fixed)] = 1
        total = np.multiply.reduceat(sizes[graph.members], graph.starts[:-1]).sum()
        if total * (evaluations + OVERHEAD) ** 2 <= granularity.work or (counts == MIN_CANDIDATES).all():
            break
        cells /= 2
    for scope in space.region.scopes:
        counts[list(scope)] = np.minimum(counts[list(scope)], int(MAX_CONSTRAINT_CELLS ** (1 / len(scope))))
    grid = [
        np.array([fixed[i]]) if i in fixed else parameter.grid(int(counts[i]))
        for i, parameter in enumerate(space.parameters)
    ]
    anchor = space.region.allowed_point(fixed) if space.constraints else None
    if anchor is not None:  # every grid has an allowed cell
        for i in set(space.region.variables) - set(fixed):
            grid[i] = np.unique(np.append(grid[i], anchor[i]))
    return grid


def spacing_of(values: Array) -> float:
    """The widest gap between two candidates of a variable."""
    return float(np.diff(values).max()) if len(values) > 1 else 0.0
