"""Maximisers of a sum of tables: max-sum messages (Eqs. 3 and 4), their upper bound, and exact elimination."""

from dechbo.maxsum.exact import Exact
from dechbo.maxsum.maximum import Maximizer, Maximum
from dechbo.maxsum.maxsum import MaxSum
from dechbo.maxsum.messages import factor_to_variable

__all__ = ["Exact", "MaxSum", "Maximizer", "Maximum", "factor_to_variable"]
