"""Gaussian processes that are sums of factors: kernels, posterior, evidence, fit."""

from dechbo.gp.additive import AdditiveGP, AdditivePosterior, Hyperparameters
from dechbo.gp.ensemble import Ensemble, EnsemblePosterior, Surrogate
from dechbo.gp.fit import fit

__all__ = [
    "AdditiveGP",
    "AdditivePosterior",
    "Ensemble",
    "EnsemblePosterior",
    "Hyperparameters",
    "Surrogate",
    "fit",
]
