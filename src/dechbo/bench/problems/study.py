"""Studies of ``examples/`` as problems: Wine-12, Boosting-21 and Compressor-10.

Space and objective are those of the study file, so there is one definition of both. Tests: test_problems_real.py.
"""

from __future__ import annotations

import io
import shutil
from collections.abc import Mapping
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from dechbo.bench.problems.problem import Problem, ProblemUnavailable, require_module
from dechbo.studies.objective import Objective
from dechbo.studies.studyfile import StudyFile

EXAMPLES = Path(__file__).parents[4] / "examples"  # of a clone of the repository


@dataclass(frozen=True)
class StudyObjective:
    """The objective of a study, without what it prints; a failure is an exception."""

    objective: Objective

    def __call__(self, params: Mapping[str, Any]) -> float:
        """The value at ``params``."""
        with redirect_stdout(io.StringIO()), redirect_stderr(io.StringIO()):
            outcome = self.objective(params)
        if outcome.value is None:
            raise RuntimeError(outcome.error)
        return outcome.value


@dataclass(frozen=True)
class Example:
    """A study file of ``examples/`` and what it needs: modules, of an extra of dechbo, and programs."""

    name: str
    file: str
    modules: tuple[str, ...] = ()
    programs: tuple[str, ...] = ()
    extra: str = "bench"

    def instance(self, seed: int) -> Problem:
        """The problem; the seed has no effect."""
        return _problem(self, EXAMPLES / self.file)


@cache
def _problem(example: Example, path: Path) -> Problem:
    name = example.name
    if not path.is_file():
        raise ProblemUnavailable(f"{name} needs examples/{path.name} of dechbo's repository: install from a clone")
    for module in example.modules:
        require_module(name, module, extra=example.extra)
    for program in example.programs:
        if shutil.which(program) is None:
            raise ProblemUnavailable(f"{name} needs the program {program!r}, which is in no folder of PATH")
    study = StudyFile.read(path)
    assert study.objective is not None
    assert study.direction == "minimize"
    study.objective.load()
    return Problem(name, study.space, None, None, StudyObjective(study.objective))


WINE = Example("Wine-12", "wine.yaml", modules=("sklearn",))
BOOSTING = Example("Boosting-21", "boosting.yaml", modules=("sklearn", "lightgbm"), extra="examples")
COMPRESSOR = Example("Compressor-10", "compressor.yaml", programs=("sh", "xz"))
