"""REMBO: its theorem, its box, its projection, its turns."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest

from baseline_cases import random_start, run
from dechbo.baselines import REMBO
from dechbo.baselines.rembo import Embedding
from dechbo.space import Categorical, Float, Int, Space

WIDE = Space({f"x{i}": Float(-1, 1) for i in range(30)})
SEEN = (4, 17)  # the effective variables


def effective(params: Mapping[str, Any]) -> float:
    """Two of 30 variables matter."""
    return float((params["x4"] - 0.2) ** 2 + (params["x17"] + 0.1) ** 2)


def embedding(seed: int, dim: int = 30, low: int = 2) -> Embedding:
    return Embedding(np.random.default_rng(seed), dim, low, kernel="matern52", first=3)


@pytest.mark.parametrize("seed", range(5))
def test_some_y_reaches_the_value_of_every_x_in_the_effective_subspace(seed: int) -> None:
    """Theorem 2: with probability 1 there is y with f(A y) = f(x); clipping leaves effective coordinates alone."""
    made = embedding(seed)
    best = np.array([0.2, -0.1])
    y = np.linalg.solve(made.matrix[list(SEEN)], best)
    x = made.high(y)
    np.testing.assert_allclose(x[list(SEEN)], best, atol=1e-12)
    assert effective({f"x{i}": value for i, value in enumerate(x)}) == pytest.approx(0.0, abs=1e-20)


def test_the_theorem_holds_for_a_rotated_subspace_as_well() -> None:
    """Of f(x) = g(Q^T x): Q^T A is square and regular, so y = (Q^T A)^-1 Q^T x."""
    rng = np.random.default_rng(8)
    Q, _ = np.linalg.qr(rng.standard_normal((30, 3)))
    made, x = embedding(1, low=3), rng.uniform(-1, 1, 30)
    y = np.linalg.solve(Q.T @ made.matrix, Q.T @ x)
    np.testing.assert_allclose(Q.T @ (made.matrix @ y), Q.T @ x, atol=1e-10)


def test_the_box_is_large_enough_as_often_as_the_paper_says() -> None:
    """Theorem 3: |y*| <= sqrt(d_e) |x*| / epsilon with probability at least 1 - epsilon."""
    best, epsilon = np.array([0.6, -0.8]), 0.3
    norms = [np.linalg.norm(np.linalg.solve(embedding(s, 2).matrix, best)) for s in range(2000)]
    assert np.mean(np.array(norms) <= np.sqrt(2) * np.linalg.norm(best) / epsilon) >= 1 - epsilon


def test_points_are_projections_of_points_of_the_box() -> None:
    method = REMBO(WIDE, seed=3, embedding_dim=3, embeddings=2)
    asked = [params for params, _ in run(method, effective, 16)]
    for k, params in enumerate(asked):
        made = method.embeddings[k % 2]
        assert made.matrix.shape == (30, 3)
        y = made.low(made.points[k // 2])
        assert (np.abs(y) <= np.sqrt(3)).all()
        np.testing.assert_allclose(list(params.values()), np.clip(made.matrix @ y, -1, 1), atol=1e-12)
    values = np.array([list(params.values()) for params in asked])
    assert 0 < (values == 1.0).mean() < 0.5
    assert 0 < (values == -1.0).mean() < 0.5


def test_embeddings_are_gaussian_and_differ() -> None:
    method = REMBO(Space({f"x{i}": Float(0, 1) for i in range(400)}), seed=0)
    assert method.embedding_dim == 10
    entries = np.array([made.matrix for made in method.embeddings])
    assert abs(entries.mean()) < 0.03
    assert abs(entries.std() - 1) < 0.03
    assert abs(np.corrcoef(entries.reshape(4, -1)) - np.eye(4)).max() < 0.06


@pytest.mark.parametrize("seed", range(3))
def test_two_effective_variables_of_thirty_are_found_where_the_box_holds_them(seed: int) -> None:
    method = REMBO(WIDE, seed=seed, embedding_dim=2, embeddings=1)
    y = np.linalg.solve(method.embeddings[0].matrix[list(SEEN)], [0.2, -0.1])
    assert (np.abs(y) < np.sqrt(2)).all()
    run(method, effective, 40)
    assert method.best is not None
    assert method.best.number_value < 1e-3


def test_points_told_from_elsewhere_count_for_best_and_not_for_the_model() -> None:
    method = REMBO(WIDE, seed=1, n_initial=8, embeddings=4)
    start = random_start(WIDE, effective, 8)
    for params, value in start:
        method.tell(params, value)
    assert method.best is not None
    assert method.best.value == min(value for _, value in start)
    assert not any(made.points for made in method.embeddings)
    fresh = REMBO(WIDE, seed=1, n_initial=8, embeddings=4)
    assert [method.ask() for _ in range(8)] == [fresh.ask() for _ in range(8)]  # its own design, two of each embedding


def test_embeddings_take_turns_and_learn_from_their_own_points() -> None:
    method = REMBO(WIDE, seed=1, n_initial=6, embeddings=3)
    run(method, effective, 14)
    assert [len(made.points) for made in method.embeddings] == [5, 5, 4]
    told = [evaluation.number_value for evaluation in method.evaluations]
    for j, made in enumerate(method.embeddings):
        assert made.values == [-value for value in told[j::3]]


def test_discrete_parameters_take_the_value_whose_share_holds_the_coordinate() -> None:
    space = Space({"c": Categorical(["u", "v", "w"]), "n": Int(0, 3), "x": Float(0, 10)})
    method = REMBO(space, seed=0, embedding_dim=1)
    unit = method._unit
    assert space.decode(unit(np.array([-1.0, -1.0, -1.0]))) == {"c": "u", "n": 0, "x": 0.0}
    assert space.decode(unit(np.array([0.0, 0.1, 0.0]))) == {"c": "v", "n": 2, "x": 5.0}
    assert space.decode(unit(np.array([1.0, 1.0, 1.0]))) == {"c": "w", "n": 3, "x": 10.0}
