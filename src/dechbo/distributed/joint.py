"""The committee's score in parts: the joint mean and deviation of candidates from sums that all parts share.

With k(x) = sum_I k_I(x_I, X_I) over all factors, mu = k^T alpha and sigma^2 = s - |L^-1 k|^2: a vector of t numbers for
each candidate, which is an all-reduce of the parts' own sums. A factor over all variables whose kernel is a function of
squared distances needs these instead, and they are sums over variables too. Each part knows the coordinates of its own
variables, tells neighbours those that their factors see, and gets the slopes of its own coordinates.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from dechbo.acquisition.score import ConfidenceBound, LogExpectedImprovement
from dechbo.distributed.exchange import Exchange, Place, Program, all_reduce
from dechbo.distributed.layout import Layout
from dechbo.distributed.model import PartModel, Share, condition_in_parts
from dechbo.gp.additive import MIN_DEVIATION, cholesky, solve_lower
from dechbo.gp.gram import factor_sum_slopes, factor_sums
from dechbo.gp.radial import RadialGP, RadialPosterior, shape

Array = NDArray[np.float64]
Ints = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Moments:
    """Mean and deviation at n points, (n,), and their slopes in the part's own variables, (n, own)."""

    mean: Array
    deviation: Array
    mean_slope: Array
    deviation_slope: Array

    def joint(self, points: Array) -> tuple[Array, Array]:
        """As a posterior would say it."""
        return self.mean, self.deviation

    def joint_gradient(self, points: Array) -> tuple[Array, Array, Array, Array]:
        """As a posterior would say it."""
        return self.mean, self.deviation, self.mean_slope, self.deviation_slope


class PartPosterior(Protocol):
    """A part's share of one member's posterior."""

    def moments(self, points: Array) -> Program[Moments]:
        """At points whose coordinates of the part's own variables are ``points`` (n, own)."""
        ...


@dataclass(frozen=True, eq=False)
class AdditiveShare:
    """A part of the posterior of an additive model: factors of its own, L and alpha of the whole model."""

    layout: Layout  # of all factors
    share: Share
    X: Array  # (t, local variables)
    L: Array
    alpha: Array

    def moments(self, points: Array) -> Program[Moments]:
        """From an all-reduce of k and of the prior variances."""
        layout, share, n = self.layout, self.share, len(points)
        at = np.zeros((n, len(layout.variables)))
        at[:, : layout.own] = points
        yield from send_columns(layout, at)
        t = len(self.X)
        k, prior = np.zeros((n, t)), np.zeros(n)
        if share.gp is not None:
            gp, X = share.gp, np.ascontiguousarray(self.X[:, share.columns])
            values, slopes, diagonal, diagonal_slopes = gp.correlation.point_rows(
                np.ascontiguousarray(at[:, share.columns]), X, gp.correlation.means(X)
            )
            k = factor_sums(gp.graph, values, gp.hyperparameters.variances)
            total, prior_slopes = gp.joint_prior_slopes(diagonal, diagonal_slopes)
            prior = total - gp.constant_variance
        sums = yield from all_reduce(layout.place, np.column_stack([k, prior]), kind="joint")
        k, prior = sums[:, :t] + share.constant, sums[:, t] + share.constant
        V = solve_lower(self.L, k.T)
        deviation = np.sqrt(np.maximum(prior - np.einsum("pn,pn->n", V, V), 0.0))
        local = np.zeros((2 * n, len(layout.variables)))
        if share.gp is not None:
            solved = solve_lower(self.L, V, transposed=True)
            weights = np.stack([np.broadcast_to(self.alpha, k.shape), solved.T], axis=1)
            changes = factor_sum_slopes(share.gp.graph, values, slopes, share.gp.hyperparameters.variances, weights)
            local[:n, share.columns] = changes[:, 0]
            local[n:, share.columns] = 0.5 * prior_slopes - changes[:, 1]
        yield from add_columns(layout, local)
        own, half = local[:n, : layout.own], local[n:, : layout.own]
        return Moments(k @ self.alpha, deviation, own, half / np.maximum(deviation, MIN_DEVIATION)[:, None])


@dataclass(frozen=True, eq=False)
class RadialShare:
    """A part of the posterior of a model over all variables: ``gp`` holds the relevances of its own ones."""

    place: Place
    gp: RadialGP
    X: Array  # (t, own)
    L: Array
    alpha: Array

    def moments(self, points: Array) -> Program[Moments]:
        """From an all-reduce of squared distances."""
        gp = self.gp
        u = yield from all_reduce(self.place, squared_distances(gp, points, self.X), kind="joint")
        g, slope = shape(gp.kernel, u)
        k = gp.constant_variance + gp.variance * g
        V = solve_lower(self.L, k.T)
        deviation = np.sqrt(np.maximum(gp.prior_variance - np.einsum("pn,pn->n", V, V), 0.0))
        solved = solve_lower(self.L, V, transposed=True)
        part = RadialPosterior(gp, self.X, self.L, self.alpha, 0.0)
        mean_slope = part.change(points, slope * self.alpha)
        half = -part.change(points, slope * solved.T)
        return Moments(k @ self.alpha, deviation, mean_slope, half / np.maximum(deviation, MIN_DEVIATION)[:, None])


def condition_additive(layout: Layout, model: PartModel, share: Share) -> Program[AdditiveShare]:
    """A part of an additive posterior; the Gram matrix is an all-reduce."""
    L, alpha, _ = yield from condition_in_parts(layout.place, model, share)
    return AdditiveShare(layout, share, model.X, L, alpha)


def condition_radial(place: Place, gp: RadialGP, X: Array, y: Array, noise: Array) -> Program[RadialShare]:
    """A part of a posterior over all variables; the squared distances are an all-reduce."""
    u = yield from all_reduce(place, squared_distances(gp, X, X), kind="gram")
    K = gp.covariances(u)
    np.fill_diagonal(K, gp.prior_variance)
    L, _ = cholesky(K, gp.noise + noise)
    return RadialShare(place, gp, X, L, solve_lower(L, solve_lower(L, y), transposed=True))


def squared_distances(gp: RadialGP, a: Array, b: Array) -> Array:
    """A part's share of r^2 between the points ``a`` and ``b``, by differences: no cancellation between parts."""
    here, there = gp.columns(a), gp.columns(b)
    total = np.zeros((len(a), len(b)))
    for column in range(here.shape[1]):
        total += (here[:, column, None] - there[None, :, column]) ** 2
    return total


@dataclass(frozen=True, eq=False)
class PartScore:
    """A committee's score in parts: log expected improvement over ``threshold``, or the bound with ``beta``."""

    members: Sequence[tuple[float, PartPosterior]]
    threshold: float | None = None
    beta: float = 0.5

    def gradients(self, points: Array) -> Program[tuple[Array, Array]]:
        """Values (n,), the same in every part, and slopes in the part's own variables (n, own)."""
        known = []
        for weight, member in self.members:
            known.append((weight, (yield from member.moments(points))))
        score = (
            ConfidenceBound(known, self.beta)  # type: ignore[arg-type]
            if self.threshold is None
            else LogExpectedImprovement(known, self.threshold)  # type: ignore[arg-type]
        )
        return score.gradients(points)


def send_columns(layout: Layout, at: Array) -> Program[None]:
    """Tell neighbours the columns of own variables that their factors see, and fill in theirs."""
    out = {q: at[:, link.sent_variables].ravel() for q, link in layout.links.items() if len(link.sent_variables)}
    into = {q: link.received_variables for q, link in layout.links.items() if len(link.received_variables)}
    inbox = yield Exchange(out, tuple(into), "coordinates")
    for q, columns in into.items():
        at[:, columns] = inbox[q].reshape(len(at), -1)


def add_columns(layout: Layout, at: Array) -> Program[None]:
    """Send the columns of others' variables to their owners, who add them to their own."""
    out = {
        q: at[:, link.received_variables].ravel() for q, link in layout.links.items() if len(link.received_variables)
    }
    into = {q: link.sent_variables for q, link in layout.links.items() if len(link.sent_variables)}
    inbox = yield Exchange(out, tuple(into), "slopes")
    for q, columns in into.items():
        at[:, columns] += inbox[q].reshape(len(at), -1)
