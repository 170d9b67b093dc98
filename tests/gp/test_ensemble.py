"""Several graphs at once: mixtures, and the average of Eq. 5."""

from __future__ import annotations

import numpy as np
import pytest

from dechbo.acquisition import AdditiveUCB, EnsembleUCB, ensemble_tables, ucb_tables
from dechbo.data.observations import Observations
from dechbo.errors import DataError
from dechbo.gp import AdditiveGP, Ensemble, Hyperparameters
from dechbo.graph import FactorGraph

GRAPHS = (FactorGraph(3, ((0,), (1,), (2,), (0, 1))), FactorGraph(3, ((0,), (1,), (2,), (0, 1), (1, 2))))
WEIGHTS = (0.25, 0.75)


def ensemble() -> Ensemble:
    members = [
        AdditiveGP(graph, Hyperparameters([0.3, 0.5, 0.2 + 0.1 * k], np.full(len(graph.scopes), 0.4), 1e-2))
        for k, graph in enumerate(GRAPHS)
    ]
    return Ensemble(tuple(members), WEIGHTS)


def data(n: int = 20) -> Observations:
    rng = np.random.default_rng(0)
    return Observations(rng.random((n, 3)), rng.standard_normal(n))


def test_the_graph_is_the_union() -> None:
    assert ensemble().graph.scopes == ((0,), (1,), (2,), (0, 1), (1, 2))


def test_the_joint_posterior_is_the_mixture() -> None:
    """Oracle: moments of draws from the mixture."""
    posterior = ensemble().condition(data())
    points = np.random.default_rng(1).random((5, 3))
    mean, deviation = posterior.joint(points)
    rng = np.random.default_rng(2)
    which = rng.choice(2, 200_000, p=WEIGHTS)
    parts = [member.joint(points) for member in posterior.posteriors]
    draws = np.array([m for m, _ in parts])[which] + np.array([s for _, s in parts])[which] * rng.standard_normal(
        (200_000, 5)
    )
    np.testing.assert_allclose(mean, draws.mean(axis=0), atol=0.02)
    np.testing.assert_allclose(deviation, draws.std(axis=0), atol=0.02)


def test_tables_values_lines_and_gradient_are_averages() -> None:
    posterior = ensemble().condition(data()).with_pending(np.array([[0.5, 0.5, 0.5]]))
    candidates = [np.linspace(0, 1, g) for g in (3, 4, 5)]
    tables = ensemble_tables(posterior, candidates, 2.0)
    average = EnsembleUCB.of(posterior, 2.0)
    rng = np.random.default_rng(3)
    for _ in range(20):
        choice = np.array([rng.integers(0, len(values)) for values in candidates])
        point = np.array([values[k] for values, k in zip(candidates, choice, strict=True)])
        expected = sum(
            w * AdditiveUCB(member, 2.0).values(point[None])[0]
            for w, member in zip(WEIGHTS, posterior.posteriors, strict=True)
        )
        assert tables.value(choice) == pytest.approx(expected, abs=1e-10)
        assert average.values(point[None])[0] == pytest.approx(expected, abs=1e-10)
        lines = average.lines(point, candidates)
        assert [line[k] for line, k in zip(lines, choice, strict=True)] == pytest.approx([expected] * 3, abs=1e-9)
    point = np.array([0.31, 0.62, 0.23])
    value, gradient = average.value_and_gradient(point)
    assert value == pytest.approx(average.values(point[None])[0])
    for i in range(3):
        step = 1e-6 * np.eye(3)[i]
        difference = (average.values((point + step)[None]) - average.values((point - step)[None]))[0] / 2e-6
        assert gradient[i] == pytest.approx(difference, rel=1e-4, abs=1e-6)


def test_one_member_is_that_model() -> None:
    gp = ensemble().members[0]
    alone = Ensemble((gp,), (1.0,)).condition(data())
    candidates = [np.linspace(0, 1, 3)] * 3
    found = ensemble_tables(alone, candidates, 1.5)
    np.testing.assert_allclose(found.flat, ucb_tables(gp.condition(data()), candidates, 1.5).flat)


def test_bad_weights_are_refused() -> None:
    gp = ensemble().members[0]
    with pytest.raises(DataError, match="sum to 1"):
        Ensemble((gp,), (0.5,))
    with pytest.raises(DataError, match="sum to 1"):
        Ensemble((), ())
