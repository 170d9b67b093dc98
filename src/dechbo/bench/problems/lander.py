"""LunarLander-12: a hand-written controller with 12 gains (as in Eriksson et al., NeurIPS 2019, from Gym's heuristic).

The state s holds position (0, 1), velocity (2, 3), angle (4), its rate (5) and the contact of the legs (6, 7). Wanted
angle: w1 s0 + w2 s2, at most w3 in size; wanted height: w4 |s0|. Turn: w5 (angle - s4) - w6 s5; lift: w7 (height - s1)
- w8 s3; with a leg on the ground turn = w9 and lift = -w10 s3. The main engine fires where lift exceeds both |turn| and
w11, else a side engine where |turn| exceeds w12. The value is minus the mean reward over EPISODES fixed episodes of at
most STEPS steps.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np

from dechbo.bench.problems.problem import Array, Problem, box_problem, require_module

NAME = "LunarLander-12"
GAINS = 12
EPISODES = 10
STEPS = 500
NOTHING, LEFT, MAIN, RIGHT = 0, 1, 2, 3


def action(s: Array, w: Array) -> int:
    """Which engine the controller with gains ``w`` fires in state ``s``."""
    if s[6] or s[7]:
        turn, lift = w[8], -w[9] * s[3]
    else:
        angle = np.clip(w[0] * s[0] + w[1] * s[2], -w[2], w[2])
        turn = w[4] * (angle - s[4]) - w[5] * s[5]
        lift = w[6] * (w[3] * abs(s[0]) - s[1]) - w[7] * s[3]
    if lift > max(abs(turn), w[10]):
        return MAIN
    if turn < -w[11]:
        return RIGHT
    return LEFT if turn > w[11] else NOTHING


@dataclass(frozen=True)
class Lander:
    """Minus the mean reward of the controller with gains x."""

    def __call__(self, x: Array) -> float:
        """The value of the gains x (12,)."""
        return -float(np.mean([_episode(x, seed) for seed in range(EPISODES)]))


def _episode(w: Array, seed: int) -> float:
    world = _world()
    reward = 0.0
    with _quiet():
        state, _ = world.reset(seed=seed)
        for _ in range(STEPS):
            state, gained, over, cut, _ = world.step(action(state.astype(np.float64), w))
            reward += float(gained)
            if over or cut:
                break
    return reward


@cache
def _world() -> Any:
    with _quiet():
        require_module(NAME, "Box2D")
        gymnasium = require_module(NAME, "gymnasium")
        return gymnasium.make("LunarLander-v3", max_episode_steps=STEPS)


@contextmanager
def _quiet() -> Iterator[None]:
    # Box2D's wrapper warns while it is imported; a warning made an error there ends the process
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


def lunar_lander(seed: int) -> Problem:
    """The same for every seed."""
    _world()
    return box_problem(NAME, Lander(), dim=GAINS, low=0.0, high=2.0)
