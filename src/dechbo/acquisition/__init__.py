"""The upper-confidence acquisition phi = sum_I mu_I + sqrt(beta) sigma_I: its beta, its tables, its gradient."""

from dechbo.acquisition.average import AverageAcquisition, average_tables, bound_tables
from dechbo.acquisition.beta import Beta, BetaContext, beta_schedule
from dechbo.acquisition.cache import TableCache
from dechbo.acquisition.continuous import Acquisition
from dechbo.acquisition.grid import ucb_tables
from dechbo.acquisition.joint import JointAcquisition

__all__ = [
    "Acquisition",
    "AverageAcquisition",
    "Beta",
    "BetaContext",
    "JointAcquisition",
    "TableCache",
    "average_tables",
    "beta_schedule",
    "bound_tables",
    "ucb_tables",
]
