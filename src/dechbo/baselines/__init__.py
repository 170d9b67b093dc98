"""The paper's rivals behind the same ask / tell as ``Optimizer``, each as its own paper defines it."""

from dechbo.baselines.mes import AddMES
from dechbo.baselines.rembo import REMBO
from dechbo.baselines.rival import Rival
from dechbo.baselines.search import RandomSearch, SobolSearch
from dechbo.baselines.ucb import GPUCB, AddGPUCB

__all__ = ["GPUCB", "REMBO", "AddGPUCB", "AddMES", "RandomSearch", "Rival", "SobolSearch"]
