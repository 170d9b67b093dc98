"""Thompson sampling: the maximiser of a draw, on the grid and within what is fixed and known."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from dechbo import Categorical, Float, Int, Space
from dechbo.data.observations import Observations
from dechbo.gp.fit import fit
from dechbo.gp.radial import ColumnEmbedding, RadialGP
from dechbo.graph import FactorGraph
from dechbo.models.builder import domains_of, kernels_of
from dechbo.models.committee import Committee, Member
from dechbo.models.warp import ValueScale
from dechbo.search.sample_proposal import sample_proposal

Array = NDArray[np.float64]

PARAMETERS: dict[str, Float | Int | Categorical] = {
    "a": Float(0, 1),
    "b": Float(0, 1),
    "n": Int(0, 4),
    "c": Categorical(["u", "v"]),
}
SPACE = Space(PARAMETERS)
LIMITED = Space(PARAMETERS, constraints=["a + b <= 0.9"])


def committee(space: Space, n: int = 30) -> Committee:
    """One member on a chain of pairs, fitted to values with a little noise: without it, draws hardly differ."""
    rng = np.random.default_rng(0)
    X = np.array([space.draw(rng, {}) for _ in range(n)])
    values = -((X[:, 0] - 0.3) ** 2) - (X[:, 1] - 0.5) ** 2 + 0.1 * X[:, 2] + 0.2 * X[:, 3]
    values += 0.01 * rng.standard_normal(n)
    scale = ValueScale.of(values)
    data = scale.observations(Observations(X, values))
    graph = FactorGraph(4, ((0,), (1,), (2,), (3,), (0, 1), (1, 2)))
    gp = fit(graph, data, kernel=kernels_of(space, "matern52"), domains=domains_of(space))
    return Committee((Member("smooth", gp),), data, scale)


def test_draws_differ_and_agree_where_the_data_speak() -> None:
    known = committee(SPACE)
    points = np.array([sample_proposal(known, SPACE, {}, (0, seed)) for seed in range(12)])
    assert len(np.unique(points, axis=0)) > 1
    assert np.abs(points[:, 0] - 0.3).max() < 0.15
    assert (points[:, 2] == 1.0).all()  # encoded: the largest of the whole numbers
    assert (points[:, 3] == 1.0).all()
    again = sample_proposal(known, SPACE, {}, (0, 3))
    np.testing.assert_array_equal(again, points[3])


def test_fixed_coordinates_and_known_constraints_hold() -> None:
    for seed in range(5):
        point = sample_proposal(committee(LIMITED), LIMITED, {3: 0.0}, (1, seed))
        assert point is not None
        assert point[3] == 0.0
        assert LIMITED.region.allows(point[None])[0]


def test_without_small_factors_there_is_no_draw() -> None:
    known = committee(SPACE)
    whole = Member("whole", RadialGP(ColumnEmbedding((0, 0, 0, 2)), np.ones(4), 1.0, 1e-2))
    assert sample_proposal(Committee((whole,), known.data, known.scale), SPACE, {}, (0,)) is None
