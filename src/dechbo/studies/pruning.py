"""Learning curves of commands: lines ``{"step": 3, "value": 0.7}``, stored as they come; a pruner may stop a command.

The worker that runs the command reports to the study's storage itself, and asks a pruner of Optuna's. Where it cannot
reach the storage (a cluster and a file of another machine), nothing is pruned and the curve is stored at the end.
Tested in test_pruning.py.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from dechbo.errors import StudyError

if TYPE_CHECKING:
    import optuna

PRUNERS = {
    "median": "MedianPruner",
    "percentile": "PercentilePruner",
    "successive-halving": "SuccessiveHalvingPruner",
    "hyperband": "HyperbandPruner",
    "threshold": "ThresholdPruner",
    "patient": "PatientPruner",
    "wilcoxon": "WilcoxonPruner",
}
MAX_STEP = 2**31 - 1  # that every database can store
DEFAULTS: dict[str, dict[str, Any]] = {"percentile": {"percentile": 25.0}, "patient": {"patience": 5}}


@dataclass(frozen=True)
class PrunerSettings:
    """A pruner by name, with the options of Optuna's class."""

    name: str
    options: Mapping[str, Any] = field(default_factory=dict)

    def build(self) -> optuna.pruners.BasePruner:
        """The pruner; a StudyError names what Optuna does not accept."""
        import warnings

        import optuna

        options = {**DEFAULTS.get(self.name, {}), **self.options}
        if self.name == "patient":
            options.setdefault("wrapped_pruner", None)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # experimental ones
            try:
                pruner: optuna.pruners.BasePruner = getattr(optuna.pruners, PRUNERS[self.name])(**options)
            except (TypeError, ValueError) as error:
                raise StudyError(f"pruner {self.name!r} does not take {dict(self.options)}: {error}") from None
        return pruner


@dataclass(frozen=True)
class Reporting:
    """Where a worker reports the steps of its trial."""

    url: str
    study: str
    pruner: PrunerSettings


class CurveReporter:
    """Stores the steps of one trial and says when to prune it; silent where the storage cannot be reached."""

    def __init__(self, reporting: Reporting | None, number: str | None) -> None:
        self.curve: dict[int, float] = {}
        self._study: optuna.Study | None = None
        self._stored_id = -1
        if reporting is None or number is None:
            return
        try:
            self._open(reporting, int(number))
        except Exception:
            self._study = None

    def _open(self, reporting: Reporting, number: int) -> None:
        import optuna

        from dechbo.integrations.optuna.adapter import trial_id
        from dechbo.studies.storage import make_storage

        optuna.logging.set_verbosity(optuna.logging.WARNING)
        storage = make_storage(reporting.url, heartbeat=False, existing=True)
        study = optuna.load_study(storage=storage, study_name=reporting.study, pruner=reporting.pruner.build())
        self._stored_id = next(trial_id(t) for t in study.get_trials(deepcopy=False) if t.number == number)
        self._study = study

    def report(self, step: int, value: float) -> bool:
        """Take in a step; True if the trial should be pruned."""
        self.curve[step] = value
        if self._study is None:
            return False
        from dechbo.integrations.optuna.adapter import storage_of

        try:
            storage = storage_of(self._study)
            storage.set_trial_intermediate_value(self._stored_id, step, value)
            return bool(self._study.pruner.prune(self._study, storage.get_trial(self._stored_id)))
        except Exception:  # a broken storage must not end an evaluation
            return False


def step_of(line: str) -> tuple[int, float] | None:
    """The step and the value of a line of output; None for any other line."""
    text = line.strip()
    if not text.startswith("{") or '"step"' not in text:
        return None
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        return None
    if not isinstance(found, dict) or set(found) != {"step", "value"}:
        return None
    step, value = found["step"], found["value"]
    if any(isinstance(given, bool) or not isinstance(given, (int, float)) for given in (step, value)):
        return None
    known = isinstance(step, int) and 0 <= step <= MAX_STEP and abs(value) <= sys.float_info.max
    return (step, float(value)) if known else None
