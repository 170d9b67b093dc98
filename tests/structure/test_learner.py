"""Learning the graph: what is there is found, what is not there is not, and odd tables work."""

from __future__ import annotations

from collections.abc import Callable
from itertools import combinations
from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_array_equal
from numpy.typing import NDArray

from dechbo.data.observations import Observations
from dechbo.errors import OptionError
from dechbo.structure import GraphPrior, StructureOptions, learn_structure
from dechbo.structure.learner import StructurePosterior

Array = NDArray[np.float64]

LITTLE = StructureOptions(chains=2, steps=100, greedy_rounds=2)


def table(dim: int, n: int, function: Callable[[Array], Array], *, seed: int = 0, noise: float = 0.01) -> Observations:
    """Random points of the unit cube, values of standard deviation 1, and noise on top."""
    rng = np.random.default_rng(seed)
    X = rng.random((n, dim))
    y = function(X)
    y = (y - y.mean()) / (y.std() or 1.0)
    return Observations(X, y + noise * rng.standard_normal(n))


def two_pairs(X: Array) -> Array:
    """Each term of variance 1/4 over its domain, and two slopes."""
    waves = np.sin(2 * np.pi * X[:, :4])
    total: Array = waves[:, 0] * waves[:, 1] + waves[:, 2] * np.cos(np.pi * X[:, 3]) + np.sin(3 * X[:, 4]) + X[:, 0]
    return total


def additive(X: Array) -> Array:
    total: Array = np.sin(3 * X).sum(axis=1) + X[:, 0] ** 2
    return total


def constant(X: Array) -> Array:
    return np.zeros(len(X))


def check(learned: StructurePosterior, dim: int) -> None:
    probabilities = learned.pair_probabilities
    assert probabilities.shape == (dim, dim)
    assert_array_equal(probabilities, probabilities.T)
    assert ((probabilities >= 0) & (probabilities <= 1)).all()
    assert learned.weights.sum() == pytest.approx(1)
    assert len(learned.weights) == len(learned.graphs)
    interactions = [frozenset(graph.scopes[dim:]) for graph in learned.graphs]
    assert len(set(interactions)) == len(interactions)
    assert set(interactions) <= set(learned.samples)
    for graph in learned.graphs:
        assert graph.scopes[:dim] == tuple((i,) for i in range(dim))
    for scope, probability in learned.scope_probabilities.items():
        assert probability == pytest.approx(np.mean([scope in sample for sample in learned.samples]))


def test_two_strong_pairs_are_found_and_nothing_else() -> None:
    learned = learn_structure(table(6, 80, two_pairs), GraphPrior(6), np.random.default_rng(0))
    check(learned, 6)
    for i, j in combinations(range(6), 2):
        if (i, j) in [(0, 1), (2, 3)]:
            assert learned.pair_probabilities[i, j] > 0.9
        else:
            assert learned.pair_probabilities[i, j] < 0.5
    assert learned.scope_probabilities[0, 1] > 0.9
    assert len(learned.samples) == 600


@pytest.mark.parametrize("seed", range(3))
def test_a_sum_has_no_interactions(seed: int) -> None:
    learned = learn_structure(table(6, 80, additive, seed=seed), GraphPrior(6), np.random.default_rng(seed))
    check(learned, 6)
    assert learned.pair_probabilities.max() < 0.5


@pytest.mark.parametrize("seed", range(6))
def test_pure_noise_has_no_interactions(seed: int) -> None:
    data = table(6, 80, constant, seed=seed, noise=1.0)
    learned = learn_structure(data, GraphPrior(6), np.random.default_rng(seed))
    assert learned.pair_probabilities.max() < 0.5


def test_a_constant_has_no_interactions() -> None:
    learned = learn_structure(table(5, 30, constant, noise=0.0), GraphPrior(5), np.random.default_rng(0))
    check(learned, 5)
    assert learned.pair_probabilities.max() < 0.5


def test_the_same_seed_gives_the_same_answer() -> None:
    data = table(5, 40, two_pairs, noise=0.3)

    def answer(seed: int) -> StructurePosterior:
        return learn_structure(data, GraphPrior(5), np.random.default_rng(seed), options=LITTLE)

    a, b = answer(3), answer(3)
    assert a.samples == b.samples
    assert_array_equal(a.weights, b.weights)
    assert a.graphs == b.graphs
    assert a.samples != answer(4).samples


@pytest.mark.parametrize("largest", [1, 3])
def test_one_variable_or_factors_of_one_leave_nothing_to_learn(largest: int) -> None:
    dim = 5 if largest == 1 else 1
    learned = learn_structure(
        table(5, 30, two_pairs) if dim == 5 else table(1, 15, additive),
        GraphPrior(dim, max_factor_size=largest),
        np.random.default_rng(0),
        options=LITTLE,
    )
    check(learned, dim)
    assert learned.convergence is None
    assert learned.samples == (frozenset(),)
    assert_array_equal(learned.weights, [1.0])


def test_two_variables() -> None:
    learned = learn_structure(
        table(2, 40, lambda X: np.sin(6 * X[:, 0]) * np.sin(6 * X[:, 1])), GraphPrior(2), np.random.default_rng(0)
    )
    check(learned, 2)
    assert learned.pair_probabilities[0, 1] > 0.9


def test_discrete_and_categorical_variables() -> None:
    rng = np.random.default_rng(1)
    levels, n = np.linspace(0, 1, 4), 80
    X = np.column_stack([rng.integers(0, 3, n), rng.choice(levels, n), rng.random(n), rng.random(n)])
    y = np.array([-1.0, 0.0, 1.0])[X[:, 0].astype(int)] * np.cos(np.pi * X[:, 1]) + np.sin(3 * X[:, 2])
    data = Observations(X, (y - y.mean()) / y.std() + 0.05 * rng.standard_normal(n))
    learned = learn_structure(
        data,
        GraphPrior(4),
        rng,
        kernel=("categorical", "matern52", "matern52", "se"),
        domains=(np.arange(3.0), levels, None, None),
    )
    check(learned, 4)
    found = learned.pair_probabilities
    assert found[0, 1] > 0.9
    found[0, 1] = found[1, 0] = 0
    assert found.max() < 0.5


@pytest.mark.parametrize(
    "options",
    [{"noise": 0.0, "kernel": "se"}, {"noise": 0.01}, {"informed": False}, {"samples": 1}, {"samples": 20}],
    ids=str,
)
def test_options(options: dict[str, Any]) -> None:
    learned = learn_structure(
        table(4, 40, additive, noise=0.0), GraphPrior(4), np.random.default_rng(0), options=LITTLE, **options
    )
    check(learned, 4)
    assert len(learned.graphs) <= options.get("samples", 3)


def test_four_chains_agree() -> None:
    def function(X: Array) -> Array:
        waves = np.sin(2 * np.pi * X[:, :2]).prod(axis=1) + np.cos(np.pi * X[:, [1, 3]]).prod(axis=1)
        return np.asarray(1.5 * waves + additive(X))

    options = StructureOptions(chains=4, steps=4000, moves_per_sweep=5)
    learned = learn_structure(table(8, 60, function), GraphPrior(8), np.random.default_rng(0), options=options)
    assert learned.convergence is not None
    assert learned.convergence.rhat < 1.05
    assert learned.convergence.worst_rhat < 1.05
    assert learned.pair_probabilities[0, 1] > 0.9
    assert learned.pair_probabilities[1, 3] > 0.9


@pytest.mark.parametrize(
    "bad",
    [
        {"chains": 0},
        {"moves_per_sweep": 0},
        {"greedy_rounds": 0},
        {"steps": 7},
        {"greedy_rounds": 601},
        {"steps": 100, "greedy_rounds": 101},
    ],
    ids=str,
)
def test_bad_options(bad: dict[str, int]) -> None:
    with pytest.raises(OptionError, match="StructureOptions needs"):
        StructureOptions(**bad)


def test_the_smallest_options() -> None:
    learned = learn_structure(
        table(3, 10, additive),
        GraphPrior(3),
        np.random.default_rng(0),
        options=StructureOptions(1, steps=8, greedy_rounds=1, moves_per_sweep=1),
    )
    check(learned, 3)
    assert len(learned.samples) == 4
