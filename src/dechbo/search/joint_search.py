"""Points off the grid, chosen by the joint bound mu(x) + sqrt(beta) sigma(x) of the whole function.

The sum of the factors' bounds can be maximised with a certificate, but it counts each factor's uncertainty by itself:
sum_I sigma_I stays large where f is known. The joint bound knows better, and does not care how large a factor is.
Nothing is certified about it: it is the best of many starts, some of them followed uphill.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from dechbo.acquisition import JointConfidenceBound
from dechbo.data.observations import Observations
from dechbo.gp.ensemble import Posterior, weighted_members
from dechbo.search.excluded import Exclusion
from dechbo.search.polish import polish
from dechbo.space import Space

Array = NDArray[np.float64]

PENDING_SHARE = 0.3  # of the best pending point's gain that another point has to add to it
MIN_GAIN = 1e-5  # optimistic gain, in standard deviations of the values, that is worth an evaluation
N_STARTS, N_POLISHED = 256, 4  # starts of each kind, and how many are polished
WORK = 3e8  # one-dimensional kernel evaluations that the starts may cost
MAX_STEPS = 1024  # values of a discrete number that a start may take
N_INCUMBENTS = 3  # best points around which starts are scattered


@dataclass(frozen=True, eq=False)
class JointSearch:
    """One search by the joint bound: what is known, fixed and excluded."""

    space: Space
    posterior: Posterior  # deviations conditioned on pending points
    data: Observations
    beta: float
    fixed: Mapping[int, float]
    incumbent: Array  # (d,), with the fixed coordinates, and where the known constraints hold
    lines: Sequence[Array]  # candidates of each variable
    moving: NDArray[np.int64]  # continuous variables that are not fixed
    excluded: Exclusion
    steps: int  # of each polish
    incumbents: Array | None = None  # (n, d), the best first; None: by posterior mean
    pending: Array | None = None  # (m, d)
    without_pending: Posterior | None = None

    @cached_property
    def joint(self) -> JointConfidenceBound:
        """The bound."""
        return JointConfidenceBound(self.posterior, self.beta)

    def best(self, known: Sequence[Array] = ()) -> tuple[float, Array] | None:
        """The point with the highest joint bound, from ``known`` and scattered starts; None if all are excluded."""
        starts = np.vstack([*known, self.starts])
        values = self.joint.values(starts)
        order = np.argsort(-values, kind="stable")
        reached = [(float(values[k]), starts[k]) for k in order]
        if len(self.moving) and self.steps:
            free = itertools.islice((int(k) for k in order if starts[k] not in self.excluded), N_POLISHED)
            chosen = list(dict.fromkeys([*range(len(known)), *free]))
            reached = [
                polish(self.joint, starts[k], self.moving, self.steps, self.space.region) for k in chosen
            ] + reached
            reached.sort(key=lambda pair: -pair[0])
        return next((pair for pair in reached if pair[1] not in self.excluded), None)

    def best_alternative(self, point: Array) -> Array:
        """The best start by the joint bound that may improve on the best point; if none may, the least certain one.

        If every start is excluded, ``point`` stays.
        """
        starts = self.starts
        mean, deviation = self.posterior.joint(starts)
        promising = self.optimistic_gain(starts) >= MIN_GAIN
        order = np.lexsort([-np.where(promising, mean + np.sqrt(self.beta) * deviation, deviation), ~promising])
        free = list(itertools.islice((k for k in order if starts[k] not in self.excluded), N_POLISHED))
        reached = [
            polish(self.joint, starts[k], self.moving, self.steps, self.space.region)
            for k in free
            if promising[k] and len(self.moving) and self.steps
        ]
        for _, end in sorted(reached, key=lambda pair: -pair[0]):
            if self.optimistic_gain(end[None])[0] >= MIN_GAIN and end not in self.excluded:
                return end
        return starts[free[0]] if free else point

    def optimistic_gain(self, points: Array) -> Array:
        """Mean plus two deviations of f(point) - f(incumbent) for ``points`` (n, d).

        The gain that the best pending point already stands for is not counted twice.
        """
        over = _gain(self.posterior, points, self._incumbents[0])
        if self._best_pending is None:
            return over
        best, gain = self._best_pending
        beyond = _gain(self.posterior, points, best) - PENDING_SHARE * max(gain, 0.0) + MIN_GAIN
        return np.minimum(over, beyond)

    @cached_property
    def _best_pending(self) -> tuple[Array, float] | None:
        """The pending point with the best mean, and the largest optimistic gain of a pending point."""
        if self.pending is None or self.without_pending is None:
            return None
        pending = self.pending[self._within_reach(self.pending)]
        if len(pending) == 0:
            return None
        best = pending[int(self.posterior.joint(pending)[0].argmax())]
        return best, float(_gain(self.without_pending, pending, self._incumbents[0]).max())

    @cached_property
    def _incumbents(self) -> Array:
        """The allowed observed points with the best posterior means, best first; the incumbent if none is allowed."""
        if self.incumbents is not None:
            return self.incumbents
        means = posterior_means(self.posterior, self.data)
        held = self._within_reach(self.data.X)
        if not held.any():
            return self.incumbent[None]
        incumbents: Array = self.data.X[held][np.argsort(-means[held], kind="stable")[:N_INCUMBENTS]]
        return incumbents

    def _within_reach(self, points: Array) -> NDArray[np.bool_]:
        """Which of ``points`` (n, d) have the fixed coordinates and satisfy the known constraints."""
        held = np.ones(len(points), dtype=bool)
        for i, value in self.fixed.items():
            held &= np.abs(points[:, i] - value) < 1e-9
        return held & self.space.region.allows(points) if self.space.constraints else held

    @cached_property
    def starts(self) -> Array:
        """Random points, points that differ from the incumbent in one coordinate, and points around the incumbents."""
        d = self.space.dim
        rng = np.random.default_rng([len(self.data), len(self.posterior_points)])
        members = len(weighted_members(self.posterior))
        many = int(np.clip(WORK / (16 * d * len(self.posterior_points) * members), 16, N_STARTS))
        parts = [np.array([self.space.from_uniform(u) for u in rng.random((many, d))])]
        along = [(i, x) for i in rng.permutation(d)[:many].tolist() for x in self.lines[i]]
        along = [along[k] for k in rng.permutation(len(along))[: 3 * many]]
        line = np.tile(self.incumbent, (len(along), 1))
        line[np.arange(len(along)), [i for i, _ in along]] = [x for _, x in along]
        parts.append(line)
        parts += [self._scattered(rng, centre, many) for centre in self._incumbents]
        chosen = np.vstack(parts)
        chosen[:, list(self.fixed)] = list(self.fixed.values())
        return self.space.region.pull_inside(chosen, self.incumbent) if self.space.constraints else chosen

    @property
    def posterior_points(self) -> Array:
        """Observed and pending points."""
        return weighted_members(self.posterior)[0][1].X

    def _scattered(self, rng: np.random.Generator, centre: Array, many: int) -> Array:
        """Points that share most coordinates with ``centre``: numbers move a little, categories are drawn again."""
        d = self.space.dim
        changed = rng.random((many, d)) < min(0.5, 10 / d)
        changed[np.arange(many), rng.integers(d, size=many)] = True
        near = centre + 10 ** rng.uniform(-3, -0.5, (many, 1)) * rng.standard_normal((many, d))
        fresh = np.clip(near, 0.0, 1.0)
        for i in np.flatnonzero(~self.space.is_continuous).tolist():
            if self.space.is_categorical[i]:
                fresh[:, i] = rng.choice(self.lines[i], many)
            else:  # the value next to it
                values = self.space.parameters[i].grid(MAX_STEPS)
                fresh[:, i] = values[np.abs(values - fresh[:, i, None]).argmin(axis=1)]
        answer: Array = np.where(changed, fresh, centre)
        return answer


def posterior_means(posterior: Posterior, data: Observations) -> Array:
    """The posterior means at the observed points, K alpha = y - noise alpha, (n,)."""
    means = np.zeros(len(data))
    for weight, member in weighted_members(posterior):
        noise = member.gp.hyperparameters.noise + data.noise + member.jitter
        means += weight * (data.y - noise * member.alpha[: len(data)])
    return means


def _gain(posterior: Posterior, points: Array, base: Array) -> Array:
    """Mean and two deviations of f - f(base) at ``points`` (n, d)."""
    total = np.zeros(len(points))
    for weight, member in weighted_members(posterior):
        mean, deviation = member.difference(points, base)
        total += weight * (mean + 2 * deviation)
    return total
