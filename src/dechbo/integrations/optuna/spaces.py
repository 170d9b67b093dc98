"""Optuna's distributions as a dechbo Space, and back."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from optuna.distributions import BaseDistribution, CategoricalDistribution, FloatDistribution, IntDistribution

from dechbo.data.evaluation import Params
from dechbo.errors import ParameterError, SpaceError
from dechbo.space import Categorical, Float, Int, Parameter, Space
from dechbo.space.linear import Linear

Distributions = Mapping[str, BaseDistribution]


def distributions_of(space: Space) -> dict[str, BaseDistribution]:
    """The Optuna distributions of a space."""
    return {name: _distribution(space[name]) for name in space.names}


def conditions_of(space: Space) -> dict[str, dict[str, tuple[Any, ...]]]:
    """The conditions of a space: for each conditional parameter its parents, and the choices that make it active."""
    return {name: dict(space[name].when or {}) for name in space.names if space[name].when}


def _distribution(parameter: Parameter) -> BaseDistribution:
    if isinstance(parameter, Categorical):
        return CategoricalDistribution(tuple(parameter.choices))
    if isinstance(parameter, Int):
        if parameter.log and parameter.step != 1:
            raise SpaceError(f"Optuna has no log scale with a step, got {parameter!r}: leave one of them out")
        return IntDistribution(parameter.low, parameter.decode(1.0), log=parameter.log, step=parameter.step)
    # the last value instead of high: Optuna warns if the range is not a multiple of the step
    return FloatDistribution(parameter.low, parameter.decode(1.0), log=parameter.log, step=parameter.step)


@dataclass(frozen=True)
class Axis:
    """One parameter as Optuna and as dechbo describe it."""

    distribution: BaseDistribution
    parameter: Parameter
    reachable: tuple[int, ...] = ()  # categorical: the index in ``distribution.choices`` of each of our choices

    @classmethod
    def of(cls, distribution: BaseDistribution) -> Axis:
        """The axis of a distribution with more than one value."""
        if isinstance(distribution, CategoricalDistribution):
            reachable = _reachable(distribution)
            return cls(distribution, _category([distribution.choices[i] for i in reachable]), reachable)
        if isinstance(distribution, IntDistribution):
            whole = Int(distribution.low, distribution.high, log=distribution.log, step=distribution.step)
            return cls(distribution, whole)
        if isinstance(distribution, FloatDistribution):
            return cls(distribution, _float(distribution))
        raise SpaceError(f"expected a float, int or categorical distribution of Optuna, got {distribution!r:.80}")

    def from_optuna(self, value: Any) -> Any:
        """Our value for Optuna's; ParameterError if the parameter does not allow it."""
        parameter = self.parameter
        if isinstance(parameter, Categorical):
            try:
                index = int(self.distribution.to_internal_repr(value))
            except ValueError:
                index = -1
            if index not in self.reachable:
                raise ParameterError(f"expected one of {parameter.choices!r:.200}, got {value!r}")
            return parameter.choices[self.reachable.index(index)]
        u = parameter.encode(value)
        # a continuous number stays exactly the one that was evaluated
        return float(value) if isinstance(parameter, Float) and parameter.step is None else parameter.decode(u)

    def to_optuna(self, value: Any) -> Any:
        """Optuna's value for ours."""
        if isinstance(self.distribution, CategoricalDistribution):
            return self.distribution.choices[self.reachable[int(self.parameter.encode(value))]]
        if isinstance(self.distribution, FloatDistribution):  # the last step may be a rounding error above high
            return min(max(value, self.distribution.low), self.distribution.high)
        return value


@dataclass(frozen=True)
class Translation:
    """A search space as Optuna and as dechbo describe it: axes sorted by name, and parameters with a single value."""

    axes: Mapping[str, Axis]
    constants: Params
    space: Space | None  # None if every parameter is constant
    key: str  # equal for equal distributions

    @classmethod
    def of(
        cls,
        distributions: Distributions,
        constraints: Sequence[str | Linear] = (),
        conditions: Mapping[str, Mapping[str, Sequence[Any]]] | None = None,
    ) -> Translation:
        """The translation of a search space, with linear constraints and conditions (in Optuna's values)."""
        if not isinstance(distributions, Mapping):
            raise SpaceError(
                f"a search space must be a dict of names to Optuna distributions, got {distributions!r:.80}"
            )
        axes: dict[str, Axis] = {}
        constants: Params = {}
        for name in sorted(distributions):
            distribution = distributions[name]
            try:
                if is_constant(distribution):
                    constants[name] = only_value(distribution)
                else:
                    axes[name] = Axis.of(distribution)
            except SpaceError as error:
                raise SpaceError(f"parameter {name!r}: {error}") from None
        for name, when in (conditions or {}).items():
            if name in axes:
                _make_conditional(name, when, axes, constants)
        lines = _without_constants(constraints, constants)
        key = repr(sorted((name, repr(distribution)) for name, distribution in distributions.items()))
        key += repr(sorted((name, repr(sorted(when.items()))) for name, when in (conditions or {}).items()))
        return cls(axes, constants, _space({name: axis.parameter for name, axis in axes.items()}, lines), key)

    def from_optuna(self, params: Mapping[str, Any]) -> Params:
        """Our values for the modelled parameters among ``params``; ParameterError if one is out of range."""
        found: Params = {}
        for name, axis in self.axes.items():
            if name in params:
                try:
                    found[name] = axis.from_optuna(params[name])
                except ParameterError as error:
                    raise ParameterError(f"parameter {name!r}: {error}") from None
        if self.space is not None and self.space.conditions:
            active = self.space.active(found)
            found = {name: value for name, value in found.items() if name in active or not self._decided(name, found)}
        return found

    def is_complete(self, params: Params) -> bool:
        """Whether our ``params`` are all that a trial with them has."""
        return self.space is None or self.space.active(params) <= params.keys()

    def _decided(self, name: str, found: Params) -> bool:
        """Whether the values on which a parameter depends are known."""
        assert self.space is not None
        return all(parent in found for parent in self.space[name].when or {})

    def to_optuna(self, params: Mapping[str, Any]) -> Params:
        """Optuna's values for ours."""
        return {name: self.axes[name].to_optuna(value) for name, value in params.items()}


def _make_conditional(name: str, when: Mapping[str, Sequence[Any]], axes: dict[str, Axis], constants: Params) -> None:
    """Give an axis its condition; a parent with a single value decides once and for all."""
    ours: dict[str, list[Any]] = {}
    for parent, choices in when.items():
        if parent in axes:
            ours[parent] = [axes[parent].from_optuna(choice) for choice in choices]
        elif parent in constants and not any(choice == constants[parent] for choice in choices):
            del axes[name]
            return
    if ours:
        axes[name] = replace(axes[name], parameter=replace(axes[name].parameter, when=ours))


def is_constant(distribution: BaseDistribution) -> bool:
    """Whether a trial can only have one value."""
    if isinstance(distribution, CategoricalDistribution):
        return len(_reachable(distribution)) == 1
    return isinstance(distribution, BaseDistribution) and distribution.single()


def is_modelled(distribution: BaseDistribution) -> bool:
    """Whether a model can use this parameter: not a constant, and no step too fine for floating point."""
    if is_constant(distribution):
        return False
    try:
        Axis.of(distribution)
    except SpaceError:
        return False
    return True


def only_value(distribution: BaseDistribution) -> Any:
    """The value of a constant distribution."""
    if isinstance(distribution, CategoricalDistribution):
        return distribution.choices[0]
    return distribution.low  # type: ignore[attr-defined]


def _reachable(distribution: CategoricalDistribution) -> tuple[int, ...]:
    """The choices that Optuna distinguishes: of 1 and True, which are equal, it only stores the first."""
    return tuple(i for i, c in enumerate(distribution.choices) if distribution.to_internal_repr(c) == i)


def _float(distribution: FloatDistribution) -> Float:
    low, high, step = distribution.low, distribution.high, distribution.step
    if step is None:
        return Float(low, high, log=distribution.log)
    with contextlib.suppress(SpaceError):
        exact = Float(low, high, step=step)
        if exact.cardinality == round((high - low) / step) + 1:
            return exact
    return Float(low, high + step / 4, step=step)  # rounding put the last step just below high


def _category(choices: list[Any]) -> Categorical:
    try:
        return Categorical(choices)
    except SpaceError:  # NaN or an object: use its index
        return Categorical(list(range(len(choices))))


def _space(parameters: Mapping[str, Parameter], constraints: Sequence[Linear]) -> Space | None:
    return Space(parameters, constraints=constraints) if parameters else None


def _without_constants(constraints: Sequence[str | Linear], constants: Params) -> list[Linear]:
    """The constraints with the values of constant parameters inserted."""
    if isinstance(constraints, (str, Linear)):
        raise SpaceError(f"constraints must be a list of texts like 'a + b <= 1', got {constraints!r}: write [...]")
    remaining = []
    for given in constraints:
        line = given if isinstance(given, Linear) else Linear.parse(given)
        free = {name: c for name, c in line.coefficients.items() if name not in constants}
        upper = line.upper
        for name in set(line.coefficients) - set(free):
            if isinstance(constants[name], bool) or not isinstance(constants[name], (int, float)):
                raise SpaceError(f"constraint {str(line)!r}: parameter {name!r} is not numeric: leave it out")
            upper -= line.coefficients[name] * constants[name]
        if free:
            remaining.append(Linear(free, upper))
        elif upper < 0:
            raise SpaceError(f"constraint {str(line)!r} cannot hold: its parameters are constants")
    return remaining
