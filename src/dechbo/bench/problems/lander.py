"""LunarLander-12: Gym's heuristic controller with 12 gains to tune (Eriksson et al., NeurIPS 2019).

The state s holds position (0, 1), velocity (2, 3), angle (4), its rate (5) and the contact of the legs (6, 7). The
target angle is w1 s0 + w2 s2, clipped to [-w3, w3], the target height w4 |s0|. Turn is w5 (angle - s4) - w6 s5 and lift
is w7 (height - s1) - w8 s3; with a leg on the ground turn is w9 and lift -w10 s3. The main engine fires if lift exceeds
both |turn| and w11, otherwise a side engine if |turn| exceeds w12. The value is minus the mean reward over EPISODES
fixed episodes of at most MAX_STEPS steps. Tests: test_problems_real.py.
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
MAX_STEPS = 500
NOTHING, LEFT, MAIN, RIGHT = 0, 1, 2, 3


def action(s: Array, w: Array) -> int:
    """The engine that the controller with gains ``w`` fires in state ``s``."""
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
    environment = _environment()
    reward = 0.0
    with _quiet():
        state, _ = environment.reset(seed=seed)
        for _ in range(MAX_STEPS):
            state, gained, over, cut, _ = environment.step(action(state.astype(np.float64), w))
            reward += float(gained)
            if over or cut:
                break
    return reward


@cache
def _environment() -> Any:
    with _quiet():
        require_module(NAME, "Box2D")
        gymnasium = require_module(NAME, "gymnasium")
        return gymnasium.make("LunarLander-v3", max_episode_steps=MAX_STEPS)


@contextmanager
def _quiet() -> Iterator[None]:
    # importing Box2D warns, and with warnings as errors that would end the process
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


def lunar_lander(seed: int) -> Problem:
    """The problem; the seed has no effect."""
    _environment()
    return box_problem(NAME, Lander(), dim=GAINS, low=0.0, high=2.0)
