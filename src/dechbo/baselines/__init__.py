"""The methods that the paper compares with, each as its own paper defines it, with ``ask`` and ``tell``."""

from dechbo.baselines.base import Baseline
from dechbo.baselines.mes import AddMES
from dechbo.baselines.random_search import RandomSearch, SobolSearch
from dechbo.baselines.rembo import REMBO
from dechbo.baselines.ucb import GPUCB, AddGPUCB

__all__ = ["GPUCB", "REMBO", "AddGPUCB", "AddMES", "Baseline", "RandomSearch", "SobolSearch"]
