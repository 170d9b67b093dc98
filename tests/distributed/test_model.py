from __future__ import annotations

import numpy as np
import pytest

from dechbo.acquisition import acquisition_tables
from dechbo.distributed.engine import PartsEngine
from dechbo.distributed.in_process import run_in_process
from dechbo.distributed.model import build_tables
from dechbo.gp import Surrogate
from dechbo.gp.gram import fixed_point_gram
from distributed_cases import random_data, random_ensemble, random_gp


def model(kind: str, rng: np.random.Generator) -> Surrogate:
    return random_ensemble(rng, 12) if kind == "ensemble" else random_gp(rng, 12, centred=kind == "centred")


@pytest.mark.parametrize("kind", ["plain", "centred", "ensemble"])
@pytest.mark.parametrize("pending", [0, 2])
def test_tables_are_those_of_one_process(kind: str, pending: int) -> None:
    rng = np.random.default_rng(pending)
    gp, data, candidates = model(kind, rng), random_data(rng, 12, 40), [np.linspace(0, 1, 4)] * 12
    awaited = rng.random((pending, 12))
    posterior = gp.condition(data).with_pending(awaited)
    wall = np.zeros((4, 4))
    wall[0, 3] = -np.inf
    extra = [((3, 1), wall), ((0,), rng.random(4))]
    expected = acquisition_tables(posterior, candidates, 2.0).plus(extra)
    first: dict[int, np.ndarray] = {}
    for parts in (1, 3):
        tasks = PartsEngine(parts=parts).tasks(gp, data, 2.0, candidates, pending=awaited, extra=extra)
        assert len(tasks) == parts
        built = run_in_process([build_tables(task.plan, task.model) for task in tasks])
        found = {
            int(k): v
            for t, mine in zip(tasks, built, strict=True)
            for k, v in zip(t.plan.factors, mine.values, strict=False)
        }
        assert sorted(found) == list(range(len(expected.values)))
        for k, table in found.items():
            np.testing.assert_allclose(table, expected.values[k], rtol=0, atol=1e-12)
            assert (table == first.setdefault(k, table)).all()  # the same bits for any partition


def test_a_part_is_told_nothing_of_variables_that_its_factors_do_not_see() -> None:
    rng = np.random.default_rng(3)
    gp, data = random_gp(rng, 30), random_data(rng, 30, 20)
    for task in PartsEngine(parts=3).tasks(gp, data, 1.0, [np.linspace(0, 1, 4)] * 30):
        seen = {i for k in task.plan.factors for i in gp.graph.scopes[k]}
        assert set(task.plan.graph.variables.tolist()) == seen
        assert task.model.X.shape == (20, len(seen)) < (20, 30)
        assert (data.X[:, task.plan.graph.variables] == task.model.X).all()
        assert len(task.model.candidates) == len(seen)
        for share in task.model.shares:
            assert share.gp is not None
            assert share.gp.graph.dim == len(seen)


@pytest.mark.parametrize("centred", [False, True])
def test_the_fixed_point_gram_matrix(centred: bool) -> None:
    rng = np.random.default_rng(4)
    gp, X = random_gp(rng, 9, centred=centred), rng.random((21, 9))
    pairs, variances = gp.correlation.pairs(X), gp.hyperparameters.variances
    whole = fixed_point_gram(gp.graph, pairs, variances, 50)
    np.testing.assert_allclose(np.ldexp(whole.astype(float), -50), gp.gram(X) - gp.constant_variance, atol=1e-13)
    assert (whole == whole.T).all()
