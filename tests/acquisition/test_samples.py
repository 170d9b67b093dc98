"""Functions drawn from the posterior: their moments are those of equation (1)."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray

from dechbo.acquisition.samples import sample_tables
from dechbo.data.observations import Observations
from dechbo.gp import AdditiveGP, AdditivePosterior, Hyperparameters
from dechbo.gp.centring import Domain
from dechbo.graph import FactorGraph

Array = NDArray[np.float64]

GRAPH = FactorGraph(3, ((0,), (1,), (2,), (0, 1), (0, 1, 2)))
CANDIDATES = [np.array([0.1, 0.5, 0.9]), np.array([0.2, 0.6]), np.array([0.0, 2.0])]
DRAWS = 4000


def posterior(centred: bool) -> AdditivePosterior:
    """Two numbers and a category; the noise of every value is its own."""
    domains: list[Domain] | None = [None, None, np.arange(3.0)] if centred else None
    theta = Hyperparameters([0.3, 0.2, 1.0], [1.0, 0.5, 0.3, 0.7, 0.4], 0.01)
    gp = AdditiveGP(GRAPH, theta, kernel=("matern52", "se", "categorical"), domains=domains)
    rng = np.random.default_rng(0)
    X = np.column_stack([rng.random((12, 2)), rng.integers(0, 3, 12)])
    return gp.condition(Observations(X, np.sin(5 * X[:, 0]) + X[:, 2], rng.uniform(0.0, 0.2, 12)))


@pytest.mark.parametrize("centred", [False, True])
def test_draws_have_the_moments_of_the_posterior(centred: bool) -> None:
    known, rng = posterior(centred), np.random.default_rng(1)
    draws = np.array([sample_tables(known, CANDIDATES, rng).flat for _ in range(DRAWS)])
    cells = [np.stack(np.meshgrid(*(CANDIDATES[i] for i in scope), indexing="ij"), axis=-1) for scope in GRAPH.scopes]
    moments = [known.factor(k, part.reshape(-1, len(GRAPH.scopes[k]))) for k, part in enumerate(cells)]
    mean, deviation = (np.concatenate(part) for part in zip(*moments, strict=True))
    assert np.abs(draws.mean(axis=0) - mean).max() < 4.5 * deviation.max() / np.sqrt(DRAWS)
    np.testing.assert_allclose(draws.std(axis=0), deviation, rtol=4.5 / np.sqrt(2 * DRAWS), atol=1e-3)


@pytest.mark.parametrize("centred", [False, True])
def test_the_sum_of_a_draw_has_the_joint_moments(centred: bool) -> None:
    known, rng = posterior(centred), np.random.default_rng(2)
    choice = np.array([2, 0, 1])
    point = np.array([[values[k] for values, k in zip(CANDIDATES, choice, strict=True)]])
    sums = np.array([sample_tables(known, CANDIDATES, rng).value(choice) for _ in range(DRAWS)])
    mean, deviation = (float(part[0]) for part in known.joint(point))
    if centred:  # the tables leave the constant out: what it adds is the same for every point
        everywhere = np.array(np.meshgrid(*CANDIDATES, indexing="ij")).reshape(3, -1).T
        factors = sum(known.factor(k, everywhere[:, list(scope)])[0] for k, scope in enumerate(GRAPH.scopes))
        constant = known.joint(everywhere)[0] - factors
        np.testing.assert_allclose(constant, constant[0], atol=1e-9)
        mean -= float(constant[0])
        assert np.abs(sums.mean() - mean) < 4.5 * sums.std() / np.sqrt(DRAWS)
        return
    assert np.abs(sums.mean() - mean) < 4.5 * deviation / np.sqrt(DRAWS)
    assert sums.std() == pytest.approx(deviation, rel=4.5 / np.sqrt(2 * DRAWS))


def test_a_draw_is_a_function_of_its_random_numbers() -> None:
    known = posterior(True)
    first, again, other = (sample_tables(known, CANDIDATES, np.random.default_rng(seed)).flat for seed in (3, 3, 4))
    np.testing.assert_array_equal(first, again)
    assert np.abs(first - other).max() > 1e-3
