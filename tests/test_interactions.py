"""Which parameters interact: in a run with a learned graph, and in a table of experiments."""

from __future__ import annotations

import csv
import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from dechbo import Categorical, FactorGraph, Float, Int, Optimizer, Space, interactions
from dechbo.data.observations import Observations
from dechbo.errors import DataError, NoObservations, OptionError
from dechbo.gp import AdditiveGP, Hyperparameters
from dechbo.interactions import Interaction, Interactions, strongest
from dechbo.models.options import ModelOptions
from dechbo.structure import StructureOptions, diagnostics
from optimizer_cases import Params, best_of, info_of

SPACE = Space({"a": Float(0, 1), "b": Float(0, 1), "c": Int(0, 9), "d": Categorical(["p", "q", "r"])})
TABLE_SPACE = Space({"a": Float(0, 1), "b": Float(0, 1), "n": Int(0, 5), "kind": Categorical(["p", "q"])})
QUICK = StructureOptions(chains=2, sweeps=10, max_batches=1)


def objective(params: Params) -> float:
    """a and b interact; c and d do not."""
    together = 4 * (params["a"] - 0.5) * (params["b"] - 0.5)
    return float(together + 0.1 * params["c"]) + {"p": 0.0, "q": 0.5, "r": 0.2}[params["d"]]


def asked(evaluations: int, **options: Any) -> Optimizer:
    optimizer = Optimizer(SPACE, graph="learned", seed=0, **{"model": ModelOptions(structure=QUICK), **options})
    for _ in range(evaluations):
        params = optimizer.ask()
        optimizer.tell(params, objective(params))
    return optimizer


def test_it_finds_the_interaction_and_the_optimum() -> None:
    optimizer = Optimizer(SPACE, graph="learned", seed=0, model=ModelOptions(structure=QUICK))
    rng = np.random.default_rng(0)
    for u in rng.random((40, 4)):
        params: Params = SPACE.decode(SPACE.from_uniform(u))
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
    assert best_of(optimizer).number_value < -0.95


def test_an_additive_function_shows_no_interaction() -> None:
    optimizer = Optimizer(SPACE, graph="learned", seed=0, model=ModelOptions(structure=QUICK))
    for u in np.random.default_rng(1).random((40, 4)):
        params: Params = SPACE.decode(SPACE.from_uniform(u))
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


def test_the_certificate_and_the_learned_graph_are_reported() -> None:
    optimizer = asked(12, max_factor_size=2, model=ModelOptions(members=("smooth",)))
    info = info_of(optimizer)
    assert info.graph is not None
    assert info.graph.max_factor_size <= 2
    assert set(FactorGraph.singletons(4).scopes) <= set(info.graph.scopes)
    assert np.isfinite(info.value)
    assert info.upper_bound >= info.value
    assert info.gap >= 0


def test_shares_are_those_of_the_posterior_mean() -> None:
    """Oracle: Monte Carlo variances of the factors' posterior means over the domain."""
    rng = np.random.default_rng(0)
    graph = FactorGraph(3, ((0,), (1,), (2,), (0, 1)))
    steps = np.linspace(0, 1, 5)
    theta = Hyperparameters(np.array([0.4, 0.5, 0.3]), np.array([0.5, 0.4, 0.3, 0.6]), 1e-2)
    gp = AdditiveGP(graph, theta, domains=(None, steps, None))
    X = rng.random((30, 3))
    X[:, 1] = rng.choice(steps, 30)
    data = Observations(X, rng.standard_normal(30))
    at = rng.random((200_000, 3))
    at[:, 1] = rng.choice(steps, len(at))
    posterior = gp.condition(data)
    variances = np.array([posterior.factor(k, at[:, scope])[0].var() for k, scope in enumerate(graph.scopes)])
    shares = np.array([interactions.sobol_shares(gp, data)[scope] for scope in graph.scopes])
    np.testing.assert_allclose(shares, variances / variances.sum(), atol=0.01)


def test_other_graphs_have_no_interactions() -> None:
    optimizer = Optimizer(SPACE, seed=0, graph="random")
    optimizer.tell({"a": 0.1, "b": 0.1, "c": 1, "d": "p"}, 1.0)
    for question in (optimizer.interactions, optimizer.pair_probabilities):
        with pytest.raises(OptionError, match="learned"):
            question()


def test_the_convergence_of_the_chains_is_known() -> None:
    optimizer = Optimizer(SPACE, seed=0, model=ModelOptions(structure=QUICK))
    for u in np.random.default_rng(1).random((20, 4)):
        params: Params = SPACE.decode(SPACE.from_uniform(u))
        optimizer.tell(params, objective(params))
    convergence = optimizer.convergence()
    assert convergence is not None
    assert convergence.ess > 0
    assert optimizer.interactions().converged == convergence.converged
    optimizer.ask()
    assert info_of(optimizer).graph_converged in (True, False)  # of the shorter chains behind an ask
    given = Optimizer(SPACE, seed=0, graph=FactorGraph.singletons(4))
    given.tell(params, 1.0)
    assert given.convergence() is None


# ------------------------------------------------------------------------------------------ tables


def table(rows: int = 50) -> tuple[list[Params], list[float | None]]:
    rng = np.random.default_rng(0)
    X: list[Params] = [TABLE_SPACE.decode(TABLE_SPACE.from_uniform(u)) for u in rng.random((rows, 4))]
    return X, [4 * (x["a"] - 0.5) * (x["b"] - 0.5) + 0.2 * x["n"] + (x["kind"] == "p") for x in X]


def test_rows_and_dicts_give_the_same_answer() -> None:
    X, y = table()
    found = interactions.from_table(X, y, TABLE_SPACE, structure=QUICK)
    assert found[0].scope == ("a", "b")
    assert found[0].probability > 0.9
    assert interactions.from_table([list(x.values()) for x in X], np.array(y), TABLE_SPACE, structure=QUICK) == found


def test_from_csv_reads_the_space_off_the_columns(tmp_path: Path) -> None:
    X, y = table()
    y[3] = None
    path = tmp_path / "results.csv"
    with open(path, "w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(["a", "b", "n", "kind", "always", "loss"])
        for x, value in zip(X, y, strict=True):
            writer.writerow([*x.values(), "same", "" if value is None else value])
    choices: list[dict[str, Any]] = [{}, {"target": "loss"}, {"space": TABLE_SPACE}]
    for options in choices:
        found = interactions.from_csv(path, structure=QUICK, **options)
        assert found[0].scope == ("a", "b")
        assert found[0].probability > 0.9


@pytest.mark.parametrize(
    ("text", "options", "message"),
    [
        ("a,b,y\n", {}, "no rows"),
        ("a,b,y\n1,2,3\n2,3,1\n", {"target": "z"}, "no column"),
        ("a,b,y\n1,2,3\n2,3\n", {}, r"table\.csv:3: expected 3 cells"),
        ("a,b,y\n1,2,3\n2,3,low\n", {}, "number or nothing"),
        ("a,b,y\n1,2,3\n2,3,1\n", {"space": TABLE_SPACE}, "no columns"),
    ],
)
def test_bad_files_are_refused(tmp_path: Path, text: str, options: dict[str, Any], message: str) -> None:
    path = tmp_path / "table.csv"
    path.write_text(text)
    with pytest.raises(DataError, match=message):
        interactions.from_csv(path, **options)


def test_bad_tables_are_refused() -> None:
    X, y = table(5)
    with pytest.raises(DataError, match="one result"):
        interactions.from_table(X, y[:-1], TABLE_SPACE)
    with pytest.raises(DataError, match="row 2"):
        interactions.from_table([X[0], {**X[1], "n": 99}], y[:2], TABLE_SPACE)
    with pytest.raises(DataError, match="4 values"):
        interactions.from_table([[1, 2]], [1.0], TABLE_SPACE)
    with pytest.raises(NoObservations, match="no row has a result"):
        interactions.from_table(X, [math.nan] * 5, TABLE_SPACE)


def test_a_number_that_is_missing_is_not_a_category(tmp_path: Path) -> None:
    path = tmp_path / "gaps.csv"
    path.write_text("a,b,y\n1,2.5,3\n2,,4\n3,1.5,5\n")
    with pytest.raises(DataError, match=r"column 'b' has numbers, but nothing in lines \[3\]"):
        interactions.from_csv(path)


def test_a_given_space_says_what_the_cells_mean(tmp_path: Path) -> None:
    space = Space({"version": Categorical(["1", "2"]), "x": Float(0, 1)})
    path = tmp_path / "texts.csv"
    path.write_text("version;x;y\n1;0;3\n2;0.5;4\n1;1;5\n")
    assert interactions.from_csv(path, space=space, structure=QUICK)
    path.write_text("version;x;y\n3;0;3\n")
    with pytest.raises(DataError, match=r"texts\.csv:2: version: expected one of 1, 2, got '3'"):
        interactions.from_csv(path, space=space)


def test_the_most_important_come_first() -> None:
    """By probability times share: neither a sure interaction without effect nor an unlikely large one leads."""
    sure, large, both = (
        Interaction(("a", "b"), 1.0, 0.02),
        Interaction(("b", "c"), 0.15, 0.4),
        Interaction(("a", "c"), 0.8, 0.3),
    )
    assert Interactions([sure, large, both]) == [both, large, sure]
    assert strongest([sure, large, both]) == [both, large, sure]
    assert strongest([sure, large, both], 1) == [both]


@pytest.mark.parametrize("limit", [0.0, np.inf], ids=["chains disagree", "chains agree"])
def test_a_table_says_whether_its_chains_agree(limit: float, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(diagnostics, "MAX_RHAT", limit)
    found = interactions.from_table(*table(), TABLE_SPACE, structure=QUICK)
    assert found
    assert found.converged == (limit > 0)


def test_the_strongest_interactions_are_likely_and_of_several_parameters() -> None:
    weak = [Interaction(("a", "b"), 0.01, 0.3), Interaction(("a", "c"), 0.5, 0.1), Interaction(("b",), 1.0, 0.9)]
    assert strongest(weak) == [weak[1]]
