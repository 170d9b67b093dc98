"""Maximisers of a sum of factor tables: max-sum messages (Eqs. 3 and 4) with an upper bound, and exact elimination."""

from dechbo.maxsum.auto import Auto, as_maximizer
from dechbo.maxsum.bounded import BoundedMaximum, BoundedMaxSum
from dechbo.maxsum.exact import Exact
from dechbo.maxsum.maximum import Maximizer, Maximum
from dechbo.maxsum.maxsum import MaxSum
from dechbo.maxsum.toulbar2 import Toulbar2

__all__ = [
    "Auto",
    "BoundedMaxSum",
    "BoundedMaximum",
    "Exact",
    "MaxSum",
    "Maximizer",
    "Maximum",
    "Toulbar2",
    "as_maximizer",
]
