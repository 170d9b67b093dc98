"""Add-MES-G and Add-MES-R: additive max-value entropy search (Wang and Jegelka 2017)."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray

from dechbo import checks
from dechbo.baselines.additive import AdditiveRival, Part
from dechbo.baselines.component import Score
from dechbo.baselines.entropy import MaxValueEntropy, gumbel_samples
from dechbo.baselines.features import Features, SampledFunction, posterior_weights
from dechbo.baselines.maximise import maximise
from dechbo.baselines.rival import VALUES
from dechbo.space import Space

Array = NDArray[np.float64]

CLEARANCE = 5.0  # a max-value lies at least so many deviations of the noise above every mean


class AddMES(AdditiveRival):
    """x_I = argmax of the mean over K max-values y*_I of gamma lambda(gamma) / 2 - log Psi(gamma), for each group I.

    gamma = (y*_I - mu_I(x)) / sigma_I(x), lambda = psi / Psi: how much an evaluation tells of the component's maximum.

    Parameters
    ----------
    space, direction, seed, n_initial
        As for every rival: points told without asking count towards ``n_initial``.
    samples
        Where the max-values come from: "gumbel" (Add-MES-G) or "functions" (Add-MES-R), drawn with random features.
    max_values
        K, how many of them.
    features
        Random features of each component, for "functions".
    kernel
        "matern52" or "se", in each variable of a group; the group's kernel is their product.
    groups
        Disjoint groups of parameter names; singletons if neither they nor a ``group_size`` are given.
    group_size, partitions, relearn_every
        Without ``groups``: groups of so many parameters, the best of so many random partitions by evidence, learned
        anew every so many evaluations.
    """

    def __init__(
        self,
        space: Space,
        *,
        samples: str = "gumbel",
        direction: str = "minimize",
        seed: int | None = None,
        n_initial: int = 10,
        max_values: int = 10,
        features: int = 500,
        kernel: str = "matern52",
        groups: Iterable[Iterable[str]] | None = None,
        group_size: int = 1,
        partitions: int = 5,
        relearn_every: int = 25,
    ) -> None:
        super().__init__(
            space,
            direction=direction,
            seed=seed,
            n_initial=n_initial,
            kernel=kernel,
            groups=groups,
            group_size=group_size,
            partitions=partitions,
            relearn_every=relearn_every,
        )
        self.samples = checks.one_of("samples", samples, ("gumbel", "functions"))
        self.max_values = checks.whole("max_values", max_values, 1)
        self.features = checks.whole("features", features, 1)

    def _scores(self, parts: list[Part]) -> list[Score]:
        rng = np.random.default_rng([self.seed, VALUES, self._known])
        floor = float(np.sqrt(parts[0].component.posterior.gp.hyperparameters.noise))
        drawn = self._by_gumbel(parts, rng, floor) if self.samples == "gumbel" else self._by_functions(parts, rng)
        return [
            MaxValueEntropy(np.maximum(values, part.mean.max() + CLEARANCE * floor), floor)
            for part, values in zip(parts, drawn, strict=True)
        ]

    def _by_gumbel(self, parts: list[Part], rng: np.random.Generator, floor: float) -> list[Array]:
        return [gumbel_samples(rng, part.mean, np.maximum(part.deviation, floor), self.max_values) for part in parts]

    def _by_functions(self, parts: list[Part], rng: np.random.Generator) -> list[Array]:
        """The maxima of functions drawn from the posterior: over the candidates, climbed on where a group is larger."""
        fit = self._fit()
        sizes = [parameter.cardinality for parameter in self.space.parameters]
        features = [Features.draw(rng, fit.gp, k, sizes, self.features) for k in range(len(parts))]
        weights = posterior_weights(rng, fit.gp, fit.data, features, self.max_values)
        return [_maxima(part, phi, theta) for part, phi, theta in zip(parts, features, weights, strict=True)]


def _maxima(part: Part, features: Features, weights: Array) -> Array:
    """max_x phi(x) theta of every column of ``weights`` (F, K)."""
    values = features(part.points) @ weights
    if part.domain.dim == 1:  # 257 points leave nothing to climb
        top: Array = values.max(axis=0)
        return top
    functions = [SampledFunction(features, theta) for theta in weights.T]
    found = [
        maximise(function, part.domain, part.points, column, ascents=1)
        for function, column in zip(functions, values.T, strict=True)
    ]
    return np.array([ranked[0][0] for ranked in found])
