"""The nouns of a step: the problem, which no evaluation changes, the state, and what is suggested."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from dechbo.acquisition import BetaContext, beta_schedule
from dechbo.data.history import History
from dechbo.gp import Surrogate
from dechbo.graph import FactorGraph
from dechbo.models.builder import ModelBuilder
from dechbo.models.committee import Committee
from dechbo.models.fits import Fits
from dechbo.models.members import CommitteeBuilder
from dechbo.models.refits import RefitSchedule
from dechbo.optimizer.info import AskInfo
from dechbo.search.decision import Portfolio
from dechbo.search.excluded import Excluded
from dechbo.search.options import SearchOptions
from dechbo.space import Space
from dechbo.theory import TheoryOptions, lipschitz_estimate

Array = NDArray[np.float64]

JOINT, FACTORS = 'score="joint"', 'score="factors"'


@dataclass(frozen=True, eq=False)
class SearchProblem:
    """Everything about a run that no evaluation changes."""

    builder: ModelBuilder  # of the factors' model
    search: SearchOptions
    theory: TheoryOptions
    n_initial: int
    switched_off: tuple[str, ...] = ()  # options that the beta schedule or a given graph overrides

    @classmethod
    def of(cls, builder: ModelBuilder, search: SearchOptions, theory: TheoryOptions, n_initial: int) -> SearchProblem:
        """The problem with the options that the beta schedule allows.

        The theory's schedules guarantee no regret for the maximiser of the factors' bounds on grids and for no other
        point, so the committee is switched off.
        """
        plain = ("centred",) if builder.needs_plain_kernels else ()
        if not theory.guaranteed or search.score == "factors":
            return cls(builder, search, theory, n_initial, plain)
        return cls(builder, replace(search, score="factors"), theory, n_initial, (*plain, JOINT))

    @property
    def space(self) -> Space:
        """The parameters."""
        return self.builder.space

    @property
    def committees(self) -> CommitteeBuilder:
        """The builder of committees for the same run."""
        b = self.builder
        return CommitteeBuilder(b.space, b.graph, b.seed, b.sign, b.noise, b.max_factor_size, b.options)

    @property
    def may_repeat(self) -> bool:
        """Whether a point may be suggested again: only where the user says that values are noisy."""
        return self.builder.noise is not None and self.builder.noise > 0

    def decides_by_factors(self, history: History) -> bool:
        """Whether the maximiser of the factors' bounds is suggested: not where constraints are told."""
        return self.search.score == "factors" and not history.reports_constraints

    def all_switched_off(self, history: History) -> tuple[str, ...]:
        """``switched_off`` and, where constraints are told, the options that do not go with the improvement."""
        if not history.reports_constraints:
            return self.switched_off
        kept = tuple(name for name in self.switched_off if name != JOINT)
        score = (FACTORS,) if self.search.score == "factors" and JOINT not in self.switched_off else ()
        return (*kept, *score, *(() if self.theory.beta == "practical" else ("beta",)))

    def beta(self, t: int, gp: Surrogate) -> float:
        """beta_t of the schedule."""
        logs = np.log([parameter.cardinality for parameter in self.space.parameters])
        lipschitz = max(lipschitz_estimate(gp), 1e-3)
        context = BetaContext(gp.graph, logs, self.theory.delta, lipschitz=lipschitz)
        return beta_schedule(self.theory.beta)(t, context)

    def portfolio(self, t: int) -> Portfolio:
        """The scores that take turns; with a beta of the user's own, only the bound with that beta."""
        if isinstance(self.theory.beta, str):
            return Portfolio(self.search.acquisitions)
        context = BetaContext(FactorGraph.singletons(self.space.dim), np.zeros(self.space.dim), self.theory.delta)
        return Portfolio(("bound",), beta_schedule(self.theory.beta)(t, context))

    def excluded(self, history: History) -> Excluded:
        """What must not be suggested: evaluated and pending points; where values are noisy, only those that failed."""
        return Excluded(self.space, self.taken(history))

    def taken(self, history: History) -> Array:
        """The points (n, d) that must not be suggested."""
        failed = np.array(history.failures).reshape(-1, self.space.dim)
        return failed if self.may_repeat else history.occupied

    def allowed(self, point: Array, fixed: Mapping[int, float]) -> Array:
        """``point`` with the coordinates ``fixed``, moved to where the known constraints hold."""
        moved = point.copy()
        moved[list(fixed)] = list(fixed.values())
        nearest = self.space.region.nearest(moved, fixed) if self.space.constraints else moved
        return moved if nearest is None else nearest


@dataclass(frozen=True, eq=False)
class SearchState:
    """What is kept between asks to save work."""

    fits: Fits = field(default_factory=Fits)
    committee: tuple[int, Committee] | None = None  # with the number of evaluations it knows
    models: RefitSchedule | None = None  # of the factors' model


@dataclass(frozen=True, eq=False)
class Suggested:
    """A point, and what the ask did to find it."""

    point: Array
    info: AskInfo
