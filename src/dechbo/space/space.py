"""The search space: named parameters, known constraints, and the encoding of points."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from difflib import get_close_matches
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dechbo.errors import ParameterError, SpaceError, format_list
from dechbo.space.categorical import Categorical
from dechbo.space.conditions import Conditional, Conditions, Coordinate
from dechbo.space.linear import Linear
from dechbo.space.numeric import Float, Int, real
from dechbo.space.parameters import Parameter, parameter_from_json
from dechbo.space.region import Region

Array = NDArray[np.float64]


class Space:
    """Named parameters in a fixed order, which is the order of the coordinates of a point.

    ``constraints`` are known linear constraints on at most 4 numeric parameters each, in their own units: strings like
    ``"a + 2*b <= 1"`` or ``Linear`` objects. No suggestion ever violates one.
    """

    _parameters: dict[str, Parameter]
    region: Region  # where the constraints hold
    conditions: Conditions  # which parameters are active where

    def __init__(self, parameters: Mapping[str, Parameter], constraints: Sequence[str | Linear] = ()) -> None:
        if not isinstance(parameters, Mapping):
            raise SpaceError(
                f"a space needs a dict of names to parameters, got {parameters!r}: write {{'x': Float(0, 1)}}"
            )
        if not parameters:
            raise SpaceError("a space needs at least one parameter, got none: write e.g. Space({'x': Float(0, 1)})")
        for name, parameter in parameters.items():
            if not isinstance(name, str) or not name:
                raise SpaceError(f"a parameter's name needs to be a non-empty string, got {name!r}")
            if not isinstance(parameter, Parameter):
                raise SpaceError(
                    f"parameter {name!r} needs a Float, Int or Categorical, got {parameter!r}{_suggestion(parameter)}"
                )
        object.__setattr__(self, "_parameters", {str(name): parameter for name, parameter in parameters.items()})
        if isinstance(constraints, (str, Linear)) or not isinstance(constraints, Iterable):
            raise SpaceError(f"constraints are a list, e.g. ['a + 2*b <= 1'], got {constraints!r:.80}")
        read = [given if isinstance(given, Linear) else Linear.parse(given) for given in constraints]
        object.__setattr__(self, "conditions", Conditions(self._parameters))
        for linear in read:
            if gone := [name for name in linear.coefficients if name in parameters and parameters[name].when]:
                raise SpaceError(f"constraint '{linear}' needs parameters that are always there, {gone[0]!r} is not")
        object.__setattr__(self, "region", Region(self._parameters, read))

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError(f"a Space is immutable, cannot set {name!r}: build a new one")

    @cached_property
    def names(self) -> tuple[str, ...]:
        """The parameters' names, in the order of the coordinates."""
        return tuple(self._parameters)

    @cached_property
    def parameters(self) -> tuple[Coordinate, ...]:
        """What each coordinate stands for: a parameter, or a conditional one with a coordinate for "inactive"."""
        return self.conditions.coordinates

    @property
    def dim(self) -> int:
        """d, the number of parameters."""
        return len(self._parameters)

    def __len__(self) -> int:
        return len(self._parameters)

    def __iter__(self) -> Iterator[str]:
        return iter(self._parameters)

    def __getitem__(self, name: str) -> Parameter:
        try:
            return self._parameters[name]
        except KeyError:
            raise ParameterError(self._unknown(name)) from None

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Space):
            return NotImplemented
        same = self.names == other.names and self.parameters == other.parameters
        return same and self.constraints == other.constraints

    def __repr__(self) -> str:
        more = f", constraints={[str(constraint) for constraint in self.constraints]}" if self.constraints else ""
        shown = ", ".join(f"{name!r}: {_shown(parameter)}" for name, parameter in self._parameters.items())
        return f"Space({{{shown}}}{more})"

    @property
    def constraints(self) -> tuple[Linear, ...]:
        """The known linear constraints."""
        return self.region.constraints

    def allows(self, point: Array) -> bool:
        """Whether an encoded point satisfies every constraint."""
        return not self.constraints or bool(self.region.allows(np.array([self._coordinates(point)]))[0])

    @cached_property
    def cardinality(self) -> float:
        """The number of points; infinity if a parameter is continuous, or if the number overflows a float."""
        return math.prod(parameter.cardinality for parameter in self.parameters)

    @cached_property
    def log_cardinality(self) -> float:
        """The natural logarithm of the number of points; finite if ``is_finite``."""
        return math.fsum(math.log(parameter.cardinality) for parameter in self.parameters)

    @property
    def is_finite(self) -> bool:
        """Whether all parameters are discrete."""
        return self.log_cardinality < math.inf

    @cached_property
    def is_continuous(self) -> NDArray[np.bool_]:
        """(d,) Which parameters are Floats without a step."""
        return _frozen(parameter.cardinality == math.inf for parameter in self.parameters)

    @cached_property
    def lowest(self) -> Array:
        """(d,) The lowest coordinate that a search moves to: 0, or that of the lowest active value."""
        return np.array([p.lowest if isinstance(p, Conditional) else 0.0 for p in self.parameters])

    def canonical(self, points: Array) -> Array:
        """``points`` (n, d) with the coordinates of inactive parameters; the same array if none is conditional."""
        return self.conditions.canonical(points) if self.conditions else points

    def active(self, params: Mapping[str, object]) -> set[str]:
        """The names of the parameters that are there, given the values of those that they depend on."""
        return self.conditions.active_names(params, self._parameters) if self.conditions else set(self.names)

    def replaced(self, params: Mapping[str, Any], name: str, value: object) -> dict[str, Any]:
        """``params`` with one value replaced; what is no longer there is left out, what now is gets a middle value."""
        point = self.conditions.filled(self.encode(params), np.empty((0, self.dim)))
        i = self.names.index(name)
        point[i] = self.parameters[i].encode(value)
        return self.decode(point)

    @cached_property
    def is_categorical(self) -> NDArray[np.bool_]:
        """(d,) Which parameters are Categorical."""
        return _frozen(parameter.kernel_kind == "categorical" for parameter in self.parameters)

    def encode(self, params: Mapping[str, object]) -> Array:
        """The point (d,) of a dict with one value per parameter."""
        if not isinstance(params, Mapping):
            raise ParameterError(f"expected a dict of names to values, got {params!r}")
        self._check_names(params)
        point = []
        for name, parameter in zip(self.names, self.parameters, strict=True):
            if isinstance(parameter, Conditional) and name not in params:
                point.append(parameter.inactive)
                continue
            try:
                point.append(parameter.encode(params[name]))
            except ParameterError as error:
                raise ParameterError(f"parameter {name!r}: {error}") from None
        return np.array(point)

    def decode(self, point: Array) -> dict[str, Any]:
        """One native Python value per active parameter, in the order of the space."""
        coordinates = self._coordinates(point)
        flags = [True] * self.dim
        if self.conditions:
            flags = self.conditions.active(np.array([coordinates]))[0].tolist()
            coordinates = self.canonical(np.array([coordinates]))[0].tolist()
        return {
            name: parameter.decode(u)
            for name, parameter, u, active in zip(self.names, self.parameters, coordinates, flags, strict=True)
            if active
        }

    def native(self, params: Mapping[str, Any]) -> dict[str, Any]:
        """Check ``params`` and return plain Python values; values of continuous parameters are not rounded."""
        decoded = self.decode(self.encode(params))
        continuous = zip(self.names, self.is_continuous, strict=True)
        return {name: float(params[name]) if free else decoded[name] for name, free in continuous if name in decoded}

    def from_uniform(self, u: Array) -> Array:
        """The point of d uniform draws in [0, 1), so that every value of a discrete parameter is possible."""
        draws = self._coordinates(u)
        point = np.array([p.from_uniform(draw) for p, draw in zip(self.parameters, draws, strict=True)])
        canonical: Array = self.canonical(point[None])[0]
        return canonical

    def draw(self, rng: np.random.Generator, fixed: Mapping[int, float]) -> Array:
        """A random point with the coordinates ``fixed``; it satisfies every constraint if that is possible."""
        point = self.from_uniform(rng.random(self.dim))
        point[list(fixed)] = list(fixed.values())
        if self.conditions:
            point = self.canonical(self.conditions.filled(point, np.empty((0, self.dim)))[None])[0]
        if not self.constraints or self.region.allows(point[None])[0]:
            return point
        allowed = self.region.draw(point, fixed, rng)
        return point if allowed is None else allowed

    def to_json(self) -> dict[str, Any]:
        """Plain JSON; ``Space.from_json`` reads it."""
        data: dict[str, Any] = {"parameters": [{"name": name, **p.to_json()} for name, p in self._parameters.items()]}
        if self.constraints:
            data["constraints"] = [constraint.to_json() for constraint in self.constraints]
        return data

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Space:
        """Read what ``to_json`` wrote."""
        try:
            entries = [dict(entry) for entry in data["parameters"]]
            names = [entry.pop("name") for entry in entries]
        except (KeyError, TypeError, ValueError):
            raise SpaceError(f"expected the JSON of a space, {{'parameters': [{{'name': …}}]}}, got {data!r}") from None
        if not all(isinstance(name, str) for name in names) or len(set(names)) < len(names):
            raise SpaceError(f"the JSON of a space needs distinct strings as names, got {format_list(names)}")
        limits = [Linear.from_json(entry) for entry in data.get("constraints", ())]
        return cls(dict(zip(names, map(parameter_from_json, entries), strict=True)), limits)

    def _coordinates(self, point: Array) -> list[float]:
        array = np.asarray(point, dtype=np.float64)
        if array.shape != (self.dim,):
            raise ParameterError(f"expected a point of shape ({self.dim},), got shape {array.shape}")
        if np.isnan(array).any():
            raise ParameterError("expected a point without NaN, got NaN")
        coordinates: list[float] = array.tolist()
        return coordinates

    def _check_names(self, params: Mapping[str, object]) -> None:
        unknown = [name for name in params if name not in self._parameters]
        if unknown:
            raise ParameterError(self._unknown(unknown[0]))
        active = self.active(params) if self.conditions else self._parameters.keys()
        missing = [name for name in self.names if name in active and name not in params]
        if extra := [name for name in params if name not in active]:
            when = " and ".join(
                f"{parent!r} is {' or '.join(map(repr, choices))}"
                for parent, choices in (self._parameters[extra[0]].when or {}).items()
            )
            raise ParameterError(
                f"parameter {extra[0]!r} is there only when {when}: leave it out of {dict(params)!r:.200}"
            )
        if missing:
            raise ParameterError(
                f"expected a value for every parameter, but {format_list(missing)} are missing: add them"
            )

    def _unknown(self, name: object) -> str:
        close = get_close_matches(str(name), self.names, n=1)
        hint = f"did you mean {close[0]!r}?" if close else f"the space has {format_list(self.names)}"
        return f"no parameter is called {name!r}; {hint}"


def _shown(parameter: Parameter) -> str:
    """The parameter as it is written; its condition is no part of its own repr, which errors quote."""
    return f"{repr(parameter)[:-1]}, when={dict(parameter.when)!r})" if parameter.when else repr(parameter)


def _suggestion(given: object) -> str:
    if isinstance(given, (tuple, list)) and len(given) == 2 and all(real(bound) is not None for bound in given):
        return f": write Float({given[0]!r}, {given[1]!r}), or Int for whole numbers"
    if isinstance(given, (tuple, list)):
        return f": write Categorical({list(given)!r})"
    if isinstance(given, type):
        return f": write {given.__name__}(...)" if given in (Float, Int, Categorical) else ""
    return ": a constant needs no parameter, leave it out" if isinstance(given, (int, float, str)) else ""


def _frozen(flags: Iterable[bool]) -> NDArray[np.bool_]:
    array = np.array(list(flags), dtype=np.bool_)
    array.flags.writeable = False
    return array
