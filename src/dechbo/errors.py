"""The errors that dechbo raises. A message says what was expected, what it got and what to do."""

from __future__ import annotations

from collections.abc import Sequence


class DechboError(Exception):
    """Base class of all errors of this package."""


class SpaceError(DechboError, ValueError):
    """A search space or one of its parameters is invalid."""


class ParameterError(DechboError, ValueError):
    """A point is not in the space: a wrong name, type or range."""


class ScopeError(DechboError, ValueError):
    """A factor graph is invalid."""


class TableError(DechboError, ValueError):
    """Factor tables do not match their graph, or contain NaN or +inf."""


class DataError(DechboError, ValueError):
    """Observations or hyperparameters have the wrong shape or values."""


class OptionError(DechboError, ValueError):
    """An option has an invalid value."""


class SpaceExhausted(DechboError, RuntimeError):
    """Every point of a finite space has already been suggested or told."""


class NoObservations(DechboError, RuntimeError):
    """The call needs at least one successful evaluation."""


class StudyFileError(DechboError, ValueError):
    """A study file is invalid, or a saved run cannot be read or written."""


class StorageError(DechboError, RuntimeError):
    """A study's storage cannot be opened, read or written. Messages never contain passwords."""


class StudyError(DechboError, RuntimeError):
    """A study cannot continue: its file changed, its objective is broken, or every evaluation fails."""


class ExecutionError(DechboError, RuntimeError):
    """Evaluations cannot run: a library or a cluster that they need is not there."""


class WorkerDied(DechboError, RuntimeError):
    """The process or machine that evaluated a point died."""


class AllEvaluationsFailed(StudyError):
    """A run stops early because its first evaluations all failed."""


MANY_OBJECTIVES = (
    "Ways out: combine them into one value, such as a weighted sum or the largest of scaled ones; limit all but one as "
    "constraints (trial.set_constraint in Optuna); or use a sampler of Optuna that finds Pareto fronts: TPESampler, "
    "GPSampler, NSGAIISampler or NSGAIIISampler"
)


def format_list(items: Sequence[object], max_items: int = 8) -> str:
    """A list for an error message: the first items, and the total number if some are left out."""
    shown = ", ".join(map(repr, items[:max_items]))
    return f"[{shown}, …] ({len(items)} in all)" if len(items) > max_items else f"[{shown}]"
