"""Whether the function is a sum of small factors at all: one factor over all variables as the rival of a learned graph.

Notation: the rival is a RadialGP with the squared exponential kernel, k(x, x') = c + s Π_i k_i(x_i, x_i'), and its
posterior mean m(x) = Σ_n w_n k(x, x_n). Over independent uniform variables, with u_i = E k_i(x_i, ·),
M_i = E k_i(x_i, ·) k_i(x_i, ·)' and C_i = M_i − u_i u_i', what varies with x_i, the variance of all effects of m that
contain i and j is

    Υ_ij = s^2 w' (C_i ∘ C_j ∘ Π_{k ≠ i, j} M_k) w   (Liu and Owen 2006),

so a factor over all variables still says which of them interact. Its relevances are MAP.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit, logsumexp

from dechbo.data.observations import Observations
from dechbo.gp.additive import AdditiveGP
from dechbo.gp.centring import NODES, WEIGHTS, Domain
from dechbo.gp.kernels import CATEGORICAL, kernel_codes
from dechbo.gp.radial import ColumnEmbedding, RadialGP
from dechbo.gp.radial_fit import RadialPrior, fit_radial
from dechbo.structure.map_graph import graph_log_prior, split_interactions
from dechbo.structure.prior import GraphPrior

Array = NDArray[np.float64]

MAX_WORK = 1e8  # d t^2: numbers in the matrices M_i
DECISIVE_LOG_ODDS = 5.0  # log Bayes factor from which evidence is called decisive (Kass and Raftery 1995: 2 log B > 10)
MIN_WEIGHT = 0.01  # less than this counts as nothing
TYPICAL_SHARE = 0.003  # of the variance: a pair with as much interacts with probability 1/2 under the rival


@dataclass(frozen=True, eq=False)
class WholeFactor:
    """The probability that the function is no sum of small factors, and how much pairs interact if it is none."""

    weight: float
    pair_shares: Array  # (d, d): Υ_ij / Var m, 0 on the diagonal

    def mixed(self, pair_probabilities: Array) -> Array:
        """The probabilities that two variables interact, from those under sums of small factors."""
        own = self.pair_shares / (self.pair_shares + TYPICAL_SHARE)
        return np.asarray((1 - self.weight) * pair_probabilities + self.weight * own)


def weigh_whole(
    sums: Sequence[AdditiveGP],
    weights: Sequence[float],
    data: Observations,
    prior: GraphPrior,
    *,
    noise: float | None = None,
) -> WholeFactor:
    """Compare one factor over all variables with models that are ``sums`` of small factors, and with noise alone.

    The odds are those of the posteriors, where a sum has to pay for its graph, or those of leave-one-out prediction;
    the smaller odds count, and they have to be decisive for a weight of one half.
    """
    first = sums[0]
    d = data.dim
    nothing = WholeFactor(0.0, np.zeros((d, d)))
    if first.graph.max_factor_size >= d or d * len(data) ** 2 > MAX_WORK:
        return nothing
    domains = (None,) * d if first.domains is None else first.domains
    rival = fit_radial(RadialPrior("se", "weak"), embedding(first, data, domains), data, noise=noise)

    posteriors = [gp.log_evidence(data) + graph_log_prior(prior, split_interactions(gp)[1]) for gp in sums]
    predictions = [gp.log_predictive(data) for gp in sums]
    # noise alone has no relevances to fit: the rival pays a nat for each of its own, as in Akaike's criterion
    noise_alone = d - 0.5 * float(data.y @ data.y + len(data) * np.log(2 * np.pi))
    odds = min(
        rival.log_evidence(data) - max(noise_alone, float(logsumexp(posteriors, b=weights))),
        rival.log_predictive(data) - float(logsumexp(predictions, b=weights)),
    )
    weight = float(expit(odds - DECISIVE_LOG_ODDS))
    return WholeFactor(weight, pair_shares(rival, data, domains)) if weight >= MIN_WEIGHT else nothing


def embedding(gp: AdditiveGP, data: Observations, domains: Sequence[Domain]) -> ColumnEmbedding:
    """Of the variables of ``gp``; categories are numbered from 0."""
    codes = kernel_codes(gp.kernels, data.dim)
    many = [
        0 if code != CATEGORICAL else int(data.X[:, i].max()) + 1 if domain is None else len(domain)
        for i, (code, domain) in enumerate(zip(codes, domains, strict=True))
    ]
    return ColumnEmbedding(tuple(many))


def pair_shares(gp: RadialGP, data: Observations, domains: Sequence[Domain]) -> Array:
    """Υ_ij / Var m of every pair; all 0 where the mean is constant."""
    t, d = data.X.shape
    w = gp.variance * gp.condition(data).alpha
    products, varying = np.ones((t, t)), np.empty((d, t * t), dtype=np.float32)
    constant = np.ones(t)
    for i, (domain, many) in enumerate(zip(domains, gp.embedding.categories, strict=True)):
        at, mass = (NODES, WEIGHTS) if domain is None else (domain, np.full(len(domain), 1 / len(domain)))
        apart = at[:, None] - data.X[:, i]
        k = np.exp(-0.5 * gp.relevances[i] * (apart != 0 if many else apart**2))
        M, u = (k.T * mass) @ k, mass @ k
        varying[i] = (1.0 - np.outer(u, u) / M).ravel()
        products *= M
        constant *= u
    total = products * np.outer(w, w)
    variance = float(total.sum() - (w @ constant) ** 2)
    if not variance > 0:
        return np.zeros((d, d))
    flat = (total / variance).ravel().astype(np.float32)
    shares = np.maximum((varying * flat) @ varying.T, 0.0).astype(np.float64)
    np.fill_diagonal(shares, 0.0)
    return np.asarray(0.5 * (shares + shares.T))
