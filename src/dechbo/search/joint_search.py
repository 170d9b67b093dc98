"""Points off the grid: chosen by the joint bound mu(x) + sqrt(beta) sigma(x) of the whole function.

The sum of the factors' bounds can be maximised with a certificate, but it counts each factor's uncertainty by itself:
sum_I sigma_I stays large where f is known. The joint bound knows better, and does not care how large a factor is.
Nothing is certified about it: it is the best of many starts, some of them followed uphill.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from dechbo.acquisition import JointConfidenceBound
from dechbo.data.observations import Observations
from dechbo.gp.ensemble import Posterior, weighted_members
from dechbo.search.polish import ascend
from dechbo.space import Space

Array = NDArray[np.float64]

SHARE = 0.3  # of what the best pending point promised, which another has to promise beyond it
WORTHWHILE = 1e-5  # what a point has to promise, in standard deviations of the values, to be worth an evaluation
STARTS, ASCENTS = 256, 4  # of each kind of start, and how many are followed uphill
WORK = 3e8  # one-dimensional kernels that the starts may cost
FINEST_STEPS = 1024  # values of a discrete number between which a start may choose
BEST = 3  # the best points observed, around which starts are strewn


@dataclass(frozen=True, eq=False)
class Scout:
    """One search by the joint bound: what is known, what is held fixed, what must not come again."""

    space: Space
    posterior: Posterior  # deviations narrowed by pending points
    data: Observations
    beta: float
    fixed: Mapping[int, float]
    incumbent: Array  # (d,), with the fixed coordinates, and where the known constraints hold
    lines: Sequence[Array]  # candidates of each variable
    moving: NDArray[np.int64]  # the continuous variables that are free
    is_taken: Callable[[Array], bool]
    steps: int  # of each ascent
    champions: Array | None = None  # (n, d), the best points known first; None: those with the best posterior means
    pending: Array | None = None  # (m, d), points whose values are on the way
    before: Posterior | None = None  # without the pending points

    @cached_property
    def joint(self) -> JointConfidenceBound:
        """The bound."""
        return JointConfidenceBound(self.posterior, self.beta)

    def best(self, known: Sequence[Array] = ()) -> tuple[float, Array] | None:
        """The free point with the highest joint bound, from ``known`` points and strewn starts; None: all are taken."""
        starts = np.vstack([*known, self.starts])
        values = self.joint.values(starts)
        order = np.argsort(-values, kind="stable")
        reached = [(float(values[k]), starts[k]) for k in order]
        if len(self.moving) and self.steps:
            free = itertools.islice((int(k) for k in order if not self.is_taken(starts[k])), ASCENTS)
            chosen = list(dict.fromkeys([*range(len(known)), *free]))
            reached = [
                ascend(self.joint, starts[k], self.moving, self.steps, self.space.region) for k in chosen
            ] + reached
            reached.sort(key=lambda pair: -pair[0])
        return next((pair for pair in reached if not self.is_taken(pair[1])), None)

    def elsewhere(self, point: Array) -> Array:
        """The best free point by the joint bound that may beat the best; if none may, the one least known.

        If every start is taken, ``point`` stays.
        """
        starts = self.starts
        mean, deviation = self.posterior.joint(starts)
        promising = self.promise(starts) >= WORTHWHILE
        order = np.lexsort([-np.where(promising, mean + np.sqrt(self.beta) * deviation, deviation), ~promising])
        free = list(itertools.islice((k for k in order if not self.is_taken(starts[k])), ASCENTS))
        reached = [
            ascend(self.joint, starts[k], self.moving, self.steps, self.space.region)
            for k in free
            if promising[k] and len(self.moving) and self.steps
        ]
        for _, end in sorted(reached, key=lambda pair: -pair[0]):
            if self.promise(end[None])[0] >= WORTHWHILE and not self.is_taken(end):
                return end
        return starts[free[0]] if free else point

    def promise(self, points: Array) -> Array:
        """How much ``points`` may gain over the best observed one: mean and two deviations of the difference.

        What the best pending point promised is not counted again: a point that gains too little over it is worth less.
        """
        over = _gain(self.posterior, points, self._champions[0])
        if self._awaited is None:
            return over
        best, promised = self._awaited
        beyond = _gain(self.posterior, points, best) - SHARE * max(promised, 0.0) + WORTHWHILE
        return np.minimum(over, beyond)

    @cached_property
    def _awaited(self) -> tuple[Array, float] | None:
        """The pending point with the best mean, and the most that one promised over the best observed; None: none."""
        if self.pending is None or self.before is None:
            return None
        pending = self.pending[self._within_reach(self.pending)]
        if len(pending) == 0:
            return None
        best = pending[int(self.posterior.joint(pending)[0].argmax())]
        return best, float(_gain(self.before, pending, self._champions[0]).max())

    @cached_property
    def _champions(self) -> Array:
        """The observed points with the best posterior means; the best first.

        Of those that could be suggested but for being known; if there are none, the incumbent moved there.
        """
        if self.champions is not None:
            return self.champions
        means = smoothed(self.posterior, self.data)
        held = self._within_reach(self.data.X)
        if not held.any():
            return self.incumbent[None]
        champions: Array = self.data.X[held][np.argsort(-means[held], kind="stable")[:BEST]]
        return champions

    def _within_reach(self, points: Array) -> NDArray[np.bool_]:
        """Which of ``points`` (n, d) have the fixed coordinates and satisfy the known constraints."""
        held = np.ones(len(points), dtype=bool)
        for i, value in self.fixed.items():
            held &= np.abs(points[:, i] - value) < 1e-9
        return held & self.space.region.allows(points) if self.space.constraints else held

    @cached_property
    def starts(self) -> Array:
        """Random points, points that differ from the incumbent in one coordinate, and points strewn around the best."""
        d = self.space.dim
        rng = np.random.default_rng([len(self.data), len(self.posterior_points)])
        members = len(weighted_members(self.posterior))
        many = int(np.clip(WORK / (16 * d * len(self.posterior_points) * members), 16, STARTS))
        parts = [np.array([self.space.from_uniform(u) for u in rng.random((many, d))])]
        along = [(i, x) for i in rng.permutation(d)[:many].tolist() for x in self.lines[i]]
        along = [along[k] for k in rng.permutation(len(along))[: 3 * many]]
        line = np.tile(self.incumbent, (len(along), 1))
        line[np.arange(len(along)), [i for i, _ in along]] = [x for _, x in along]
        parts.append(line)
        parts += [self._strewn(rng, champion, many) for champion in self._champions]
        chosen = np.vstack(parts)
        chosen[:, list(self.fixed)] = list(self.fixed.values())
        return self.space.region.pull_inside(chosen, self.incumbent) if self.space.constraints else chosen

    @property
    def posterior_points(self) -> Array:
        """Where observed, and where pending."""
        return weighted_members(self.posterior)[0][1].X

    def _strewn(self, rng: np.random.Generator, centre: Array, many: int) -> Array:
        """Points that share most coordinates with ``centre``: numbers moved a little, categories drawn anew."""
        d = self.space.dim
        changed = rng.random((many, d)) < min(0.5, 10 / d)
        changed[np.arange(many), rng.integers(d, size=many)] = True
        near = centre + 10 ** rng.uniform(-3, -0.5, (many, 1)) * rng.standard_normal((many, d))
        fresh = np.clip(near, 0.0, 1.0)
        for i in np.flatnonzero(~self.space.is_continuous).tolist():
            if self.space.is_categorical[i]:
                fresh[:, i] = rng.choice(self.lines[i], many)
            else:  # the value next to it
                values = self.space.parameters[i].grid(FINEST_STEPS)
                fresh[:, i] = values[np.abs(values - fresh[:, i, None]).argmin(axis=1)]
        answer: Array = np.where(changed, fresh, centre)
        return answer


def smoothed(posterior: Posterior, data: Observations) -> Array:
    """The posterior means where observed, K alpha = y - noise alpha, (n,)."""
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
