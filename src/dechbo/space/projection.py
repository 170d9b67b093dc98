"""The nearest values that satisfy linear constraints, by a mixed-integer linear programme.

Tested by tests/space/test_region.py.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from dechbo.errors import SpaceError, format_list
from dechbo.space.coordinates import bounds, derivative_at, values_at
from dechbo.space.linear import TOLERANCE, Linear
from dechbo.space.parameters import Parameter

Array = NDArray[np.float64]

MAX_INTEGER_VALUES = 10**6  # discrete parameters with more values are relaxed to continuous ones


def nearest_values(
    parameters: Sequence[Parameter],
    constraints: Sequence[Linear],
    terms: Sequence[tuple[tuple[int, ...], Array]],
    target: Array,
    free: list[int],
) -> Array | None:
    """Values of the parameters ``free`` nearest to the point ``target``; None if no values satisfy the constraints.

    ``terms`` holds the scope and the coefficients of each constraint. The unknowns are steps of discrete parameters or
    fractions of continuous ranges, followed by their distances from the target. A distance costs its length in
    coordinates.
    """
    # deferred: a space without constraints needs no SciPy
    from scipy.optimize import Bounds, LinearConstraint, milp

    many = len(free)
    lows = np.array([bounds(parameters[i])[0] for i in free])
    spans = np.array([bounds(parameters[i])[1] for i in free]) - lows
    integer = np.array([parameters[i].cardinality <= MAX_INTEGER_VALUES for i in free])
    tops = np.array([parameters[i].cardinality - 1 if w else 1.0 for i, w in zip(free, integer, strict=True)])
    at = {i: n for n, i in enumerate(free)}
    rows, uppers = [], []
    for (scope, weights), constraint in zip(terms, constraints, strict=True):
        row, upper = np.zeros(2 * many), constraint.upper
        for i, weight in zip(scope, weights, strict=True):
            if i in at:
                row[at[i]] = weight * spans[at[i]] / tops[at[i]]
                upper -= weight * lows[at[i]]
            else:
                upper -= weight * float(parameters[i].decode(target[i]))  # type: ignore[arg-type]
        size = np.abs(row * np.append(tops, np.ones(many))).max() or 1.0
        rows.append(row / size)
        uppers.append(upper / size + (TOLERANCE if not row.any() else 0.0))
    here = np.array([values_at(parameters[i], target[i : i + 1])[0] for i in free])
    start = (here - lows) / spans * tops
    rates = [np.float64(1.0) / derivative_at(parameters[i], value) for i, value in zip(free, here, strict=True)]
    cost = np.array(rates) * spans / tops  # of one unit of an unknown, in coordinates
    for n in range(many):
        for sign in (1.0, -1.0):
            row = np.zeros(2 * many)
            row[n], row[many + n] = sign, -1.0
            rows.append(row)
            uppers.append(sign * start[n])
    if not (np.isfinite(rows).all() and np.isfinite(uppers).all()):
        raise SpaceError(f"the numbers of {format_list(list(map(str, constraints)))} are too large to add up")
    found = milp(
        np.append(np.zeros(many), cost / cost.max()),
        constraints=LinearConstraint(np.array(rows), -np.inf, np.array(uppers)),
        bounds=Bounds(0.0, np.append(tops, np.maximum(tops, 1.0))),
        integrality=np.append(integer, np.zeros(many, dtype=bool)).astype(int),
    )
    return None if found.x is None else lows + found.x[:many] / tops * spans
