"""A committee: several models of the same data, weighted by how well each predicts what it has not seen.

Two kinds of predictions count, by their log densities:

- *forecasts*, log p_m(y_p | the values before it) of the latest values, at hyperparameters fitted before any of them.
  They are honest, because the member knew nothing of these values, and they are few;
- *leave-one-out*, log p_m(y_p | all other values). It counts every value, but at hyperparameters fitted to all of them,
  so it flatters the member that fits most closely. A nat of it counts ``LEAVE_ONE_OUT_SHARE``.

The weight of member m is proportional to the exponential of the sum of both, smoothed by a quarter of an observation: a
member that has fallen behind keeps a little weight while data are few. Stacking leave-one-out densities gives a share
to every member that predicts a few values best; the mixture's expected improvement then follows whichever member is
least sure.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from dechbo.data.observations import Observations
from dechbo.gp.additive import AdditiveGP, leave_one_out
from dechbo.gp.posterior import JointPosterior, WeightedPosterior
from dechbo.gp.radial import RadialGP
from dechbo.models.warp import ValueScale

Array = NDArray[np.float64]

MIN_WEIGHT = 0.02  # members with less do not take part in a decision
SMOOTHING = 0.25  # observations
LEAVE_ONE_OUT_SHARE = 0.3
MIN_FORECAST = -30.0  # nats: where all members miss by far, by how far says nothing


@dataclass(frozen=True, eq=False)
class Member:
    """One model, with the name that options and ``info`` use."""

    name: str
    gp: AdditiveGP | RadialGP


@dataclass(frozen=True, eq=False)
class Committee:
    """What an ask believes about one quantity, larger being better, about every constraint, and about failures."""

    members: tuple[Member, ...]
    data: Observations  # in the units of ``scale``
    scale: ValueScale
    forecasts: Array | None = None  # (members, k) log densities of the latest values, each given the ones before it
    constraints: Mapping[str, Committee] = field(default_factory=dict)  # one committee on -c for each constraint told
    success: Committee | None = None  # on 1 for an evaluation that gave a number and -1 for one that failed, if any did

    @property
    def limits(self) -> tuple[Committee, ...]:
        """The committees whose values have to be above 0: of the constraints, and of success."""
        return (*self.constraints.values(), *(() if self.success is None else (self.success,)))

    @cached_property
    def posteriors(self) -> tuple[JointPosterior, ...]:
        """Of every member, given the data."""
        return tuple(member.gp.condition(self.data) for member in self.members)

    @cached_property
    def weights(self) -> Array:
        """Of every member, summing to 1."""
        densities = [leave_one_out(posterior.L, posterior.alpha) for posterior in self.posteriors]
        return predictive_weights(np.array(densities), self.forecasts)

    def deciding(self, pending: Array | None = None) -> list[WeightedPosterior]:
        """The members that take part in a decision, deviations conditioned on ``pending`` points (m, d)."""
        taking_part = self.weights >= min(MIN_WEIGHT, float(self.weights.max()))
        total = float(self.weights[taking_part].sum())
        chosen = [(float(self.weights[k]) / total, self.posteriors[k]) for k in np.flatnonzero(taking_part)]
        if pending is None or len(pending) == 0:
            return chosen
        return [(weight, posterior.with_pending(pending)) for weight, posterior in chosen]

    def moments(self, points: Array) -> tuple[Array, Array]:
        """Mean and standard deviation of the mixture at ``points`` (n, d), in standard units."""
        return mixture_moments(self.deciding(), points)

    def predict(self, point: Array) -> tuple[float, float]:
        """Mean and standard deviation at one point, in the units of the values."""
        mean, deviation = (float(part[0]) for part in self.moments(point[None]))
        return self.scale.original(mean), self.scale.original_deviation(mean, deviation)

    @property
    def jitter(self) -> float:
        """The largest jitter of a member."""
        return max(posterior.jitter for posterior in self.posteriors)


def mixture_moments(members: Sequence[WeightedPosterior], points: Array) -> tuple[Array, Array]:
    """Mean and standard deviation of a mixture of posteriors at ``points`` (n, d)."""
    mean, square = np.zeros(len(points)), np.zeros(len(points))
    for weight, member in members:
        mu, sigma = member.joint(points)
        mean += weight * mu
        square += weight * (sigma**2 + mu**2)
    return mean, np.sqrt(np.maximum(square - mean**2, 0.0))


def predictive_weights(left_out: Array, forecasts: Array | None = None) -> Array:
    """The weights of members from log densities: leave-one-out (members, n), and ``forecasts`` (members, k)."""
    many, n = left_out.shape
    totals = LEAVE_ONE_OUT_SHARE * left_out.sum(axis=1)
    if forecasts is not None:
        totals = totals + np.maximum(forecasts, MIN_FORECAST).sum(axis=1)
    shares = np.exp(totals - totals.max())
    weights: Array = (n * shares / shares.sum() + SMOOTHING) / (n + SMOOTHING * many)
    return weights
