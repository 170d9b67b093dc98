"""Studies: a study file, its storage, and the run that asks, evaluates and tells, resumable at any moment.

Names are loaded when first used, so that a worker process imports nothing but its objective.
"""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from dechbo.studies.objective import CommandObjective, Objective, Outcome, PythonObjective
    from dechbo.studies.run import Event, StudyRun
    from dechbo.studies.storage import make_storage
    from dechbo.studies.studyfile import StudyFile

_HOMES = {
    "CommandObjective": "objective",
    "Event": "run",
    "Objective": "objective",
    "Outcome": "objective",
    "PythonObjective": "objective",
    "StudyFile": "studyfile",
    "StudyRun": "run",
    "make_storage": "storage",
}

__all__ = [
    "CommandObjective",
    "Event",
    "Objective",
    "Outcome",
    "PythonObjective",
    "StudyFile",
    "StudyRun",
    "make_storage",
]


def __getattr__(name: str) -> object:
    if name not in _HOMES:
        raise AttributeError(f"module 'dechbo.studies' has no attribute {name!r}")
    value = getattr(import_module(f"dechbo.studies.{_HOMES[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
