"""Outlook: how much another few evaluations may still improve on the best, by the model's own belief.

The points are the most promising ones of a pool. Functions are drawn at all of them together, from each member of the
committee as often as its weight says, so that points beside each other do not count twice. What is learned on the way
is not foreseen. A point counts as often as it is probably feasible: as reported constraints and failures teach.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dechbo.acquisition.feasibility import LearnedConstraint, LogFeasibility
from dechbo.acquisition.score import log_improvement
from dechbo.models.committee import Committee
from dechbo.search.proposals import around, spread
from dechbo.space import Space

Array = NDArray[np.float64]

N_SPREAD, N_AROUND = 512, 128  # points of the pool: over the space, and around each incumbent
N_DRAWS = 2000


@dataclass(frozen=True)
class Outlook:
    """What another ``trials`` evaluations may bring."""

    trials: int
    gain: float  # the expected improvement on the best, in units of the values
    probability: float  # that they improve by more than epsilon
    epsilon: float

    def __str__(self) -> str:
        return (
            f"the model expects another {self.trials} trials to improve the best by {self.gain:.3g}; by more than "
            f"{self.epsilon:.3g} with probability {self.probability:.2f}"
        )


def outlook(
    committee: Committee, space: Space, incumbents: Array, best: float, trials: int, epsilon: float, seed: int
) -> Outlook:
    """The outlook of a committee; ``best`` is the best value so far, larger being better."""
    rng = np.random.default_rng([seed, len(committee.data), 11])
    pool = np.vstack([spread(space, rng, N_SPREAD), *(around(space, rng, x, N_AROUND) for x in incumbents)])
    pool = space.canonical(pool)
    if space.constraints:
        pool = pool[space.region.allows(pool)]
    mean, deviation = committee.moments(pool)
    scale = committee.scale
    at_best, at_top = scale.standard(np.array([best, scale.best])).tolist()  # the best feasible value, and that of all
    limits = LogFeasibility([LearnedConstraint.of(limit) for limit in committee.limits])
    feasible = limits.values(pool)
    promise = log_improvement(mean, deviation, at_best)[0] + feasible
    promising = np.argsort(-promise, kind="stable")[:trials]
    draws = joint_draws(committee, pool[promising], rng)
    if limits.constraints:
        draws[rng.random(draws.shape) >= np.exp(feasible[promising])] = -np.inf
    gains = np.zeros(N_DRAWS)
    for k, z in enumerate(draws.max(axis=1).tolist()):
        if z > at_best:  # beyond the best value of all, where a warp ends, its slope stays 1
            gains[k] = scale.original(min(z, at_top)) - best + max(z - at_top, 0.0) * scale.standardisation.scale
    return Outlook(trials, float(gains.mean()), float((gains > epsilon).mean()), epsilon)


def joint_draws(committee: Committee, points: Array, rng: np.random.Generator) -> Array:
    """Values at ``points`` (n, d) of functions drawn from the committee's mixture, (N_DRAWS, n)."""
    members = committee.deciding()
    counts = rng.multinomial(N_DRAWS, [weight for weight, _ in members])
    draws = []
    for count, (_, posterior) in zip(counts.tolist(), members, strict=True):
        mean, deviation = posterior.joint(points)
        corner = posterior.with_pending(points).L[-len(points) :, -len(points) :]
        covariance = corner @ corner.T  # with noise, which is not part of the function
        np.fill_diagonal(covariance, deviation**2)
        values, vectors = np.linalg.eigh(covariance)
        root = vectors * np.sqrt(np.maximum(values, 0.0))
        draws.append(mean + rng.standard_normal((count, len(points))) @ root.T)
    return np.vstack(draws)
