"""Which model an ask has: the graph and its kernels, forests that change, one factor over all variables."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from dechbo import FactorGraph, Float, Optimizer, Space
from dechbo.data.evaluation import Evaluation
from dechbo.errors import OptionError
from dechbo.gp import AdditiveGP, Ensemble
from dechbo.models.builder import ModelBuilder, maximal_scopes
from dechbo.models.options import ModelOptions
from dechbo.structure.learner import Effort
from dechbo.theory import TheoryOptions

QUICK = Effort(chains=1, steps=60, rounds=2)


def box(dim: int) -> Space:
    return Space({f"x{i}": Float(0, 1) for i in range(dim)})


def table(dim: int, n: int, function, seed: int = 0):
    X = np.random.default_rng(seed).random((n, dim))
    told = [Evaluation.of({f"x{i}": x for i, x in enumerate(row)}, float(function(row)), None, None) for row in X]
    return told, list(X)


def builder(dim: int, graph: FactorGraph | str, *, max_factor_size: int = 3, **options: Any) -> ModelBuilder:
    return ModelBuilder(box(dim), graph, 0, 1.0, None, max_factor_size, ModelOptions(effort=QUICK, **options))


def bowl(x: np.ndarray) -> float:
    return float(((x - 0.3) ** 2).sum())


def test_a_given_graph_is_closed_where_kernels_are_centred() -> None:
    graph = FactorGraph(4, ((2, 0, 1), (3,)))
    told, points = table(4, 12, bowl)
    centred = builder(4, graph).advance(None, 10, told, points).gp
    assert centred.graph.scopes == ((0,), (1,), (2,), (3,), (0, 1), (0, 2), (1, 2), (0, 1, 2))
    assert centred.domains is not None
    plain = builder(4, graph, centred=False).advance(None, 10, told, points).gp
    assert plain.graph == graph
    assert plain.domains is None
    wide = FactorGraph(6, ((0, 1, 2, 3, 4), (5,)))  # too many parts
    told, points = table(6, 12, bowl)
    kept = builder(6, wide).advance(None, 10, told, points).gp
    assert kept.graph == wide
    assert kept.domains is None


def test_every_ask_has_its_own_forest_and_takes_over_what_the_last_one_learned() -> None:
    told, points = table(6, 62, bowl)
    made = builder(6, "random")
    cold = made.advance(None, 60, told[:58], points)
    warm = made.advance(cold, 61, told[:59], points)
    assert not warm.refitted
    assert warm.gp.graph != cold.gp.graph
    assert warm.gp.graph == made.graph_at(61)
    old, new = cold.gp.hyperparameters, warm.gp.hyperparameters
    assert_array_equal(new.lengthscales, old.lengthscales)
    assert_array_equal(new.variances[:6], old.variances[:6])
    assert_allclose(new.variances[6:], old.variances[6:].mean())
    later = made.advance(cold, 62, told, points)  # two more observations: a fit is due
    assert later.refitted
    assert later.gp.graph == made.graph_at(62)


@pytest.mark.parametrize("seed", range(2))
def test_one_factor_over_all_variables_where_the_evidence_asks_for_it(seed: int) -> None:
    """A narrow hill in five dimensions is far from a sum; waves side by side are one."""

    def hill(x: np.ndarray) -> float:
        return float(np.exp(-8 * ((x - 0.5) ** 2).sum()))

    def waves(x: np.ndarray) -> float:
        return float(np.sin(5 * x).sum())

    weights = {}
    for name, function in (("hill", hill), ("waves", waves)):
        told, points = table(5, 150, function, seed)
        model = builder(5, "learned", max_factor_size=2).advance(None, 150, told, points)
        assert isinstance(model.gp, Ensemble)
        assert sum(model.gp.weights) == pytest.approx(1)
        large = [w for w, m in zip(model.gp.weights, model.gp.members, strict=True) if m.graph.max_factor_size == 5]
        assert sum(large) == pytest.approx(model.full_weight)
        weights[name] = model.full_weight
    assert weights["hill"] > 0.9
    assert weights["waves"] < 0.1


def test_no_factor_over_all_variables_unless_wished() -> None:
    told, points = table(5, 60, lambda x: float(np.exp(-8 * ((x - 0.5) ** 2).sum())))
    model = builder(5, "learned", max_factor_size=2, full_factor=False).advance(None, 60, told, points)
    assert model.full_weight == 0
    assert model.gp.graph.max_factor_size <= 2


def test_where_everything_is_coupled_interactions_say_so() -> None:
    space = box(5)
    optimizer = Optimizer(space, seed=0, max_factor_size=2, model=ModelOptions(effort=QUICK))
    for x in np.random.default_rng(0).random((150, 5)):
        optimizer.tell(dict(zip(space.names, x.tolist(), strict=True)), -float(np.exp(-8 * ((x - 0.5) ** 2).sum())))
    first = optimizer.interactions()[0]
    assert first.scope == space.names
    assert first.probability > 0.9
    assert first.share > 0.9
    together = optimizer.pair_probabilities()
    assert together[np.triu_indices(5, 1)].min() >= first.probability - 1e-12
    assert (together.diagonal() == 0).all()
    sizes = []
    for _ in range(8):
        optimizer.ask()
        sizes.append(optimizer.info.graph.max_factor_size)
    assert 5 in sizes


def test_each_ask_searches_one_of_the_two_models() -> None:
    told, points = table(5, 150, lambda x: float(np.exp(-8 * ((x - 0.5) ** 2).sum())))
    made = builder(5, "learned", max_factor_size=2)
    model = made.advance(None, 150, told, points)
    sizes = [made.asking(model, index).graph.max_factor_size for index in range(200)]
    assert set(sizes) == {5, *(size for size in sizes if size <= 2)}
    assert 0.6 < np.mean(np.array(sizes) == 5) < 0.9  # three of four at most, but for luck
    assert sizes == [made.asking(model, index).graph.max_factor_size for index in range(200)]


def test_the_theorems_betas_know_no_factor_over_all_variables() -> None:
    space = box(9)
    optimizer = Optimizer(
        space, seed=0, theory=TheoryOptions(beta="theory-factor"), max_factor_size=2, model=ModelOptions(effort=QUICK)
    )
    for x in np.random.default_rng(0).random((40, 9)):
        optimizer.tell(dict(zip(space.names, x.tolist(), strict=True)), -float(np.exp(-8 * ((x - 0.5) ** 2).sum())))
    optimizer.ask()
    assert optimizer.info.certified
    assert optimizer.info.graph.max_factor_size <= 2


def test_learned_factors_of_more_than_four_variables_are_centred_too() -> None:
    space = box(6)
    optimizer = Optimizer(space, seed=0, max_factor_size=5, model=ModelOptions(full_factor=False, effort=QUICK))
    for x in np.random.default_rng(0).random((30, 6)):
        optimizer.tell(dict(zip(space.names, x.tolist(), strict=True)), float(np.prod(x[:5] - 0.5)))
    assert isinstance(optimizer.interactions(), list)
    assert all(member.domains is not None for member in optimizer._models.preview[1].gp.members)


def test_plain_kernels_cover_their_parts() -> None:
    graph = FactorGraph(4, ((0,), (1,), (2,), (3,), (0, 1), (0, 1, 2)))
    assert set(maximal_scopes(graph).scopes) == {(3,), (0, 1, 2)}
    told, points = table(4, 30, lambda x: float(4 * (x[0] - 0.5) * (x[1] - 0.5) + x[2]))
    model = builder(4, "learned", centred=False, full_factor=False).advance(None, 30, told, points)
    assert all(isinstance(member, AdditiveGP) and member.domains is None for member in model.gp.members)


def test_shares_need_centred_kernels() -> None:
    space = box(3)
    optimizer = Optimizer(space, seed=0, model=ModelOptions(centred=False, effort=QUICK, full_factor=False))
    for x in np.random.default_rng(0).random((12, 3)):
        optimizer.tell(dict(zip(space.names, x.tolist(), strict=True)), bowl(x))
    with pytest.raises(OptionError, match="centred"):
        optimizer.interactions()
