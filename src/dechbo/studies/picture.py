"""The picture of a study: its trials and its model as the data that ``dechbo.plot`` draws."""

from __future__ import annotations

from dechbo import plot
from dechbo.errors import DechboError
from dechbo.interactions import Interaction, Interactions
from dechbo.studies.store import StudyStore
from dechbo.studies.trial_table import feasible_values


def study_picture(study: StudyStore) -> bytes:
    """The picture as PNG; ImportError without matplotlib."""
    effects, found = _model_results(study)
    figure = plot.summary(
        feasible_values(study.trials),
        found,
        study.file.space.names,
        effects,
        direction=study.file.direction,
        title=study.file.name,
    )
    return plot.to_png(figure)


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
