"""The objective of voltages.yaml: an AC power flow of the IEEE 118-bus grid (PYPOWER), as a function of 54 voltages.

``dechbo optimize examples/voltages.yaml`` tunes them; ``python examples/voltages.py`` shows the value of the grid as
published. The physics is that of the test problem Voltages-54. To adapt it, call your own simulator in ``value``: it
gets one keyword argument per parameter and returns a number. Return NaN or raise an exception where it fails.
"""

from __future__ import annotations

from pypower.api import case118

from dechbo.bench.problems.voltages import Grid

GRID = Grid()
GENERATORS = [f"bus_{bus:.0f}" for bus in case118()["gen"][:, 0]]  # in the order that the grid expects


def value(**voltages):
    return GRID([voltages[name] for name in GENERATORS])


if __name__ == "__main__":
    published = dict(zip(GENERATORS, case118()["gen"][:, 5], strict=True))
    print("losses and penalties in MW, lower is better")
    print(f"set-points of the case file      {value(**published):.1f}")
    print(f"every generator at 1.00 p.u.     {value(**dict.fromkeys(GENERATORS, 1.00)):.1f}")
    print(f"every generator at 1.05 p.u.     {value(**dict.fromkeys(GENERATORS, 1.05)):.1f}")
