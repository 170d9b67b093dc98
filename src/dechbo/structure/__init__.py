"""Where factor graphs come from when nobody gives one."""

from dechbo.structure.forest import random_forest

__all__ = ["random_forest"]
