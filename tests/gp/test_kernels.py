from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray

from dechbo.errors import OptionError
from dechbo.gp.kernels import KERNELS, correlation_rows, correlations, curvatures, kernel_codes
from gp_strategies import CATEGORIES, draw_points, one_dimensional

Array = NDArray[np.float64]


def columns(name: str, n: int, seed: int) -> Array:
    rng = np.random.default_rng(seed)
    return draw_points(rng, [name], n)[:, 0]


@pytest.mark.parametrize("name", KERNELS)
@pytest.mark.parametrize("lengthscale", [0.02, 0.3, 5.0])
def test_correlations_equal_those_of_scikit_learn(name: str, lengthscale: float) -> None:
    a, b = columns(name, 9, 0), columns(name, 6, 1)
    expected = one_dimensional(name, 0, lengthscale)(a[:, None], b[:, None])
    found = correlations(KERNELS.index(name), a, b, lengthscale)
    np.testing.assert_allclose(found, expected, rtol=1e-11, atol=1e-14)


def test_categories_are_equal_or_not() -> None:
    a = np.arange(float(CATEGORIES))
    found = correlations(KERNELS.index("categorical"), a, a, 0.7)
    np.testing.assert_allclose(found, np.where(np.eye(CATEGORIES) > 0, 1.0, np.exp(-1 / 0.7)))


def test_rows_equal_correlations_and_slopes_equal_differences() -> None:
    names = ["matern52", "se", "categorical", "matern52"]
    codes, lengthscales = kernel_codes(names, 4), np.array([0.1, 0.4, 0.8, 2.0])
    rng = np.random.default_rng(2)
    X, x = draw_points(rng, names, 7), draw_points(rng, names, 1)[0]
    values, slopes = correlation_rows(codes, x, X, lengthscales)
    step = 1e-5
    for i in range(4):
        np.testing.assert_allclose(values[i], correlations(codes[i], x[[i]], X[:, i], lengthscales[i])[0], rtol=1e-12)
        if names[i] == "categorical":
            assert (slopes[i] == 0).all()
            continue
        ahead, behind = correlations(codes[i], x[i] + step * np.array([1.0, -1.0]), X[:, i], lengthscales[i])
        np.testing.assert_allclose(slopes[i], (ahead - behind) / (2 * step), rtol=1e-6, atol=1e-7)


def test_curvatures_are_second_differences_at_zero() -> None:
    names = ["matern52", "se", "categorical"]
    lengthscales = np.array([0.3, 0.5, 1.2])
    found = curvatures(kernel_codes(names, 3), lengthscales)
    step = 1e-4
    for i, name in enumerate(names[:2]):
        at = correlations(KERNELS.index(name), np.array([0.0]), np.array([-step, 0.0, step]), lengthscales[i])[0]
        assert found[i] == pytest.approx(-(at[0] - 2 * at[1] + at[2]) / step**2, rel=2e-3)
    assert found[2] == 0


def test_one_name_serves_all_variables() -> None:
    np.testing.assert_array_equal(kernel_codes("se", 3), kernel_codes(["se"] * 3, 3))
    assert list(kernel_codes(KERNELS, 3)) == [0, 1, 2]


@pytest.mark.parametrize("kernel", ["rbf", "", ["se"], ["se", "se", "se"], ["se", "matern32"]])
def test_unknown_kernels_are_refused(kernel: list[str] | str) -> None:
    with pytest.raises(OptionError):
        kernel_codes(kernel, 2)
