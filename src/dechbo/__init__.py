"""dechbo: Bayesian optimisation of expensive black boxes with many parameters (DEC-HBO).

Names are loaded when first used, so that ``import dechbo`` and ``dechbo --help`` cost nothing.
"""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from dechbo import interactions, plot
    from dechbo._minimize import minimize
    from dechbo.distributed import ProcessEngine, SynchronousMaxSum
    from dechbo.distributed.ray import RayEngine
    from dechbo.errors import DechboError
    from dechbo.graph import FactorGraph
    from dechbo.maxsum import BoundedMaxSum, Exact, MaxSum, Toulbar2
    from dechbo.models.options import ModelOptions
    from dechbo.optimizer import Optimizer
    from dechbo.search.engine import LocalEngine
    from dechbo.search.grids import Granularity
    from dechbo.search.options import SearchOptions
    from dechbo.space import Categorical, Float, Int, Linear, Space
    from dechbo.structure import StructureOptions
    from dechbo.studies.storage import make_storage
    from dechbo.tables import FactorTables
    from dechbo.theory import TheoryOptions

__version__ = "0.2.0"

_HOMES = {
    "BoundedMaxSum": "maxsum",
    "Categorical": "space",
    "DechboError": "errors",
    "Exact": "maxsum",
    "FactorGraph": "graph",
    "FactorTables": "tables",
    "Float": "space",
    "Granularity": "search.grids",
    "Int": "space",
    "Linear": "space",
    "LocalEngine": "search.engine",
    "MaxSum": "maxsum",
    "ModelOptions": "models.options",
    "Optimizer": "optimizer",
    "ProcessEngine": "distributed",
    "RayEngine": "distributed.ray",
    "SearchOptions": "search.options",
    "Space": "space",
    "StructureOptions": "structure",
    "SynchronousMaxSum": "distributed",
    "TheoryOptions": "theory",
    "Toulbar2": "maxsum",
    "make_storage": "studies.storage",
    "minimize": "_minimize",
}

__all__ = [
    "BoundedMaxSum",
    "Categorical",
    "DechboError",
    "Exact",
    "FactorGraph",
    "FactorTables",
    "Float",
    "Granularity",
    "Int",
    "Linear",
    "LocalEngine",
    "MaxSum",
    "ModelOptions",
    "Optimizer",
    "ProcessEngine",
    "RayEngine",
    "SearchOptions",
    "Space",
    "StructureOptions",
    "SynchronousMaxSum",
    "TheoryOptions",
    "Toulbar2",
    "__version__",
    "interactions",
    "make_storage",
    "minimize",
    "plot",
]


def __getattr__(name: str) -> object:
    if name in ("interactions", "plot"):  # modules: dechbo.interactions.from_csv(…)
        return import_module(f"dechbo.{name}")
    if name not in _HOMES:
        raise AttributeError(f"module 'dechbo' has no attribute {name!r}")
    value = getattr(import_module(f"dechbo.{_HOMES[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
