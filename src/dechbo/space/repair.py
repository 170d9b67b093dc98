"""Repair rounding error: move values by a few ulps so that known constraints hold exactly in floating point."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator, Mapping
from typing import Any

import numpy as np

from dechbo.space.linear import TOLERANCE, Linear
from dechbo.space.numeric import Float, Int
from dechbo.space.space import Space

Values = dict[str, float]

MAX_DOUBLINGS = 12  # of the ulp by which a value moves beyond the excess
DRAWS = 8  # random allowed points, whose mean is in the interior


def repair_rounding(space: Space, params: Mapping[str, Any], fixed: Collection[str]) -> dict[str, Any]:
    """``params`` with continuous values moved slightly so that every constraint holds exactly, if possible.

    The parameters ``fixed`` do not change. Constraints that leave no interior, such as two that form an equality, may
    still be violated within the tolerance.
    """
    moving = {
        name: parameter
        for name, parameter in zip(space.names, space.parameters, strict=True)
        if isinstance(parameter, Float) and parameter.cardinality == math.inf and name not in fixed
    }
    names = {name for constraint in space.constraints for name in constraint.coefficients}
    values: Values = {name: params[name] for name in names}
    while violated := _violated(space, values):
        better = (
            trial
            for trial in _one_moved(violated[0], values, moving)
            if set(map(id, _violated(space, trial))) < set(map(id, violated))
        )
        found = next(better, None)
        if found is None:
            found = next((t for t in _towards_middle(space, params, values, moving) if not _violated(space, t)), None)
            if found is None:
                break
        values = found
    return {**params, **{name: values[name] for name in names & set(moving)}}


def _violated(space: Space, values: Values) -> list[Linear]:
    return [constraint for constraint in space.constraints if _excess(constraint, values) > 0]


def _excess(constraint: Linear, values: Values) -> float:
    """By how much the sum, added in the order of its terms, exceeds its upper limit."""
    total = 0.0
    for name, coefficient in constraint.coefficients.items():
        total += coefficient * values[name]
    return total - constraint.upper


def _one_moved(constraint: Linear, values: Values, moving: Mapping[str, Float]) -> Iterator[Values]:
    """Move one value inwards by the excess and a few ulps, smallest steps first."""
    excess = _excess(constraint, values)
    largest = max(abs(c * values[name]) for name, c in constraint.coefficients.items())
    for doubling in range(MAX_DOUBLINGS):
        for name, coefficient in constraint.coefficients.items():
            if name in moving:
                ulp = max(math.ulp(values[name]), math.ulp(largest) / abs(coefficient))
                step = excess / abs(coefficient) + (2**doubling - 1) * ulp
                moved = values[name] - math.copysign(step, coefficient)
                if moving[name].low <= moved <= moving[name].high:
                    yield {**values, name: moved}


def _towards_middle(
    space: Space, params: Mapping[str, Any], values: Values, moving: Mapping[str, Float | Int]
) -> Iterator[Values]:
    """Move all values towards the interior, for corners that moving a single value cannot leave."""
    point = space.encode(params)
    fixed = {i: float(point[i]) for i, name in enumerate(space.names) if name not in moving}
    rng = np.random.default_rng(0)
    drawn = (space.region.draw(space.from_uniform(rng.random(space.dim)), fixed, rng) for _ in range(DRAWS))
    points = [space.decode(draw) for draw in drawn if draw is not None]
    for exponent in range(-15, round(math.log10(TOLERANCE)) + 2):
        part = 10.0**exponent
        trial = dict(values)
        for name in set(values) & set(moving):
            middle = sum(float(draw[name]) for draw in points) / max(len(points), 1)
            trial[name] = values[name] + part * (middle - values[name])
        yield trial
