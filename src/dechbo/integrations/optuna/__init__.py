"""dechbo as a sampler of Optuna: ``optuna.create_study(sampler=DecHBOSampler(seed=0))``.

Everything a suggestion depends on lives in Optuna's storage: the trials, the seed, who runs which trial. A process can
end at any moment, another one goes on with the very same suggestions.
"""

from dechbo.integrations.optuna.kept import learned_graph
from dechbo.integrations.optuna.owners import OWNER, is_dead, this_process
from dechbo.integrations.optuna.recovery import recover, retry_stale
from dechbo.integrations.optuna.sampler import DecHBOSampler
from dechbo.integrations.optuna.spaces import distributions_of, space_of
from dechbo.integrations.optuna.trials import DIED

__all__ = [
    "DIED",
    "OWNER",
    "DecHBOSampler",
    "distributions_of",
    "is_dead",
    "learned_graph",
    "recover",
    "retry_stale",
    "space_of",
    "this_process",
]
