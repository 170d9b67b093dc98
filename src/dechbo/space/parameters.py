"""The union of all parameter types, and reading one from JSON."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import MISSING, fields
from typing import Any

from dechbo.errors import SpaceError
from dechbo.space.categorical import Categorical
from dechbo.space.numeric import Float, Int

Parameter = Float | Int | Categorical

_KINDS: dict[object, type[Parameter]] = {"float": Float, "int": Int, "categorical": Categorical}


def parameter_from_json(data: Mapping[str, Any]) -> Parameter:
    """Read what ``to_json`` wrote."""
    kind = data.get("type") if isinstance(data, Mapping) else None
    if not isinstance(kind, str) or kind not in _KINDS:
        raise SpaceError(f"expected the JSON of a parameter with a type out of {list(_KINDS)}, got {data!r}")
    options = {key: value for key, value in data.items() if key != "type"}
    known = fields(_KINDS[kind])
    required = [option.name for option in known if option.default is MISSING]
    optional = [option.name for option in known if option.default is not MISSING]
    if not set(required) <= set(options) <= set(required + optional):
        raise SpaceError(f"the JSON of a {kind} needs {required} and takes {optional}, got {data!r}")
    return _KINDS[kind](**options)
