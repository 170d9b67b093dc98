"""dechbo as an Optuna sampler: ``optuna.create_study(sampler=DecHBOSampler(seed=0))``.

A suggestion depends only on what Optuna's storage holds: the trials, the seed, and which process runs which trial. A
process can die at any moment, and another one continues with the same suggestions.
"""

from dechbo.integrations.optuna.adapter import OWNER, STALE
from dechbo.integrations.optuna.attributes import learned_graph
from dechbo.integrations.optuna.processes import is_dead, this_process
from dechbo.integrations.optuna.recovery import recover, retry_stale
from dechbo.integrations.optuna.revisions import correct, retract, retry
from dechbo.integrations.optuna.sampler import DecHBOSampler
from dechbo.integrations.optuna.spaces import distributions_of

__all__ = [
    "OWNER",
    "STALE",
    "DecHBOSampler",
    "correct",
    "distributions_of",
    "is_dead",
    "learned_graph",
    "recover",
    "retract",
    "retry",
    "retry_stale",
    "this_process",
]
