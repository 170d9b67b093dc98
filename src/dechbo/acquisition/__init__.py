"""The acquisition phi = sum_I mu_I + sqrt(beta) sigma_I: beta schedules, factor tables, gradients; joint scores."""

from dechbo.acquisition.additive import AdditiveUCB
from dechbo.acquisition.beta import Beta, BetaContext, beta_schedule
from dechbo.acquisition.cache import TableCache
from dechbo.acquisition.ensemble import EnsembleUCB, acquisition_tables, ensemble_tables
from dechbo.acquisition.grid import ucb_tables

__all__ = [
    "AdditiveUCB",
    "Beta",
    "BetaContext",
    "EnsembleUCB",
    "TableCache",
    "acquisition_tables",
    "beta_schedule",
    "ensemble_tables",
    "ucb_tables",
]
