"""The upper-confidence acquisition phi = sum_I mu_I + sqrt(beta) sigma_I: its beta, its tables, its gradient."""

from dechbo.acquisition.beta import Beta, BetaContext, beta_schedule
from dechbo.acquisition.cache import TableCache
from dechbo.acquisition.continuous import Acquisition
from dechbo.acquisition.grid import ucb_tables

__all__ = ["Acquisition", "Beta", "BetaContext", "TableCache", "beta_schedule", "ucb_tables"]
