"""Every error that dechbo raises on bad input: what was expected, what came, what to do."""

from __future__ import annotations

from collections.abc import Sequence


class DechboError(Exception):
    """Base of all errors raised on purpose; catch it to catch them all."""


class SpaceError(DechboError, ValueError):
    """A search space, or one of its parameters, is not well formed."""


class ParameterError(DechboError, ValueError):
    """A point given by the user does not lie in the space (name, type or range)."""


class ScopeError(DechboError, ValueError):
    """A factor graph is not well formed."""


class TableError(DechboError, ValueError):
    """Factor tables do not fit their graph, or hold values that cannot be maximised."""


class DataError(DechboError, ValueError):
    """Observations or hyperparameters have the wrong shape or values."""


class OptionError(DechboError, ValueError):
    """An option has a value that means nothing here."""


class SpaceExhausted(DechboError, RuntimeError):
    """Every point of a finite space has been suggested or told already."""


class NoObservations(DechboError, RuntimeError):
    """The answer needs at least one successful evaluation."""


class StudyFileError(DechboError, ValueError):
    """A study file is not well formed, or a saved run cannot be written or read."""


class StorageError(DechboError, RuntimeError):
    """A study's storage cannot be opened, read or written; passwords never stand in its message."""


class StudyError(DechboError, RuntimeError):
    """A study cannot go on: its file changed, its objective is broken, or every evaluation fails."""


class WorkerDied(DechboError, RuntimeError):
    """The process or machine that evaluated a point died."""


class AllEvaluationsFailed(StudyError):
    """A run stops early because its first evaluations all failed."""


def shortened(items: Sequence[object], most: int = 8) -> str:
    """A list as an error message shows it: the first few items, and how many there are where that is not all."""
    shown = ", ".join(map(repr, items[:most]))
    return f"[{shown}, …] ({len(items)} in all)" if len(items) > most else f"[{shown}]"
