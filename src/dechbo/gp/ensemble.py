"""Several models of the same data, each with its own factor graph, averaged by the acquisition (Eq. 5)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dechbo.data.observations import Observations
from dechbo.errors import DataError
from dechbo.gp.additive import AdditiveGP, AdditivePosterior
from dechbo.graph import FactorGraph

Array = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Ensemble:
    """Models with weights that sum to 1."""

    members: tuple[AdditiveGP, ...]
    weights: tuple[float, ...]

    def __post_init__(self) -> None:
        if not self.members or len(self.members) != len(self.weights) or abs(sum(self.weights) - 1) > 1e-9:
            raise DataError(f"an ensemble needs members with weights that sum to 1, got {self.weights}")

    @cached_property
    def graph(self) -> FactorGraph:
        """The union of the members' graphs, scopes in order of first appearance."""
        scopes = dict.fromkeys(scope for member in self.members for scope in member.graph.scopes)
        return FactorGraph(self.members[0].graph.dim, tuple(scopes))

    def condition(self, data: Observations) -> EnsemblePosterior:
        """The posterior of every member given ``data``."""
        return EnsemblePosterior(self, tuple(member.condition(data) for member in self.members))


@dataclass(frozen=True, eq=False)
class EnsemblePosterior:
    """The posteriors of all members."""

    ensemble: Ensemble
    posteriors: tuple[AdditivePosterior, ...]

    @property
    def jitter(self) -> float:
        """The largest jitter of a member."""
        return max(posterior.jitter for posterior in self.posteriors)

    def with_pending(self, points: Array) -> EnsemblePosterior:
        """Condition the deviations, but not the means, on ``points`` too."""
        return EnsemblePosterior(self.ensemble, tuple(posterior.with_pending(points) for posterior in self.posteriors))

    def joint(self, points: ArrayLike) -> tuple[Array, Array]:
        """Mean and standard deviation of the mixture at ``points`` (n, d)."""
        parts = [posterior.joint(points) for posterior in self.posteriors]
        means, deviations = np.array([m for m, _ in parts]), np.array([s for _, s in parts])
        weights = np.array(self.ensemble.weights)
        mean = weights @ means
        variance = weights @ (deviations**2 + means**2) - mean**2
        return mean, np.sqrt(np.maximum(variance, 0.0))


Posterior = AdditivePosterior | EnsemblePosterior
Surrogate = AdditiveGP | Ensemble


def weighted_members(posterior: Posterior) -> Sequence[tuple[float, AdditivePosterior]]:
    """The (weight, posterior) pairs of the members; one of weight 1 for a single model."""
    if isinstance(posterior, AdditivePosterior):
        return [(1.0, posterior)]
    return list(zip(posterior.ensemble.weights, posterior.posteriors, strict=True))
