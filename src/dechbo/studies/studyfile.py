"""StudyFile: a study as a YAML file describes it."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from os import PathLike
from pathlib import Path
from typing import Any

from dechbo.errors import DechboError, SpaceError, StorageError, StudyError
from dechbo.space import Categorical, Float, Int, Parameter, Space
from dechbo.studies.objective import CommandObjective, PythonObjective
from dechbo.studies.storage import absolute_url, file_url, redacted_url
from dechbo.studies.template import ALL
from dechbo.studies.yamlnodes import Field, hint, read

DEFAULT_TRIALS = 100
_TARGET = re.compile(r"[A-Za-z_][\w.]*:[A-Za-z_][\w.]*")
_NAME = re.compile(r"[^/\\\x00-\x1f]{1,100}")
_BETAS = ("practical", "theory", "theory-factor")


@dataclass(frozen=True)
class StudyFile:
    """What a study file says; ``StudyFile.read`` checks it."""

    path: Path
    name: str
    space: Space
    objective: PythonObjective | CommandObjective | None  # None: evaluated elsewhere, by ask and tell
    storage: str  # a URL; a relative SQLite path is taken from the file's folder
    direction: str = "minimize"
    factors: tuple[tuple[str, ...], ...] | None = None  # None: learned
    constraints: tuple[str, ...] = ()  # known linear ones, which ``space`` holds too
    trials: int = DEFAULT_TRIALS
    seed: int = 0
    options: Mapping[str, Any] = field(default_factory=dict)  # of the sampler

    @classmethod
    def read(cls, path: str | PathLike[str]) -> StudyFile:
        """The study of a YAML file; a StudyFileError names file, line and field of what is wrong."""
        place = Path(path)
        root = read(place, str(path))
        fields = root.known(
            ["name", "parameters"],
            ["direction", "objective", "factors", "constraints", "trials", "seed", "storage", "options"],
        )
        folder = place.absolute().parent
        name = _name(fields["name"])
        parameters = _parameters(fields["parameters"])
        constraints = _constraints(fields["constraints"], parameters) if "constraints" in fields else ()
        options = _options(fields["options"]) if "options" in fields else {}
        if "factors" in fields and "graph" in options:
            raise fields["factors"].error("give factors or options.graph, not both")
        return cls(
            path=place.absolute(),
            name=name,
            space=Space(parameters, constraints=constraints) if constraints else Space(parameters),
            objective=_objective(fields["objective"], folder, name, list(parameters))
            if "objective" in fields
            else None,
            storage=_storage(fields.get("storage"), folder, name),
            direction=fields["direction"].one_of(("minimize", "maximize")) if "direction" in fields else "minimize",
            factors=_factors(fields["factors"], list(parameters)) if "factors" in fields else None,
            constraints=constraints,
            trials=fields["trials"].whole(1) if "trials" in fields else DEFAULT_TRIALS,
            seed=fields["seed"].whole(0) if "seed" in fields else 0,
            options=options,
        )


def _name(given: Field) -> str:
    name = given.text().strip()
    if not _NAME.fullmatch(name) or name.startswith("."):
        raise given.error(
            f"expected at most 100 characters without slashes, not beginning with a dot, got {name!r:.120}"
        )
    return name


def _parameters(given: Field) -> dict[str, Parameter]:
    fields = given.fields()
    if not fields:
        raise given.error("expected at least one parameter, got none")
    for name, parameter in fields.items():
        if not name or len(name) > 200:
            raise parameter.error("a parameter's name needs 1 to 200 characters")
    return {name: _parameter(parameter) for name, parameter in fields.items()}


def _parameter(given: Field) -> Parameter:
    fields = given.fields()
    if "type" not in fields:
        raise given.error("'type' is missing: float, int or categorical")
    kind = fields["type"].one_of(("float", "int", "categorical"))
    try:
        if kind == "categorical":
            given.known(["type", "choices"])
            choices = fields["choices"].items()
            if not choices:
                raise fields["choices"].error("expected at least one choice, got none")
            return Categorical(_choices(choices))
        given.known(["type", "low", "high"], ["log", "step"])
        return _numeric(kind, fields)
    except SpaceError as error:
        raise given.error(str(error)) from None


def _choices(given: list[Field]) -> list[Any]:
    values: list[Any] = []
    for choice in given:
        value = _choice(choice)
        # Optuna compares choices as Python does, where 1 == 1.0 == True
        same = next((i for i, other in enumerate(values) if other == value and type(other) is not type(value)), None)
        if same is not None:
            raise choice.error(
                f"{given[same].node.value} and {choice.node.value} cannot be told apart in the storage; "
                "write one as a text (in quotes)"
            )
        values.append(value)
    return values


def _choice(given: Field) -> Any:
    value = given.value()
    if isinstance(value, float) and not math.isfinite(value):
        raise given.error(f"expected a finite number, got {given.came}")
    return value


def _numeric(kind: str, fields: Mapping[str, Field]) -> Parameter:
    def bound(name: str) -> Any:
        value = fields[name].whole() if kind == "int" else fields[name].number()
        if not math.isfinite(value):
            raise fields[name].error(f"expected a finite number, got {fields[name].came}")
        return value

    low, high = bound("low"), bound("high")
    if low >= high:
        raise fields["low"].error(f"expected low < high, got low {low!r} and high {high!r}")
    log = fields["log"].flag() if "log" in fields else False
    if log and low <= 0:
        raise fields["low"].error(f"a log scale needs low > 0, got {low!r}: raise low or leave log out")
    options = {"step": bound("step")} if "step" in fields else {}
    if log and options.get("step", 1) != 1:
        raise fields["step"].error("give log or a step, not both")
    if "step" in options and not 0 < options["step"] <= high - low:
        raise fields["step"].error(f"expected a step above 0 and at most high - low, got {options['step']!r}")
    numeric: type[Int | Float] = Int if kind == "int" else Float
    if options:  # the last value that is reached stands for high, as Optuna wants it
        high = numeric(low, high, log=log, **options).decode(1.0)
    return numeric(low, high, log=log, **options)


def _constraints(given: Field, parameters: Mapping[str, Parameter]) -> tuple[str, ...]:
    texts = []
    for item in given.items():
        texts.append(item.text())
        try:
            Space(parameters, constraints=texts)
        except DechboError as error:
            raise item.error(str(error)) from None
    return tuple(texts)


def _factors(given: Field, names: list[str]) -> tuple[tuple[str, ...], ...]:
    factors = []
    for item in given.items():
        members = item.items()
        for member in members:
            if member.text() not in names:
                raise member.error(f"no parameter is called {member.text()!r}{hint(member.text(), names)}")
        scope = tuple(member.text() for member in members)
        if not scope or len(set(scope)) < len(scope):
            raise item.error(f"expected distinct parameters, got {list(scope)}")
        factors.append(scope)
    if not factors:
        raise given.error("expected at least one factor, got none: leave factors out to have them learned")
    return tuple(factors)


def _objective(given: Field, folder: Path, name: str, names: list[str]) -> PythonObjective | CommandObjective:
    fields = given.known([], ["python", "command", "timeout", "retries"])
    if ("python" in fields) == ("command" in fields):
        raise given.error('expected python: "module:function" or command: "program …", one of the two')
    common: dict[str, Any] = {"log": folder / f"{name}.log"}
    if "timeout" in fields:
        common["timeout"] = fields["timeout"].number()
        if not 0 < common["timeout"] < math.inf:
            raise fields["timeout"].error(f"expected seconds above 0, got {fields['timeout'].came}")
    if "retries" in fields:
        common["retries"] = fields["retries"].whole(0)
    if "command" in fields:
        return CommandObjective(folder, arguments=_command(fields["command"], names), **common)
    target = fields["python"].text()
    if not _TARGET.fullmatch(target):
        raise fields["python"].error(f'expected "module:function", got {target!r}')
    return PythonObjective(folder, target=target, **common)


def _command(given: Field, names: list[str]) -> tuple[str, ...]:
    try:
        command = [item.text() for item in given.items()] if given.is_list else given.text()
        arguments = CommandObjective.split(command)
    except ValueError as error:
        raise given.error(f"cannot be split into arguments: {error}") from None
    if not arguments:
        raise given.error("expected a program and its arguments, got nothing")
    objective = CommandObjective(Path(), arguments=arguments)
    try:
        fields = objective.fields
    except StudyError as error:
        raise given.error(str(error)) from None
    for name in sorted(fields - set(names) - {ALL}):
        raise given.error(f"{{{name}}} is no parameter{hint(name, names)}; write {{{{ and }}}} for braces")
    unused = [name for name in names if name not in fields]
    if unused and (ALL not in fields or ALL in names):
        raise given.error(
            f"the command never uses {', '.join(map(repr, unused))}: write {{{unused[0]}}} where its value goes, "
            f"or {{{ALL}}} for all parameters as JSON"
        )
    return arguments


def _storage(given: Field | None, folder: Path, name: str) -> str:
    if given is None:
        return file_url(folder / f"{name}.db")
    try:
        return absolute_url(given.text(), folder)
    except StorageError as error:
        raise given.error(f"{error} (got {redacted_url(given.text())})") from None


def _options(given: Field) -> dict[str, Any]:
    fields = given.known([], ["max_factor_size", "graph", "beta", "noise", "n_initial"])
    options: dict[str, Any] = {}
    for name in ("max_factor_size", "n_initial"):
        if name in fields:
            options[name] = fields[name].whole(1)
    if "graph" in fields:
        options["graph"] = fields["graph"].one_of(("learned", "random"))
    if "beta" in fields:
        value = fields["beta"].value()
        options["beta"] = fields["beta"].one_of(_BETAS) if isinstance(value, str) else fields["beta"].number()
    if "noise" in fields:
        options["noise"] = fields["noise"].number()
    for name in ("beta", "noise"):
        if not isinstance(options.get(name, ""), str) and not 0 <= options[name] < math.inf:
            raise fields[name].error(f"expected a finite number at least 0, got {fields[name].came}")
    return options
