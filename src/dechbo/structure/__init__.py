"""Where factor graphs come from when nobody gives one: random forests, and a chain over interactions."""

from dechbo.structure.diagnostics import (
    Convergence,
    diagnose,
    effective_sample_size,
    pair_indicators,
    pair_probabilities,
    split_rhat,
)
from dechbo.structure.forest import random_forest
from dechbo.structure.moves import MOVE_PROBABILITIES, Moves, Proposal
from dechbo.structure.prior import GraphPrior, Interactions, ScopeDistribution, ScopeIndex, interaction_graph
from dechbo.structure.sampler import GraphSampler, MoveCounts, State, StepInfo, Target, Trace

__all__ = [
    "MOVE_PROBABILITIES",
    "Convergence",
    "GraphPrior",
    "GraphSampler",
    "Interactions",
    "MoveCounts",
    "Moves",
    "Proposal",
    "ScopeDistribution",
    "ScopeIndex",
    "State",
    "StepInfo",
    "Target",
    "Trace",
    "diagnose",
    "effective_sample_size",
    "interaction_graph",
    "pair_indicators",
    "pair_probabilities",
    "random_forest",
    "split_rhat",
]
