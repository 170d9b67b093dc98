"""Small mixtures of posteriors, additive and radial, numeric and categorical, that tests of scores share."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from dechbo.data.observations import Observations
from dechbo.gp import AdditiveGP, Hyperparameters
from dechbo.gp.posterior import JointPosterior, WeightedPosterior
from dechbo.gp.radial import ColumnEmbedding, RadialGP
from dechbo.graph import FactorGraph

Array = NDArray[np.float64]

CATEGORIES = (0, 0, 3)  # two numbers and one category
KERNELS = ("matern52", "se", "categorical")


def points_of(rng: np.random.Generator, n: int) -> Array:
    X = rng.random((n, 3))
    X[:, 2] = rng.integers(0, 3, n)
    return X


def mixture(seed: int, n: int = 9, pending: int = 0) -> list[WeightedPosterior]:
    """Three members: two factors that overlap, and one factor over all variables with either kernel."""
    rng = np.random.default_rng(seed)
    data = Observations(points_of(rng, n), rng.standard_normal(n))
    theta = Hyperparameters(np.array([0.3, 0.5, 1.0]), np.array([0.7, 0.5]), 1e-2)
    additive = AdditiveGP(FactorGraph(3, ((0, 1), (1, 2))), theta, kernel=KERNELS)
    radial = [
        RadialGP(ColumnEmbedding(CATEGORIES), np.array([6.0, 1.0, 2.0]), 1.3, 1e-2, kernel)
        for kernel in ("se", "matern52")
    ]
    at = points_of(rng, pending)
    posteriors: list[JointPosterior] = [additive.condition(data).with_pending(at)]
    posteriors += [gp.condition(data).with_pending(at) for gp in radial]
    return list(zip((0.5, 0.3, 0.2), posteriors, strict=True))
