"""No-regret quantities: the bounds of the theorems for a run, and which of their parts are estimated.

Notation: r_t = f(x*) - f(x_t); R_n = sum_t r_t; gamma_n = sum_I gamma_n^I, the information gain of the factors;
g(s) = s / log(1 + s); h the limit of Assumption 4. Theorems 2 and 3 with
C = 8 sigma_n^2 |U| g(sigma_s^2 / sigma_n^2) / h (the paper's Appendix D counts beta_n twice):

    R_n <= sqrt(C n beta_n gamma_n)        on finite spaces
    R_n <= sqrt(C n beta_n gamma_n) + pi^2 / 6    on continuous ones
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import solve_triangular

from dechbo.acquisition.beta import THEORY_SCHEDULES, Beta, beta_schedule
from dechbo.checks import probability
from dechbo.data.observations import Observations
from dechbo.errors import DataError
from dechbo.gp import AdditiveGP, Ensemble, Surrogate
from dechbo.gp.kernels import curvatures

Array = NDArray[np.float64]


def step_bound(beta: float, deviations: Array | float, slack: float) -> float:
    """r_t <= 2 sqrt(beta_t) sum_I sigma_I(x_t) + slack  (Theorem 1), slack = upper bound - phi(x_t)."""
    return float(2 * np.sqrt(beta) * np.sum(deviations) + max(slack, 0.0))


def lipschitz_estimate(gp: Surrogate) -> float:
    """An estimate of b in Assumption 3: sqrt(2 max_i Var(df/dx_i)), the Gaussian tail of one partial derivative."""
    if isinstance(gp, Ensemble):
        return max(lipschitz_estimate(member) for member in gp.members)
    theta = gp.hyperparameters
    variance = np.zeros(gp.graph.dim)
    sizes = np.diff(gp.graph.starts)
    np.add.at(variance, gp.graph.members, np.repeat(theta.variances, sizes))
    slopes = variance * curvatures(gp.codes, theta.lengthscales)
    if gp.correlation.centring is not None:
        slopes = slopes * gp.correlation.centring.inverse
    return float(np.sqrt(2 * slopes.max()))


def factor_gram(gp: AdditiveGP, X: Array, index: int) -> Array:
    """K^I at the points X."""
    theta = gp.hyperparameters
    K = np.full((len(X), len(X)), theta.variances[index])
    for i in gp.graph.scopes[index]:
        K *= gp.correlation.matrix(i, X[:, i], X[:, i])
    return K


def information_gain(gp: AdditiveGP, X: Array) -> Array:
    """The realised gain of each factor, log det(I + K^I / sigma_n^2) / 2, a lower bound on gamma_n^I."""
    noise = gp.hyperparameters.noise
    if noise <= 0:
        raise DataError("information gain needs noise above 0: it is infinite without noise")
    identity = np.eye(len(X))
    gains = [np.linalg.slogdet(identity + factor_gram(gp, X, k) / noise)[1] for k in range(len(gp.graph.scopes))]
    return 0.5 * np.array(gains)


def variance_ratio(gp: AdditiveGP, X: Array) -> float:
    """An estimate of h of Assumption 4: the minimum over steps and factors of a ratio of variances.

    The ratio is Var f_I(x_t) given earlier values of f_I itself, over Var f_I(x_t) given earlier values of the sum f.
    """
    noise, variances = gp.hyperparameters.noise, gp.hyperparameters.variances
    diagonal = np.diag_indices(len(X))
    full = gp.gram(X)
    full[diagonal] += noise
    L = np.linalg.cholesky(full)
    worst = 1.0
    for k, variance in enumerate(variances):
        own = factor_gram(gp, X, k)
        # row t of L^-1 K^I below the diagonal: its squares are the variance that sums before t explain
        explained = np.tril(solve_triangular(L, own, lower=True).T, -1)
        given_sums = variance - (explained**2).sum(axis=1)
        own[diagonal] += noise
        given_own = np.diagonal(np.linalg.cholesky(own)) ** 2 - noise
        uncertain = given_sums > 1e-12 * variance
        worst = min(worst, float((np.maximum(given_own, 0.0)[uncertain] / given_sums[uncertain]).min(initial=1.0)))
    return worst


@dataclass(frozen=True, kw_only=True)
class TheoryOptions:
    """The weight of uncertainty in phi_I = mu_I + sqrt(beta) sigma_I.

    Parameters
    ----------
    beta
        "practical", "theory", "theory-factor" (see ``dechbo.acquisition.beta``), a number, or a callable of t.
        The two schedules of the theory guarantee no regret for the maximiser of the factors' bounds and for no other
        point. So they switch off ``SearchOptions(score="joint")``, and ``Optimizer.info.switched_off`` says so.
        A number or a callable is the beta of the bound: without ``score="factors"`` every ask maximises the committee's
        averaged bound with this beta, instead of the portfolio. Where constraints are told, the improvement decides.
    delta
        The probability with which the guarantee may fail.
    """

    beta: Beta = "practical"
    delta: float = 0.1

    def __post_init__(self) -> None:
        beta_schedule(self.beta)
        if not isinstance(self.beta, str) and not callable(self.beta):
            object.__setattr__(self, "beta", float(self.beta))
        object.__setattr__(self, "delta", probability("delta", self.delta))

    @property
    def guaranteed(self) -> bool:
        """Whether the schedule comes with a regret bound."""
        return self.beta in THEORY_SCHEDULES


@dataclass(frozen=True)
class RegretBound:
    """The bound on R_n with its parts; ``estimated`` names the parts that the theorems assume to be known."""

    bound: float
    beta: float
    information_gain: float
    ratio: float  # h of Assumption 4
    steps: int
    estimated: tuple[str, ...]

    @property
    def average(self) -> float:
        """The bound on R_n / n."""
        return self.bound / self.steps


def regret_bound(
    gp: AdditiveGP, data: Observations, beta: float, *, continuous: bool, ratio: float | None = None
) -> RegretBound:
    """The right-hand side of Theorem 2 (finite) or 3 (continuous) after the steps in ``data``, in its units.

    ``ratio`` is h of Assumption 4, by default estimated from the run (``variance_ratio``).
    """
    noise, variances = gp.hyperparameters.noise, gp.hyperparameters.variances
    gain = float(information_gain(gp, data.X).sum())
    h = variance_ratio(gp, data.X) if ratio is None else ratio
    signal = float(variances.max()) / noise
    constant = 8 * noise * len(variances) * signal / np.log1p(signal) / max(h, np.finfo(float).tiny)
    bound = float(np.sqrt(constant * len(data) * beta * gain)) + (np.pi**2 / 6 if continuous else 0.0)
    estimated = ("hyperparameters", "gamma_n: realised, not maximal") + (("h",) if ratio is None else ())
    estimated += ("a = 1 and b of Assumption 3",) if continuous else ()
    return RegretBound(bound, beta, gain, float(h), len(data), estimated)


@dataclass(frozen=True)
class RegretReport:
    """The average regret of a run and its bound, in the user's units."""

    average: float  # R_n / n over all evaluations
    parts: RegretBound  # in standard deviations of the values
    scale: float

    @property
    def bound(self) -> float:
        """The bound on R_n / n."""
        return self.parts.average * self.scale

    def __str__(self) -> str:
        a = self.parts
        return (
            f"R_n/n = {self.average:.4g} after n = {a.steps}, bound {self.bound:.4g}\n"
            f"(beta = {a.beta:.4g}, gamma_n = {a.information_gain:.4g}, h = {a.ratio:.3g}; "
            f"estimated, not known: {'; '.join(a.estimated)})"
        )


def average_regret(values: Array, optimum: float) -> Array:
    """R_n / n after each step, for maximisation."""
    return np.cumsum(optimum - np.asarray(values)) / np.arange(1, len(values) + 1)
