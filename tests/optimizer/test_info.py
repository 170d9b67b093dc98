"""AskInfo: what it says of an ask is true."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest

from dechbo import FactorGraph, Int, Optimizer, Space
from dechbo.acquisition import EnsembleUCB
from dechbo.models.model import Model
from dechbo.models.options import MEMBERS, ModelOptions
from dechbo.optimizer import AskInfo
from dechbo.search.options import SearchOptions
from dechbo.theory import TheoryOptions
from optimizer_cases import bowl, box, info_of, run

FACTORS = SearchOptions(score="factors")


def latest_model(optimizer: Optimizer) -> Model:
    models = optimizer._beliefs.state.models
    assert models is not None
    assert models.latest is not None
    return models.latest[1]


def bound_of(model: Model, beta: float) -> EnsembleUCB:
    return EnsembleUCB.of(model.gp.condition(model.data), beta)


def test_fields_can_be_read_as_items() -> None:
    info = AskInfo("initial design", 0.5)
    assert dict(info)["source"] == info["source"] == "initial design"
    assert math.isnan(info["gap"])
    assert not info.certified


def test_info_says_what_the_ask_did() -> None:
    optimizer = Optimizer(box(2), seed=0, n_initial=3, theory=TheoryOptions(beta=2.5))
    assert optimizer.info is None
    run(optimizer, bowl, 3)
    assert info_of(optimizer).source == "initial design"
    run(optimizer, bowl, 1)
    info = info_of(optimizer)
    assert info["beta"] == info.beta == 2.5
    assert info.graph is not None
    assert info.graph.dim == 2
    assert info.seconds > 0
    assert info.jitter == 0.0
    assert info.acquisition == "bound"
    assert set(info.parts) == {"models", "max-sum", "search"}
    assert 0 < sum(info.parts.values()) <= info.seconds
    with pytest.raises(KeyError, match="nonsense"):
        info["nonsense"]


def test_an_ask_says_whether_it_fitted_the_models_and_what_overrides_its_options() -> None:
    optimizer = Optimizer(box(2), seed=0, n_initial=3, theory=TheoryOptions(beta=2.5))
    run(optimizer, bowl, 4)
    assert info_of(optimizer).refitted
    optimizer.ask(2)
    assert [info_of(optimizer).refitted, info_of(optimizer).switched_off] == [False, ()]
    optimizer.tell({"x0": 0.5, "x1": 0.5}, 1.0, constraints={"c": -1.0})
    optimizer.ask()
    assert info_of(optimizer).refitted
    assert info_of(optimizer).acquisition == "improvement"
    assert info_of(optimizer).switched_off == ("beta",)


def test_the_point_is_never_worse_than_the_grid_and_the_bound_holds() -> None:
    ring = FactorGraph(4, ((0, 1), (1, 2), (2, 3), (3, 0)))
    optimizer = Optimizer(box(4), seed=3, graph=ring, search=FACTORS)
    grid = np.array(list(itertools.product(np.linspace(0, 1, 9), repeat=4)))
    for params in (optimizer.ask() for _ in range(16)):
        info = info_of(optimizer)
        if info.source == "max-sum":
            model = latest_model(optimizer)
            acquisition = bound_of(model, info.beta)
            here = acquisition.values(optimizer.space.encode(params)[None])[0]
            assert here == pytest.approx(info.polished_value, abs=1e-9)
            told = [tuple(e.params.values()) for e in optimizer.evaluations]
            free = np.array([x for x in grid if tuple(x) not in told])  # of a grid that the optimiser never saw
            assert here >= acquisition.values(free).max() - 1e-9
            assert info.value <= info.polished_value
            assert info.gap >= 0
            assert info.certified
        optimizer.tell(params, bowl(params) + params["x0"] * params["x2"])
    assert info_of(optimizer).rounds > 0  # a ring is cyclic: messages ran


@pytest.mark.parametrize("seed", range(4))
def test_on_a_finite_space_the_certificate_covers_the_whole_space(seed: int) -> None:
    """Oracle: the acquisition enumerated over all points."""
    space = Space({name: Int(0, 8) for name in "abcd"})
    graph = FactorGraph(4, tuple(itertools.combinations(range(4), 2)))
    optimizer = Optimizer(space, graph=graph, seed=seed, noise=0, search=FACTORS)
    everything = np.array(list(itertools.product(np.linspace(0, 1, 9), repeat=4)))
    for _ in range(18):
        params = optimizer.ask()
        if info_of(optimizer).source == "max-sum":
            model = latest_model(optimizer)
            values = bound_of(model, info_of(optimizer).beta).values(everything)
            assert values.max() <= info_of(optimizer).upper_bound + 1e-9
            here = (np.abs(everything - space.encode(params)) < 1e-9).all(axis=1)
            assert info_of(optimizer).polished_value == pytest.approx(float(values[here][0]), abs=1e-9)
        optimizer.tell(params, math.sin(params["a"]) + params["b"] * params["c"] / 9 - params["d"])


@pytest.mark.parametrize("score", ["factors", "joint"])
def test_a_factor_too_large_for_a_table_is_searched_off_the_grid(score: str) -> None:
    graph, options = FactorGraph(9, (tuple(range(9)),)), ModelOptions(members=("smooth",))
    optimizer = Optimizer(box(9), graph=graph, seed=0, n_initial=5, search=SearchOptions(score=score), model=options)
    run(optimizer, bowl, 14)
    info = info_of(optimizer)
    assert not info.certified
    assert info.upper_bound == np.inf
    assert not info.gap < np.inf
    assert not info.step_bound < np.inf
    values = [e.number_value for e in optimizer.evaluations]
    assert min(values[5:]) < min(values[:5])


def test_members_say_what_they_think_of_the_point() -> None:
    optimizer = Optimizer(box(2), seed=1, n_initial=4)
    run(optimizer, bowl, 4)
    assert info_of(optimizer).members == ()
    params = optimizer.ask()
    committee = optimizer._beliefs.committee(optimizer._history)
    members = info_of(optimizer).members
    assert [opinion.member for opinion in members] == list(MEMBERS)
    assert sum(opinion.weight for opinion in members) == pytest.approx(1.0)
    point = optimizer.space.encode(params)[None]
    for opinion, posterior in zip(members, committee.posteriors, strict=True):
        mean, deviation = posterior.joint(point)
        assert opinion.mean == pytest.approx(mean[0])
        assert opinion.deviation == pytest.approx(deviation[0])
    assert dict(members[0])["weight"] == members[0].weight


def test_the_certificate_is_that_of_max_sums_own_proposal() -> None:
    """Whichever point is suggested, the bound holds for the proposal; ``certified`` only where both are one."""
    optimizer = Optimizer(box(3), graph=FactorGraph.singletons(3), seed=0, n_initial=4)
    for _ in range(9):
        params = optimizer.ask()
        info = info_of(optimizer)
        if info.acquisition:
            assert info.value <= info.upper_bound < np.inf
            assert info.gap == pytest.approx(0.0, abs=1e-12)  # singletons: exact
            assert not info.certified or info.source == "max-sum"
        optimizer.tell(params, bowl(params))
