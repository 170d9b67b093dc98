"""Schedules for beta_t, the weight of exploration: phi_I = mu_I + sqrt(beta_t) sigma_I.

Notation: t counts evaluations from 1, and beta_{t+1} goes with the posterior after t observations;
pi_t = pi^2 t^2 / 6; delta is the probability that the guarantee fails; |U| factors; D^I the candidates of a scope.

=================  ==============================================================================================
``theory``         finite: 2 log(|D| |U| pi_t / delta)                                               (Theorem 1)
                   continuous: 2 log(4 |U| pi_t / delta) + 2 d log(r d b t^2 sqrt(log(4 |U| a / delta)))
                   (Theorem 3, with the beta of the last lemma of Appendix E; r = 1 in the unit cube)
``theory-factor``  2 log(pi_t sum_I |D^I| / delta): a union bound over the candidates of each factor, far smaller;
                   on continuous spaces 4 pi_t in place of pi_t, and |D^I| on the grid of Theorem 3
``practical``      0.2 min(m, 3) log(2 t), m the largest factor size: no guarantee, good results (after
                   Kandasamy et al. 2015; with m = d, a factor over all variables would only explore)
=================  ==============================================================================================

In a mixed space, discrete variables count with their own values. |D| overflows, so logarithms are summed.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import numpy as np
from numpy.typing import NDArray
from scipy.special import logsumexp

from dechbo.errors import OptionError
from dechbo.graph import FactorGraph

Array = NDArray[np.float64]
Beta = str | float | Callable[[int], float]

THEORY_SCHEDULES = ("theory", "theory-factor")  # with a regret guarantee, for the maximiser of the acquisition only
MAX_PRACTICAL_SIZE = 3  # factor size above which ``practical`` no longer grows
BETA_SCHEDULES = (*THEORY_SCHEDULES, "practical")


@dataclass(frozen=True, eq=False)
class BetaContext:
    """What a schedule knows about the problem."""

    graph: FactorGraph
    log_cardinalities: Array  # (d,) log of the number of values, inf for continuous variables
    delta: float
    lipschitz: float = 1.0  # b of Assumption 3, estimated from the hyperparameters
    lipschitz_tail: float = 1.0  # a of Assumption 3, assumed

    @property
    def is_finite(self) -> bool:
        """Whether every variable has finitely many values."""
        return bool(np.isfinite(self.log_cardinalities).all())


def beta_schedule(beta: Beta) -> Callable[[int, BetaContext], float]:
    """The schedule for a name, a constant or a callable of t."""
    if isinstance(beta, str):
        if beta not in BETA_SCHEDULES:
            raise OptionError(f"beta is one of {', '.join(BETA_SCHEDULES)}, a number or a callable of t, got {beta!r}")
        return {"theory": theory, "theory-factor": theory_factor, "practical": practical}[beta]
    return partial(_from_callable, beta) if callable(beta) else partial(_constant, _checked(beta))


def _from_callable(beta: Callable[[int], float], t: int, _: BetaContext) -> float:
    return _checked(beta(t))


def _constant(value: float, _t: int, _: BetaContext) -> float:
    return value


def theory(t: int, context: BetaContext) -> float:
    """Theorem 1 on finite spaces, Theorem 3 otherwise."""
    factors = np.log(len(context.graph.scopes))
    if context.is_finite:
        return 2 * float(context.log_cardinalities.sum() + factors + _log_pi(t) - np.log(context.delta))
    cells = log_grid(t, context).sum()
    return 2 * float(np.log(4) + factors + _log_pi(t) - np.log(context.delta) + cells)


def theory_factor(t: int, context: BetaContext) -> float:
    """Union bound over the candidates of each factor: sum_I |D^I| instead of |D| |U|."""
    graph = context.graph
    logs = context.log_cardinalities if context.is_finite else log_grid(t, context)
    cells = float(logsumexp(np.add.reduceat(logs[graph.members], graph.starts[:-1])))
    slack = 0.0 if context.is_finite else np.log(4)
    return 2 * float(slack + _log_pi(t) + cells - np.log(context.delta))


def practical(t: int, context: BetaContext) -> float:
    """0.2 min(m, 3) log(2 t)."""
    return 0.2 * min(context.graph.max_factor_size, MAX_PRACTICAL_SIZE) * float(np.log(2 * t))


def log_grid(t: int, context: BetaContext) -> Array:
    """Log of the candidates per variable: tau_t = r d b t^2 sqrt(log(4 |U| a / delta)) if continuous, else its own."""
    continuous = ~np.isfinite(context.log_cardinalities)
    inner = np.log(4 * len(context.graph.scopes) * context.lipschitz_tail / context.delta)
    tau = int(continuous.sum()) * context.lipschitz * t**2 * np.sqrt(max(inner, 1.0))
    return np.where(continuous, np.log(max(tau, 1.0)), context.log_cardinalities)


def _log_pi(t: int) -> float:
    return float(np.log(np.pi**2 * t**2 / 6))


def _checked(value: object) -> float:
    if isinstance(value, bool) or not isinstance(value, (int, float, np.floating, np.integer)):
        raise OptionError(f"beta needs to be a number at least 0, got {value!r}")
    if not (np.isfinite(value) and value >= 0):
        raise OptionError(f"beta needs to be finite and at least 0, got {value!r}")
    return float(value)
