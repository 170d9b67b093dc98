"""From values to those that are modelled and back: round trips, order, Jacobian, extreme values."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from dechbo.data.observations import Observations
from dechbo.models.warp import ValueScale, candidate_widths

Array = NDArray[np.float64]

VALUES = st.lists(st.integers(-(10**6), 10**6), min_size=2, max_size=20, unique=True)


def scale_of(values: Sequence[float], share: float | None) -> tuple[ValueScale, Array]:
    """The scale of some values; its width is a share of their range."""
    y = np.array(values, dtype=float)
    return ValueScale.of(y, None if share is None else share * float(np.ptp(y))), y


@settings(max_examples=60)
@given(VALUES, st.sampled_from([None, 0.05, 1.0, 100.0]))
def test_values_come_back_and_keep_their_order(values: list[int], share: float | None) -> None:
    scale, y = scale_of(values, share)
    z = scale.standard(y)
    assert abs(z.mean()) < 1e-9
    assert z.std() == pytest.approx(1.0, rel=1e-6)
    back = [scale.original(value) for value in z.tolist()]
    np.testing.assert_allclose(back, y, rtol=1e-6, atol=1e-6 * float(np.ptp(y)))
    order = np.argsort(y)
    assert (np.diff(z[order]) >= 0).all()
    assert z.argmax() == y.argmax()


@settings(max_examples=40)
@given(st.integers(0, 10**6), st.sampled_from([None, 0.05, 1.0, 100.0]))
def test_the_jacobian_is_that_of_differences(seed: int, share: float | None) -> None:
    """At values below the best one, where the warp has two sides."""
    scale, y = scale_of(np.random.default_rng(seed).normal(5, 30, 12).tolist(), share)
    inside = np.delete(y, y.argmax())
    step = 1e-6 * float(np.ptp(y))
    inside = inside[inside < scale.best - 2 * step]
    slopes = (scale.standard(inside + step) - scale.standard(inside - step)) / (2 * step)
    assert scale.log_jacobian(inside) == pytest.approx(float(np.log(slopes).sum()), rel=1e-6, abs=1e-6)


def test_a_wide_warp_is_the_identity_and_a_narrow_one_compresses_the_worst() -> None:
    y = np.array([0.0, -1.0, -2.0, -1000.0])
    plain, wide, narrow = (ValueScale.of(y, width).standard(y) for width in (None, 1e9, 1.0))
    np.testing.assert_allclose(wide, plain, atol=1e-5)
    assert narrow[0] - narrow[2] > 50 * (plain[0] - plain[2])  # what lies near the best is told apart


def test_a_deviation_is_half_the_distance_between_its_ends() -> None:
    y = np.linspace(-10, 0, 11)
    plain, warped = ValueScale.of(y), ValueScale.of(y, 2.0)
    assert plain.original_deviation(0.3, 0.5) == pytest.approx(0.5 * y.std())
    ends = warped.original(0.8) - warped.original(-0.2)
    assert warped.original_deviation(0.3, 0.5) == pytest.approx(0.5 * ends)


def test_known_noise_is_scaled_by_the_slope() -> None:
    """A value y +- s becomes z +- s dz/dy, to first order."""
    raw = Observations(np.zeros((4, 1)), np.array([0.0, -1.0, -3.0, -9.0]), np.full(4, 1e-8))
    for width in (None, 2.0):
        scale = ValueScale.of(raw.y, width)
        data = scale.observations(raw)
        np.testing.assert_array_equal(data.y, scale.standard(raw.y))
        moved = scale.standard(raw.y - 1e-4)
        np.testing.assert_allclose(np.sqrt(data.noise), (data.y - moved), rtol=1e-3)


@pytest.mark.parametrize("y", [[1e300, -1e300, 0.0], [1e308, -1e308], [1e-300, 2e-300, 5e-300], [1e300, 1e299, 1.0]])
def test_extreme_values_stay_finite(y: list[float]) -> None:
    """Warnings are errors here."""
    values = np.array(y)
    for width in candidate_widths(values):
        scale = ValueScale.of(values, width)
        assert np.isfinite(scale.standard(values)).all()
        assert np.isfinite(scale.log_jacobian(values))
        assert np.isfinite(scale.observations(Observations(np.zeros((len(y), 1)), values)).y).all()
        assert scale.original(float(scale.standard(values).max())) == pytest.approx(max(y), rel=1e-6)


def test_constant_values_and_a_single_one_have_no_warp() -> None:
    for y in (np.full(5, 7.0), np.array([3.0])):
        assert candidate_widths(y) == [None]
        scale = ValueScale.of(y)
        assert (scale.standard(y) == 0).all()
        assert scale.original(0.0) == y[0]


def test_a_width_is_offered_only_where_values_differ() -> None:
    assert len(candidate_widths(np.arange(10.0))) == 4
    assert candidate_widths(np.array([1.0] * 9 + [0.0])) == [None]  # most values equal the best
