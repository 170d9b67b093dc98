"""An optimiser that follows one study in one space."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from optuna.storages import BaseStorage
from optuna.study import Study, StudyDirection

from dechbo.data.evaluation import Params
from dechbo.errors import ParameterError, SpaceExhausted
from dechbo.integrations.optuna import kept
from dechbo.integrations.optuna.trials import Reader, TrialHistory
from dechbo.interactions import Interaction
from dechbo.models.model import REBUILD_EVERY
from dechbo.optimizer import Optimizer

MOST_ASKED_FOR = 8  # trials of other workers whose parameters are worked out before our own

Key = tuple[int, str, str, int]  # study, distributions, direction, seed


@dataclass(frozen=True, eq=False)
class Follower:
    """Kept for speed alone: every ask takes over the study's trials anew."""

    storage: BaseStorage
    key: Key
    reader: Reader
    optimizer: Optimizer
    planned: dict[int, Params] = field(default_factory=dict)  # suggested here, by trial: on the way to the storage

    def follows(self, study: Study, key: Key) -> bool:
        """Whether this is the optimiser for that study in that space."""
        return self.storage is study._storage and self.key == key

    def history(self, study: Study, own: int | None = None) -> TrialHistory:
        """The study's trials as trial number ``own`` sees them."""
        maximize = study.direction == StudyDirection.MAXIMIZE
        return self.reader.history(study.get_trials(deepcopy=False), maximize=maximize, own=own)

    def caught_up(self, study: Study) -> Optimizer:
        """The optimiser, after it has taken over the study's trials."""
        history = self.history(study)
        self.optimizer.replay(history.evaluations, _in_order(history.pending))
        return self.optimizer

    def replay(self, study: Study, own: int | None) -> TrialHistory:
        """Take over the trials, and work out what lower-numbered trials of other workers are about to get."""
        history = self.history(study, own)
        known = dict(history.asking)
        for number in set(self.planned) - set(known):
            del self.planned[number]
        pending = history.pending + [(n, {**params, **known[n]}) for n, params in self.planned.items()]
        first = [n for n in sorted(known) if n not in self.planned and (own is None or n < own)]
        for number in first[:MOST_ASKED_FOR]:
            self.optimizer.replay(history.evaluations, _in_order(pending))
            try:
                pending.append((number, self.optimizer.ask(fixed=known[number])))
            except (SpaceExhausted, ParameterError):  # what that trial gets is no point of ours
                continue
        self.optimizer.replay(history.evaluations, _in_order(pending))
        return history

    def is_taken(self, study: Study, params: Params, own: int) -> bool:
        """Whether another worker has got this very point meanwhile, where points are evaluated once."""
        if self.optimizer.noise is not None and self.optimizer.noise > 0:
            return False
        return params in self._points(self.history(study, own))

    def newly_learned(self, study: Study, history: TrialHistory) -> list[Interaction] | None:
        """The graph of the model that the next ask will use, where none as new is kept with the study.

        The ask then uses this very model: it costs the shares of variance, and one look at the storage.
        """
        optimizer, told = self.optimizer, len(history.evaluations)
        early = told < optimizer.n_initial or all(evaluation.failed for evaluation in history.evaluations)
        if early or optimizer.graph != "learned" or not optimizer.model.centred:
            return None
        behind = kept.evaluations_behind(study)
        if behind is not None and behind // REBUILD_EVERY >= told // REBUILD_EVERY:
            return None
        return optimizer.interactions()

    def again(self, study: Study, fixed: Params, own: int) -> Params | None:
        """One of the points that were evaluated and agree with ``fixed``; None where there is none."""
        points = self._points(self.history(study, own))
        fitting = [point for point in points if all(point[name] == value for name, value in fixed.items())]
        rng = np.random.default_rng([self.optimizer.seed, 4, len(points)])
        return dict(fitting[int(rng.integers(len(fitting)))]) if fitting else None

    @staticmethod
    def _points(history: TrialHistory) -> list[Params]:
        return [e.params for e in history.evaluations] + [params for _, params in history.pending]


def _in_order(pending: Sequence[tuple[int, Params]]) -> list[Params]:
    return [params for _, params in sorted(pending, key=lambda entry: entry[0])]
