"""NK landscapes (Kauffman) over categories: one random table for each variable and K random others.

Tests: test_problems_landscape.py.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from dechbo.bench.problems.problem import Problem, instance_rng
from dechbo.graph import FactorGraph, Scope
from dechbo.maxsum import Exact
from dechbo.space import Categorical, Space
from dechbo.tables import FactorTables


@dataclass(frozen=True, eq=False)
class NKLandscape:
    """f(x) = -(1/N) sum_i c_i(x_i, x_j for K others j); ``tables`` are the c_i."""

    space: Space
    tables: FactorTables

    def __call__(self, params: Mapping[str, Any]) -> float:
        """The value at ``params``."""
        choice = self.space.encode(params).astype(np.int64)
        return -self.tables.value(choice) / self.space.dim


def landscape(dim: int, seed: int, *, neighbours: int = 2, choices: tuple[str, ...] = ("a", "b", "c")) -> Problem:
    """N = ``dim`` variables, K = ``neighbours``, tables uniform in [0, 1]; the minimum by exact elimination."""
    name = f"NK-{dim}"
    rng = instance_rng(name, seed)
    scopes = _random_scopes(rng, dim, neighbours)
    tables = FactorTables(
        FactorGraph(dim, scopes), tuple(rng.random([len(choices)] * (neighbours + 1)) for _ in scopes)
    )
    names = tuple(f"x{i + 1}" for i in range(dim))
    space = Space({each: Categorical(choices) for each in names})
    best = Exact().maximize(tables)
    return Problem(
        name,
        space,
        optimum=-best.value / dim,
        scopes=tuple(tuple(names[i] for i in scope) for scope in scopes),
        evaluate=NKLandscape(space, tables),
        minimiser=space.decode(best.choice.astype(np.float64)),
    )


def _random_scopes(rng: np.random.Generator, dim: int, neighbours: int) -> tuple[Scope, ...]:
    """One scope for each variable, with ``neighbours`` random others; no two scopes are equal."""
    scopes: list[Scope] = []
    seen: set[frozenset[int]] = set()
    while len(scopes) < dim:
        i = len(scopes)
        others = rng.choice([j for j in range(dim) if j != i], neighbours, replace=False).tolist()
        if frozenset((i, *others)) not in seen:
            seen.add(frozenset((i, *others)))
            scopes.append((i, *others))
    return tuple(scopes)
