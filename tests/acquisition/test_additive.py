from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dechbo.acquisition import AdditiveUCB
from dechbo.data.observations import Observations
from dechbo.gp import AdditiveGP, Hyperparameters
from dechbo.graph import FactorGraph
from gp_strategies import Case, cases


@settings(max_examples=60)
@given(cases(max_size=5), st.sampled_from([0.0, 0.5, 20.0]), st.integers(0, 2))
def test_gradient_equals_differences(case: Case, beta: float, pending: int) -> None:
    posterior = case.gp.condition(case.data).with_pending(case.points(pending))
    acquisition = AdditiveUCB(posterior, beta)
    point = case.points(1)[0]
    value, gradient = acquisition.value_and_gradient(point)
    assert value == pytest.approx(acquisition.values(point[None])[0], rel=1e-9, abs=1e-9)
    step = 1e-5
    for i, name in enumerate(case.gp.kernels):
        if name == "categorical":
            assert gradient[i] == 0
            continue
        shift = step * np.eye(len(point))[i]
        ahead, behind = acquisition.values(np.array([point + shift, point - shift]))
        assert gradient[i] == pytest.approx((ahead - behind) / (2 * step), rel=1e-5, abs=1e-5)


@settings(max_examples=40)
@given(cases(max_size=5), st.sampled_from([0.0, 2.0]))
def test_components_and_values_are_those_of_the_factors(case: Case, beta: float) -> None:
    posterior = case.gp.condition(case.data)
    acquisition = AdditiveUCB(posterior, beta)
    points = case.points(3)
    values = acquisition.values(points)
    for point, value in zip(points, values, strict=True):
        means, deviations = acquisition.factor_moments(point)
        expected = [posterior.factor(k, point[None, scope]) for k, scope in enumerate(case.gp.graph.scopes)]
        np.testing.assert_allclose(means, [mean[0] for mean, _ in expected], rtol=1e-9, atol=1e-10)
        np.testing.assert_allclose(deviations**2, [s[0] ** 2 for _, s in expected], rtol=1e-9, atol=1e-10)
        assert value == pytest.approx(means.sum() + np.sqrt(beta) * deviations.sum(), rel=1e-9, abs=1e-9)


def test_the_gradient_is_finite_where_a_deviation_vanishes() -> None:
    data = Observations(np.array([[0.2], [0.7]]), np.array([1.0, -1.0]))
    gp = AdditiveGP(FactorGraph(1, ((0,),)), Hyperparameters([0.3], [1.0], 0.0))
    value, gradient = AdditiveUCB(gp.condition(data), 4.0).value_and_gradient(np.array([0.2]))
    assert value == pytest.approx(1.0, abs=1e-6)
    assert np.isfinite(gradient).all()
