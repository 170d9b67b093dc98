"""The search space, and its encoding as points.

Notation: d = ``dim`` parameters; a *point* is an array (d,). Numeric coordinates lie in the unit interval, with the
log scale already applied (log scale is a scale); a categorical coordinate is the index of its choice, as a float.
Discrete numeric parameters hold the values low + k step, k = 0 … last; their candidates are real values only.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from difflib import get_close_matches
from fractions import Fraction
from functools import cached_property
from typing import Any, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray

from dechbo.errors import OptionError, ParameterError, SpaceError

Array = NDArray[np.float64]
Choice = None | bool | int | float | str
KernelKind = Literal["numeric", "categorical"]

_MOST_STEPS = 2**50  # beyond this a step cannot be told from a continuous range
_TOLERANCE = 1e-9  # how far, relatively, a given value may lie from the step that it means


@dataclass(frozen=True)
class Float:
    """A real number in [low, high]; with ``step`` only low, low + step, … up to the last value <= high."""

    low: float
    high: float
    log: bool = field(default=False, kw_only=True)
    step: float | None = field(default=None, kw_only=True)

    kernel_kind: ClassVar[KernelKind] = "numeric"

    def __post_init__(self) -> None:
        for name in ("low", "high") if self.step is None else ("low", "high", "step"):
            object.__setattr__(self, name, _finite(name, getattr(self, name)))
        _check_range("Float", self.low, self.high, self.log)
        if self.step is not None:
            if self.log:
                raise SpaceError("Float takes log=True or a step, got both: leave one of them out")
            _check_step("Float", *(_decimal(x) for x in (self.step, self.low, self.high)))
            spacing = math.ulp(max(abs(self.low), abs(self.high)))
            if self.step < spacing or self._lattice.last > _MOST_STEPS:
                raise SpaceError(
                    f"Float needs a step that tells its values apart, got step={self.step!r} on [{self.low!r}, "
                    f"{self.high!r}]: leave step out"
                )

    @property
    def cardinality(self) -> float:
        """How many values there are; infinity without a step."""
        return math.inf if self.step is None else float(self._lattice.last + 1)

    def encode(self, value: object) -> float:
        """The coordinate of ``value``; a value within 1e-9 (relative) of a step is taken as that step."""
        number = value if type(value) is float else _real(value)
        if number is None:
            raise ParameterError(f"expected a number {self._expected}, got {value!r}")
        if self.step is not None:
            k = self._lattice.nearest_step(number) if math.isfinite(number) else 0
            if not math.isclose(number, self._lattice.value(k), rel_tol=_TOLERANCE, abs_tol=_TOLERANCE * self.step):
                raise ParameterError(f"expected a number {self._expected}, got {value!r}")
            return self._lattice.unit(k)
        if not self.low <= number <= self.high:
            raise ParameterError(f"expected a number {self._expected}, got {value!r}")
        return self._scale.unit(number)

    def decode(self, u: float) -> float:
        """The value at coordinate ``u``, clamped to the bounds; with a step the nearest value."""
        if self.step is not None:
            return self._lattice.value(self._lattice.nearest(u))
        if u <= 0.0:
            return self.low
        return self.high if u >= 1.0 else min(max(self._scale.value(u), self.low), self.high)

    def grid(self, n: int, low: float = 0.0, high: float = 1.0) -> Array:
        """At most n sorted, distinct coordinates of real values, spread evenly over [low, high], ends included."""
        low, high = _interval(n, low, high)
        if self.step is not None:
            return self._lattice.grid(n, low, high)
        return np.unique(np.linspace(low, high, n)) if n > 1 else np.array([(low + high) / 2])

    def from_uniform(self, u: float) -> float:
        """The coordinate of a uniform draw ``u`` in [0, 1)."""
        return u if self.step is None else self._lattice.from_uniform(u)

    def to_json(self) -> dict[str, Any]:
        """Plain JSON; ``parameter_from_json`` reads it."""
        return {"type": "float", "low": self.low, "high": self.high, "log": self.log, "step": self.step}

    @cached_property
    def _scale(self) -> _LinearScale | _LogScale:
        return _LogScale(self.low, self.high) if self.log else _LinearScale(self.low, self.high)

    @cached_property
    def _lattice(self) -> _Lattice:
        # decimal digits as the user wrote them, in whole numbers: 0.05 k is then the float that prints as such
        low, high, step = _decimal(self.low), _decimal(self.high), _decimal(self.step or 1.0)
        common = math.lcm(low.denominator, step.denominator)
        return _Lattice(int(low * common), int(step * common), common, (high - low) // step)

    @cached_property
    def _expected(self) -> str:
        if self.step is None:
            return f"from {self.low!r} to {self.high!r}"
        return f"from {self.low!r} to {self._lattice.value(self._lattice.last)!r} in steps of {self.step!r}"


@dataclass(frozen=True)
class Int:
    """A whole number from low to high, both included; with ``step`` only low, low + step, … up to high.

    ``decode(encode(v)) == v`` up to 2**50 values (2**40 on a log scale); beyond that it is the nearest value that
    a float can tell apart.
    """

    low: int
    high: int
    log: bool = field(default=False, kw_only=True)
    step: int = field(default=1, kw_only=True)

    kernel_kind: ClassVar[KernelKind] = "numeric"

    def __post_init__(self) -> None:
        for name in ("low", "high", "step"):
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, (int, np.integer)):
                raise SpaceError(f"Int needs whole numbers, got {name}={value!r}: use Float for a real parameter")
            object.__setattr__(self, name, int(value))
        _check_range("Int", self.low, self.high, self.log)
        _check_step("Int", self.step, self.low, self.high)
        if max(abs(self.low), abs(self.high)) > 2**62:
            raise SpaceError(f"Int needs bounds within ±2**62, got low={self.low}, high={self.high}: use Float")

    @property
    def cardinality(self) -> float:
        """How many values there are."""
        return float(self._lattice.last + 1)

    def encode(self, value: object) -> float:
        """The coordinate of ``value``; a float counts as a whole number where it is one."""
        number = value if type(value) is int else _whole(value)
        if number is None:
            raise ParameterError(f"expected a whole number {self._expected}, got {value!r}")
        k, rest = divmod(number - self.low, self.step)
        if rest or not 0 <= k <= self._lattice.last:
            raise ParameterError(f"expected a whole number {self._expected}, got {value!r}")
        return self._lattice.unit(k)

    def decode(self, u: float) -> int:
        """The value nearest to coordinate ``u``."""
        return self.low + self._lattice.nearest(u) * self.step

    def grid(self, n: int, low: float = 0.0, high: float = 1.0) -> Array:
        """At most n sorted, distinct coordinates of real values, spread evenly over [low, high], ends included.

        Never empty: where the interval holds no value, the one nearest to its middle.
        """
        return self._lattice.grid(n, *_interval(n, low, high))

    def from_uniform(self, u: float) -> float:
        """The coordinate of a uniform draw ``u`` in [0, 1); on a log scale the draw is uniform in the logarithm."""
        return self._lattice.from_uniform(u)

    def to_json(self) -> dict[str, Any]:
        """Plain JSON; ``parameter_from_json`` reads it."""
        return {"type": "int", "low": self.low, "high": self.high, "log": self.log, "step": self.step}

    @cached_property
    def _lattice(self) -> _Lattice:
        return _Lattice(self.low, self.step, 1, (self.high - self.low) // self.step, self.log)

    @cached_property
    def _expected(self) -> str:
        text = f"from {self.low} to {self.low + self._lattice.last * self.step}"
        return text if self.step == 1 else f"{text} in steps of {self.step}"


@dataclass(frozen=True, eq=False)
class Categorical:
    """One of ``choices``, without an order; each is None, a bool, an int, a finite float or a str."""

    choices: Sequence[Choice]

    kernel_kind: ClassVar[KernelKind] = "categorical"

    def __post_init__(self) -> None:
        given: object = self.choices
        if isinstance(given, (str, bytes, set, frozenset, Mapping)) or not isinstance(given, Iterable):
            raise SpaceError(f"Categorical needs a list of choices in a fixed order, got {given!r}: write [...]")
        choices = tuple(_native(choice) for choice in given)
        object.__setattr__(self, "choices", choices)
        if not choices:
            raise SpaceError("Categorical needs at least one choice, got none: leave the parameter out")
        for choice in choices:
            kind = type(choice)
            if kind not in (type(None), bool, int, float, str) or (kind is float and not math.isfinite(choice)):
                raise SpaceError(
                    "Categorical needs choices that are None, bool, int, finite float or str (plain JSON), "
                    f"got {choice!r}: use a label and look it up in your objective"
                )
        if len(self._index) < len(choices):
            twice = next(c for i, c in enumerate(choices) if self._index[type(c), c] != i)
            raise SpaceError(f"Categorical needs distinct choices, got {twice!r} twice: keep one of them")

    def __eq__(self, other: object) -> bool:
        # 1 == True == 1.0 in Python, but they are different choices
        return self._index == other._index if isinstance(other, Categorical) else NotImplemented

    def __hash__(self) -> int:
        return hash(tuple(self._index.items()))

    @property
    def cardinality(self) -> float:
        """How many choices there are."""
        return float(len(self.choices))

    def encode(self, value: object) -> float:
        """The index of the choice ``value``, which has to have the choice's own type."""
        native = _native(value)
        try:
            return self._index[type(native), native]
        except (KeyError, TypeError):
            raise ParameterError(f"expected one of {_shortened(self.choices)}, got {value!r}") from None

    def decode(self, u: float) -> Choice:
        """The choice whose index is nearest to ``u``."""
        return self.choices[min(max(math.floor(u + 0.5), 0), len(self.choices) - 1)]

    def grid(self, n: int, low: float = 0.0, high: float = 1.0) -> Array:
        """The indices of all choices, whatever n and the interval: choices have no order."""
        return np.arange(len(self.choices), dtype=np.float64)

    def from_uniform(self, u: float) -> float:
        """The index of a uniform draw ``u`` in [0, 1)."""
        return float(min(max(int(u * len(self.choices)), 0), len(self.choices) - 1))

    def to_json(self) -> dict[str, Any]:
        """Plain JSON; ``parameter_from_json`` reads it."""
        return {"type": "categorical", "choices": list(self.choices)}

    @cached_property
    def _index(self) -> dict[tuple[type, Choice], float]:
        index: dict[tuple[type, Choice], float] = {}
        for i, choice in enumerate(self.choices):
            index.setdefault((type(choice), choice), float(i))
        return index


Parameter = Float | Int | Categorical


class Space:
    """Named parameters in a fixed order, which is the order of the coordinates of a point."""

    _parameters: dict[str, Parameter]

    def __init__(self, parameters: Mapping[str, Parameter]) -> None:
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

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError(f"a Space is immutable, cannot set {name!r}: build a new one")

    @cached_property
    def names(self) -> tuple[str, ...]:
        """The parameters' names, in the order of the coordinates."""
        return tuple(self._parameters)

    @cached_property
    def parameters(self) -> tuple[Parameter, ...]:
        """The parameters, in the order of the coordinates."""
        return tuple(self._parameters.values())

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
        return self.names == other.names and self.parameters == other.parameters

    def __repr__(self) -> str:
        return f"Space({self._parameters!r})"

    @property
    def cardinality(self) -> float:
        """How many points there are; infinity where a parameter is continuous, or where a float cannot say it."""
        return math.prod(parameter.cardinality for parameter in self.parameters)

    @cached_property
    def log_cardinality(self) -> float:
        """The natural logarithm of the number of points; finite wherever ``is_finite``."""
        return math.fsum(math.log(parameter.cardinality) for parameter in self.parameters)

    @property
    def is_finite(self) -> bool:
        """Whether no parameter is continuous."""
        return self.log_cardinality < math.inf

    @cached_property
    def is_continuous(self) -> NDArray[np.bool_]:
        """(d,) Which parameters are Floats without a step."""
        return _frozen(parameter.cardinality == math.inf for parameter in self.parameters)

    @cached_property
    def is_categorical(self) -> NDArray[np.bool_]:
        """(d,) Which parameters are choices without an order."""
        return _frozen(parameter.kernel_kind == "categorical" for parameter in self.parameters)

    def encode(self, params: Mapping[str, object]) -> Array:
        """The point (d,) of one value for each name."""
        if not isinstance(params, Mapping):
            raise ParameterError(f"expected a dict of names to values, got {params!r}")
        self._check_names(params)
        point = []
        for name, parameter in self._parameters.items():
            try:
                point.append(parameter.encode(params[name]))
            except ParameterError as error:
                raise ParameterError(f"parameter {name!r}: {error}") from None
        return np.array(point)

    def decode(self, point: Array) -> dict[str, Choice]:
        """One native Python value for each name, in the space's order."""
        coordinates = self._coordinates(point)
        return {
            name: parameter.decode(u)
            for (name, parameter), u in zip(self._parameters.items(), coordinates, strict=True)
        }

    def from_uniform(self, u: Array) -> Array:
        """The point of d uniform draws in [0, 1), so that every value of a discrete parameter can come."""
        draws = self._coordinates(u)
        return np.array([p.from_uniform(draw) for p, draw in zip(self.parameters, draws, strict=True)])

    def to_json(self) -> dict[str, Any]:
        """Plain JSON; ``Space.from_json`` reads it."""
        return {"parameters": [{"name": name, **p.to_json()} for name, p in self._parameters.items()]}

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Space:
        """The space that ``to_json`` wrote."""
        try:
            entries = [dict(entry) for entry in data["parameters"]]
            names = [entry.pop("name") for entry in entries]
        except (KeyError, TypeError, ValueError):
            raise SpaceError(f"expected the JSON of a space, {{'parameters': [{{'name': …}}]}}, got {data!r}") from None
        if not all(isinstance(name, str) for name in names) or len(set(names)) < len(names):
            raise SpaceError(f"the JSON of a space needs distinct strings as names, got {_shortened(names)}")
        return cls(dict(zip(names, map(parameter_from_json, entries), strict=True)))

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
        if len(params) < self.dim:
            missing = [name for name in self.names if name not in params]
            raise ParameterError(
                f"expected a value for every parameter, but {_shortened(missing)} are missing: add them"
            )

    def _unknown(self, name: object) -> str:
        close = get_close_matches(str(name), self.names, n=1)
        hint = f"did you mean {close[0]!r}?" if close else f"the space has {_shortened(self.names)}"
        return f"no parameter is called {name!r}; {hint}"


def parameter_from_json(data: Mapping[str, Any]) -> Parameter:
    """The parameter that its ``to_json`` wrote."""
    readers: dict[object, tuple[Callable[..., Parameter], tuple[str, ...], tuple[str, ...]]] = {
        "float": (Float, ("low", "high"), ("log", "step")),
        "int": (Int, ("low", "high"), ("log", "step")),
        "categorical": (Categorical, ("choices",), ()),
    }
    kind = data.get("type") if isinstance(data, Mapping) else None
    if not isinstance(kind, str) or kind not in readers:
        raise SpaceError(f"expected the JSON of a parameter with a type out of {list(readers)}, got {data!r}")
    build, required, optional = readers[kind]
    if not set(required) <= set(data) - {"type"} <= set(required + optional):
        raise SpaceError(f"the JSON of a {kind} needs {required} and takes {optional}, got {data!r}")
    return build(**{key: value for key, value in data.items() if key != "type"})


@dataclass(frozen=True)
class _LinearScale:
    low: float
    high: float

    @cached_property
    def _half(self) -> float:
        """1, or ½ where high - low itself would overflow."""
        return 1.0 if math.isfinite(self.high - self.low) else 0.5

    @cached_property
    def _span(self) -> float:
        return self._half * self.high - self._half * self.low

    def unit(self, value: float) -> float:
        return (self._half * value - self._half * self.low) / self._span

    def value(self, u: float) -> float:
        return (self._half * self.low + u * self._span) / self._half


@dataclass(frozen=True)
class _LogScale:
    """u = log(v / low) / log(high / low), through log1p: bounds close to each other keep their digits."""

    low: float
    high: float

    @cached_property
    def _wide(self) -> bool:
        return math.log(self.high) - math.log(self.low) > 600.0  # high / low would overflow or nearly so

    @cached_property
    def span(self) -> float:
        return self._log_ratio(self.high)

    def _log_ratio(self, value: float) -> float:
        if self._wide:
            return math.log(value) - math.log(self.low)
        return math.log1p((value - self.low) / self.low)

    def unit(self, value: float) -> float:
        return self._log_ratio(value) / self.span

    def value(self, u: float) -> float:
        if self._wide:
            return math.exp(math.log(self.low) + u * self.span)
        return self.low + self.offset(u)

    def offset(self, u: float) -> float:
        return self.low * math.expm1(u * self.span)


@dataclass(frozen=True)
class _Lattice:
    """The values (first + k step) / common for k = 0 … last, in whole numbers: rounded once, at the end."""

    first: int
    step: int
    common: int
    last: int
    log: bool = False

    @cached_property
    def _scale(self) -> _LogScale:
        return _LogScale(self.first, self.first + self.last * self.step)

    def value(self, k: int) -> float:
        return (self.first + k * self.step) / self.common

    def nearest_step(self, value: float) -> int:
        """The k whose value is nearest to ``value``."""
        above, below = value.as_integer_ratio()
        offset, width = above * self.common - self.first * below, below * self.step
        return min(max((2 * offset + width) // (2 * width), 0), self.last)

    def unit(self, k: int) -> float:
        """The coordinate of the k-th value."""
        return self._scale.unit(self.first + k * self.step) if self.log else k / self.last

    def nearest(self, u: float) -> int:
        """The k whose coordinate is nearest to ``u``."""
        if u <= 0.0:
            return 0
        if u >= 1.0:
            return self.last
        if not self.log:
            return round(u * self.last)
        k = round(self._scale.offset(u) / self.step)
        around = range(max(k - 1, 0), min(k + 1, self.last) + 1)
        return min(around, key=lambda near: abs(self.unit(near) - u), default=self.last)

    def from_uniform(self, u: float) -> float:
        """The coordinate of a draw: of the floor(u (last + 1))-th value, or of the value below on the log scale."""
        if self.log:
            beyond = _LogScale(self.first, self.first + (self.last + 1) * self.step)
            k = int(beyond.offset(u) / self.step)
        else:
            k = int(u * (self.last + 1))
        return self.unit(min(max(k, 0), self.last))

    def grid(self, n: int, low: float, high: float) -> Array:
        """At most n distinct coordinates in [low, high], evenly on the scale; never none."""
        start, stop = self.nearest(low), self.nearest(high)
        start += self.unit(start) < low
        stop -= self.unit(stop) > high
        if start > stop or n == 1:
            return np.array([self.unit(self.nearest((low + high) / 2))])
        chosen = range(start, stop + 1) if stop - start < n else self._spread(n, start, stop)
        return np.unique([min(max(self.unit(k), low), high) for k in chosen])

    def _spread(self, n: int, start: int, stop: int) -> list[int]:
        """n distinct k from start to stop, nearest to evenly spaced coordinates, ends included."""
        chosen = [self.nearest(u) for u in np.linspace(self.unit(start), self.unit(stop), n).tolist()]
        chosen[0], chosen[-1] = start, stop
        for j in range(1, n):  # crowded where a log scale has fewer values than targets: move up
            chosen[j] = min(max(chosen[j], chosen[j - 1] + 1), stop - (n - 1 - j))
        return chosen


def _real(value: object) -> float | None:
    """``value`` as a float if it is a real number (a bool is not), otherwise None."""
    if isinstance(value, (bool, np.bool_)) or not isinstance(value, (int, float, np.integer, np.floating)):
        return None
    try:
        return float(value)
    except OverflowError:
        return math.inf if value > 0 else -math.inf


def _whole(value: object) -> int | None:
    """``value`` as an int if it is a whole number (a bool is not), otherwise None."""
    if isinstance(value, (int, np.integer)) and not isinstance(value, bool):
        return int(value)
    if isinstance(value, (float, np.floating)) and float(value).is_integer():
        return int(value)
    return None


def _native(value: Any) -> Any:
    return value.item() if isinstance(value, np.generic) else value


def _finite(name: str, value: object) -> float:
    number = _real(value)
    if number is None or not math.isfinite(number):
        raise SpaceError(f"Float needs finite numbers, got {name}={value!r}: give a finite {name}")
    return number


def _check_range(kind: str, low: float, high: float, log: object) -> None:
    if not isinstance(log, bool):
        raise SpaceError(f"{kind} needs log=True or log=False, got log={log!r}")
    if low == high:
        raise SpaceError(
            f"{kind} needs low < high, got low={low!r}, high={high!r}: "
            "a parameter with a single value is a constant, leave it out"
        )
    if low > high:
        raise SpaceError(
            f"{kind} needs low < high, got low={low!r}, high={high!r}: swap them "
            "(a parameter with a single value is a constant, leave it out)"
        )
    if log and low <= 0:
        raise SpaceError(f"{kind} with log=True needs low > 0, got low={low!r}: raise low or leave log out")


def _check_step(kind: str, step: int | Fraction, low: int | Fraction, high: int | Fraction) -> None:
    if step <= 0:
        raise SpaceError(f"{kind} needs step > 0, got step={float(step):g}: give a positive step")
    if step > high - low:
        raise SpaceError(
            f"{kind} needs a step of at most high - low = {float(high - low):g}, got step={float(step):g}: lower it"
        )


def _decimal(number: float) -> Fraction:
    """The number as it prints: 1/10 for 0.1."""
    return Fraction(repr(number))


def _suggestion(given: object) -> str:
    if isinstance(given, (tuple, list)) and len(given) == 2 and all(_real(bound) is not None for bound in given):
        return f": write Float({given[0]!r}, {given[1]!r}), or Int for whole numbers"
    if isinstance(given, (tuple, list)):
        return f": write Categorical({list(given)!r})"
    if isinstance(given, type):
        return f": write {given.__name__}(...)" if given in (Float, Int, Categorical) else ""
    return ": a constant needs no parameter, leave it out" if isinstance(given, (int, float, str)) else ""


def _interval(n: int, low: float, high: float) -> tuple[float, float]:
    if n < 1:
        raise OptionError(f"a grid needs n >= 1 candidates, got {n}")
    return min(max(low, 0.0), 1.0), min(max(high, 0.0), 1.0)


def _frozen(flags: Iterable[bool]) -> NDArray[np.bool_]:
    array = np.array(list(flags), dtype=np.bool_)
    array.flags.writeable = False
    return array


def _shortened(items: Sequence[object], most: int = 8) -> str:
    return f"[{', '.join(map(repr, items[:most]))}{', …' if len(items) > most else ''}]"
