"""Wine-12: the study of the README, ``examples/wine.yaml``, as a problem.

Space and objective are those of the study file, so there is one definition of both: the cross-entropy of gradient
boosting on scikit-learn's wine data, over three fixed splits. Tests: test_problems_real.py.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from dechbo.bench.problems.problem import Problem, ProblemUnavailable, require_module
from dechbo.studies.objective import Objective
from dechbo.studies.studyfile import StudyFile

NAME = "Wine-12"
STUDY = Path(__file__).parents[4] / "examples" / "wine.yaml"  # of a clone of the repository


@dataclass(frozen=True)
class StudyObjective:
    """The objective of a study; a failure is an exception."""

    objective: Objective

    def __call__(self, params: Mapping[str, Any]) -> float:
        """The value at ``params``."""
        outcome = self.objective(params)
        if outcome.value is None:
            raise RuntimeError(outcome.error)
        return outcome.value


@cache
def _of_study(path: Path) -> Problem:
    if not path.is_file():
        raise ProblemUnavailable(f"{NAME} needs examples/{path.name} of dechbo's repository: install from a clone")
    require_module(NAME, "sklearn")
    study = StudyFile.read(path)
    assert study.objective is not None
    study.objective.load()
    return Problem(NAME, study.space, None, None, StudyObjective(study.objective))


def wine(seed: int) -> Problem:
    """The problem; the seed has no effect."""
    return _of_study(STUDY)
