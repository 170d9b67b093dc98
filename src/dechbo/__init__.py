"""dechbo: Bayesian optimisation of expensive black boxes with many parameters (DEC-HBO)."""

from dechbo.errors import DechboError
from dechbo.graph import FactorGraph
from dechbo.maxsum import Exact, MaxSum
from dechbo.optimizer import Optimizer
from dechbo.space import Categorical, Float, Int, Space
from dechbo.tables import FactorTables

__version__ = "0.1.0"

__all__ = [
    "Categorical",
    "DechboError",
    "Exact",
    "FactorGraph",
    "FactorTables",
    "Float",
    "Int",
    "MaxSum",
    "Optimizer",
    "Space",
]
