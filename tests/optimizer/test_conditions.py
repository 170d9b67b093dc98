"""Runs over spaces with conditional parameters."""

from __future__ import annotations

import itertools
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from dechbo import Categorical, Exact, Float, Int, Optimizer, Space
from dechbo.acquisition import EnsembleUCB
from dechbo.acquisition.score import ConfidenceBound
from dechbo.errors import SpaceExhausted
from dechbo.search.grid_search import FactorSearch
from dechbo.search.joint_search import CanonicalScore

Array = NDArray[np.float64]

SPACE = Space(
    {
        "clf": Categorical(["svm", "forest"]),
        "C": Float(1e-3, 1e3, log=True, when={"clf": "svm"}),
        "kernel": Categorical(["rbf", "linear"], when={"clf": "svm"}),
        "gamma": Float(1e-4, 10, log=True, when={"kernel": "rbf"}),
        "depth": Int(1, 20, when={"clf": "forest"}),
        "x": Float(0, 1),
    }
)


def objective(params: dict[str, Any]) -> float:
    value = (params["x"] - 0.4) ** 2
    if params["clf"] == "forest":
        return float(value + 0.3 + abs(params["depth"] - 7) * 0.02)
    value += 0.1 * (math.log10(params["C"]) - 1) ** 2
    if params["kernel"] == "linear":
        return float(value + 0.2)
    return float(value + 0.1 * (math.log10(params["gamma"]) + 2) ** 2)


def run(optimizer: Optimizer, count: int) -> Optimizer:
    for _ in range(count):
        params = optimizer.ask()
        assert set(params) == optimizer.space.active(params)
        optimizer.tell(params, objective(params))
    return optimizer


def test_the_best_branch_is_found_and_its_own_parameters_are_tuned() -> None:
    """A random search of 30 ends at 0.1 and more."""
    optimizer = run(Optimizer(SPACE, seed=1), 30)
    assert optimizer.best is not None
    assert optimizer.best.value is not None
    assert optimizer.best.value < 0.01
    assert optimizer.best.params["kernel"] == "rbf"
    branches = {evaluation.params["clf"] for evaluation in optimizer.evaluations}
    assert branches == {"svm", "forest"}
    mean, deviation = optimizer.predict(optimizer.best.params)
    assert abs(mean - optimizer.best.value) < 3 * deviation + 0.01


@pytest.mark.parametrize("paper", [False, True])
def test_a_run_that_is_saved_goes_on_with_the_same_points(paper: bool, tmp_path: Path) -> None:
    optimizer = run((Optimizer.paper if paper else Optimizer)(SPACE, seed=3, n_initial=5), 8)
    optimizer.save(tmp_path / "run.json")
    again = Optimizer.load(tmp_path / "run.json")
    assert again.space == SPACE
    assert again.ask(3) == optimizer.ask(3)


def test_a_finite_space_is_exhausted_after_each_of_its_points_came_once() -> None:
    space = Space(
        {
            "clf": Categorical(["svm", "forest"]),
            "k": Int(1, 3, when={"clf": "svm"}),
            "depth": Int(1, 4, when={"clf": "forest"}),
        }
    )
    optimizer = Optimizer(space, seed=0, n_initial=2)
    seen = []
    for _ in range(7):
        params = optimizer.ask()
        seen.append(tuple(params.items()))
        optimizer.tell(params, float(len(seen)))
    assert len(set(seen)) == 7
    with pytest.raises(SpaceExhausted, match="of all 7 points only 0"):
        optimizer.ask()


def test_parts_can_be_fixed() -> None:
    optimizer = run(Optimizer(SPACE, seed=0, n_initial=4), 6)
    for fixed in ({"clf": "forest"}, {"gamma": 0.01}, {"depth": 5}):
        params = optimizer.ask(fixed=fixed)
        assert fixed.items() <= params.items()
        assert set(params) == SPACE.active(params)


def test_max_sum_respects_the_conditions_and_certifies_the_best_allowed_setting() -> None:
    """On a finite space, the paper's acquisition by enumeration of the allowed settings is the oracle."""
    space = Space(
        {
            "clf": Categorical(["svm", "forest"]),
            "k": Int(1, 4, when={"clf": "svm"}),
            "depth": Int(1, 5, when={"clf": "forest"}),
            "n": Int(1, 3),
        }
    )
    optimizer = Optimizer.paper(space, seed=2, n_initial=6, maximizer=Exact())
    values = {
        (c, k, n): float(np.sin(3 * k + n) + (c == "svm") * 0.3)
        for c in ("svm", "forest")
        for k in range(1, 6)
        for n in range(1, 4)
    }
    for _ in range(9):
        params = optimizer.ask()
        key = (params["clf"], params.get("k") or params["depth"], params["n"])
        optimizer.tell(params, values[key])
    suggestion = optimizer.ask()
    info = optimizer.info
    assert info is not None
    assert info.certified
    model = optimizer._beliefs.factor_model(optimizer._history)
    posterior = model.gp.condition(model.data)
    known = {tuple(sorted(e.params.items())) for e in optimizer.evaluations}
    settings = [
        {"clf": c, ("k" if c == "svm" else "depth"): k, "n": n}
        for c, n in itertools.product(("svm", "forest"), (1, 2, 3))
        for k in range(1, 5 if c == "svm" else 6)
    ]
    acquisition = EnsembleUCB.of(posterior, info.beta)
    scores = {
        tuple(sorted(s.items())): float(acquisition.values(space.encode(s)[None])[0])
        for s in settings
        if tuple(sorted(s.items())) not in known
    }
    assert scores[tuple(sorted(suggestion.items()))] == pytest.approx(max(scores.values()))


def test_points_beside_excluded_ones_keep_the_conditions(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where the grid's maximiser is excluded, the search goes outward from it, one coordinate at a time."""

    def outward(self: FactorSearch, at_grid: Array, *_: object) -> tuple[float, Array]:
        return self.best_not_excluded(at_grid)

    monkeypatch.setattr(FactorSearch, "_polished", outward)
    for seed in range(4):
        optimizer = run(Optimizer.paper(SPACE, seed=seed, n_initial=5), 6)
        points = optimizer.ask(12)
        assert all(set(params) == SPACE.active(params) for params in points)
        assert len({tuple(sorted(params.items())) for params in points}) == 12


def test_the_score_of_a_search_ignores_inactive_coordinates() -> None:
    optimizer = run(Optimizer(SPACE, seed=5, n_initial=6), 8)
    committee = optimizer._beliefs.committee(optimizer._history)
    score = CanonicalScore(ConfidenceBound(committee.deciding(), 0.5), SPACE)
    rng = np.random.default_rng(0)
    raw = np.array(
        [[p.from_uniform(u) for p, u in zip(SPACE.parameters, row, strict=True)] for row in rng.random((20, 6))]
    )
    active = SPACE.conditions.active(raw)
    other = np.where(active, raw, rng.permuted(raw, axis=0))
    np.testing.assert_array_equal(score.values(raw), score.values(other))
    values, slopes = score.gradients(raw)
    np.testing.assert_allclose(values, score.values(raw))
    assert (slopes[~active] == 0).all()
    for i in np.flatnonzero(SPACE.is_continuous).tolist():
        step = 1e-6 * np.eye(SPACE.dim)[i]
        slope = (score.values(raw + step) - score.values(raw - step)) / 2e-6
        inside = (raw[:, i] > SPACE.lowest[i] + 1e-3) & (raw[:, i] < 1 - 1e-3)
        np.testing.assert_allclose(slopes[inside, i], slope[inside], atol=1e-4)
