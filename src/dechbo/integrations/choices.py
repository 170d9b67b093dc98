"""Search spaces as dicts of names to ranges and lists, whose choices may be any objects.

Covered by tests/integrations/test_sklearn.py.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from dechbo.errors import SpaceError
from dechbo.space import Categorical, Float, Int, Parameter, Space


@dataclass(frozen=True)
class Choices:
    """A space with plain labels, and the objects that the labels stand for."""

    space: Space
    objects: Mapping[str, Sequence[Any]]

    @classmethod
    def of(cls, given: Space | Mapping[str, Any]) -> Choices:
        """From a Space, or from a dict of names to parameters, ranges (low, high) and lists."""
        if isinstance(given, Space):
            return cls(given, {})
        if not isinstance(given, Mapping):
            raise SpaceError(f"expected a Space or a dict of names to parameters, got {given!r:.80}")
        parameters: dict[str, Parameter] = {}
        objects: dict[str, Sequence[Any]] = {}
        for name, parameter in given.items():
            try:
                parameters[name] = _parameter(parameter)
            except SpaceError as error:
                raise SpaceError(f"parameter {name!r}: {error}") from None
            if isinstance(parameter, list | np.ndarray):
                objects[name] = list(parameter)
        return cls(Space(parameters), objects)

    def candidate(self, params: Mapping[str, Any]) -> dict[str, Any]:
        """The parameters with the objects of the user's lists instead of their labels."""
        return {
            name: self.objects[name][int(self.space[name].encode(value))] if name in self.objects else value
            for name, value in params.items()
        }


def _parameter(given: Any) -> Parameter:
    if isinstance(given, Parameter):
        return given
    if isinstance(given, list | np.ndarray):
        return Categorical(_labels(list(given)))
    if isinstance(given, tuple) and len(given) == 2 and not any(isinstance(bound, bool) for bound in given):
        if all(isinstance(bound, int | np.integer) for bound in given):
            return Int(*given)
        if all(isinstance(bound, int | float | np.integer | np.floating) for bound in given):
            return Float(*given)
    if hasattr(given, "dist") and hasattr(given, "support"):
        return _of_distribution(given)
    raise SpaceError(
        f"expected a Float, Int or Categorical, a range (low, high) or a list of choices, got {given!r:.80}; "
        "a log scale is Float(low, high, log=True)"
    )


def _of_distribution(given: Any) -> Parameter:
    """A distribution of SciPy as scikit-learn's searches take them: uniform, loguniform or randint."""
    name = str(getattr(given.dist, "name", ""))
    low, high = (bound.item() if isinstance(bound, np.generic) else bound for bound in given.support())
    if name == "uniform":
        return Float(low, high)
    if name in ("loguniform", "reciprocal"):
        return Float(low, high, log=True)
    if name == "randint":
        return Int(int(low), int(high))
    raise SpaceError(
        f"of SciPy's distributions a search takes uniform, loguniform and randint, which have bounds and no favourite, "
        f"got {name or given!r:.40}: write Float(low, high), Float(low, high, log=True) or Int(low, high)"
    )


def _labels(choices: Sequence[Any]) -> list[Any]:
    """Plain values as they are, other objects by their repr, with a number if two have the same repr."""
    labels: list[Any] = []
    for place, choice in enumerate(choices):
        value = choice.item() if isinstance(choice, np.generic) else choice
        plain = value is None or type(value) in (bool, int, str) or (type(value) is float and math.isfinite(value))
        label = value if plain else " ".join(repr(choice).split())[:80]
        labels.append(label if plain or label not in labels else f"{label} #{place}")
    return labels
