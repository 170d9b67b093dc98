"""Which model an ask has: the graph and its kernels, forests that change, one factor over all variables."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from dechbo import FactorGraph, Float, Optimizer, Space
from dechbo.data.evaluation import Evaluation
from dechbo.errors import OptionError
from dechbo.gp import AdditiveGP, Ensemble
from dechbo.maxsum import MaxSum
from dechbo.models.model import Recipe, without_parts
from dechbo.search.grids import Granularity
from dechbo.structure import StructureOptions

QUICK = StructureOptions(chains=1, steps=60, greedy_rounds=2)


def box(dim: int) -> Space:
    return Space({f"x{i}": Float(0, 1) for i in range(dim)})


def table(dim: int, n: int, function, seed: int = 0):
    X = np.random.default_rng(seed).random((n, dim))
    told = [Evaluation.of({f"x{i}": x for i, x in enumerate(row)}, float(function(row)), None, None) for row in X]
    return told, list(X)


def recipe(dim: int, graph, **options) -> Recipe:
    return Recipe(box(dim), graph, 0, 1.0, "matern52", None, effort=QUICK, **options)


def bowl(x: np.ndarray) -> float:
    return float(((x - 0.3) ** 2).sum())


def test_a_given_graph_is_closed_where_kernels_are_centred():
    graph = FactorGraph(4, ((2, 0, 1), (3,)))
    told, points = table(4, 12, bowl)
    centred = recipe(4, graph).advance(None, 10, told, points).gp
    assert centred.graph.scopes == ((0,), (1,), (2,), (3,), (0, 1), (0, 2), (1, 2), (0, 1, 2))
    assert centred.domains is not None
    plain = recipe(4, graph, centred=False).advance(None, 10, told, points).gp
    assert plain.graph == graph
    assert plain.domains is None
    wide = FactorGraph(6, ((0, 1, 2, 3, 4), (5,)))  # too many parts
    told, points = table(6, 12, bowl)
    kept = recipe(6, wide).advance(None, 10, told, points).gp
    assert kept.graph == wide
    assert kept.domains is None


def test_every_ask_has_its_own_forest_and_takes_over_what_the_last_one_learned():
    told, points = table(6, 62, bowl)
    made = recipe(6, "random")
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
def test_one_factor_over_all_variables_where_the_evidence_asks_for_it(seed):
    """A narrow hill in five dimensions is far from a sum; waves side by side are one."""

    def hill(x: np.ndarray) -> float:
        return float(np.exp(-8 * ((x - 0.5) ** 2).sum()))

    def waves(x: np.ndarray) -> float:
        return float(np.sin(5 * x).sum())

    weights = {}
    for name, function in (("hill", hill), ("waves", waves)):
        told, points = table(5, 150, function, seed)
        model = recipe(5, "learned", max_factor_size=2).advance(None, 150, told, points)
        assert isinstance(model.gp, Ensemble)
        assert sum(model.gp.weights) == pytest.approx(1)
        large = [w for w, m in zip(model.gp.weights, model.gp.members, strict=True) if m.graph.max_factor_size == 5]
        assert sum(large) == pytest.approx(model.coupled)
        weights[name] = model.coupled
    assert weights["hill"] > 0.9
    assert weights["waves"] < 0.1


def test_no_factor_over_all_variables_unless_wished():
    told, points = table(5, 60, lambda x: float(np.exp(-8 * ((x - 0.5) ** 2).sum())))
    model = recipe(5, "learned", max_factor_size=2, coupled=False).advance(None, 60, told, points)
    assert model.coupled == 0
    assert model.gp.graph.max_factor_size <= 2


def test_where_everything_is_coupled_interactions_say_so():
    space = box(5)
    optimizer = Optimizer(space, seed=0, max_factor_size=2, effort=QUICK)
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


def test_each_ask_searches_one_of_the_two_models():
    told, points = table(5, 150, lambda x: float(np.exp(-8 * ((x - 0.5) ** 2).sum())))
    made = recipe(5, "learned", max_factor_size=2)
    model = made.advance(None, 150, told, points)
    sizes = [made.asking(model, index).graph.max_factor_size for index in range(200)]
    assert set(sizes) == {5, *(size for size in sizes if size <= 2)}
    assert 0.6 < np.mean(np.array(sizes) == 5) < 0.9  # three of four at most, but for luck
    assert sizes == [made.asking(model, index).graph.max_factor_size for index in range(200)]


def test_the_theorems_betas_know_no_factor_over_all_variables():
    space = box(9)
    optimizer = Optimizer(space, seed=0, beta="theory-factor", max_factor_size=2, effort=QUICK)
    for x in np.random.default_rng(0).random((40, 9)):
        optimizer.tell(dict(zip(space.names, x.tolist(), strict=True)), -float(np.exp(-8 * ((x - 0.5) ** 2).sum())))
    optimizer.ask()
    assert optimizer.info.certified
    assert optimizer.info.graph.max_factor_size <= 2


def test_learned_factors_of_more_than_four_variables_are_centred_too():
    space = box(6)
    optimizer = Optimizer(space, seed=0, max_factor_size=5, coupled=False, effort=QUICK)
    for x in np.random.default_rng(0).random((30, 6)):
        optimizer.tell(dict(zip(space.names, x.tolist(), strict=True)), float(np.prod(x[:5] - 0.5)))
    assert isinstance(optimizer.interactions(), list)
    assert all(member.domains is not None for member in optimizer._models.preview[1].gp.members)


def test_plain_kernels_cover_their_parts():
    graph = FactorGraph(4, ((0,), (1,), (2,), (3,), (0, 1), (0, 1, 2)))
    assert set(without_parts(graph).scopes) == {(3,), (0, 1, 2)}
    told, points = table(4, 30, lambda x: float(4 * (x[0] - 0.5) * (x[1] - 0.5) + x[2]))
    model = recipe(4, "learned", centred=False, coupled=False).advance(None, 30, told, points)
    assert all(isinstance(member, AdditiveGP) and member.domains is None for member in model.gp.members)


def test_shares_need_centred_kernels():
    space = box(3)
    optimizer = Optimizer(space, seed=0, centred=False, effort=QUICK, coupled=False)
    for x in np.random.default_rng(0).random((12, 3)):
        optimizer.tell(dict(zip(space.names, x.tolist(), strict=True)), bowl(x))
    with pytest.raises(OptionError, match="centred"):
        optimizer.interactions()


def test_the_papers_algorithm(tmp_path):
    optimizer = Optimizer.paper(box(4), max_factor_size=2, seed=3, n_initial=4, effort=QUICK)
    for _ in range(7):
        params = optimizer.ask()
        optimizer.tell(params, bowl(np.array(list(params.values()))))
    assert optimizer.graph == "learned"
    assert optimizer.max_factor_size == 2
    assert optimizer.maximizer == MaxSum(rounds=30, damping=0.5)
    assert optimizer.granularity == Granularity(polish_steps=0)
    assert (optimizer.centred, optimizer.coupled, optimizer.look_elsewhere) == (False, False, False)
    assert optimizer.info.source == "acquisition"
    assert optimizer.info.graph.max_factor_size <= 2
    assert optimizer.info.polished_value == optimizer.info.value  # on its grid
    optimizer.save(tmp_path / "run.json")
    loaded = Optimizer.load(tmp_path / "run.json")
    for name in ("centred", "coupled", "choose", "look_elsewhere", "granularity", "maximizer", "graph_samples"):
        assert getattr(loaded, name) == getattr(optimizer, name), name
    assert loaded.ask() == optimizer.ask()
    assert Optimizer.paper(box(4), beta=2.0).beta == 2.0


@pytest.mark.parametrize("name", ["centred", "coupled", "look_elsewhere"])
def test_flags_are_true_or_false(name):
    with pytest.raises(OptionError, match=name):
        Optimizer(box(2), **{name: "yes"})


def test_choose_is_one_of_two_words():
    with pytest.raises(OptionError, match="'joint', 'factors'"):
        Optimizer(box(2), choose="best")
