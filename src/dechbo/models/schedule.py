"""Which model goes with which ask: kept between asks, or built again by the same steps after a resume."""

from __future__ import annotations

from dataclasses import dataclass

from dechbo.data.history import History
from dechbo.errors import NoObservations
from dechbo.models.model import REBUILD_EVERY, Model, Recipe

Key = tuple[int, int]  # index of an ask, evaluations told by then


@dataclass(frozen=True, eq=False)
class Replayed:
    """The model of an earlier ask, built again: whoever keeps anything between asks has to go through it too."""

    index: int
    model: Model


@dataclass(eq=False)
class Schedule:
    """The models of the asks of one optimiser."""

    recipe: Recipe
    latest: tuple[Key, Model] | None = None  # of the last ask
    preview: tuple[Key, Model] | None = None  # of the last answer between asks

    def next(self, history: History) -> tuple[Model, list[Replayed]]:
        """The model of the ask that is being made, and the earlier ones replayed on the way to it."""
        key = (len(history.asked), len(history.told))
        model, replayed = self._at(history, key)
        self.latest = (key, model)
        return model, replayed

    def answering(self, history: History) -> tuple[Model, list[Replayed]]:
        """The model that the next ask would use: it answers between asks and changes none of them."""
        if not history.successes:
            raise NoObservations("the model needs at least one successful evaluation: tell one first")
        key = (len(history.asked), len(history.told))
        model, replayed = self._at(history, key)
        self.preview = (key, model)
        return model, replayed

    def forget(self) -> None:
        """Build the next model from the history alone."""
        self.latest = self.preview = None

    def recurs(self, model: Model, index: int) -> bool:
        """Whether the ask after ``index`` will have the same factors at the same hyperparameters on the same grid."""
        return self.recipe.graph != "random" and not model.constraints and model.stands_after(index)

    def _at(self, history: History, key: Key) -> tuple[Model, list[Replayed]]:
        """The model of an ask, advanced from the latest one or replayed from the last cold one."""
        for known in (self.latest, self.preview):
            if known is not None and known[0] == key:
                return known[1], []
        index, advance = key[0], self.recipe.advance
        first = index - index % REBUILD_EVERY
        model: Model | None = None
        if self.latest is not None and first < index:
            at, latest = self.latest
            before = history.asked[index - 1]
            if at == (index - 1, before.told) and before.modelled:
                model, first = latest, index
        replayed = []
        for j in range(first, index):
            asked = history.asked[j]
            if asked.modelled:
                model = advance(model, j, history.told[: asked.told], history.points)
                replayed.append(Replayed(j, model))
        return advance(model, index, history.told, history.points), replayed
