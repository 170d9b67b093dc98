"""Parameters that an ask fixes at given values. Tested by tests/optimizer/test_optimizer.py."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from dechbo.errors import ParameterError, format_list
from dechbo.space.space import Space


def check_fixed(space: Space, fixed: Mapping[str, Any] | None) -> dict[str, Any]:
    """Check ``fixed`` and return it with plain Python values."""
    if fixed is None:
        return {}
    if not isinstance(fixed, Mapping):
        raise ParameterError(f"fixed is a dict of parameter name to value, got {fixed!r:.80}")
    names = dict(zip(space.names, space.is_continuous, strict=True))
    unknown = [name for name in fixed if name not in names]
    if unknown:
        raise ParameterError(
            f"fixed names {unknown}, which are not parameters; the space has {format_list(list(names))}"
        )
    native: dict[str, Any] = {}
    for name, value in (_with_parents(space, fixed) if space.conditions else fixed).items():
        try:
            encoded = space[name].encode(value)
        except ParameterError as error:
            raise ParameterError(f"fixed {name!r}: {error}") from None
        native[name] = float(value) if names[name] else space[name].decode(encoded)
    return native


def fixed_coordinates(space: Space, fixed: Mapping[str, Any]) -> dict[int, float]:
    """The encoded values, keyed by parameter index."""
    return {i: space.parameters[i].encode(fixed[name]) for i, name in enumerate(space.names) if name in fixed}


def _with_parents(space: Space, fixed: Mapping[str, Any]) -> dict[str, Any]:
    """``fixed``, and the only choices of other parameters with which the conditional ones among them are there."""
    answer = dict(fixed)
    todo = [name for name in fixed if space[name].when]
    while todo:
        name = todo.pop()
        for parent, choices in (space[name].when or {}).items():
            if parent not in answer and len(choices) == 1:
                answer[parent] = choices[0]
                todo += [parent] if space[parent].when else []
            elif parent not in answer or not any(answer[parent] == choice for choice in choices):
                listed = " or ".join(map(repr, choices))
                why = f"not {answer[parent]!r}" if parent in answer else "fix that, too"
                raise ParameterError(f"fixed {name!r} is there only when {parent!r} is {listed}: {why}")
    return answer
