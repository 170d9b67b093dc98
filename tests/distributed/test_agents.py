"""Teams of agents: nobody holds the whole graph, and together they choose as one process would."""

from __future__ import annotations

import sys
from dataclasses import fields, is_dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).parents[2] / "examples" / "agents"))

from worlds import Hotspots, Wlan

from dechbo.data.observations import Observations
from dechbo.distributed.agents import Agent, AgentReport, Team, TeamModel
from dechbo.distributed.engine import PartsEngine
from dechbo.distributed.in_process import run_in_process
from dechbo.distributed.layout import greedy_colours
from dechbo.distributed.processes import ProcessTransport
from dechbo.gp import AdditiveGP
from dechbo.gp.additive import Hyperparameters

NEIGHBOURLY = {"candidates", "positions", "messages", "beliefs", "dual", "choices", "worth", "coordinates", "slopes"}
SUMS = {"gram", "value", "all-reduce", "ascent"}


def agents(team: Team, steps: int, *, wlan: bool = False) -> list[Agent]:
    world = Wlan(team.rows, team.columns) if wlan else Hotspots(team.rows, team.columns, per_side=3)
    model = TeamModel((1.0, 0.5), ("categorical", "matern52")) if wlan else TeamModel((0.3, 0.3))
    return [Agent(team, k, world, model, steps, 4, seed=1) for k in range(team.size)]


def check_what_was_seen(team: Team, reports: list[AgentReport]) -> None:
    for me, report in enumerate(reports):
        near = team.neighbours(me)
        known = {me, *(near[name] for name in ("right", "down") if name in near)}
        assert set(report.coordinates_of) == {i for agent in known for i in (2 * agent, 2 * agent + 1)}
        assert {i // 2 for scope in report.scopes for i in scope} == known
        assert set(report.heard) <= NEIGHBOURLY | SUMS
        for kind, senders in report.heard.items():
            if kind in NEIGHBOURLY:
                assert set(senders) <= set(near.values())
        assert len(report.coordinates_of) < 2 * team.size


@pytest.mark.parametrize("wlan", [False, True])
def test_an_agent_hears_its_neighbours_and_sums_of_all(wlan: bool) -> None:
    team = Team(2, 3)
    reports = run_in_process([agent.program() for agent in agents(team, 6, wlan=wlan)])
    check_what_was_seen(team, reports)
    assert all((report.values == reports[0].values).all() for report in reports)
    gram = [report.received["gram"] for report in reports]
    assert all(count > 0 for count, _ in gram)


def test_what_an_agent_starts_with_names_no_other_agent() -> None:
    """Its number and the shape of the grid are all that two agents differ in."""
    first, second = agents(Team(2, 3), 6)[:2]

    def content(thing: Any) -> dict[str, Any]:
        return {field.name: getattr(thing, field.name) for field in fields(thing)}

    assert is_dataclass(first)
    different = {name for name, value in content(first).items() if value != content(second)[name]}
    assert different == {"number"}


def test_colours_by_formula_separate_what_is_shared() -> None:
    team = Team(3, 4)
    for agent in range(team.size):
        view = team.view(agent, (2, 2))
        for a, scope in enumerate(view.scopes):
            assert len({view.variable_colours[i] for i in scope}) == len(scope)
            for b in range(a):
                if set(scope) & set(view.scopes[b]):
                    assert view.colours[a] != view.colours[b]
    graph = team.whole_graph()
    assert greedy_colours(graph.factors_of, len(graph.scopes)).max() >= 3  # a colouring is needed


def test_the_team_chooses_what_one_process_with_the_whole_graph_chooses() -> None:
    team, steps = Team(2, 2), 7
    world = Wlan(2, 2)  # whose candidates are the same in every step
    model = TeamModel((1.0, 0.5), ("categorical", "matern52"), steps_per_fit=0)
    reports = run_in_process(
        [Agent(team, k, world, model, steps, 4, beta=1.0, seed=2).program() for k in range(team.size)]
    )
    X = np.hstack([report.points for report in reports])
    values = reports[0].values
    graph = team.whole_graph()
    variances = [model.own_variance / 4 if len(scope) == 2 else model.pair_variance / 4 for scope in graph.scopes]
    theta = Hyperparameters([model.lengthscales[i % 2] for i in range(8)], variances, model.noise)
    gp = AdditiveGP(graph, theta, kernel=[model.kernels[i % 2] for i in range(8)])
    candidates = list(world.candidates(0, np.random.default_rng(0))) * team.size
    compared = 0
    for step in range(4, steps):
        y = (values[:step] - values[:step].mean()) / values[:step].std()
        best = PartsEngine(parts=1).suggest(gp, Observations(X[:step], y), 1.0, candidates)
        chosen = np.array([c[h] for c, h in zip(candidates, best.choice, strict=True)])
        if (X[:step] == chosen).all(axis=1).any():
            continue  # the team has been there: some agents go elsewhere
        compared += 1
        assert gp_value(gp, X[:step], y, X[step]) == pytest.approx(gp_value(gp, X[:step], y, chosen), abs=1e-9)
    assert compared >= 2


def gp_value(gp: AdditiveGP, X: np.ndarray, y: np.ndarray, point: np.ndarray) -> float:
    from dechbo.acquisition import AdditiveUCB

    return float(AdditiveUCB(gp.condition(Observations(X, y)), 1.0).values(point[None])[0])


@pytest.mark.system
def test_every_agent_is_a_process() -> None:
    team = Team(2, 2)
    transport = ProcessTransport()
    try:
        reports = transport.run(agents(team, 8))
        assert len(set(transport.pids)) == team.size
    finally:
        transport.close()
    check_what_was_seen(team, reports)
    alone = run_in_process([agent.program() for agent in agents(team, 8)])
    for here, there in zip(alone, reports, strict=True):
        assert (here.points == there.points).all()
        assert (here.values == there.values).all()
