"""Which factors: variance components of all scopes, Markov chains over sets of interactions, random forests."""

from dechbo.structure.diagnostics import Convergence
from dechbo.structure.forest import random_forest
from dechbo.structure.learner import StructureOptions, StructurePosterior, learn_structure
from dechbo.structure.prior import GraphPrior

__all__ = ["Convergence", "GraphPrior", "StructureOptions", "StructurePosterior", "learn_structure", "random_forest"]
