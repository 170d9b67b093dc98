"""A team of agents, each a process that owns its variables, against one central optimiser that knows everything.

    python examples/agents/run.py robots --gif docs/robots.gif --picture docs/robots.png
    python examples/agents/run.py wlan

Prints a line for each method: the regret after all steps, messages and bytes between agents, seconds. Needs matplotlib
and pillow for pictures (pip install -e ".[examples]").
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from worlds import Hotspots, Wlan

from dechbo import Categorical, Float, Optimizer, Space
from dechbo.distributed.agents import Agent, AgentReport, Team, TeamModel
from dechbo.distributed.processes import ProcessTransport

Array = NDArray[np.float64]


def total(world: Hotspots | Wlan, team: Team, points: Array) -> float:
    """The objective at the coordinates of all agents, (agents, 2): known to nobody in the team."""
    near = [{other: points[other] for other in team.neighbours(k).values()} for k in range(team.size)]
    return sum(world.measure(k, points[k], near[k]) for k in range(team.size))


def best_known(world: Hotspots | Wlan, team: Team, starts: int = 6) -> float:
    """The best of many ascents of the true objective, one agent at a time over a fine grid."""
    rng, best = np.random.default_rng(0), -np.inf
    if isinstance(world, Wlan):
        sides = (np.arange(world.channels, dtype=float), np.linspace(0.05, 1, 20))
    else:
        sides = (np.linspace(0, 1, 21), np.linspace(0, 1, 21))
    grid = np.array([(a, b) for a in sides[0] for b in sides[1]])
    for _ in range(starts):
        points = grid[rng.integers(0, len(grid), team.size)]
        moved = True
        while moved:
            moved = False
            for k in range(team.size):
                scores = [worth(world, team, points, k, own) for own in grid]
                if max(scores) > worth(world, team, points, k, points[k]) + 1e-12:
                    points[k], moved = grid[int(np.argmax(scores))], True
        best = max(best, total(world, team, points))
    return best


def worth(world: Hotspots | Wlan, team: Team, points: Array, k: int, own: Array) -> float:
    """What agent k and its neighbours measure if it goes to ``own``."""
    near = {other: points[other] for other in team.neighbours(k).values()}
    here = world.measure(k, own, near)
    for other, theirs in near.items():
        around = {n: points[n] for n in team.neighbours(other).values()}
        here += world.measure(other, theirs, {**around, k: own})
    return here


def central(
    make: Callable[..., Optimizer], world: Hotspots | Wlan, team: Team, steps: int, initial: int, seed: int
) -> Array:
    """The values that one optimiser with all variables and the true graph finds."""
    kinds = [Categorical([0, 1, 2]), Float(0.05, 1)] if isinstance(world, Wlan) else [Float(0, 1), Float(0, 1)]
    space = Space({f"v{i}": kinds[i % 2] for i in range(2 * team.size)})
    optimizer = make(space, graph=team.whole_graph(), direction="maximize", seed=seed, n_initial=initial)
    values = []
    for _ in range(steps):
        params = optimizer.ask()
        points = np.array([float(params[name]) for name in space.names]).reshape(-1, 2)
        values.append(total(world, team, points))
        optimizer.tell(params, values[-1])
    return np.array(values)


def decentral(
    world: Hotspots | Wlan, team: Team, model: TeamModel, steps: int, initial: int, seed: int
) -> list[AgentReport]:
    """Every agent in a process of its own."""
    transport = ProcessTransport()
    try:
        agents = [Agent(team, k, world, model, steps, initial, seed=seed) for k in range(team.size)]
        return transport.run(agents)
    finally:
        transport.close()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("world", choices=["robots", "wlan"])
    parser.add_argument("--rows", type=int, default=3)
    parser.add_argument("--columns", type=int, default=3)
    parser.add_argument("--steps", type=int, default=60)
    parser.add_argument("--initial", type=int, default=10)
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--first-seed", type=int, default=0)
    parser.add_argument("--gif", type=Path)
    parser.add_argument("--picture", type=Path)
    arguments = parser.parse_args()
    team = Team(arguments.rows, arguments.columns)
    world: Hotspots | Wlan
    if arguments.world == "robots":
        world, model = Hotspots(team.rows, team.columns), TeamModel((0.3, 0.3))
    else:
        world, model = Wlan(team.rows, team.columns), TeamModel((1.0, 0.5), ("categorical", "matern52"))
    optimum = best_known(world, team)
    print(f"best known value {optimum:.3f}; {team.size} agents, {arguments.steps} steps")
    for seed in range(arguments.first_seed, arguments.first_seed + arguments.seeds):
        began = time.perf_counter()
        reports = decentral(world, team, model, arguments.steps, arguments.initial, seed)
        seconds = time.perf_counter() - began
        sent = [pair for report in reports for pair in report.received.values()]
        values = reports[0].values
        print(
            f"seed {seed}  agents              regret {optimum - values.max():.3f}  "
            f"{sum(count for count, _ in sent)} messages, {sum(size for _, size in sent) / 1e6:.1f} MB, {seconds:.1f} s"
        )
        if seed == 0 and isinstance(world, Hotspots) and (arguments.gif or arguments.picture):
            from draw import draw_team

            draw_team(world, reports, arguments.gif, arguments.picture)
        for name, make in (("one, paper's engine", Optimizer.paper), ("one, the default   ", Optimizer)):
            began = time.perf_counter()
            found = central(make, world, team, arguments.steps, arguments.initial, seed)
            seconds = time.perf_counter() - began
            print(f"seed {seed}  {name} regret {optimum - found.max():.3f}  no messages, {seconds:.1f} s", flush=True)


if __name__ == "__main__":
    main()
