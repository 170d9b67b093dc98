"""The search space and the encoding of its points.

Notation: d = ``dim`` parameters; a *point* is an array (d,). Numeric coordinates are in [0, 1], linear in the value or
in its logarithm; a categorical coordinate is the index of its choice, as a float. Discrete numeric parameters
have the values low + k step, k = 0 … last, and grids contain only coordinates of these values.
"""

from dechbo.space.categorical import Categorical
from dechbo.space.linear import Linear
from dechbo.space.numeric import Float, Int
from dechbo.space.parameters import Parameter, parameter_from_json
from dechbo.space.region import Region
from dechbo.space.space import Space

__all__ = ["Categorical", "Float", "Int", "Linear", "Parameter", "Region", "Space", "parameter_from_json"]
