"""Voltages-54: voltage set-points of the 54 generators of the IEEE 118-bus grid that minimise losses.

The value, in MW, is the active losses of the AC power flow (Newton, PYPOWER) plus penalties: VOLTAGE_PENALTY per p.u.
of a bus outside its voltage limits, REACTIVE_PENALTY per Mvar of a generator outside its reactive limits, FLOW_PENALTY
per MVA of a branch above its rating (the ratings of this grid are too high to matter). If the power flow does not
converge, the value is NOT_CONVERGED. Tests: test_problems_real.py.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np

from dechbo.bench.problems.problem import Array, Problem, box_problem, require_module

NAME = "Voltages-54"
GENERATORS = 54
LOW, HIGH = 0.94, 1.06
VOLTAGE_PENALTY = 1000.0
REACTIVE_PENALTY = 0.1
FLOW_PENALTY = 1.0
NOT_CONVERGED = 2000.0

# columns of the case format
_VM, _VMAX, _VMIN = 7, 11, 12  # of a bus
_QG, _QMAX, _QMIN, _VG = 2, 3, 4, 5  # of a generator
_RATE, _PF, _QF, _PT, _QT = 5, 13, 14, 15, 16  # of a branch


def losses(result: dict[str, Array]) -> float:
    """Active losses of all branches, in MW."""
    branch = result["branch"]
    return float((branch[:, _PF] + branch[:, _PT]).sum())


def penalties(result: dict[str, Array]) -> float:
    """Penalties for violated limits, in MW."""
    bus, gen, branch = result["bus"], result["gen"], result["branch"]
    voltage = _outside(bus[:, _VM], bus[:, _VMIN], bus[:, _VMAX])
    reactive = _outside(gen[:, _QG], gen[:, _QMIN], gen[:, _QMAX])
    flow = np.maximum(np.hypot(branch[:, _PF], branch[:, _QF]), np.hypot(branch[:, _PT], branch[:, _QT]))
    rated = branch[:, _RATE] > 0  # 0 means no limit
    above = float(np.maximum(flow - branch[:, _RATE], 0)[rated].sum())
    return VOLTAGE_PENALTY * voltage + REACTIVE_PENALTY * reactive + FLOW_PENALTY * above


def _outside(values: Array, low: Array, high: Array) -> float:
    # the power flow returns set-points with rounding errors
    beyond = np.maximum(low - values, 0) + np.maximum(values - high, 0)
    return float(beyond[beyond > 1e-9].sum())


@dataclass(frozen=True)
class Grid:
    """Losses and penalties of the generators' set-points, in the order of the case file."""

    def __call__(self, x: Array) -> float:
        """The value of the set-points x (54,), in p.u."""
        api = _pypower()
        case: dict[str, Any] = api.case118()
        case["gen"][:, _VG] = x
        with np.errstate(all="ignore"):
            result, converged = api.runpf(case, api.ppoption(VERBOSE=0, OUT_ALL=0))
        value = losses(result) + penalties(result) if converged else np.inf
        return min(float(value), NOT_CONVERGED) if np.isfinite(value) else NOT_CONVERGED


@cache
def _pypower() -> Any:
    return require_module(NAME, "pypower.api")


def voltages(seed: int) -> Problem:
    """The problem; the seed has no effect."""
    _pypower()
    return box_problem(NAME, Grid(), dim=GENERATORS, low=LOW, high=HIGH)
