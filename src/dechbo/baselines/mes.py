"""Add-MES-G and Add-MES-R: additive max-value entropy search (Wang and Jegelka 2017)."""

from __future__ import annotations

from typing import Unpack

import numpy as np
from numpy.typing import NDArray

from dechbo import checks
from dechbo.baselines.additive import AdditiveBaseline, AdditiveOptions, ScoredComponent
from dechbo.baselines.base import MAX_VALUES
from dechbo.baselines.component import ComponentScore
from dechbo.baselines.entropy import MaxValueEntropy, gumbel_samples
from dechbo.baselines.features import Features, SampledFunction, posterior_weights
from dechbo.baselines.maximize import maximize
from dechbo.space import Space

Array = NDArray[np.float64]

MAX_VALUE_MARGIN = 5.0  # a max-value is at least this many deviations of the noise above every mean


class AddMES(AdditiveBaseline):
    """x_I = argmax of the mean over K max-values y*_I of gamma lambda(gamma) / 2 - log Psi(gamma), for each group I.

    gamma = (y*_I - mu_I(x)) / sigma_I(x), lambda = psi / Psi: the information about the component's maximum.

    Parameters
    ----------
    samples
        The source of the max-values: "gumbel" (Add-MES-G), or "functions" (Add-MES-R) sampled with random features.
    max_values
        K, the number of max-values.
    features
        The number of random features of each component, for "functions".
    **options
        As for ``AdditiveBaseline``.
    """

    def __init__(
        self,
        space: Space,
        *,
        samples: str = "gumbel",
        max_values: int = 10,
        features: int = 500,
        **options: Unpack[AdditiveOptions],
    ) -> None:
        super().__init__(space, **options)
        self.samples = checks.one_of("samples", samples, ("gumbel", "functions"))
        self.max_values = checks.whole("max_values", max_values, 1)
        self.features = checks.whole("features", features, 1)

    def _scores(self, components: list[ScoredComponent]) -> list[ComponentScore]:
        rng = np.random.default_rng([self.seed, MAX_VALUES, self._n_known])
        noise = float(np.sqrt(components[0].component.posterior.gp.hyperparameters.noise))
        by_gumbel = self.samples == "gumbel"
        drawn = self._by_gumbel(components, rng, noise) if by_gumbel else self._by_functions(components, rng)
        return [
            MaxValueEntropy(np.maximum(values, part.mean.max() + MAX_VALUE_MARGIN * noise), noise)
            for part, values in zip(components, drawn, strict=True)
        ]

    def _by_gumbel(self, components: list[ScoredComponent], rng: np.random.Generator, noise: float) -> list[Array]:
        return [
            gumbel_samples(rng, part.mean, np.maximum(part.deviation, noise), self.max_values) for part in components
        ]

    def _by_functions(self, components: list[ScoredComponent], rng: np.random.Generator) -> list[Array]:
        """The maxima of functions sampled from the posterior."""
        fit = self._fit()
        sizes = [parameter.cardinality for parameter in self.space.parameters]
        features = [Features.draw(rng, fit.gp, k, sizes, self.features) for k in range(len(components))]
        weights = posterior_weights(rng, fit.gp, fit.data, features, self.max_values)
        return [_maxima(part, phi, theta) for part, phi, theta in zip(components, features, weights, strict=True)]


def _maxima(part: ScoredComponent, features: Features, weights: Array) -> Array:
    """max_x phi(x) theta of every column of ``weights`` (F, K)."""
    values = features(part.points) @ weights
    if part.domain.dim == 1:  # the grid is fine enough
        top: Array = values.max(axis=0)
        return top
    functions = [SampledFunction(features, theta) for theta in weights.T]
    found = [
        maximize(function, part.domain, part.points, column, ascents=1)
        for function, column in zip(functions, values.T, strict=True)
    ]
    return np.array([ranked[0][0] for ranked in found])
