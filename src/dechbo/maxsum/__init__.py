"""Maximisers of a sum of factor tables: max-sum messages (Eqs. 3 and 4) with an upper bound, and exact elimination."""

from dechbo.maxsum.exact import Exact
from dechbo.maxsum.maximum import Maximizer, Maximum
from dechbo.maxsum.maxsum import MaxSum

__all__ = ["Exact", "MaxSum", "Maximizer", "Maximum"]
