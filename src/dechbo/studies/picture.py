"""The picture of a study: its trials and its model as the data that ``dechbo.plot`` draws."""

from __future__ import annotations

from pathlib import Path

from dechbo import plot
from dechbo.errors import DechboError, OptionError
from dechbo.integrations.optuna.trials import evaluated
from dechbo.interactions import Interaction, Interactions
from dechbo.studies.store import StudyStore
from dechbo.studies.trial_table import feasible_values


def study_picture(study: StudyStore, kind: str = "png") -> bytes:
    """The picture in one of ``plot.FORMATS``; ImportError without matplotlib."""
    effects, found = _model_results(study)
    trials = evaluated(study.trials)
    figure = plot.summary(
        feasible_values(trials),
        found,
        study.file.space.names,
        effects,
        direction=study.file.direction,
        title=study.file.name,
        numbers=[trial.number for trial in trials],
    )
    return plot.to_bytes(figure, kind)


def checked_format(path: Path) -> str:
    """The format that the name of a picture asks for."""
    kind = path.suffix.lower().removeprefix(".").replace("jpeg", "jpg")
    if kind not in plot.FORMATS:
        endings = ", ".join(f".{known}" for known in plot.FORMATS)
        raise OptionError(f"--picture {path}: expected a name that ends in {endings}, got {path.suffix or 'no ending'}")
    return kind


def _model_results(study: StudyStore) -> tuple[list[plot.Effect], Interactions]:
    """Effects and interactions; none where there is no model yet."""
    best = study.best
    if best is None:
        return [], Interactions()
    optimizer = study.optimizer()
    try:
        effects = plot.effects_of(optimizer, best.params)
    except DechboError:
        effects = []
    try:
        return effects, optimizer.interactions()
    except DechboError:  # a given or a random graph
        given = study.file.factors or ()  # their shares are not known: none counts as negligible
        return effects, Interactions(Interaction(scope, probability=1.0, share=1.0) for scope in given)
