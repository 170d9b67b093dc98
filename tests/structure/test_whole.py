"""One factor over all variables: shares against large samples of its mean, weights where the truth is known."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from numpy.typing import NDArray

from dechbo.data.observations import Observations
from dechbo.gp import fit
from dechbo.gp.radial import ColumnEmbedding, RadialGP
from dechbo.graph import FactorGraph
from dechbo.structure import GraphPrior, whole
from dechbo.structure.whole import TYPICAL_SHARE, WholeFactor, pair_shares, weigh_whole
from structure_cases import additive, constant, table, two_pairs

Array = NDArray[np.float64]


def test_shares_are_those_of_a_large_sample_of_the_mean() -> None:
    """Liu and Owen's four-point estimate of all effects with both variables, numbers, levels and categories alike."""
    rng = np.random.default_rng(0)
    levels = np.array([0.0, 0.4, 1.0])
    domains = (None, None, levels, np.arange(4.0))

    def sample(n: int) -> Array:
        return np.column_stack([rng.random((n, 2)), rng.choice(levels, n), rng.integers(0, 4, n)])

    X = sample(40)
    y = np.sin(4 * X[:, 0]) * X[:, 1] + X[:, 2] * (X[:, 3] == 2) + X[:, 0]
    data = Observations(X, (y - y.mean()) / y.std())
    gp = RadialGP(ColumnEmbedding((0, 0, 0, 4)), np.array([3.0, 1.0, 2.0, 1.5]), 1.3, 1e-3, "se")
    found = pair_shares(gp, data, domains)
    posterior = gp.condition(data)
    A, B = sample(60_000), sample(60_000)
    variance = posterior.joint(A)[0].var()
    for i in range(4):
        for j in range(i):
            first, second, both = A.copy(), A.copy(), A.copy()
            first[:, i], second[:, j] = B[:, i], B[:, j]
            both[:, [i, j]] = B[:, [i, j]]
            f = [posterior.joint(points)[0] for points in (A, first, second, both)]
            expected = np.mean((f[0] - f[1] - f[2] + f[3]) ** 2) / 4 / variance
            assert found[i, j] == found[j, i] == pytest.approx(expected, rel=0.1, abs=2e-3)
    assert (found.diagonal() == 0).all()
    nothing = Observations(X, np.zeros(40))
    assert_array_equal(pair_shares(gp, nothing, domains), np.zeros((4, 4)))


def hill(X: Array) -> Array:
    """Far from a sum of small factors; the last variable is idle."""
    return np.asarray(np.exp(-8 * ((X[:, :5] - 0.5) ** 2).sum(axis=1)))


def weighed(data: Observations, graph: FactorGraph) -> WholeFactor:
    gp = fit(graph, data, domains=(None,) * data.dim, rough=False)
    return weigh_whole([gp], [1.0], data, GraphPrior(data.dim))


def test_a_narrow_hill_is_no_sum_and_an_idle_variable_interacts_with_nothing() -> None:
    found = weighed(table(6, 150, hill), FactorGraph.singletons(6))
    assert found.weight > 0.99
    mixed = found.mixed(np.zeros((6, 6)))
    assert_allclose(mixed, mixed.T, atol=1e-6)
    assert mixed[:5, :5][np.triu_indices(5, 1)].min() > 0.8
    assert mixed[5, :5].max() < 0.3


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize(("function", "noise"), [(additive, 0.01), (two_pairs, 0.01), (constant, 1.0)])
def test_sums_and_noise_have_no_factor_over_all_variables(function: object, noise: float, seed: int) -> None:
    data = table(6, 80, function, seed=seed, noise=noise)  # type: ignore[arg-type]
    graph = FactorGraph(6, (*((i,) for i in range(6)), (0, 1), (2, 3)))
    found = weighed(data, graph)
    assert found.weight < 0.05
    p = np.full((6, 6), 0.4)
    if found.weight == 0:
        assert_array_equal(found.mixed(p), p)


def test_too_large_and_too_small_problems_are_not_weighed(monkeypatch: pytest.MonkeyPatch) -> None:
    data = table(6, 150, hill)
    monkeypatch.setattr(whole, "MAX_WORK", 6 * 150**2 - 1)
    assert weighed(data, FactorGraph.singletons(6)).weight == 0
    assert weighed(data, FactorGraph(6, (tuple(range(6)),))).weight == 0


def test_a_pair_with_the_typical_share_is_a_toss() -> None:
    shares = np.array([[0.0, TYPICAL_SHARE], [TYPICAL_SHARE, 0.0]])
    assert_allclose(WholeFactor(1.0, shares).mixed(np.zeros((2, 2))), [[0, 0.5], [0.5, 0]])
    assert_allclose(WholeFactor(0.5, shares).mixed(np.eye(2)[::-1]), [[0, 0.75], [0.75, 0]])
