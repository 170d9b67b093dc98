"""RefitSchedule: which model goes with which ask, kept between asks or rebuilt by the same steps after a resume."""

from __future__ import annotations

from dataclasses import dataclass

from dechbo.data.history import History
from dechbo.errors import NoObservations
from dechbo.models.builder import ModelBuilder
from dechbo.models.model import REBUILD_EVERY, Model

Key = tuple[int, int]  # index of an ask, number of evaluations known to it


@dataclass(frozen=True, eq=False)
class Replayed:
    """The model of an earlier ask, built again; caches that live between asks follow the same steps."""

    index: int
    model: Model


@dataclass(eq=False)
class RefitSchedule:
    """The models of the asks of one optimiser."""

    builder: ModelBuilder
    latest: tuple[Key, Model] | None = None  # of the last ask
    preview: tuple[Key, Model] | None = None  # of the last answer between asks

    def next(self, history: History) -> tuple[Model, list[Replayed]]:
        """The model of the next ask, and the earlier ones replayed on the way to it."""
        key = (len(history.asked), len(history.evaluations))
        model, replayed = self._at(history, key)
        self.latest = (key, model)
        return model, replayed

    def preview_model(self, history: History) -> tuple[Model, list[Replayed]]:
        """The model that the next ask would use, for predictions between asks."""
        if not history.successes:
            raise NoObservations("the model needs at least one successful evaluation: tell one first")
        key = (len(history.asked), len(history.evaluations))
        model, replayed = self._at(history, key)
        self.preview = (key, model)
        return model, replayed

    def forget(self) -> None:
        """Build the next model from the history alone."""
        self.latest = self.preview = None

    def grid_recurs(self, model: Model, index: int) -> bool:
        """Whether the ask after ``index`` has the same factors and hyperparameters on the same grid."""
        return self.builder.graph != "random" and not model.constraints and model.is_reused_after(index)

    def _at(self, history: History, key: Key) -> tuple[Model, list[Replayed]]:
        """The model of an ask, advanced from the latest one or replayed from the last cold one."""
        for known in (self.latest, self.preview):
            if known is not None and known[0] == key:
                return known[1], []
        index, advance = key[0], self.builder.advance
        first = index - index % REBUILD_EVERY
        model: Model | None = None
        if self.latest is not None and first < index:
            at, latest = self.latest
            before = history.asked[index - 1]
            if at == (index - 1, before.n_evaluations) and before.modelled:
                model, first = latest, index
        replayed = []
        for j in range(first, index):
            asked = history.asked[j]
            if asked.modelled:
                model = advance(model, j, history.evaluations[: asked.n_evaluations], history.points)
                replayed.append(Replayed(j, model))
        return advance(model, index, history.evaluations, history.points), replayed
