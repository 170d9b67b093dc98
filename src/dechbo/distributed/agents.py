"""Agents that own their variables: each a process of its own, none of which ever holds the whole problem.

A team stands on a grid of rows and columns. Each agent owns two variables (the position of a robot, the channel and the
power of an access point) and knows its neighbours on the grid, left, right, above and below. The model has a factor for
each agent and one for each pair of neighbours, held by the first of the two. All that an agent knows it derives from
its place on the grid: no one builds the graph.

In each step every agent builds its own tables, chooses its own variables together with its neighbours by messages,
moves, measures its own part of the objective, and adds it to a sum that all hear. What passes between neighbours is
candidates, messages, choices and lengthscales; what passes along the tree of all agents is sums only: the Gram matrix,
the value, and dot products of the fit.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

from dechbo.distributed.exchange import Exchange, Inbox, Place, Program, all_reduce, exact_sums
from dechbo.distributed.fit import PartPrior, fit_in_parts
from dechbo.distributed.layout import Layout, View, lay_out
from dechbo.distributed.maximize import PartGraph, Schedule, maximize_tables
from dechbo.distributed.model import PartModel, Share, build_tables
from dechbo.distributed.plan import PartPlan
from dechbo.gp import AdditiveGP
from dechbo.gp.additive import Hyperparameters
from dechbo.graph import FactorGraph, Scope

Array = NDArray[np.float64]
Ints = NDArray[np.int64]
T = TypeVar("T")

FIT_STEPS = 20
EXPLORERS = 2  # agents that go somewhere at random, on average, where the team would repeat a step
OWN, RIGHT, DOWN = 0, 1, 2  # the three factors that an agent may hold are numbered 3 k, 3 k + 1, 3 k + 2


class World(Protocol):
    """What an agent can do by itself: say where it could go next, and measure where it is."""

    def candidates(self, agent: int, rng: np.random.Generator) -> tuple[Array, Array]:
        """Coordinates in the unit interval for each of its two variables; their numbers never change."""
        ...

    def measure(self, agent: int, own: Array, neighbours: dict[int, Array]) -> float:
        """Its part of the objective, from its own two coordinates and those of its neighbours."""
        ...


@dataclass(frozen=True)
class Team:
    """``rows`` times ``columns`` agents, numbered row by row."""

    rows: int
    columns: int

    @property
    def size(self) -> int:
        """How many agents there are."""
        return self.rows * self.columns

    def neighbours(self, agent: int) -> dict[str, int]:
        """The neighbours on the grid, by direction."""
        row, column = divmod(agent, self.columns)
        found = {
            "left": (row, column - 1),
            "right": (row, column + 1),
            "up": (row - 1, column),
            "down": (row + 1, column),
        }
        return {
            name: r * self.columns + c for name, (r, c) in found.items() if 0 <= r < self.rows and 0 <= c < self.columns
        }

    def held(self, agent: int) -> list[tuple[int, Scope]]:
        """The numbers and scopes of the factors that an agent holds."""
        near, me = self.neighbours(agent), (2 * agent, 2 * agent + 1)
        pairs = [(kind, near[name]) for kind, name in ((RIGHT, "right"), (DOWN, "down")) if name in near]
        scopes = [(3 * agent + kind, (*me, 2 * other, 2 * other + 1)) for kind, other in pairs]
        return [(3 * agent + OWN, me), *scopes]

    def colour(self, number: int) -> int:
        """Factors of equal colour share no variable."""
        agent, kind = divmod(number, 3)
        row, column = divmod(agent, self.columns)
        return {OWN: 4, RIGHT: column % 2, DOWN: 2 + row % 2}[kind]

    def variable_colour(self, variable: int) -> int:
        """Variables of equal colour share no factor."""
        row, column = divmod(variable // 2, self.columns)
        return 2 * ((row + column) % 2) + variable % 2

    def view(self, agent: int, sizes: tuple[int, int]) -> View:
        """What an agent knows of the graph: the factors that it holds and those of its neighbours that see it."""
        near = self.neighbours(agent)
        factors = sorted(
            [(number, scope, agent) for number, scope in self._sending(agent)]
            + [
                (number, scope, other)
                for other in (near[name] for name in ("left", "up") if name in near)
                for number, scope in self._sending(other)
                if 2 * agent in scope
            ]
        )
        known = {i for _, scope, _ in factors for i in scope} | {2 * agent, 2 * agent + 1}
        return View(
            Place(agent, self.size),
            np.array([number for number, _, _ in factors], dtype=np.int64),
            tuple(scope for _, scope, _ in factors),
            np.array([holder for _, _, holder in factors], dtype=np.int64),
            np.array([self.colour(number) for number, _, _ in factors], dtype=np.int64),
            {i: i // 2 for i in known},
            {i: sizes[i % 2] for i in known},
            {i: self.variable_colour(i) for i in known},
        )

    def _sending(self, agent: int) -> list[tuple[int, Scope]]:
        """The factors of an agent that send messages: its own one is added to a pair's table if it holds one."""
        held = self.held(agent)
        return held[1:] if len(held) > 1 else held

    def plan(self, agent: int, sizes: tuple[int, int]) -> PartPlan:
        """The agent's part of the graph."""
        layout: Layout = lay_out(self.view(agent, sizes))
        local = {int(i): n for n, i in enumerate(layout.variables)}
        held = self.held(agent)
        scopes = tuple(tuple(local[i] for i in scope) for _, scope in held)
        sending = np.arange(1, len(held)) if len(held) > 1 else np.zeros(1, dtype=np.int64)
        nothing = np.zeros(0, dtype=np.int64)
        graph = PartGraph(layout.place, layout.variables, 2, sending, sending, layout, True, nothing, None)
        numbers = np.array([number for number, _ in held], dtype=np.int64)
        return PartPlan(graph, numbers, FactorGraph.covering(len(local), scopes), layout.sizes)

    def whole_graph(self) -> FactorGraph:
        """The graph that no agent ever builds, for one central optimiser to compare with."""
        return FactorGraph(2 * self.size, tuple(scope for agent in range(self.size) for _, scope in self.held(agent)))


@dataclass(frozen=True)
class TeamModel:
    """The model that all agents start from; each then fits its own hyperparameters together with the others."""

    lengthscales: tuple[float, float]  # of an agent's two variables
    kernels: tuple[str, str] = ("matern52", "matern52")
    own_variance: float = 1.0  # of all agents' own factors together, for standardised values
    pair_variance: float = 0.5  # of all pairs' factors together
    noise: float = 1e-3
    steps_per_fit: int = 10  # after so many steps the hyperparameters are fitted anew; 0 for never

    def prior(self, share: Share, layout: Layout) -> PartPrior:
        """Around the values above: lengthscales of own variables within a factor e, variances of own factors e^2."""
        assert share.gp is not None
        theta = share.gp.hyperparameters
        centre = np.log(np.concatenate([theta.lengthscales[: layout.own], theta.variances]))
        spread = np.repeat([1.0, 2.0], [layout.own, len(theta.variances)])
        return PartPrior(centre, spread, centre - 3.0 * spread, centre + 3.0 * spread)

    def share(self, team: Team, plan: PartPlan) -> Share:
        """An agent's part of the model."""
        pairs = max(1, 2 * team.size - team.rows - team.columns)
        single = np.array([len(scope) == 2 for scope in plan.scopes])
        variances = np.where(single, self.own_variance / team.size, self.pair_variance / pairs)
        which = [int(i) % 2 for i in plan.graph.variables]
        theta = Hyperparameters([self.lengthscales[w] for w in which], variances, self.noise)
        gp = AdditiveGP(plan.local, theta, kernel=[self.kernels[w] for w in which])
        return Share(gp, np.arange(len(which)), np.arange(len(plan.scopes)), None, self.noise, 0.0)


@dataclass(frozen=True, eq=False)
class AgentReport:
    """One agent's run, and what it has seen."""

    points: Array  # (steps, 2) its own coordinates
    values: Array  # (steps,) the team's value, which all agents know
    coordinates_of: tuple[int, ...]  # the variables whose coordinates it holds
    scopes: tuple[Scope, ...]  # of its tables
    heard: dict[str, tuple[int, ...]]  # from whom, by kind of message
    received: dict[str, tuple[int, int]]  # number and bytes, by kind of message


@dataclass(frozen=True, eq=False)
class Agent:
    """One agent as data: its place, its share of the model, its world."""

    team: Team
    number: int
    world: World
    model: TeamModel
    steps: int
    initial: int  # steps at random before the model decides
    beta: float = 0.1  # each factor's own deviation counts in full, so a small one explores enough
    seed: int = 0

    def program(self) -> Program[AgentReport]:
        """The agent's life."""
        heard: dict[str, set[int]] = {}
        received: dict[str, tuple[int, int]] = {}
        own, values, plan = yield from _overheard(self._live(), heard, received)
        return AgentReport(
            own,
            values,
            tuple(sorted(plan.graph.variables.tolist())),
            tuple(tuple(int(plan.graph.variables[i]) for i in scope) for scope in plan.scopes),
            {kind: tuple(sorted(senders)) for kind, senders in heard.items()},
            received,
        )

    def _live(self) -> Program[tuple[Array, Array, PartPlan]]:
        rng = np.random.default_rng([self.seed, self.number])
        sizes = tuple(len(values) for values in self.world.candidates(self.number, np.random.default_rng(0)))
        plan = self.team.plan(self.number, (sizes[0], sizes[1]))
        layout, share = plan.graph.cyclic, self.model.share(self.team, plan)
        prior = self.model.prior(share, layout)
        near = sorted(self.team.neighbours(self.number).values())
        X, values = np.zeros((0, len(plan.sizes))), np.zeros(0)
        for step in range(self.steps):
            candidates = self.world.candidates(self.number, rng)
            offered = np.zeros(layout.variable_starts[-1])
            offered[: layout.variable_starts[2]] = np.concatenate(candidates)
            yield from layout.send_beliefs(offered, "candidates")
            grid = tuple(np.split(offered, layout.variable_starts[1:-1]))
            choice = np.array([rng.integers(0, len(c)) for c in candidates])
            if step >= self.initial:
                y = (values - values.mean()) / max(float(values.std()), 1e-12)
                model = PartModel((share,), X, y, np.zeros(len(y)), self.beta, grid)
                every = self.model.steps_per_fit
                if every and (step - self.initial) % every == 0:
                    share, _ = yield from fit_in_parts(layout, model, share, prior, FIT_STEPS)
                    model = replace(model, shares=(share,))
                tables = yield from build_tables(plan, model)
                found = yield from maximize_tables(plan.graph, tables, Schedule())
                repeats = yield from _repeats(plan.graph.place, X[:, :2], _at(candidates, found.choice))
                if not repeats or rng.random() > EXPLORERS / self.team.size:  # else at random, as drawn above
                    choice = found.choice
            here = _at(candidates, choice)
            around = yield from _tell_neighbours(here, near)
            value = self.world.measure(self.number, here, around)
            total = yield from exact_sums(plan.graph.place, np.array([[value]]), kind="value")
            mine = {self.number: here, **around}
            row = [mine[int(i) // 2][int(i) % 2] for i in plan.graph.variables]
            X, values = np.vstack([X, row]), np.append(values, total[0])
        return X[:, :2], values, plan


def _at(candidates: tuple[Array, Array], choice: Ints) -> Array:
    return np.array([values[h] for values, h in zip(candidates, choice, strict=True)])


def _repeats(place: Place, before: Array, here: Array) -> Program[bool]:
    """Whether the whole team would stand where it has stood before; each agent knows its own steps only."""
    same = (before == here).all(axis=1).astype(np.int64)
    everywhere = yield from all_reduce(place, same, np.minimum)
    return bool(everywhere.any())


def _tell_neighbours(here: Array, near: Sequence[int]) -> Program[dict[int, Array]]:
    """Where the neighbours have gone; they see each other."""
    inbox = yield Exchange(dict.fromkeys(near, here), tuple(near), "positions")
    return {other: np.asarray(inbox[other], dtype=np.float64) for other in near}


def _overheard(program: Program[T], heard: dict[str, set[int]], received: dict[str, tuple[int, int]]) -> Program[T]:
    """Run ``program`` and note who sent what: all that ever reaches this process from others."""
    inbox: Inbox | None = None
    while True:
        try:
            exchange = program.send(inbox)  # type: ignore[arg-type]
        except StopIteration as end:
            result: T = end.value
            return result
        inbox = yield exchange
        for sender, payload in inbox.items():
            heard.setdefault(exchange.kind, set()).add(sender)
            count, size = received.get(exchange.kind, (0, 0))
            received[exchange.kind] = count + 1, size + payload.nbytes
