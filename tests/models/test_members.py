"""CommitteeBuilder: the same committee from empty and from carried fits, and what each member is."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy.stats import norm

from dechbo import Categorical, FactorGraph, Float, Space
from dechbo.data.evaluation import Evaluation
from dechbo.data.observations import Observations
from dechbo.gp import AdditiveGP
from dechbo.gp.radial import RadialGP
from dechbo.models.committee import Committee
from dechbo.models.fits import FORECAST_BLOCKS, Fits, cold_size, previous_size
from dechbo.models.members import MAX_WARM, CommitteeBuilder
from dechbo.models.options import ALL_MEMBERS, ModelOptions

Array = NDArray[np.float64]

SPACE = Space({"a": Float(0, 1), "b": Float(0, 1), "c": Categorical(["p", "q", "r"])})
CHAIN = FactorGraph(3, ((0, 1), (1, 2)))


def builder(graph: FactorGraph | str = CHAIN, *, noise: float | None = None, **options: Any) -> CommitteeBuilder:
    return CommitteeBuilder(SPACE, graph, 3, -1.0, noise, 2, ModelOptions(**options))


def table(n: int, seed: int = 0, *, failures: float = 0.0) -> tuple[list[Evaluation], list[Array]]:
    """A steep function, some failures, and two constraints, of which one is told late and has far outliers."""
    rng = np.random.default_rng(seed)
    points = [SPACE.from_uniform(u) for u in rng.random((n, 3))]
    told = []
    for k, point in enumerate(points):
        value = float(np.exp(5 * point[0]) + point[1] * point[2])
        limits = {"size": float(point[0] - 0.5)}
        if k >= 4:
            limits["far"] = float(rng.standard_normal() * 10 ** rng.uniform(-1, 4))
        failed = rng.random() < failures and k > 0
        told.append(Evaluation.of(SPACE.decode(point), None if failed else value, None, limits))
    return told, points


def numbers(committee: Committee) -> list[Any]:
    """Everything that a suggestion depends on, bit for bit."""
    own = [committee.scale, committee.weights.tolist(), committee.data.X.tolist(), committee.data.y.tolist()]
    for member, posterior in zip(committee.members, committee.posteriors, strict=True):
        own += [member.name, posterior.L.tolist(), posterior.alpha.tolist()]
    limits = [*committee.constraints.items(), *(() if committee.success is None else (("success", committee.success),))]
    return [*own, *((name, numbers(limit)) for name, limit in limits)]


@pytest.mark.parametrize("graph", [CHAIN, "random", "learned"], ids=["given", "random", "learned"])
def test_empty_fits_give_the_committee_of_carried_ones(graph: FactorGraph | str) -> None:
    """Bit for bit, at every length of a run with failures, a steep objective and constraints."""
    made, (told, points) = builder(graph, members=("smooth", "whole")), table(23, failures=0.1)
    fits = Fits()
    for n in range(1, 24):
        carried, fits = made.build(told[:n], points, fits)
        if n in (1, 6, 9, 10, 14, 20, 23):
            assert numbers(carried) == numbers(made.build(told[:n], points, Fits())[0]), n


@settings(max_examples=4, phases=[Phase.explicit, Phase.generate])  # a failure is slow to shrink
@given(st.integers(0, 10**6), st.lists(st.integers(1, 45), min_size=1, max_size=3))
def test_fits_of_any_earlier_ask_save_work_and_change_nothing(seed: int, lengths: list[int]) -> None:
    made, (told, points) = builder(members=("whole", "scaled")), table(45, seed)
    fits = Fits()
    for n in sorted(lengths):
        carried, fits = made.build(told[:n], points, fits)
        assert numbers(carried) == numbers(made.build(told[:n], points, Fits())[0])


def test_a_forecast_is_what_the_cold_fit_says_of_each_new_value_from_the_ones_before() -> None:
    """Oracle: condition the cold fit on every value before, add the noise, take the normal density."""
    made, (told, points) = builder(members=("smooth", "whole", "scaled")), table(16)
    committee, fits = made.build(told, points, Fits())
    cold = fits.cold
    assert cold is not None
    assert cold.scale.width is not None  # in warped units: the values are steep
    raw = Observations(np.array(points), np.array([-evaluation.number_value for evaluation in told]))
    data = cold.scale.observations(raw)
    assert committee.forecasts is not None
    assert committee.forecasts.shape == (3, 6)
    for member, forecasts in zip(cold.members, committee.forecasts, strict=True):
        gp = member.gp
        level = gp.noise if isinstance(gp, RadialGP) else gp.hyperparameters.noise
        for k, forecast in enumerate(forecasts, start=10):
            mean, deviation = gp.condition(data.first(k)).joint(data.X[k : k + 1])
            expected = norm.logpdf(data.y[k], mean[0], np.sqrt(deviation[0] ** 2 + level))
            assert forecast == pytest.approx(float(expected), rel=1e-6, abs=1e-6)


@pytest.mark.parametrize("outlier", [1e200, -1e200, 1e308])
def test_forecasts_survive_an_outlier(outlier: float) -> None:
    """Warnings are errors here: nothing overflows, and the values after the outlier still have forecasts."""
    made, (told, points) = builder(members=("smooth", "whole"), warp=False), table(16)
    tiny = [Evaluation.of(e.params, 1e-200 * e.number_value) for e in told]
    tiny[12] = Evaluation.of(told[12].params, outlier)
    committee, _ = made.build(tiny, points, Fits())
    assert committee.forecasts is not None
    assert np.isfinite(committee.forecasts).all()
    assert committee.weights.sum() == pytest.approx(1.0)


def test_forecasts_reach_back_a_few_cold_fits_and_know_nothing_of_what_comes_later() -> None:
    made, (told, points) = builder(members=("whole",), warp=False), table(47)
    for n in (5, 10, 14, 20, 29, 30, 47):
        begin = cold_size(n)
        for _ in range(FORECAST_BLOCKS):
            begin = previous_size(begin) or begin
        forecasts = made.build(told[:n], points, Fits())[0].forecasts
        assert forecasts is not None
        assert forecasts.shape == (1, n - begin), n
    others = [*told[:44], *(Evaluation.of(e.params, 1e3) for e in told[44:])]
    before, after = (made.build(evaluations, points, Fits())[0].forecasts for evaluations in (told, others))
    assert before is not None
    assert after is not None
    np.testing.assert_array_equal(before[:, :-3], after[:, :-3])
    assert (before[:, -3:] != after[:, -3:]).all()


def test_a_cold_fit_and_a_graph_are_kept_until_they_are_due() -> None:
    made, (told, points) = builder("learned", members=("smooth",)), table(21)
    _, ten = made.build(told[:10], points, Fits())
    _, later = made.build(told[:19], points, ten)
    assert later.cold is ten.cold
    assert later.graph is None  # learned in between, for the next cold fit
    assert later.latest_graph is not None
    assert later.latest_graph.size == 15
    _, twenty = made.build(told[:20], points, later)
    assert twenty.cold is not None
    assert twenty.cold.size == 20
    assert twenty.graph is later.latest_graph
    smooth = twenty.cold.members[0].gp
    assert isinstance(smooth, AdditiveGP)
    assert smooth.graph == later.latest_graph.graph


@pytest.mark.parametrize(("n", "members"), [(1, ALL_MEMBERS), (12, ALL_MEMBERS), (12, ("rough", "sparse"))])
def test_every_member_is_built(n: int, members: tuple[str, ...]) -> None:
    told, points = table(n)
    committee, _ = builder("learned", members=members).build(told, points, Fits())
    assert [member.name for member in committee.members] == list(members)
    small = {"smooth", "rough"}
    assert all(isinstance(m.gp, AdditiveGP if m.name in small else RadialGP) for m in committee.members)
    assert committee.weights.sum() == pytest.approx(1.0)
    assert np.isfinite(committee.moments(np.array(points))).all()


def test_a_rough_member_has_shorter_lengthscales_than_a_smooth_one() -> None:
    told, points = table(15)
    committee, _ = builder(members=("smooth", "rough")).build(told, points, Fits())
    smooth, rough = (member.gp for member in committee.members)
    assert isinstance(smooth, AdditiveGP)
    assert isinstance(rough, AdditiveGP)
    assert np.median(rough.hyperparameters.lengthscales[:2]) < np.median(smooth.hyperparameters.lengthscales[:2])


def test_a_given_graph_is_closed_where_kernels_are_centred() -> None:
    told, points = table(6)
    for centred, scopes in ((True, CHAIN.with_subsets().scopes), (False, CHAIN.scopes)):
        made = builder(members=("smooth",), centred=centred)
        gp = made.build(told, points, Fits())[0].members[0].gp
        assert isinstance(gp, AdditiveGP)
        assert gp.graph.scopes == scopes
        assert (gp.domains is not None) == centred


def test_larger_is_better_inside_and_failures_are_left_out() -> None:
    told, points = table(14, failures=0.3)
    committee, _ = builder(members=("whole",)).build(told, points, Fits())
    values = [evaluation.number_value for evaluation in told if not evaluation.failed]
    assert len(values) < 14
    assert len(committee.data) == len(values)
    assert int(committee.data.y.argmax()) == int(np.argmin(values))
    assert committee.scale.original(float(committee.data.y.max())) == pytest.approx(-min(values))


def test_constraints_have_committees_on_their_negatives() -> None:
    told, points = table(12)
    committee, fits = builder(members=ALL_MEMBERS).build(told, points, Fits())
    assert list(committee.constraints) == ["far", "size"]
    assert set(fits.constraints) == {"far", "size"}
    assert len(committee.constraints["far"].data) == 8  # told from the fifth evaluation on
    size = committee.constraints["size"]
    assert {member.name for member in size.members} == {"whole", "scaled", "sparse"}
    assert size.scale.width is None
    mean, _ = size.predict(np.array([0.9, 0.5, 0.0]))
    assert mean == pytest.approx(-0.4, abs=0.1)
    only_small, _ = builder(members=("smooth",)).build(told, points, Fits())
    assert [member.name for member in only_small.constraints["size"].members] == ["whole"]


def test_the_noise_that_the_user_gave_keeps_its_units() -> None:
    told, points = table(12)
    committee, _ = builder(noise=0.04, members=("smooth", "whole")).build(told, points, Fits())
    unit = committee.scale.standardisation.scale
    assert committee.scale.width is None  # a warp would make the noise of every value another one
    for member in committee.members:
        level = member.gp.noise if isinstance(member.gp, RadialGP) else member.gp.hyperparameters.noise
        assert level == pytest.approx(0.04 / unit**2)


def test_a_warp_is_chosen_for_steep_values_and_not_for_plain_ones() -> None:
    """exp of a smooth function hides everything near its best value; the function itself does not."""
    rng = np.random.default_rng(0)
    points = [SPACE.from_uniform(u) for u in rng.random((40, 3))]

    def told(steep: bool) -> list[Evaluation]:
        smooth = [3 * np.sin(3 * p[0]) + 3 * p[1] for p in points]
        return [
            Evaluation.of(SPACE.decode(p), float(np.exp(2 * s) if steep else s))
            for p, s in zip(points, smooth, strict=True)
        ]

    made = builder(members=("whole",))
    steep, plain = (made.build(told(flag), points, Fits())[0].scale.width for flag in (True, False))
    assert steep is not None
    assert plain is None
    assert builder(members=("whole",), warp=False).build(told(True), points, Fits())[0].scale.width is None


@pytest.mark.parametrize("values", [[5.0] * 12, [1e300, -1e300] * 6, [1e-300 * k for k in range(12)]])
def test_odd_values_are_modelled(values: list[float]) -> None:
    _, points = table(12)
    told = [Evaluation.of(SPACE.decode(p), v) for p, v in zip(points, values, strict=True)]
    committee, _ = builder("learned").build(told, points, Fits())
    assert np.isfinite(committee.moments(np.array(points))).all()
    assert np.isfinite(committee.predict(points[0])).all()
    assert committee.weights.sum() == pytest.approx(1.0)


def test_equal_points_with_different_values_are_modelled() -> None:
    _, points = table(3)
    told = [Evaluation.of(SPACE.decode(p), float(k)) for k, p in enumerate(itertools.islice(points * 4, 12))]
    committee, _ = builder().build(told, points * 4, Fits())
    assert np.isfinite(committee.moments(np.array(points))).all()


def test_beyond_many_evaluations_the_hyperparameters_of_the_cold_fit_stay() -> None:
    made, (told, points) = builder(members=("whole",), warp=False), table(MAX_WARM + 5)
    told = [Evaluation.of(evaluation.params, evaluation.value) for evaluation in told]
    few, fits = made.build(told[: MAX_WARM - 1], points, Fits())
    assert fits.cold is not None
    assert few.members[0] is not fits.cold.members[0]
    many, fits = made.build(told, points, fits)
    assert fits.cold is not None
    assert many.members[0] is fits.cold.members[0]
    assert len(many.data) == MAX_WARM + 5
    assert numbers(many) == numbers(made.build(told, points, Fits())[0])


def test_beyond_many_evaluations_a_given_noise_follows_the_scale_of_all_values() -> None:
    evaluations, points = table(MAX_WARM + 15)
    evaluations[-1] = Evaluation.of(evaluations[-1].params, 1000.0)  # after the cold fit: the scale of the values grows
    committee, _ = builder(noise=0.5, members=("smooth", "whole")).build(evaluations, points, Fits())
    level = 0.5 / committee.scale.standardisation.scale**2
    for member in committee.members:
        gp = member.gp
        assert (gp.noise if isinstance(gp, RadialGP) else gp.hyperparameters.noise) == pytest.approx(level)


def test_where_evaluations_fail_is_learned() -> None:
    rng = np.random.default_rng(4)
    points = [SPACE.from_uniform(u) for u in rng.random((40, 3))]
    told = [Evaluation.of(SPACE.decode(p), None if p[0] > 0.6 else float(p[1])) for p in points]
    committee, fits = builder().build(told, points, Fits())
    assert committee.success is not None
    assert len(committee.success.data) == 40  # failures, too
    assert len(committee.data) == sum(not evaluation.failed for evaluation in told)
    low, high = (np.array([[a, 0.5, 1.0]]) for a in (0.2, 0.95))
    assert committee.success.predict(low[0])[0] > 0.5
    assert committee.success.predict(high[0])[0] < -0.5
    again, _ = builder().build(told, points, fits)
    assert numbers(again) == numbers(committee)


def test_without_failures_there_is_no_model_of_them() -> None:
    told, points = table(12)
    committee, fits = builder().build(told, points, Fits())
    assert committee.success is None
    assert fits.success is None


def test_beyond_many_evaluations_a_new_tree_needs_no_fit() -> None:
    made, (told, points) = builder("random", members=("smooth", "whole")), table(MAX_WARM + 7)
    first, fits = made.build(told[: MAX_WARM + 5], points, Fits())
    assert fits.fitted == cold_size(MAX_WARM + 5)
    second, fits = made.build(told, points, fits)
    assert fits.fitted == cold_size(MAX_WARM + 7)
    lengths = []
    for committee in (first, second):
        gp = committee.members[0].gp
        assert isinstance(gp, AdditiveGP)
        lengths.append(gp.hyperparameters.lengthscales)
    np.testing.assert_array_equal(lengths[0], lengths[1])
