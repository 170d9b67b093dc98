"""Which model an ask by factors has: the graph and its kernels, forests that change; one factor over all variables."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from numpy.typing import NDArray

from dechbo import FactorGraph, Optimizer
from dechbo.data.evaluation import Evaluation
from dechbo.errors import OptionError
from dechbo.gp import AdditiveGP, Ensemble
from dechbo.models.builder import ModelBuilder, clipped_constraint, maximal_scopes
from dechbo.models.model import Model
from dechbo.models.options import ModelOptions
from dechbo.structure import StructureOptions
from dechbo.theory import TheoryOptions
from optimizer_cases import box, info_of

Array = NDArray[np.float64]

QUICK = StructureOptions(chains=1, sweeps=3, rounds=2)


def table(dim: int, n: int, function: Callable[[Array], float], seed: int = 0) -> tuple[list[Evaluation], list[Array]]:
    X = np.random.default_rng(seed).random((n, dim))
    told = [Evaluation.of({f"x{i}": x for i, x in enumerate(row)}, float(function(row)), None, None) for row in X]
    return told, list(X)


def builder(dim: int, graph: FactorGraph | str, *, max_factor_size: int = 3, **options: Any) -> ModelBuilder:
    return ModelBuilder(box(dim), graph, 0, 1.0, None, max_factor_size, ModelOptions(structure=QUICK, **options))


def searched_graph(optimizer: Optimizer) -> FactorGraph:
    graph = info_of(optimizer).graph
    assert graph is not None
    return graph


def only_gp(model: Model) -> AdditiveGP:
    assert isinstance(model.gp, AdditiveGP)
    return model.gp


def bowl(x: Array) -> float:
    return float(((x - 0.3) ** 2).sum())


def test_a_given_graph_is_closed_where_kernels_are_centred() -> None:
    graph = FactorGraph(4, ((2, 0, 1), (3,)))
    told, points = table(4, 12, bowl)
    centred = only_gp(builder(4, graph).advance(None, 10, told, points))
    assert centred.graph.scopes == ((0,), (1,), (2,), (3,), (0, 1), (0, 2), (1, 2), (0, 1, 2))
    assert centred.domains is not None
    plain = only_gp(builder(4, graph, centred=False).advance(None, 10, told, points))
    assert plain.graph == graph
    assert plain.domains is None
    wide = FactorGraph(6, ((0, 1, 2, 3, 4), (5,)))  # too many parts
    told, points = table(6, 12, bowl)
    unclosed = only_gp(builder(6, wide).advance(None, 10, told, points))
    assert unclosed.graph == wide
    assert unclosed.domains is None


def test_every_ask_has_its_own_forest_and_takes_over_the_hyperparameters() -> None:
    told, points = table(6, 62, bowl)
    made = builder(6, "random")
    cold = made.advance(None, 60, told[:58], points)
    warm = made.advance(cold, 61, told[:59], points)
    assert not warm.refitted
    assert warm.gp.graph != cold.gp.graph
    assert warm.gp.graph == made.graph_at(61)
    old, new = only_gp(cold).hyperparameters, only_gp(warm).hyperparameters
    assert_array_equal(new.lengthscales, old.lengthscales)
    assert_array_equal(new.variances[:6], old.variances[:6])
    assert_allclose(new.variances[6:], old.variances[6:].mean())
    later = made.advance(cold, 62, told, points)  # two more observations: a fit is due
    assert later.refitted
    assert later.gp.graph == made.graph_at(62)


@pytest.mark.parametrize("seed", range(2))
def test_one_factor_over_all_variables_where_the_evidence_asks_for_it(seed: int) -> None:
    """A narrow hill in five dimensions is far from a sum; waves side by side are one."""

    def hill(x: Array) -> float:
        return float(np.exp(-8 * ((x - 0.5) ** 2).sum()))

    def waves(x: Array) -> float:
        return float(np.sin(5 * x).sum())

    weights = {}
    for name, function in (("hill", hill), ("waves", waves)):
        told, points = table(5, 150, function, seed)
        made = builder(5, "learned", max_factor_size=2)
        model = made.structure_model(told, points)
        assert isinstance(model.gp, Ensemble)
        assert sum(model.gp.weights) == pytest.approx(1)
        assert model.gp.graph.max_factor_size <= 2  # it is weighed, and takes part in no ask by the factors' bounds
        weights[name] = model.full_weight
    assert weights["hill"] > 0.9
    assert weights["waves"] < 0.1


def test_asks_by_the_factors_bounds_never_weigh_a_factor_over_all_variables() -> None:
    told, points = table(5, 60, lambda x: float(np.exp(-8 * ((x - 0.5) ** 2).sum())))
    assert builder(5, "learned", max_factor_size=2).advance(None, 60, told, points).full_weight == 0
    assert builder(5, "learned", max_factor_size=5).structure_model(told, points).full_weight == 0
    assert builder(5, FactorGraph.singletons(5)).structure_model(told, points).full_weight == 0


def test_one_factor_over_all_variables_is_listed_among_the_interactions() -> None:
    space = box(5)
    optimizer = Optimizer(space, seed=0, max_factor_size=2, model=ModelOptions(structure=QUICK))
    for x in np.random.default_rng(0).random((150, 5)):
        optimizer.tell(dict(zip(space.names, x.tolist(), strict=True)), -float(np.exp(-8 * ((x - 0.5) ** 2).sum())))
    first = optimizer.interactions()[0]
    assert first.scope == space.names
    assert first.probability > 0.9
    assert first.share > 0.9
    together = optimizer.pair_probabilities()
    assert together[np.triu_indices(5, 1)].min() > 0.9
    assert (together.diagonal() == 0).all()


def test_the_theorys_betas_switch_the_factor_over_all_variables_off() -> None:
    space = box(9)
    optimizer = Optimizer(
        space,
        seed=0,
        theory=TheoryOptions(beta="theory-factor"),
        max_factor_size=2,
        model=ModelOptions(structure=QUICK),
    )
    for x in np.random.default_rng(0).random((40, 9)):
        optimizer.tell(dict(zip(space.names, x.tolist(), strict=True)), -float(np.exp(-8 * ((x - 0.5) ** 2).sum())))
    optimizer.ask()
    assert info_of(optimizer).certified
    assert searched_graph(optimizer).max_factor_size <= 2


def test_learned_factors_of_more_than_four_variables_are_centred_too() -> None:
    space = box(6)
    optimizer = Optimizer(space, seed=0, max_factor_size=5, model=ModelOptions(structure=QUICK))
    for x in np.random.default_rng(0).random((30, 6)):
        optimizer.tell(dict(zip(space.names, x.tolist(), strict=True)), float(np.prod(x[:5] - 0.5)))
    assert isinstance(optimizer.interactions(), list)
    model = optimizer._beliefs.structure(optimizer._history)
    assert isinstance(model.gp, Ensemble)
    assert all(member.domains is not None for member in model.gp.members)


def test_plain_kernels_need_only_maximal_scopes() -> None:
    graph = FactorGraph(4, ((0,), (1,), (2,), (3,), (0, 1), (0, 1, 2)))
    assert set(maximal_scopes(graph).scopes) == {(3,), (0, 1, 2)}
    told, points = table(4, 30, lambda x: float(4 * (x[0] - 0.5) * (x[1] - 0.5) + x[2]))
    model = builder(4, "learned", centred=False).advance(None, 30, told, points)
    assert isinstance(model.gp, Ensemble)
    assert all(isinstance(member, AdditiveGP) and member.domains is None for member in model.gp.members)


def test_shares_need_centred_kernels() -> None:
    space = box(3)
    optimizer = Optimizer(space, seed=0, model=ModelOptions(centred=False, structure=QUICK))
    for x in np.random.default_rng(0).random((12, 3)):
        optimizer.tell(dict(zip(space.names, x.tolist(), strict=True)), bowl(x))
    with pytest.raises(OptionError, match="centred"):
        optimizer.interactions()


def test_constraint_values_far_from_zero_are_clipped() -> None:
    c = np.array([-0.1, 0.2, 0.3, -0.2, 1e300])
    assert clipped_constraint(c).tolist() == [-0.1, 0.2, 0.3, -0.2, pytest.approx(2.0)]
    assert clipped_constraint(np.zeros(3)).tolist() == [0.0, 0.0, 0.0]
    assert clipped_constraint(np.array([1e308, -1e308])).tolist() == [1e308, -1e308]
