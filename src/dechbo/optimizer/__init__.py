"""Optimizer: ask for a point, tell its value."""

from dechbo.optimizer.info import AskInfo
from dechbo.optimizer.optimizer import Optimizer

__all__ = ["AskInfo", "Optimizer"]
