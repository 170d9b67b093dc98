"""RefitSchedule: which model goes with which ask, kept between asks or rebuilt by the same steps after a resume."""

from __future__ import annotations

from dataclasses import dataclass, replace

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


@dataclass(frozen=True, eq=False)
class RefitSchedule:
    """The models of the asks of one optimiser, and the latest of them."""

    builder: ModelBuilder
    latest: tuple[Key, Model] | None = None  # of the last ask
    preview: tuple[Key, Model] | None = None  # of the last answer between asks

    def model(self, history: History) -> tuple[Model, list[Replayed]]:
        """The model of the next ask, and the earlier ones replayed on the way to it."""
        if not history.successes:
            raise NoObservations("the model needs at least one successful evaluation: tell one first")
        return self._at(history, _key(history))

    def after_ask(self, history: History, model: Model) -> RefitSchedule:
        """The schedule after an ask that used ``model``."""
        return replace(self, latest=(_key(history), model))

    def after_preview(self, history: History, model: Model) -> RefitSchedule:
        """The schedule after predictions between asks, which do not advance it."""
        return replace(self, preview=(_key(history), model))

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


def _key(history: History) -> Key:
    return len(history.asked), len(history.evaluations)
