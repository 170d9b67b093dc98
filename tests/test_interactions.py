"""A learned graph in the optimiser: which parameters act together."""

from __future__ import annotations

import json
import math
from pathlib import Path

import numpy as np
import pytest

from dechbo import Categorical, FactorGraph, Float, Int, Optimizer, Space
from dechbo.data.observations import Observations
from dechbo.errors import OptionError
from dechbo.gp import AdditiveGP, Hyperparameters
from dechbo.interactions import sobol_shares
from dechbo.models.options import ModelOptions
from dechbo.structure.learner import Effort

SPACE = Space({"a": Float(0, 1), "b": Float(0, 1), "c": Int(0, 9), "d": Categorical(["p", "q", "r"])})
QUICK = Effort(chains=2, steps=200)


def objective(params: dict) -> float:
    """a and b act together; c and d act alone."""
    together = 4 * (params["a"] - 0.5) * (params["b"] - 0.5)
    return together + 0.1 * params["c"] + {"p": 0.0, "q": 0.5, "r": 0.2}[params["d"]]


def asked(evaluations: int, **options) -> Optimizer:
    optimizer = Optimizer(SPACE, graph="learned", seed=0, **{"model": ModelOptions(effort=QUICK), **options})
    for _ in range(evaluations):
        params = optimizer.ask()
        optimizer.tell(params, objective(params))
    return optimizer


def test_it_finds_what_acts_together_and_the_optimum() -> None:
    optimizer = Optimizer(SPACE, graph="learned", seed=0, model=ModelOptions(effort=QUICK))
    rng = np.random.default_rng(0)
    for u in rng.random((40, 4)):
        params = SPACE.decode(SPACE.from_uniform(u))
        optimizer.tell(params, objective(params))
    probabilities = optimizer.pair_probabilities()
    assert probabilities[0, 1] > 0.95
    others = probabilities.copy()
    others[0, 1] = others[1, 0] = 0
    assert others.max() < 0.5
    first = optimizer.interactions()[0]
    assert first.scope == ("a", "b")
    assert first.probability > 0.95
    # by hand: Var of 4 (a - 1/2)(b - 1/2) is 1/9, that of c's ten steps 0.0825, that of d 0.0422
    assert first.share == pytest.approx(0.111 / (0.111 + 0.0825 + 0.0422), abs=0.05)
    for _ in range(12):
        params = optimizer.ask()
        optimizer.tell(params, objective(params))
    assert optimizer.best.value < -0.95


def test_an_additive_function_shows_no_interaction() -> None:
    optimizer = Optimizer(SPACE, graph="learned", seed=0, model=ModelOptions(effort=QUICK))
    for u in np.random.default_rng(1).random((40, 4)):
        params = SPACE.decode(SPACE.from_uniform(u))
        optimizer.tell(params, math.sin(3 * params["a"]) + params["b"] ** 2 + 0.1 * params["c"] + len(params["d"]))
    assert optimizer.pair_probabilities().max() < 0.5


def test_a_run_with_a_learned_graph_resumes_with_the_same_suggestions(tmp_path: Path) -> None:
    whole, parts = asked(23), asked(14)
    parts.save(tmp_path / "run.json")
    parts = Optimizer.load(tmp_path / "run.json")
    for _ in range(9):
        params = parts.ask()
        parts.tell(params, objective(params))
    assert [e.params for e in parts.evaluations] == [e.params for e in whole.evaluations]
    assert parts.interactions() == whole.interactions()
    assert json.loads((tmp_path / "run.json").read_text())["options"]["graph"] == "learned"


def test_the_certificate_and_the_union_graph_are_reported() -> None:
    optimizer = asked(12, max_factor_size=2, model=ModelOptions(effort=QUICK, graph_samples=2, full_factor=False))
    info = optimizer.info
    assert info.graph.max_factor_size <= 2
    assert set(FactorGraph.singletons(4).scopes) <= set(info.graph.scopes)
    assert info.upper_bound >= info.value
    assert info.polished_value >= info.value


def test_shares_are_those_of_the_posterior_mean() -> None:
    """Oracle: Monte Carlo variances of the factors' posterior means over the domain."""
    rng = np.random.default_rng(0)
    graph = FactorGraph(3, ((0,), (1,), (2,), (0, 1)))
    domains = (None, np.linspace(0, 1, 5), None)
    gp = AdditiveGP(graph, Hyperparameters([0.4, 0.5, 0.3], [0.5, 0.4, 0.3, 0.6], 1e-2), domains=domains)
    X = rng.random((30, 3))
    X[:, 1] = rng.choice(domains[1], 30)
    data = Observations(X, rng.standard_normal(30))
    at = rng.random((200_000, 3))
    at[:, 1] = rng.choice(domains[1], len(at))
    posterior = gp.condition(data)
    variances = np.array([posterior.factor(k, at[:, scope])[0].var() for k, scope in enumerate(graph.scopes)])
    shares = np.array([sobol_shares(gp, data)[scope] for scope in graph.scopes])
    np.testing.assert_allclose(shares, variances / variances.sum(), atol=0.01)


def test_other_graphs_have_no_interactions_to_tell() -> None:
    optimizer = Optimizer(SPACE, seed=0, graph="random")
    optimizer.tell({"a": 0.1, "b": 0.1, "c": 1, "d": "p"}, 1.0)
    for question in (optimizer.interactions, optimizer.pair_probabilities):
        with pytest.raises(OptionError, match="learned"):
            question()


def test_whether_the_chains_have_mixed_can_be_asked() -> None:
    optimizer = Optimizer(SPACE, seed=0, model=ModelOptions(effort=QUICK))
    for u in np.random.default_rng(1).random((15, 4)):
        params = SPACE.decode(SPACE.from_uniform(u))
        optimizer.tell(params, objective(params))
    assert optimizer.convergence().ess > 0
    given = Optimizer(SPACE, seed=0, graph=FactorGraph.singletons(4))
    given.tell(params, 1.0)
    assert given.convergence() is None
