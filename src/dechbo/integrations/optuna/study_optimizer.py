"""StudyOptimizer: an Optimizer with the trials of one study."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from optuna.storages import BaseStorage
from optuna.study import Study, StudyDirection

from dechbo.data.evaluation import Params
from dechbo.errors import ParameterError, SpaceExhausted
from dechbo.integrations.optuna import adapter
from dechbo.integrations.optuna.attributes import graph_evaluations
from dechbo.integrations.optuna.revisions import current_trials
from dechbo.integrations.optuna.trials import HistoryReader, TrialHistory
from dechbo.interactions import Interactions
from dechbo.models.fits import cold_size, graph_size
from dechbo.optimizer import Optimizer

MAX_SIMULATED_ASKS = 8  # incomplete trials of other workers for which we compute the parameters before our own

Key = tuple[int, str, str, int]  # study, distributions, direction, seed


@dataclass(frozen=True, eq=False)
class StudyOptimizer:
    """A cache for speed only: every ask replays the trials of the study."""

    storage: BaseStorage
    key: Key
    reader: HistoryReader
    optimizer: Optimizer
    planned: dict[int, Params] = field(default_factory=dict)  # by trial: suggested here, not in the storage yet

    def matches(self, study: Study, key: Key) -> bool:
        """Whether this optimizer belongs to the study and the key."""
        return self.storage is adapter.storage_of(study) and self.key == key

    def history(self, study: Study, own: int | None = None) -> TrialHistory:
        """The study's trials without trial number ``own``."""
        maximize = study.direction == StudyDirection.MAXIMIZE
        return self.reader.history(current_trials(study), maximize=maximize, own=own)

    def updated(self, study: Study) -> Optimizer:
        """The optimizer with all trials of the study."""
        history = self.history(study)
        self.optimizer.replay(history.evaluations, _in_order(history.pending))
        return self.optimizer

    def replay(self, study: Study, own: int | None) -> TrialHistory:
        """Replay the trials, and compute what incomplete trials with lower numbers are about to get."""
        history = self.history(study, own)
        incomplete = dict(history.incomplete)
        for number in set(self.planned) - set(incomplete):
            del self.planned[number]
        pending = history.pending + [(n, {**params, **incomplete[n]}) for n, params in self.planned.items()]
        first = [n for n in sorted(incomplete) if n not in self.planned and (own is None or n < own)]
        for number in first[:MAX_SIMULATED_ASKS]:
            self.optimizer.replay(history.evaluations, _in_order(pending))
            try:
                pending.append((number, self.optimizer.ask(fixed=incomplete[number])))
            except (SpaceExhausted, ParameterError):  # that trial gets a point outside our space
                continue
        self.optimizer.replay(history.evaluations, _in_order(pending))
        return history

    def is_taken(self, study: Study, params: Params, own: int) -> bool:
        """Whether another worker got this point in the meantime; never if noise makes repeats useful."""
        if self.optimizer.noise is not None and self.optimizer.noise > 0:
            return False
        return params in self._points(self.history(study, own))

    def new_graph(self, study: Study, history: TrialHistory) -> Interactions | None:
        """The graph of the next ask; None if the stored one is as recent.

        The ask then uses this graph, so it only costs the shares of variance and one read of the storage. Before the
        first ask that has one, with fewer than 20 evaluations, one is learned for this purpose alone.
        """
        optimizer, count = self.optimizer, len(history.evaluations)
        early = count < optimizer.n_initial or all(evaluation.failed for evaluation in history.evaluations)
        if early or optimizer.graph != "learned" or not optimizer.model.centred:
            return None
        stored = graph_evaluations(study)
        if stored is not None and graph_size(cold_size(stored)) >= graph_size(cold_size(count)):
            return None
        return optimizer.interactions(quick=True)

    def repeated_point(self, study: Study, fixed: Params, own: int) -> Params | None:
        """A random known point that agrees with ``fixed``; None if there is none."""
        points = self._points(self.history(study, own))
        fitting = [point for point in points if all(point[name] == value for name, value in fixed.items())]
        rng = np.random.default_rng([self.optimizer.seed, 4, len(points)])
        return dict(fitting[int(rng.integers(len(fitting)))]) if fitting else None

    @staticmethod
    def _points(history: TrialHistory) -> list[Params]:
        return [e.params for e in history.evaluations] + [params for _, params in history.pending]


def _in_order(pending: Sequence[tuple[int, Params]]) -> list[Params]:
    return [params for _, params in sorted(pending, key=lambda entry: entry[0])]
