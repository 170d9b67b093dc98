"""Observations and their standardisation."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from dechbo.data.observations import Observations, Standardisation
from dechbo.errors import DataError

Array = NDArray[np.float64]

EPS = np.finfo(float).eps
signs = st.sampled_from([-1.0, 1.0])


@st.composite
def magnitudes(draw: st.DrawFn) -> Array:
    """Values that share one magnitude between 1e-300 and 1e300, or spread over all of them."""
    n = draw(st.integers(1, 12))
    mantissas = draw(st.lists(st.floats(0.1, 1.0), min_size=n, max_size=n))
    exponents = st.floats(-300, 300)
    shared = draw(exponents)
    powers = draw(st.one_of(st.just([shared] * n), st.lists(exponents, min_size=n, max_size=n)))
    return np.array([draw(signs) * m * 10.0**p for m, p in zip(mantissas, powers, strict=True)])


@settings(max_examples=200)
@given(magnitudes())
def test_standardised_values_come_back(y: Array) -> None:
    scaling = Standardisation.of(y)
    z = scaling.standard(y)
    assert np.isfinite(z).all()
    assert scaling.scale > 0
    back = np.array([scaling.original(float(value)) for value in z])
    assert (np.abs(back - y) <= 8 * EPS * np.abs(y).max()).all()


@settings(max_examples=200)
@given(magnitudes())
def test_standardised_values_have_mean_0_and_deviation_1(y: Array) -> None:
    z = Standardisation.of(y).standard(y)
    top = np.abs(y).max()
    spread = (y / top).std()
    # a spread of s of the largest magnitude is known to EPS / s
    error = 100 * EPS / max(spread, EPS)
    assert abs(z.mean()) <= error
    if spread > 1e-12:
        assert abs(z.std() - 1) <= error


@pytest.mark.parametrize("level", [0.0, 1.0, -0.1, 1e300, -1e300, 1e-300, 0.1 + 0.2])
@pytest.mark.parametrize("n", [1, 2, 7, 30])
def test_a_constant_stays_finite_and_comes_back_exactly(level: float, n: int) -> None:
    data = Observations(np.zeros((n, 1)), np.full(n, level))
    standard, scaling = data.standardised()
    assert np.abs(standard.y).max() <= 4 * EPS
    assert [scaling.original(float(z)) for z in standard.y] == pytest.approx([level] * n, rel=4 * EPS, abs=0)


def test_rounding_of_a_constant_is_not_blown_up() -> None:
    y = np.array([0.3, 0.1 + 0.2, 0.3, 0.3])
    assert y.std() > 0
    assert np.abs(Standardisation.of(y).standard(y)).max() <= 4 * EPS


def test_extremes_of_both_signs() -> None:
    y = np.array([1e300, -1e300, 0.5e300])
    scaling = Standardisation.of(y)
    z = scaling.standard(y)
    assert z.std() == pytest.approx(1)
    assert [scaling.original(value) for value in z] == pytest.approx(y, rel=8 * EPS)


def test_standardising_changes_no_order_and_no_affine_image() -> None:
    y = np.random.default_rng(0).normal(size=20)
    z = Standardisation.of(y).standard(y)
    assert (np.argsort(z) == np.argsort(y)).all()
    np.testing.assert_allclose(Standardisation.of(3 * y - 40).standard(3 * y - 40), z, atol=1e-12)


def test_noise_is_scaled_with_the_variance() -> None:
    X, y, noise = np.zeros((3, 2)), np.array([1.0, 5.0, 9.0]), np.array([0.0, 1.0, 4.0])
    standard, scaling = Observations(X, y, noise).standardised()
    np.testing.assert_allclose(standard.noise, noise / np.var(y))
    assert scaling.scale**2 == pytest.approx(np.var(y))


@pytest.mark.parametrize("scale", [1e-300, 1e300])
def test_noise_stays_finite_where_its_square_scale_is_not(scale: float) -> None:
    standard, _ = Observations(
        np.array([[0.0], [1.0]]), np.array([scale, 2 * scale]), np.array([1.0, 0.0])
    ).standardised()
    assert np.isfinite(standard.noise).all()
    assert standard.noise[1] == 0
    assert (standard.noise[0] > 1e6) == (scale < 1)


def test_append_gives_a_new_object() -> None:
    first = Observations(np.array([[0.1, 0.2]]), np.ones(1))
    second = first.append([0.3, 0.4], 2.0, 0.5)
    assert len(first) == 1
    assert len(second) == 2
    assert second.dim == 2
    np.testing.assert_array_equal(second.X, [[0.1, 0.2], [0.3, 0.4]])
    np.testing.assert_array_equal(second.y, [1.0, 2.0])
    np.testing.assert_array_equal(second.noise, [0.0, 0.5])


def test_from_nothing() -> None:
    empty = Observations(np.empty((0, 2)), np.empty(0))
    assert len(empty) == 0
    assert len(empty.append([1, 2], 3.0)) == 1
    assert empty.standardised()[1] == Standardisation(0.0, 1.0)


def test_arrays_are_copied_and_frozen() -> None:
    X, y = np.zeros((2, 1)), np.zeros(2)
    data = Observations(X, y)
    X[0], y[0] = 7, 7
    assert data.X[0, 0] == 0
    assert data.y[0] == 0
    for array in (data.X, data.y, data.noise):
        with pytest.raises(ValueError, match="read-only"):
            array[0] = 1


@pytest.mark.parametrize(
    ("X", "y", "noise"),
    [
        ([0.1, 0.2], [1.0, 2.0], []),
        ([[0.1], [0.2]], [1.0], []),
        ([[0.1]], [[1.0]], []),
        ([[0.1]], [1.0], [0.1, 0.2]),
        ([[np.nan]], [1.0], []),
        ([[0.1]], [np.inf], []),
        ([[0.1]], [np.nan], []),
        ([[0.1]], [1.0], [np.inf]),
        ([[0.1]], [1.0], [-1e-9]),
    ],
)
def test_bad_observations_are_refused(X: Any, y: Any, noise: Any) -> None:
    with pytest.raises(DataError):
        Observations(X, y, noise)


@pytest.mark.parametrize(("point", "value"), [([0.1], 1.0), ([0.1, 0.2, 0.3], 1.0), ([0.1, 0.2], np.nan)])
def test_bad_appended_points_are_refused(point: list[float], value: float) -> None:
    with pytest.raises(DataError):
        Observations(np.array([[0.1, 0.2]]), np.ones(1)).append(point, value)
