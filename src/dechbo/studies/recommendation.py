"""What to use when values are noisy: the best by the model, beside the best value seen. Tested in test_commands.py."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from dechbo.errors import DechboError
from dechbo.studies import formatting
from dechbo.studies.store import StudyStore
from dechbo.studies.terminal import print_text
from dechbo.studies.trial_table import TrialRow

if TYPE_CHECKING:
    from rich.console import Console


@dataclass(frozen=True)
class Recommendation:
    """Parameters, and what the model predicts there."""

    params: dict[str, Any]
    mean: float
    deviation: float


def recommendation(study: StudyStore) -> Recommendation | None:
    """The evaluated point with the best predicted mean; None where values have no noise that the study knows of."""
    repeats = getattr(study.file.objective, "repeats", 1)
    if repeats < 2 and not study.file.options.get("noise"):
        return None
    try:
        optimizer = study.optimizer()
        params = optimizer.recommend()
        return Recommendation(params, *optimizer.predict(params))
    except DechboError:  # no model yet
        return None


def print_recommendation(found: Recommendation | None, best: TrialRow, console: Console) -> None:
    """The recommendation, or that it is the best trial itself."""
    if found is None:
        return
    predicted = f"{formatting.number(found.mean)} ± {formatting.number(found.deviation)} by the model"
    if found.params == best.params:
        print_text(console, f"\nrecommended: the same parameters ({predicted})")
        return
    print_text(console, f"\nrecommended, as values are noisy ({predicted}):", style="bold")
    print_text(console, formatting.as_yaml(found.params))
