"""One-dimensional correlation functions; a factor's kernel is their product times its variance.

Notation: delta = x - x', l = lengthscale, r = |delta| / l.

==============  =====================================================================
``matern52``    (1 + s + s^2 / 3) exp(-s),  s = sqrt(5) r            (the default)
``se``          exp(-r^2 / 2)
``categorical`` 1 if x = x', otherwise exp(-1 / l): l measures how much the
                categories have in common
==============  =====================================================================
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from dechbo.errors import OptionError

Array = NDArray[np.float64]

NUMERIC_KERNELS = ("matern52", "se")
KERNELS = (*NUMERIC_KERNELS, "categorical")
MATERN52, SE, CATEGORICAL = range(3)
SQRT5 = float(np.sqrt(5.0))


def kernel_codes(kernel: str | Sequence[str], dim: int) -> NDArray[np.int64]:
    """One code per variable, from one name for all or one name for each."""
    names = [kernel] * dim if isinstance(kernel, str) else list(kernel)
    if len(names) != dim:
        raise OptionError(f"expected one kernel, or one for each of {dim} variables, got {len(names)}")
    for name in names:
        if name not in KERNELS:
            raise OptionError(f"kernel is one of {', '.join(KERNELS)}, got {name!r}")
    return np.array([KERNELS.index(name) for name in names], dtype=np.int64)


def correlations(code: int, a: Array, b: Array, lengthscale: float) -> Array:
    """k(a_p, b_q) for all p and q: (len(a), len(b))."""
    delta = a[:, None] - b[None, :]
    if code == MATERN52:
        s = np.abs(delta) * (SQRT5 / lengthscale)
        answer: Array = (1.0 + s + s * s / 3.0) * np.exp(-s)
        return answer
    if code == SE:
        return np.exp(-0.5 * (delta / lengthscale) ** 2)
    return np.where(delta == 0.0, 1.0, np.exp(-1.0 / lengthscale))


def correlation_rows(codes: NDArray[np.int64], x: Array, X: Array, lengthscales: Array) -> tuple[Array, Array]:
    """k_i(x_i, X_pi) and its derivative in x_i, for all variables i and observations p: two (d, n) arrays."""
    delta = x[:, None] - X.T
    lengths = lengthscales[:, None]
    s = np.abs(delta) * (SQRT5 / lengths)
    decay = np.exp(-s)
    values = (1.0 + s + s * s / 3.0) * decay
    slopes = -np.sign(delta) * (SQRT5 / lengths) * (s * (1.0 + s) / 3.0) * decay
    if (se := codes == SE).any():
        values[se] = np.exp(-0.5 * (delta[se] / lengths[se]) ** 2)
        slopes[se] = -delta[se] / lengths[se] ** 2 * values[se]
    if (categorical := codes == CATEGORICAL).any():
        values[categorical] = np.where(delta[categorical] == 0.0, 1.0, np.exp(-1.0 / lengths[categorical]))
        slopes[categorical] = 0.0
    return values, slopes


def curvatures(codes: NDArray[np.int64], lengthscales: Array) -> Array:
    """-k''(0): the variance of the derivative of a unit-variance function of that variable (0 for categorical ones)."""
    at_zero = np.where(codes == MATERN52, 5.0 / 3.0, np.where(codes == SE, 1.0, 0.0))
    answer: Array = at_zero / lengthscales**2
    return answer
