"""StudyFile: a study as a YAML file describes it. The pydantic models below are the fields of that file."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from os import PathLike
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    ValidationError,
    ValidationInfo,
    field_validator,
    model_validator,
)

from dechbo.errors import MANY_OBJECTIVES, DechboError, SpaceError, StorageError, StudyError
from dechbo.space import Categorical, Float, Int, Parameter, Space
from dechbo.studies.objective import CommandObjective, PythonObjective
from dechbo.studies.pruning import PRUNERS, PrunerSettings
from dechbo.studies.stopping import NoGain, Stopping, seconds
from dechbo.studies.storage import absolute_url, file_url, redacted_url
from dechbo.studies.template import ALL_PARAMETERS
from dechbo.studies.yaml_source import YamlSource, as_text, as_whole, expected, hint, wrong

DEFAULT_TRIALS = 100
_TARGET = re.compile(r"[A-Za-z_][\w.]*:[A-Za-z_][\w.]*")
_NAME = re.compile(r"(?!\.)[^/\\\x00-\x1f]{1,100}")


@dataclass(frozen=True)
class StudyFile:
    """The content of a study file, checked by ``StudyFile.read``."""

    path: Path
    name: str
    space: Space
    objective: PythonObjective | CommandObjective | None  # None: evaluated elsewhere, by ask and tell
    storage: str  # a URL; a relative SQLite path starts at the file's folder
    direction: str = "minimize"
    factors: tuple[tuple[str, ...], ...] | None = None  # None: learned
    constraints: tuple[str, ...] = ()  # the known linear constraints, which ``space`` holds too
    trials: int = DEFAULT_TRIALS
    seed: int = 0
    options: Mapping[str, Any] = field(default_factory=dict)  # of the sampler
    pruner: PrunerSettings | None = None  # of commands that print steps
    stopping: Stopping = field(default_factory=Stopping)  # when a run ends early

    @classmethod
    def read(cls, path: str | PathLike[str]) -> StudyFile:
        """Read a YAML file; a StudyFileError names the file, line and field of everything that is wrong."""
        place = Path(path).absolute()
        source = YamlSource(place, str(path))
        try:
            study = _Study.model_validate(source.data, context=place.parent)
        except ValidationError as error:
            raise source.explain(error) from None
        return cls(
            path=place,
            name=study.name,
            space=study.space(study.constraints),
            objective=None
            if study.objective is None
            else study.objective.build(place.parent, study.name, study.repeats),
            storage=study.storage or file_url(place.with_name(f"{study.name}.db")),
            direction=study.direction,
            factors=None if study.factors is None else tuple(map(tuple, study.factors)),
            constraints=tuple(study.constraints),
            trials=study.trials,
            seed=study.seed,
            options=study.options.model_dump(exclude_unset=True),
            stopping=study.stop.build(),
            pruner=None
            if study.pruner is None
            else PrunerSettings(study.pruner["name"], {k: v for k, v in study.pruner.items() if k != "name"}),
        )


Text = Annotated[str, Field(min_length=1), BeforeValidator(as_text)]
Number = Annotated[float, Field(allow_inf_nan=False)]
Whole = Annotated[int, BeforeValidator(as_whole)]


def _split(command: object) -> object:
    try:
        return list(CommandObjective.split(command)) if isinstance(command, str) else command
    except ValueError as error:
        raise wrong(f"cannot be split into arguments: {error}") from None


class _Section(BaseModel):
    """A mapping of the file; every field is known."""

    model_config = ConfigDict(strict=True)

    @model_validator(mode="before")
    @classmethod
    def _fields_are_known(cls, data: object) -> object:
        for name, value in data.items() if isinstance(data, dict) else ():
            if name not in cls.model_fields:
                raise wrong(f"unknown field{hint(name, cls.model_fields)}", name)
            if value is None:
                raise expected("a value", name)
        return data


def _plain_choices(when: object) -> object:
    """For each parent a list of plain choices, where the file may have a single one."""
    if not isinstance(when, dict):
        return when
    return {name: json.loads(json.dumps(c if isinstance(c, list) else [c])) for name, c in when.items()}


When = Annotated[dict[str, list[bool | int | float | str | None]], BeforeValidator(_plain_choices)]


class _Float(_Section):
    numeric: ClassVar[Any] = Float

    type: Literal["float"]
    low: Number
    high: Number
    log: bool = False
    step: Number | None = None
    when: When | None = None

    @model_validator(mode="after")
    def _is_a_range(self) -> _Float:
        low, high, step = self.low, self.high, self.step
        if low >= high:
            raise wrong(f"expected low < high, got low {low!r} and high {high!r}", "low")
        if self.log and low <= 0:
            raise wrong(f"a log scale needs low > 0, got {low!r}: raise low or leave log out", "low")
        if self.log and step not in (None, 1):
            raise wrong("give log or a step, not both", "step")
        if step is not None and not 0 < step <= high - low:
            raise wrong(f"expected a step above 0 and at most high - low, got {step!r}", "step")
        if step is not None and not self.log:
            self._check_last_step()
        return self

    def _check_last_step(self) -> None:
        """A range that its steps do not fill is refused: nobody would notice that ``high`` is never tried."""
        try:
            last = self.numeric(self.low, self.high, step=self.step).decode(1.0)
        except SpaceError:
            return  # said elsewhere
        if not math.isclose(last, self.high, rel_tol=1e-9, abs_tol=1e-12 * (self.high - self.low)):
            raise wrong(
                f"steps of {self.step:g} from {self.low:g} end at {last:g}, not at {self.high:g}: "
                f"write high: {last:g}, or another step",
                "high",
            )

    def build(self) -> Parameter:
        """The parameter. With a step, the last value that it reaches replaces ``high``, as Optuna wants it."""
        options: dict[str, Any] = {"log": self.log, "when": self.when}
        if self.step is not None:
            options["step"] = self.step
        parameter: Parameter = self.numeric(self.low, self.high, **options)
        return parameter if self.step is None else self.numeric(self.low, parameter.decode(1.0), **options)


class _Int(_Float):
    numeric: ClassVar[Any] = Int

    type: Literal["int"]  # type: ignore[assignment]
    low: Whole
    high: Whole
    step: Whole | None = None


class _Categorical(_Section):
    type: Literal["categorical"]
    choices: Annotated[list[Any], Field(min_length=1)]
    when: When | None = None

    @field_validator("choices")
    @classmethod
    def _are_distinct(cls, choices: list[Any]) -> list[Any]:
        for k, choice in enumerate(choices):
            if not isinstance(choice, (bool, int, float, str, type(None))):
                raise expected("a single value", k)
            if isinstance(choice, float) and not math.isfinite(choice):
                raise expected("a finite number", k)
            for other in choices[:k]:  # Optuna compares choices as Python does, where 1 == 1.0 == True
                if other == choice and json.dumps(other) != json.dumps(choice):
                    raise wrong(
                        f"{json.dumps(other)} and {json.dumps(choice)} cannot be told apart in the storage; "
                        "write one as a text (in quotes)",
                        k,
                    )
        return choices

    def build(self) -> Parameter:
        """The parameter, with plain numbers as choices."""
        return Categorical(json.loads(json.dumps(self.choices)), when=self.when)


AnyParameter = Annotated[_Float | _Int | _Categorical, Field(discriminator="type")]


class _Objective(_Section):
    python: Text | None = None
    command: Annotated[list[Annotated[str, BeforeValidator(as_text)]], BeforeValidator(_split)] | None = None
    timeout: Annotated[Number, Field(gt=0)] | None = None
    retries: Annotated[Whole, Field(ge=0)] = 0

    @model_validator(mode="after")
    def _is_one_of_two(self) -> _Objective:
        if (self.python is None) == (self.command is None):
            raise wrong('expected python: "module:function" or command: "program …", one of the two')
        if self.python is not None and not _TARGET.fullmatch(self.python):
            raise wrong(f'expected "module:function", got {self.python!r}', "python")
        return self

    def build(self, folder: Path, name: str, repeats: int) -> PythonObjective | CommandObjective:
        """The objective; its output goes to NAME.log."""
        common: dict[str, Any] = {
            "log": folder / f"{name}.log",
            "timeout": self.timeout,
            "retries": self.retries,
            "repeats": repeats,
        }
        if self.command is not None:
            return CommandObjective(folder, arguments=tuple(self.command), **common)
        return PythonObjective(folder, target=str(self.python), **common)

    def check_command(self, names: list[str]) -> None:
        """Every placeholder is a parameter, and every parameter has a placeholder."""
        if self.command is None:
            return
        if not self.command:
            raise StudyError("expected a program and its arguments, got nothing")
        used = CommandObjective(Path(), arguments=tuple(self.command)).placeholders
        for name in sorted(used - set(names) - {ALL_PARAMETERS}):
            raise StudyError(f"{{{name}}} is no parameter{hint(name, names)}; write {{{{ and }}}} for braces")
        unused = [name for name in names if name not in used]
        if unused and (ALL_PARAMETERS not in used or ALL_PARAMETERS in names):
            raise StudyError(
                f"the command never uses {', '.join(map(repr, unused))}: write {{{unused[0]}}} where its value goes, "
                f"or {{{ALL_PARAMETERS}}} for all parameters as JSON"
            )


class _Options(_Section):
    max_factor_size: Annotated[Whole, Field(ge=1)] | None = None
    graph: Literal["learned", "random"] | None = None
    beta: Literal["practical", "theory", "theory-factor"] | Annotated[Number, Field(ge=0)] | None = None
    noise: Annotated[Number, Field(ge=0)] | None = None
    n_initial: Annotated[Whole, Field(ge=1)] | None = None
    engine: Literal["local", "processes", "ray"] | None = None
    parts: Annotated[Whole, Field(ge=1)] | None = None


def _as_seconds(value: object) -> object:
    try:
        return seconds(as_text(value)) if isinstance(value, (int, float, str)) else value  # type: ignore[arg-type]
    except ValueError as error:
        raise wrong(str(error)) from None


class _NoGain(_Section):
    trials: Annotated[Whole, Field(ge=1)] = NoGain.trials
    epsilon: Annotated[Number, Field(ge=0)] | None = None
    probability: Annotated[Number, Field(gt=0, lt=1)] = NoGain.probability


class _Stop(_Section):
    no_gain: Annotated[_NoGain | bool, Field(alias="no-gain")] = False
    target: Number | None = None
    time: Annotated[float, BeforeValidator(_as_seconds)] | None = None
    evaluations: Annotated[Whole, Field(ge=1)] | None = None

    @model_validator(mode="before")
    @classmethod
    def _fields_are_known(cls, data: object) -> object:
        for name in data if isinstance(data, dict) else ():
            known = ("no-gain", "target", "time", "evaluations")
            if name not in known:
                raise wrong(f"unknown field{hint(name, known)}", name)
        return data

    def build(self) -> Stopping:
        """The rules."""
        rule: NoGain | None = NoGain() if self.no_gain is True else None
        if isinstance(self.no_gain, _NoGain):
            rule = NoGain(self.no_gain.trials, self.no_gain.epsilon, self.no_gain.probability)
        return Stopping(rule, self.target, self.time, self.evaluations)


def _named_pruner(value: object) -> object:
    """A pruner as {"name": …, …}, where the file may have its name alone."""
    given = {"name": value} if isinstance(value, str) else value
    if isinstance(given, dict):
        if given.get("name") not in PRUNERS:
            raise wrong(f"expected the name of a pruner{hint(str(given.get('name')), PRUNERS)}")
        plain = json.loads(json.dumps(given))
        try:
            PrunerSettings(plain["name"], {k: v for k, v in plain.items() if k != "name"}).build()
        except StudyError as error:
            raise wrong(str(error)) from None
        return plain
    return given


class _Study(_Section):
    name: Text
    parameters: Annotated[dict[Annotated[str, Field(min_length=1, max_length=200)], AnyParameter], Field(min_length=1)]
    direction: Literal["minimize", "maximize"] = "minimize"
    objective: _Objective | None = None
    factors: list[list[Text]] | None = None
    constraints: list[Text] = []
    trials: Annotated[Whole, Field(ge=1)] = DEFAULT_TRIALS
    seed: Annotated[Whole, Field(ge=0)] = 0
    storage: Text | None = None
    options: _Options = _Options()
    stop: _Stop = _Stop()
    repeats: Annotated[Whole, Field(ge=1)] = 1
    pruner: Annotated[dict[str, Any], BeforeValidator(_named_pruner)] | None = None

    @model_validator(mode="before")
    @classmethod
    def _has_one_objective(cls, data: object) -> object:
        for name in ("directions", "objectives", "direction", "objective"):
            if isinstance(data, dict) and isinstance(data.get(name), list):
                raise wrong(f"a study has one objective and one direction. {MANY_OBJECTIVES}", name)
        return data

    @field_validator("name")
    @classmethod
    def _can_name_a_file(cls, name: str) -> str:
        if not _NAME.fullmatch(name.strip()):
            raise wrong(f"expected at most 100 characters without slashes, not beginning with a dot, got {name!r:.120}")
        return name.strip()

    @field_validator("parameters")
    @classmethod
    def _can_be_built(cls, parameters: dict[str, AnyParameter]) -> dict[str, AnyParameter]:
        for name, parameter in parameters.items():
            try:
                parameter.build()
            except SpaceError as error:
                raise wrong(str(error), name) from None
        return parameters

    @field_validator("storage")
    @classmethod
    def _is_a_url(cls, storage: str, info: ValidationInfo) -> str:
        try:
            return absolute_url(storage, info.context)  # type: ignore[arg-type]
        except StorageError as error:
            raise wrong(f"{error} (got {redacted_url(storage)})") from None

    @model_validator(mode="after")
    def _fits_the_parameters(self) -> _Study:
        names = list(self.parameters)
        if self.factors == []:
            raise wrong("expected at least one factor, got none: leave factors out to have them learned", "factors")
        for k, scope in enumerate(self.factors or ()):
            for i, name in enumerate(scope):
                if name not in names:
                    raise wrong(f"no parameter is called {name!r}{hint(name, names)}", "factors", k, i)
            if not scope or len(set(scope)) < len(scope):
                raise wrong(f"expected distinct parameters, got {scope}", "factors", k)
        if self.factors is not None and self.options.graph is not None:
            raise wrong("give factors or options.graph, not both", "factors")
        try:
            self.space([])
        except SpaceError as error:  # of a condition; it names the parameter
            raise wrong(str(error), "parameters") from None
        for k in range(len(self.constraints)):
            try:
                self.space(self.constraints[: k + 1])
            except DechboError as error:
                raise wrong(str(error), "constraints", k) from None
        if self.objective is not None:
            try:
                self.objective.check_command(names)
            except StudyError as error:
                raise wrong(str(error), "objective", "command") from None
        return self

    def space(self, constraints: list[str]) -> Space:
        """The search space."""
        parameters = {name: parameter.build() for name, parameter in self.parameters.items()}
        return Space(parameters, constraints=constraints) if constraints else Space(parameters)
