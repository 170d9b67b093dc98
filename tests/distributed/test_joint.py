from __future__ import annotations

import numpy as np
import pytest
from scipy.optimize import minimize

from dechbo.acquisition.score import ConfidenceBound, LogExpectedImprovement
from dechbo.data.observations import Observations
from dechbo.distributed.ascent import ascend
from dechbo.distributed.engine import PartsEngine
from dechbo.distributed.exchange import Place, Program
from dechbo.distributed.in_process import run_in_process
from dechbo.distributed.joint import (
    AdditiveShare,
    Moments,
    PartPosterior,
    PartScore,
    RadialShare,
    condition_additive,
    condition_radial,
)
from dechbo.distributed.partition import partition
from dechbo.distributed.plan import PartPlan, plan_parts
from dechbo.gp import AdditiveGP
from dechbo.gp.posterior import WeightedPosterior
from dechbo.gp.radial import ColumnEmbedding, RadialGP
from distributed_cases import random_data, random_gp

DIM, PARTS = 12, 3


def additive_shares(gp: AdditiveGP, data: Observations) -> tuple[list[PartPlan], list[AdditiveShare]]:
    """The model in parts, with links for the variables of all factors."""
    cut = partition(gp.graph, np.full(DIM, 3), PARTS)
    plans = plan_parts(gp.graph, np.full(DIM, 3), cut, as_cyclic=True)
    tasks = PartsEngine(parts=PARTS).tasks(gp, data, 1.0, [np.linspace(0, 1, 3)] * DIM)
    programs = [
        condition_additive(plan.graph.cyclic, task.model, task.model.shares[0])
        for plan, task in zip(plans, tasks, strict=True)
    ]
    return plans, run_in_process(programs)


def radial_shares(gp: RadialGP, data: Observations, plans: list[PartPlan]) -> list[RadialShare]:
    programs = []
    for p, plan in enumerate(plans):
        own = plan.graph.variables[: plan.graph.own]
        part = RadialGP(
            ColumnEmbedding(tuple(gp.embedding.categories[i] for i in own)),
            gp.relevances[own],
            gp.variance,
            gp.noise,
            gp.kernel,
        )
        programs.append(condition_radial(Place(p, len(plans)), part, data.X[:, own], data.y, data.noise))
    return run_in_process(programs)


def check(
    plans: list[PartPlan], shares: list[PartPosterior], expected: tuple[np.ndarray, ...], points: np.ndarray
) -> None:
    own = [plan.graph.variables[: plan.graph.own] for plan in plans]
    found: list[Moments] = run_in_process(
        [share.moments(points[:, mine]) for share, mine in zip(shares, own, strict=True)]
    )
    for moments, mine in zip(found, own, strict=True):
        np.testing.assert_allclose(moments.mean, expected[0], atol=1e-10)
        np.testing.assert_allclose(moments.deviation, expected[1], atol=1e-8)
        np.testing.assert_allclose(moments.mean_slope, expected[2][:, mine], atol=1e-9)
        np.testing.assert_allclose(moments.deviation_slope, expected[3][:, mine], atol=1e-6)


@pytest.mark.parametrize("centred", [False, True])
def test_the_joint_moments_of_small_factors(centred: bool) -> None:
    rng = np.random.default_rng(0)
    gp, data, points = random_gp(rng, DIM, centred=centred), random_data(rng, DIM, 25), rng.random((6, DIM))
    plans, shares = additive_shares(gp, data)
    check(plans, list(shares), gp.condition(data).joint_gradient(points), points)


@pytest.mark.parametrize("kernel", ["matern52", "se"])
def test_the_joint_moments_of_a_factor_over_all_variables(kernel: str) -> None:
    rng = np.random.default_rng(1)
    data, points = random_data(rng, DIM, 25), rng.random((6, DIM))
    categories = (0,) * 10 + (3, 2)
    for i, many in enumerate(categories):
        if many:
            points[:, i] = rng.integers(0, many, len(points))
    X = data.X.copy()
    X[:, 10], X[:, 11] = rng.integers(0, 3, 25), rng.integers(0, 2, 25)
    data = Observations(X, data.y, data.noise)
    gp = RadialGP(ColumnEmbedding(categories), rng.uniform(0.1, 1, DIM), 1.3, 1e-3, kernel)
    plans, _ = additive_shares(random_gp(rng, DIM), data)
    shares = radial_shares(gp, data, plans)
    check(plans, list(shares), gp.condition(data).joint_gradient(points), points)
    assert all(share.X.shape[1] == plan.graph.own < DIM for share, plan in zip(shares, plans, strict=True))


@pytest.mark.parametrize("threshold", [None, 0.5])
def test_the_score_of_a_committee(threshold: float | None) -> None:
    rng = np.random.default_rng(2)
    small, data, points = random_gp(rng, DIM), random_data(rng, DIM, 25), rng.random((5, DIM))
    radial = RadialGP(ColumnEmbedding((0,) * DIM), rng.uniform(0.1, 1, DIM), 1.0, 1e-3)
    plans, first = additive_shares(small, data)
    second = radial_shares(radial, data, plans)
    members: list[WeightedPosterior] = [(0.4, small.condition(data)), (0.6, radial.condition(data))]
    central = ConfidenceBound(members, 0.5) if threshold is None else LogExpectedImprovement(members, threshold)
    values, slopes = central.gradients(points)
    own = [plan.graph.variables[: plan.graph.own] for plan in plans]

    def program(p: int) -> Program[tuple[np.ndarray, np.ndarray]]:
        score = PartScore([(0.4, first[p]), (0.6, second[p])], threshold)
        return score.gradients(points[:, own[p]])

    for p, (found, found_slopes) in enumerate(run_in_process([program(p) for p in range(PARTS)])):
        np.testing.assert_allclose(found, values, atol=1e-7)
        np.testing.assert_allclose(found_slopes, slopes[:, own[p]], atol=1e-5)


def test_each_part_polishes_its_own_coordinates() -> None:
    rng = np.random.default_rng(4)
    small, data, start = random_gp(rng, DIM), random_data(rng, DIM, 25), rng.random((3, DIM))
    radial = RadialGP(ColumnEmbedding((0,) * DIM), rng.uniform(0.1, 1, DIM), 1.0, 1e-3)
    plans, first = additive_shares(small, data)
    second = radial_shares(radial, data, plans)
    central = ConfidenceBound([(0.4, small.condition(data)), (0.6, radial.condition(data))], 0.5)
    own = [plan.graph.variables[: plan.graph.own] for plan in plans]

    def program(p: int) -> Program[tuple[np.ndarray, np.ndarray]]:
        score = PartScore([(0.4, first[p]), (0.6, second[p])])
        return ascend(Place(p, PARTS), score.gradients, start[:, own[p]], 0.0, 1.0, 40)

    ends, results = np.empty_like(start), run_in_process([program(p) for p in range(PARTS)])
    for p, (mine, _) in enumerate(results):
        ends[:, own[p]] = mine
    values = results[0][1]
    np.testing.assert_allclose(central.values(ends), values, atol=1e-7)
    for end, begin in zip(ends, start, strict=True):
        best = minimize(
            lambda x: tuple(-part[0] for part in central.gradients(x[None])), begin, jac=True, bounds=[(0, 1)] * DIM
        )
        assert central.values(begin[None])[0] < central.values(end[None])[0] > -best.fun - 0.02
