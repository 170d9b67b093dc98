"""Beliefs: what a run believes of its evaluations, made when it is asked for and kept until they change."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from dechbo.data.history import History
from dechbo.errors import NoObservations
from dechbo.gp import AdditiveGP, Ensemble
from dechbo.graph import FactorGraph
from dechbo.models.committee import Committee
from dechbo.models.model import Model
from dechbo.optimizer.paper_step import factor_model
from dechbo.optimizer.problem import SearchProblem, SearchState, Suggested
from dechbo.optimizer.step import believe, suggest
from dechbo.search.engine import Engine


class Beliefs:
    """The state of a search, and the models of a history.

    Models are functions of the history that is passed; what is kept here only saves work. ``clear`` drops it, where the
    next history does not continue the last one.
    """

    def __init__(self, problem: SearchProblem, engine: Engine) -> None:
        self.problem = problem
        self.engine = engine
        self.clear()

    def clear(self) -> None:
        """Forget what earlier calls have kept."""
        self.state = SearchState()
        self._structure: tuple[int, Model] | None = None  # with the number of evaluations

    def suggest(self, history: History, fixed: Mapping[int, float]) -> Suggested:
        """The next point to evaluate."""
        suggested, self.state = suggest(self.problem, history, self.state, fixed, self.engine)
        return suggested

    def of_next_ask(self, history: History) -> Committee | Model:
        """What the next ask believes about the objective."""
        by_factors = self.problem.decides_by_factors(history)
        return self.factor_model(history) if by_factors else self.committee(history)

    def committee(self, history: History) -> Committee:
        """The committee, given all evaluations."""
        _check_successes(history)
        committee, self.state = believe(self.problem, history, self.state)
        return committee

    def factor_model(self, history: History) -> Model:
        """The factors' model that the next ask would use."""
        model, schedule = factor_model(self.problem, history, self.state, self.engine)
        self.state = replace(self.state, models=schedule.after_preview(history, model))
        return model

    def structure(self, history: History) -> Model:
        """The model behind ``interactions``: the factors' own, or one learned from all evaluations."""
        if self.problem.search.score == "factors":
            return self.factor_model(history)
        _check_successes(history)
        known = len(history.evaluations)
        if self._structure is None or self._structure[0] != known:
            self._structure = known, self.problem.builder.structure_model(history.evaluations, history.points)
        return self._structure[1]

    def quick_structure(self, history: History) -> Model | None:
        """The next ask's own member on the learned graph, as a model; None if it has none."""
        builder = self.problem.builder
        if self.problem.search.score == "factors" or builder.graph != "learned" or not builder.options.centred:
            return None
        committee, learned = self.committee(history), self.state.fits.graph
        gp = next((member.gp for member in committee.members if isinstance(member.gp, AdditiveGP)), None)
        if gp is None or learned is None:
            return None
        data, scaling = committee.data, committee.scale.standardisation
        return Model(Ensemble((gp,), (1.0,)), data, scaling, len(data), refitted=False, learned=learned.posterior)

    def last_graph(self, history: History) -> FactorGraph:
        """The factor graph of the latest model; before the first, the one it will start from."""
        builder, models, learned = self.problem.builder, self.state.models, self.state.fits.graph
        known = None if models is None else models.latest or models.preview
        if known is not None and self.problem.decides_by_factors(history):
            return known[1].gp.graph
        if builder.graph == "learned":
            return FactorGraph.singletons(builder.space.dim) if learned is None else learned.graph
        return builder.graph_at(len(history.asked))


def _check_successes(history: History) -> None:
    if not history.successes:
        raise NoObservations("the model needs at least one successful evaluation: tell one first")
