"""Known linear constraints: no suggestion breaks one, and optima on their edges are found."""

from __future__ import annotations

import itertools
import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dechbo import Categorical, Exact, FactorGraph, FactorTables, Float, Int, MaxSum, Optimizer, Space
from dechbo.errors import ParameterError, SpaceExhausted
from dechbo.models.options import ModelOptions
from dechbo.search.grids import Granularity
from dechbo.search.options import SearchOptions
from dechbo.space import Parameter, Region
from dechbo.structure import StructureOptions

QUICK: dict[str, Any] = {
    "model": ModelOptions(structure=StructureOptions(chains=1, sweeps=1, rounds=1)),
    "search": SearchOptions(granularity=Granularity(work=1e7)),
    "n_initial": 5,
}


def mixed() -> Space:
    parameters: dict[str, Parameter] = {
        "a": Float(0, 1),
        "b": Float(0, 1),
        "lr": Float(1e-5, 1, log=True),
        "wd": Float(1e-6, 1, log=True),
        "n": Int(1, 10),
        "m": Int(1, 1000, log=True),
        "k": Float(0, 1, step=0.1),
        "c": Categorical(["x", "y"]),
    }
    return Space(parameters, ["a + b <= 1", "wd <= 2*lr", "n + m <= 30", "n >= m", "k + a <= 0.3"])


def keeps(p: dict[str, Any]) -> bool:
    first = p["a"] + p["b"] <= 1 + 1e-8 and p["wd"] <= 2 * p["lr"] * (1 + 1e-8) and p["k"] + p["a"] <= 0.3 + 1e-8
    return bool(first and p["n"] + p["m"] <= 30 and p["n"] >= p["m"])


def value(p: dict[str, Any]) -> float:
    """Best where the constraints forbid it."""
    far = -2 * p["a"] - p["b"] - p["k"] + 0.1 * math.log(p["lr"] / p["wd"]) - 0.2 * p["m"] + 0.1 * p["n"]
    return float(far) + (0.5 if p["c"] == "x" else 0.0)


@pytest.mark.parametrize(
    "more",
    [
        {},
        {"graph": FactorGraph.singletons(8), "maximizer": Exact(), "noise": 0.01},
        {"search": SearchOptions(score="factors")},
        {"graph": "random"},
    ],
    ids=["learned", "singletons, exact, noisy", "factors", "random"],
)
def test_no_suggestion_breaks_a_constraint(more: dict[str, Any]) -> None:
    space = mixed()
    optimizer = Optimizer(space, seed=1, **{**QUICK, **more})
    optimizer.tell({"a": 0.9, "b": 0.9, "lr": 1e-5, "wd": 1, "n": 1, "m": 900, "k": 1.0, "c": "x"}, -1e3)
    sources = set()
    for k in range(10):
        asked = optimizer.ask(2) if k % 5 == 2 else [optimizer.ask(fixed={"n": 4, "lr": 1e-3} if k % 5 == 4 else None)]
        assert all(map(keeps, asked)), asked
        sources.add(optimizer.info.source if optimizer.info else "")
        for params in asked:
            optimizer.tell(params, value(params))
    assert len(sources) > 1
    assert optimizer.best is not None
    assert keeps(optimizer.best.params)  # what was told against the constraints is data, but never the best
    assert keeps(optimizer.recommend())


@given(st.integers(0, 2**32 - 1))
@settings(max_examples=3)
def test_random_constraints_hold_for_every_suggestion(seed: int) -> None:
    rng = np.random.default_rng(seed)
    names = ["x", "y", "z", "n"]
    inside = [*rng.random(3).tolist(), int(rng.integers(0, 9))]
    rows = rng.integers(-3, 4, (3, 4))
    rows[:, 0] = np.where(rows.any(axis=1), rows[:, 0], 1)
    uppers = rows @ inside + rng.exponential(0.05, 3)
    texts = [
        " + ".join(f"{c}*{name}" for c, name in zip(row, names, strict=True)).replace("+ -", "- ") + f" <= {upper!r}"
        for row, upper in zip(rows.tolist(), uppers.tolist(), strict=True)
    ]
    parameters: dict[str, Parameter] = {"x": Float(0, 1), "y": Float(0, 1), "z": Float(0, 1), "n": Int(0, 8)}
    optimizer = Optimizer(Space(parameters, texts), seed=seed, **QUICK)
    target = rng.normal(size=4)
    for _ in range(10):
        params = optimizer.ask()
        point = np.array([params[name] for name in names])
        assert (rows @ point <= uppers + 1e-8 * (1 + np.abs(rows) @ np.abs(point))).all()
        optimizer.tell(params, float(target @ point + (point[0] - point[1]) ** 2))


@pytest.mark.parametrize("more", [{}, {"search": SearchOptions(score="joint")}], ids=["factors", "joint"])
def test_an_optimum_on_the_edge_is_found(more: dict[str, Any]) -> None:
    space = Space({"x": Float(0, 1), "y": Float(0, 1)}, ["x + y <= 1"])
    optimizer = Optimizer(space, seed=0, model=QUICK["model"], **more)
    for _ in range(22):
        params = optimizer.ask()
        optimizer.tell(params, (params["x"] - 1) ** 2 + (params["y"] - 1) ** 2)
    assert optimizer.best is not None
    assert optimizer.best.params == {"x": pytest.approx(0.5, abs=0.02), "y": pytest.approx(0.5, abs=0.02)}


@given(st.integers(0, 2**32 - 1))
@settings(max_examples=30)
def test_the_maximum_with_forbidden_cells_is_that_of_all_choices(seed: int) -> None:
    rng = np.random.default_rng(seed)
    space = Space(
        {name: Float(0, 1) for name in "wxyz"}, ["w + x <= 0.8", "x + y + z >= 1.1", f"w - z <= {rng.random()}"]
    )
    graph = FactorGraph(4, ((0,), (0, 1), (1, 2), (3,)))
    candidates = [np.sort(rng.random(4)) for _ in range(4)]
    tables = FactorTables(graph, tuple(rng.normal(size=[4] * len(scope)) for scope in graph.scopes))
    walled = tables.plus(space.region.tables(candidates))
    choices = np.array(list(itertools.product(range(4), repeat=4)))
    points = np.stack([values[choices[:, i]] for i, values in enumerate(candidates)], axis=1)
    allowed = space.region.allows(points)
    best = max((tables.value(choice) for choice in choices[allowed]), default=-math.inf)
    assert [walled.value(choice) > -math.inf for choice in choices] == allowed.tolist()
    assert Exact().maximize(walled).value == pytest.approx(best)
    found = MaxSum().maximize(walled)
    assert found.value <= best <= found.upper_bound + 1e-9
    assert best == -math.inf or found.value > -math.inf


def test_a_slice_without_an_allowed_point_is_refused() -> None:
    optimizer = Optimizer(Space({"x": Float(0, 1), "y": Float(0, 1)}, ["x + y <= 0.5"]), seed=0)
    with pytest.raises(ParameterError, match=r"no point with \{'x': 0.7\} satisfies x \+ y <= 0.5"):
        optimizer.ask(fixed={"x": 0.7})
    assert optimizer.ask(fixed={"x": 0.5}) == {"x": 0.5, "y": pytest.approx(0.0, abs=1e-8)}


def test_only_allowed_points_of_a_finite_space_are_counted() -> None:
    space = Space({"n": Int(0, 4), "m": Int(0, 4), "c": Categorical(["a", "b"])}, ["n + m <= 3", "n >= 1"])
    optimizer = Optimizer(space, seed=0, **QUICK)
    optimizer.tell({"n": 4, "m": 4, "c": "a"}, -9.0)
    met = set()
    for _ in range(12):  # (1: 0 1 2, 2: 0 1, 3: 0) times 2
        params = optimizer.ask()
        met.add(tuple(params.values()))
        optimizer.tell(params, float(params["n"] - params["m"] ** 2))
    assert met == {(n, m, c) for n in range(1, 4) for m in range(4 - n) for c in "ab"}
    with pytest.raises(SpaceExhausted, match="of all 12 points only 0"):
        optimizer.ask()


def test_the_certificate_speaks_of_allowed_cells() -> None:
    space = Space({"x": Float(0, 1), "y": Float(0, 1)}, ["x + y <= 1"])
    optimizer = Optimizer(
        space,
        graph=FactorGraph.singletons(2),
        seed=0,
        **{**QUICK, "search": SearchOptions(score="factors", granularity=Granularity(work=1e7))},
    )
    for _ in range(6):
        params = optimizer.ask()
        optimizer.tell(params, -params["x"] - params["y"])
    info = optimizer.info
    assert info is not None
    assert info.source == "max-sum"
    assert info.certified
    assert info.gap == 0.0  # one edge on two singletons: no cycle
    assert info.value == info.upper_bound <= info.polished_value
    assert params["x"] + params["y"] == pytest.approx(1.0)


def test_a_run_goes_on_after_save_and_load(tmp_path: Path) -> None:
    optimizer = Optimizer(mixed(), seed=2, **QUICK)
    for _ in range(12):
        params = optimizer.ask()
        optimizer.tell(params, value(params))
    optimizer.save(tmp_path / "run.json")
    loaded = Optimizer.load(tmp_path / "run.json")
    assert loaded.space == optimizer.space
    assert loaded.ask() == optimizer.ask()
    before = json.loads((tmp_path / "run.json").read_text())
    del before["space"]["constraints"]  # as runs were saved before there were constraints
    (tmp_path / "old.json").write_text(json.dumps(before))
    assert Optimizer.load(tmp_path / "old.json").space.constraints == ()


@pytest.mark.parametrize("scale", [1.0, 1e6, 3e-5])
@pytest.mark.parametrize("log", [False, True])
def test_a_suggestion_keeps_a_constraint_to_the_last_digit(scale: float, log: bool) -> None:
    low = 1e-3 * scale if log else 0.0
    names = ("a", "b", "c")
    texts = [f"a + b + c <= {1.1 * scale!r}", f"0.3*a + 0.7*c <= {0.31 * scale!r}", "2*b >= c"]
    space = Space({name: Float(low, scale, log=log) for name in names}, texts)
    optimizer = Optimizer(space, seed=0, graph=FactorGraph.singletons(3), n_initial=3)
    for _ in range(12):
        p = optimizer.ask()
        assert p["a"] + p["b"] + p["c"] <= 1.1 * scale
        assert 0.3 * p["a"] + 0.7 * p["c"] <= 0.31 * scale
        assert 2 * p["b"] >= p["c"]
        optimizer.tell(p, -(2 * p["a"] + 1.3 * p["b"] + 1.1 * p["c"]) / scale)


@pytest.mark.parametrize("n_initial", [1, 9])
def test_a_region_of_a_few_points_is_exhausted_soon(n_initial: int) -> None:
    space = Space({"a": Float(0, 1), "b": Int(0, 3)}, ["a - b <= 0", "a - b >= 0"])
    optimizer = Optimizer(space, seed=0, n_initial=n_initial)
    draws = 0
    plain = Region.draw

    def counted(*args: Any) -> Any:
        nonlocal draws
        draws += 1
        assert draws <= 400
        return plain(*args)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Region, "draw", counted)
        met = []
        for _ in range(2):
            met.append(optimizer.ask())
            optimizer.tell(met[-1], 1.0)
        with pytest.raises(SpaceExhausted):
            optimizer.ask()
    assert sorted(p["b"] for p in met) == [0, 1]
    assert draws > 0
