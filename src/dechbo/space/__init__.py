"""The search space, and its encoding as points.

Notation: d = ``dim`` parameters; a *point* is an array (d,). Numeric coordinates lie in the unit interval, with the
log scale already applied (log scale is a scale); a categorical coordinate is the index of its choice, as a float.
Discrete numeric parameters hold the values low + k step, k = 0 … last; their candidates are real values only.
"""

from dechbo.space.categorical import Categorical
from dechbo.space.linear import Linear
from dechbo.space.numeric import Float, Int
from dechbo.space.parameters import Parameter, parameter_from_json
from dechbo.space.region import Region
from dechbo.space.space import Space

__all__ = ["Categorical", "Float", "Int", "Linear", "Parameter", "Region", "Space", "parameter_from_json"]
