"""Objectives: what a trial evaluates, a Python function or a command without a shell."""

from __future__ import annotations

import importlib
import json
import os
import shutil
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, ClassVar

from dechbo.errors import StudyError
from dechbo.execution.outcome import Outcome
from dechbo.studies.command import run_command
from dechbo.studies.pruning import CurveReporter, Reporting
from dechbo.studies.template import ALL_PARAMETERS, arguments_for, placeholders, split

__all__ = ["CommandObjective", "Objective", "Outcome", "PythonObjective"]


@dataclass(frozen=True)
class Objective:
    """What both kinds have: a folder, a time limit, retries and a log, all of which an executor applies.

    Call it with parameters for an Outcome. ``$DECHBO_PARAMS`` holds them as JSON; an executor that evaluates in another
    process sets ``$DECHBO_TRIAL`` to the number of the trial.
    """

    folder: Path
    timeout: float | None = field(default=None, kw_only=True)  # seconds
    retries: int = field(default=0, kw_only=True)  # how often a failed evaluation is tried again
    repeats: int = field(default=1, kw_only=True)  # of a noisy evaluation, whose mean is the value
    log: Path | None = field(default=None, kw_only=True)  # where its output goes

    def load(self) -> None:
        """Find what will be called, and raise a StudyError if it is not there."""
        raise NotImplementedError

    def __call__(self, params: Mapping[str, Any]) -> Outcome:
        """Evaluate once; every failure is an Outcome."""
        started = time.perf_counter()
        outcomes = []
        for repeat in range(self.repeats):
            os.environ["DECHBO_REPEAT"] = str(repeat)
            try:
                outcomes.append(self._evaluate(params))
            except BaseException as error:  # also SystemExit: nothing that an objective does ends its worker
                outcomes.append(Outcome.of_exception(error, hidden=2))
            if outcomes[-1].value is None:
                break
        outcome = outcomes[-1] if outcomes[-1].value is None else Outcome.mean_of(outcomes)
        return replace(outcome, seconds=time.perf_counter() - started)

    def _evaluate(self, params: Mapping[str, Any]) -> Outcome:
        raise NotImplementedError


@dataclass(frozen=True)
class PythonObjective(Objective):
    """A function "module:function", called with the parameters as keyword arguments.

    The module is looked for in ``folder`` first. The time limit needs a worker process, which it ends.
    """

    target: str = field(kw_only=True)

    def load(self) -> None:
        """Import the function."""
        self._function()

    def _function(self) -> Callable[..., object]:
        module_name, _, name = self.target.partition(":")
        if str(self.folder) not in sys.path:
            sys.path.insert(0, str(self.folder))
        try:
            found: Any = importlib.import_module(module_name)
        except BaseException as error:
            trace = Outcome.of_exception(error, hidden=1).error
            raise StudyError(f"objective {self.target!r} cannot be imported from {self.folder}:\n{trace}") from None
        for part in name.split("."):
            if not hasattr(found, part):
                raise StudyError(f"objective {self.target!r}: {module_name} has no {part!r}")
            found = getattr(found, part)
        if not callable(found):
            raise StudyError(f"objective {self.target!r} is not a function, but {type(found).__name__}")
        function: Callable[..., object] = found
        return function

    def _evaluate(self, params: Mapping[str, Any]) -> Outcome:
        function = self._function()
        os.environ["DECHBO_PARAMS"] = json.dumps(dict(params))
        return Outcome.of_result(function(**params))


@dataclass(frozen=True)
class CommandObjective(Objective):
    """A command with placeholders: {lr} is one parameter, {params} all of them as JSON.

    The text is split into arguments before values replace the placeholders, and there is no shell: a value never
    becomes more than one argument.
    """

    enforces_timeout: ClassVar[bool] = True  # so that a failure can show the last output
    arguments: tuple[str, ...] = field(kw_only=True)
    reporting: Reporting | None = field(default=None, kw_only=True)  # of steps, while it runs

    @classmethod
    def split(cls, command: str | Sequence[str]) -> tuple[str, ...]:
        """The arguments of a command given as one text or as a list."""
        return tuple(split(command)) if isinstance(command, str) else tuple(command)

    @property
    def placeholders(self) -> set[str]:
        """The names in braces."""
        return {name for argument in self.arguments for name in placeholders(argument)}

    def load(self) -> None:
        """Look for the program."""
        program = self.arguments[0]
        if placeholders(program):
            return
        path = self._search_path(dict(os.environ))
        found = shutil.which(str(self.folder / program)) if os.sep in program else shutil.which(program, path=path)
        if found is None:
            where = str(self.folder) if os.sep in program else "any folder of PATH"
            raise StudyError(f"objective: no program {program!r} in {where}, or it is not executable")

    def _evaluate(self, params: Mapping[str, Any]) -> Outcome:
        arguments = arguments_for(self.arguments, params, self.placeholders - {ALL_PARAMETERS})
        environment = {**os.environ, "DECHBO_PARAMS": json.dumps(dict(params))}
        environment["PATH"] = self._search_path(environment)
        reporter = CurveReporter(self.reporting, os.environ.get("DECHBO_TRIAL"))
        return run_command(arguments, self.folder, environment, timeout=self.timeout, reporter=reporter)

    @staticmethod
    def _search_path(environment: Mapping[str, str]) -> str:
        """PATH, and last the folder of the Python that runs dechbo: "python" is found without an activated one."""
        return os.pathsep.join([environment.get("PATH", os.defpath), os.path.dirname(sys.executable)])
