"""Hyperparameters in parts: the slopes of the evidence come from the common M = alpha alpha^T - (K + noise)^-1.

Every part has K by an all-reduce, so it knows M; its factors' slopes need nothing else. A lengthscale belongs to the
owner of its variable: the owner tells the parts whose factors see it, and adds up their slopes.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray
from scipy.linalg.lapack import dpotri

from dechbo.distributed.ascent import ascend
from dechbo.distributed.exchange import Program, all_reduce
from dechbo.distributed.joint import add_columns, send_columns
from dechbo.distributed.layout import Layout
from dechbo.distributed.model import PartModel, Share, gram_in_parts
from dechbo.gp import AdditiveGP
from dechbo.gp.additive import Hyperparameters, cholesky, log_density, solve_lower
from dechbo.gp.gram import contraction

Array = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class PartPrior:
    """Normal priors, with bounds, on the logarithms of a part's lengthscales, then of its factors' variances."""

    centre: Array
    spread: Array
    low: Array
    high: Array


def evidence_in_parts(layout: Layout, model: PartModel, share: Share) -> Program[tuple[float, Array]]:
    """log p(y | X), and its slopes in the logarithms of own lengthscales and of own factors' variances."""
    X = np.ascontiguousarray(model.X[:, share.columns])
    K = yield from gram_in_parts(layout.place, share.gp, X, share.constant)
    L, _ = cholesky(K, share.noise + model.noise)
    z = solve_lower(L, model.y)
    alpha = solve_lower(L, z, transposed=True)
    inverse, _ = dpotri(L, lower=1)
    M = np.outer(alpha, alpha) - (inverse + np.tril(inverse, -1).T)
    local, variances = np.zeros((1, len(layout.variables))), np.zeros(0)
    if share.gp is not None:
        theta = share.gp.hyperparameters
        lengths, by_variance = contraction(share.gp.graph, share.gp.correlation.pairs(X), theta.variances, M)
        local[0, share.columns] = lengths
        variances = by_variance * theta.variances
    yield from add_columns(layout, local)
    return log_density(L, z), np.concatenate([local[0, : layout.own], variances])


def fit_in_parts(
    layout: Layout, model: PartModel, share: Share, prior: PartPrior, steps: int = 40
) -> Program[tuple[Share, float]]:
    """The share at the maximum of evidence times prior, from the middle of the prior, and the evidence there.

    The noise is given. Plain kernels only: centred ones change with their lengthscale.
    """

    def with_theta(theta: Array) -> Program[Share]:
        local = np.zeros((1, len(layout.variables)))
        local[0, : layout.own] = np.exp(theta[: layout.own])
        yield from send_columns(layout, local)
        if share.gp is None:
            return share
        lengths, variances = local[0, share.columns], np.exp(theta[layout.own :])
        gp = AdditiveGP(share.gp.graph, Hyperparameters(lengths, variances, share.noise), kernel=list(share.gp.kernels))
        return replace(share, gp=gp)

    def objective(points: Array) -> Program[tuple[Array, Array]]:
        here = yield from with_theta(points[0])
        evidence, slopes = yield from evidence_in_parts(layout, model, here)
        distance = (points[0] - prior.centre) / prior.spread
        density = yield from all_reduce(layout.place, np.array([-0.5 * float(distance @ distance)]), kind="ascent")
        return np.array([evidence + density[0]]), (slopes - distance / prior.spread)[None]

    best, _ = yield from ascend(layout.place, objective, prior.centre[None], prior.low, prior.high, steps)
    found = yield from with_theta(best[0])
    evidence, _ = yield from evidence_in_parts(layout, model, found)
    return found, evidence
