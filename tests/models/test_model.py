"""When the hyperparameters of a model stay."""

from __future__ import annotations

import numpy as np
import pytest

from dechbo.data.evaluation import Evaluation
from dechbo.graph import FactorGraph
from dechbo.models.builder import ModelBuilder
from dechbo.models.model import OUTLIER_DEVIATIONS, REBUILD_EVERY, refit_interval
from optimizer_cases import box


def test_a_refit_is_due_once_the_observations_have_grown_by_a_twentieth() -> None:
    assert [refit_interval(n) for n in (1, 19, 20, 39, 40, 100, 1000)] == [1, 1, 1, 1, 2, 5, 50]


@pytest.mark.parametrize("n", [10, 61])
def test_what_a_model_says_of_the_next_one_is_true(n: int) -> None:
    """``is_reused_after`` against the next model, one observation later, over a whole period of asks."""
    X = np.random.default_rng(0).random((n + REBUILD_EVERY, 2))
    told = [Evaluation.of({"x0": a, "x1": b}, float(a - b * b)) for a, b in X]
    builder = ModelBuilder(box(2), FactorGraph.singletons(2), 0, 1.0)
    model = builder.advance(None, 0, told[:n], list(X))
    for index in range(REBUILD_EVERY - 1):
        after = builder.advance(model, index + 1, told[: n + index + 1], list(X))
        assert model.is_reused_after(index) == (not after.refitted) == (after.gp is model.gp)
        model = after
    assert not model.is_reused_after(REBUILD_EVERY - 1)  # the next ask fits its model cold


def test_an_outlier_makes_a_refit_due_at_once() -> None:
    X = np.random.default_rng(0).random((62, 1))
    told = [Evaluation.of({"x0": x}, float(x)) for x in X[:, 0]]
    builder = ModelBuilder(box(1), FactorGraph.singletons(1), 0, 1.0)
    model = builder.advance(None, 0, told[:60], list(X))
    for size, refitted in ((0.5, False), (2.0, True)):
        far = model.scaling.original(size * OUTLIER_DEVIATIONS)
        more = [*told[:60], Evaluation.of(told[60].params, far)]
        assert builder.advance(model, 1, more, list(X)).refitted == refitted
