"""The graph with a high posterior from which the chains start.

The first candidates are the largest variance components of all scopes (``components``), at one short lengthscale for
all variables: it finds the graph also where the function is rough, and long ones do not. Later candidates are the
absent scopes with the largest gains (``gains``), ranked by the posterior of the graph with each of them.

Each round tries to add the first few candidates, twice as many, four times as many, ...: it fits the variances of all
interactions at once and removes every scope without which the posterior of the graph is higher. Then lengthscales,
variances and noise of the best graph are fitted (MAP). The search ends when the posterior no longer rises.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dechbo.data.observations import Observations
from dechbo.gp import AdditiveGP, Hyperparameters, fit
from dechbo.gp.correlation import Correlation
from dechbo.gp.kernels import CATEGORICAL, kernel_codes
from dechbo.graph import FactorGraph, Scope
from dechbo.structure.components import MIN_NOISE, ComponentFit, ComponentGrams, Components, affordable, screen
from dechbo.structure.evidence import VARIANCE_MEDIAN, VARIANCE_SPREAD, Covariance, EvidenceTarget
from dechbo.structure.gains import evidence_gains
from dechbo.structure.prior import GraphPrior
from dechbo.structure.scopes import interaction_graph

Array = NDArray[np.float64]

FIRST_LENGTHSCALE = 0.3
MIN_SINGLE = 0.02  # of the mean variance of a singleton, where the components say less
POSTERIOR_SPREAD = 0.5  # typical, of log s_I: what a variance costs when it is integrated out
MIN_GAIN = 1.0  # of the log posterior, for another round
MIN_UNFITTED_GAIN = 10.0  # of a round, for another one before the lengthscales are fitted
_FIT_VARIANCES = 8  # iterations
_PRUNINGS = 2  # at most, each with a fit of the variances before it
_HOPELESS = 5.0  # nats: what costs more to remove is not tried again after other removals
_PATIENCE = 1  # numbers of candidates without a better graph
_MAX_FIT_WORK = 2e8  # d t^2, summed over the iterations of a MAP fit


@dataclass(frozen=True, eq=False)
class Solution:
    """A graph with its MAP hyperparameters; ``candidates`` are further scopes that the components suggest."""

    singles: AdditiveGP
    variances: dict[Scope, float]  # of the interactions
    noise: float
    log_posterior: float  # of the graph, with the variances of the interactions integrated out approximately
    candidates: dict[Scope, float]

    @property
    def lengthscales(self) -> Array:
        """Of all variables."""
        return self.singles.hyperparameters.lengthscales


def map_graphs(
    data: Observations, prior: GraphPrior, *, steps: int, rounds: int, fit_options: Mapping[str, Any]
) -> list[Solution]:
    """The solutions on the way, the last being the best."""
    numeric = kernel_codes(fit_options["kernel"], data.dim) != CATEGORICAL
    lengthscales = np.where(numeric, FIRST_LENGTHSCALE, 1.0)
    components = largest_components(lengthscales, data, prior.max_size, steps, fit_options)
    candidates = components.interactions(most=_most(data))
    first = _first(components, lengthscales, data, fit_options)
    alone = fit(FactorGraph.singletons(data.dim), data, **fit_options)
    none = Solution(alone, {}, alone.hyperparameters.noise, alone.log_evidence(data), candidates)
    count = max(2, min(data.dim // 4, len(data) // 20))
    found = refitted(_extended(first, candidates, count, data, prior, fit_options), data, prior, fit_options)
    solutions = sorted([none, found], key=lambda solution: solution.log_posterior)
    return improved(solutions, data, prior, rounds=rounds - 1, fit_options=fit_options)


def improved(
    solutions: Sequence[Solution], data: Observations, prior: GraphPrior, *, rounds: int, fit_options: Mapping[str, Any]
) -> list[Solution]:
    """The solutions and better ones, by at most so many rounds that add promising scopes to the last one.

    A MAP fit costs as much as several rounds without one, so it waits until these gain little.
    """
    solutions = list(solutions)
    best, fitted = solutions[-1], True
    for _ in range(rounds):
        promising = _promising(best, data, prior, fit_options)
        better = _extended(best, promising, (len(promising) + 3) // 4, data, prior, fit_options) if promising else best
        if better.log_posterior > best.log_posterior + MIN_UNFITTED_GAIN:
            best, fitted = better, False
            continue
        if better.log_posterior > best.log_posterior:
            best, fitted = better, False
        if fitted:
            break
        best, fitted = refitted(best, data, prior, fit_options), True
        if best.log_posterior < solutions[-1].log_posterior + MIN_GAIN:
            break
        solutions.append(best)
    if not fitted:
        best = refitted(best, data, prior, fit_options)
    return [*solutions, best] if best.log_posterior > solutions[-1].log_posterior else solutions


def _promising(
    best: Solution, data: Observations, prior: GraphPrior, fit_options: Mapping[str, Any]
) -> dict[Scope, float]:
    """Absent scopes that raise the posterior of the graph, or nearly do, with variances, the best first."""
    gains = evidence_gains(with_interactions(best.singles, best.variances, best.noise), data, prior.max_size)
    paid = graph_log_prior(prior, best.variances)
    found: dict[Scope, float] = {}
    for scope, variance in gains.variances.items():
        if scope not in best.variances:
            found[scope] = gains.of(scope) + graph_log_prior(prior, {**best.variances, scope: variance}) - paid
    ranked = sorted(found, key=lambda scope: (-found[scope], scope))
    return {scope: gains.variances[scope] for scope in ranked if found[scope] > -MIN_GAIN}


def _most(data: Observations) -> int:
    """How many candidates so many observations can tell apart."""
    return max(4, min(4 * data.dim, len(data) // 2))


def _first(components: Components, lengthscales: Array, data: Observations, fit_options: Mapping[str, Any]) -> Solution:
    """The singletons of the variance components, without interactions."""
    noise = components.noise if fit_options["noise"] is None else fit_options["noise"]
    # the prior of the fit does not believe in variances far below their median 1/d
    theta = Hyperparameters(lengthscales, np.maximum(components.singles, MIN_SINGLE / data.dim), noise)
    graph = FactorGraph.singletons(data.dim)
    singles = AdditiveGP(graph, theta, kernel=fit_options["kernel"], domains=fit_options["domains"])
    return Solution(singles, {}, noise, -np.inf, {})


def _extended(
    best: Solution,
    candidates: Mapping[Scope, float],
    count: int,
    data: Observations,
    prior: GraphPrior,
    fit_options: Mapping[str, Any],
) -> Solution:
    """The best graph with the first ``count``, 2 ``count``, ... candidates added, and what is useless removed."""
    target = EvidenceTarget(best.singles, data, free_noise=fit_options["noise"] is None)
    new = [scope for scope in candidates if scope not in best.variances]
    values: list[float] = []
    found = None
    while True:
        start = {**{scope: candidates[scope] for scope in new[:count]}, **best.variances}
        value, pruned = prune(target, prior, start, best.noise)
        if not values or value > max(values):
            found = pruned
        values.append(value)
        if count >= len(new) or len(values) - int(np.argmax(values)) > _PATIENCE:
            break
        count *= 2
    assert found is not None
    known = {**best.candidates, **candidates}
    return Solution(best.singles, dict(found.variances), found.noise, max(values), known)


def refitted(found: Solution, data: Observations, prior: GraphPrior, fit_options: Mapping[str, Any]) -> Solution:
    """The same graph at its MAP hyperparameters."""
    fitted = refit(with_interactions(found.singles, found.variances, found.noise), data, fit_options)
    alone, own = split_interactions(fitted)
    value = fitted.log_evidence(data) + graph_log_prior(prior, own)
    return Solution(alone, own, fitted.hyperparameters.noise, value, found.candidates)


def largest_components(
    lengthscales: Array, data: Observations, max_size: int, steps: int, fit_options: Mapping[str, Any]
) -> Components:
    """The variance components of all scopes, at fixed lengthscales."""
    codes = kernel_codes(fit_options["kernel"], data.dim)
    grams = ComponentGrams(Correlation(codes, lengthscales, fit_options["domains"]), data)
    noise = None if fit_options["noise"] is None else max(fit_options["noise"], MIN_NOISE)
    limits = affordable(len(grams.rows[0]))
    paired, tripled = screen(grams, data, max_size, noise=noise, most=limits)
    if len(tripled) < data.dim:
        tripled = tripled[:0]  # one variance for all triples is enough to start with: their gains tell them apart
    start = Components.start(data.dim, paired, tripled, max_size=max_size, noise=noise)
    return ComponentFit(grams, data, start, free_noise=noise is None).run(steps)


def prune(
    target: EvidenceTarget, prior: GraphPrior, start: Mapping[Scope, float], noise: float
) -> tuple[float, Covariance]:
    """The interactions of ``start`` without those whose removal raises the posterior of the graph, the worst first."""
    variances = dict(start)
    for _ in range(_PRUNINGS):
        payload = target.fit_variances(variances, noise, _FIT_VARIANCES)
        value = target.evaluate(payload.variances, payload.noise)[0] + graph_log_prior(prior, payload.variances)

        def without(scope: Scope, payload: Covariance) -> tuple[float, Covariance]:
            then, reduced, _ = target.propose_variances(payload, {}, (scope,))
            return then + graph_log_prior(prior, reduced.variances), reduced

        gains = {scope: without(scope, payload)[0] - value for scope in payload.variances}
        for scope in sorted((s for s in gains if gains[s] > -_HOPELESS), key=lambda scope: (-gains[scope], scope)):
            then, reduced = without(scope, payload)
            if then >= value:
                payload, value = reduced, then
        done = len(payload.variances) == len(variances)
        variances, noise = dict(payload.variances), payload.noise
        if done:
            break
    return value, payload


def graph_log_prior(prior: GraphPrior, variances: Mapping[Scope, float]) -> float:
    """log p(U) + Σ_I log p(s_I) + log(√(2π) POSTERIOR_SPREAD): what a graph with these MAP variances has to pay."""
    off = np.log(np.array([*variances.values()]) / VARIANCE_MEDIAN) / VARIANCE_SPREAD
    width = np.log(POSTERIOR_SPREAD / VARIANCE_SPREAD)
    return prior.log_density(variances) - 0.5 * float(off @ off) + len(variances) * float(width)


def refit(gp: AdditiveGP, data: Observations, fit_options: Mapping[str, Any]) -> AdditiveGP:
    """The MAP hyperparameters for the same graph, starting from the current ones."""
    iterations = int(np.clip(_MAX_FIT_WORK / (data.dim * len(data) ** 2), 5, 30))
    return fit(gp.graph, data, start=gp.hyperparameters, iterations=iterations, **fit_options)


def with_interactions(singles: AdditiveGP, variances: Mapping[Scope, float], noise: float) -> AdditiveGP:
    """The model ``singles`` with interactions added."""
    graph = interaction_graph(singles.graph.dim, variances)
    theta = singles.hyperparameters
    own = [variances[scope] for scope in graph.scopes[singles.graph.dim :]]
    joined = Hyperparameters(theta.lengthscales, np.concatenate([theta.variances, own]), noise)
    return AdditiveGP(graph, joined, kernel=singles.kernels, domains=singles.domains)


def split_interactions(gp: AdditiveGP) -> tuple[AdditiveGP, dict[Scope, float]]:
    """Split a model into its singletons and the variances of its interactions."""
    d, theta = gp.graph.dim, gp.hyperparameters
    alone = Hyperparameters(theta.lengthscales, theta.variances[:d], theta.noise)
    singles = AdditiveGP(FactorGraph.singletons(d), alone, kernel=gp.kernels, domains=gp.domains)
    return singles, dict(zip(gp.graph.scopes[d:], theta.variances[d:].tolist(), strict=True))
