"""What it costs to fix the lengthscales and the singletons' variances at their MAP while the chains run.

    python benchmarks/sampled_hyperparameters.py        # about five minutes

At d = 10, t = 100 the same posterior is sampled with all hyperparameters: structure moves and updates of variances and
noise as in ``learn_structure``, and in turn random walks on the lengthscales and the singletons' variances under the
prior of the fit. The pair probabilities of both are compared.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from dechbo.data.observations import Observations
from dechbo.gp import AdditiveGP, Hyperparameters
from dechbo.gp.fit import HyperparameterPrior
from dechbo.graph import FactorGraph
from dechbo.interactions import THOROUGH
from dechbo.structure import GraphPrior, learn_structure
from dechbo.structure.diagnostics import pair_probabilities
from dechbo.structure.evidence import EvidenceTarget
from dechbo.structure.gains import evidence_gains, proposal_distribution
from dechbo.structure.map_graph import map_graphs, with_interactions
from dechbo.structure.sampler import GraphSampler, State
from dechbo.structure.scopes import ScopeIndex, ScopeSet
from dechbo.threads import one_blas_thread
from graph_recovery import area_under_curve
from known_graphs import Case, case

Array = NDArray[np.float64]

DIM, COUNT, SEEDS = 10, 100, (200, 201, 202)
ITERATIONS, WALKS = 4000, 6


def sampled(known: Case, seed: int) -> Array:
    """Pair probabilities with all hyperparameters sampled; the first quarter is burn-in."""
    data, prior, rng = known.data, GraphPrior(DIM), np.random.default_rng(seed)
    fit_options = {"kernel": known.kernels, "domains": known.domains, "noise": None, "rough": False}
    start = map_graphs(data, prior, steps=10, rounds=6, fit_options=fit_options)[-1]
    model = with_interactions(start.singles, start.variances, start.noise)
    law = proposal_distribution(evidence_gains(model, data), start.variances)
    sampler = GraphSampler(prior, scope_distribution=law)
    likely = tuple(sorted(start.candidates))[:20] + tuple(sorted(start.variances))
    singles, variances, noise = start.singles, dict(start.variances), start.noise
    target = EvidenceTarget(singles, data, typical=start.variances)
    laplace = target.laplace(rng, target.fit_variances(variances, noise, 10))
    samples: list[ScopeSet] = []
    for iteration in range(ITERATIONS):
        target = EvidenceTarget(singles, data, typical=start.variances)
        value, payload = target.evaluate(variances, noise)
        index = ScopeIndex.of(prior, variances)
        state = State(index, prior.log_density(index.scopes), value, payload)
        state, _ = sampler.run(rng, state, target, 3)
        for _ in range(3):
            state = sampler.toggle(rng, state, likely, target)
            state = target.update_variances(rng, state, laplace)
        variances, noise = dict(state.payload.variances), state.payload.noise
        singles = walked(rng, singles, variances, noise, data)
        if iteration >= ITERATIONS // 4:
            samples.append(state.interactions)
    return pair_probabilities(DIM, samples)


def walked(
    rng: np.random.Generator,
    singles: AdditiveGP,
    variances: dict[tuple[int, ...], float],
    noise: float,
    data: Observations,
) -> AdditiveGP:
    """Random-walk Metropolis steps on one log lengthscale or one log variance of a singleton each."""
    prior = HyperparameterPrior.of(FactorGraph.singletons(DIM), singles.codes, rough=False)

    def log_density(gp: AdditiveGP) -> float:
        theta = gp.hyperparameters
        logs = np.log(np.concatenate([theta.lengthscales, theta.variances, [noise]]))
        if ((logs < prior.low) | (logs > prior.high))[:-1].any():
            return -np.inf
        off = ((logs - prior.centre) / prior.spread)[:-1]  # the noise has its own updates
        return with_interactions(gp, variances, noise).log_evidence(data) - 0.5 * float(off @ off)

    current = log_density(singles)
    for _ in range(WALKS):
        theta = singles.hyperparameters
        values = np.log(np.concatenate([theta.lengthscales, theta.variances]))
        values[int(rng.integers(2 * DIM))] += 0.6 * rng.standard_normal()
        changed = Hyperparameters(np.exp(values[:DIM]), np.exp(values[DIM:]), theta.noise)
        proposal = AdditiveGP(singles.graph, changed, kernel=singles.kernels, domains=singles.domains)
        then = log_density(proposal)
        if np.log(rng.random()) < then - current:
            singles, current = proposal, then
    return singles


@one_blas_thread
def main() -> None:
    print("| family | seed | AUC, MAP | AUC, sampled | mean difference of probabilities | largest |")
    print("|---|---|---|---|---|---|")
    for family in ("sines", "gp-short", "shares", "thresholds", "additive"):
        for seed in SEEDS:
            known = case(family, DIM, COUNT, seed)
            options: dict[str, Any] = {"kernel": known.kernels, "domains": known.domains, "options": THOROUGH}
            fixed = learn_structure(
                known.data, GraphPrior(DIM), np.random.default_rng(seed), **options
            ).pair_probabilities
            free = sampled(known, seed)
            off = np.abs(fixed - free)[np.triu_indices(DIM, 1)]
            aucs = ["–", "–"]
            if known.is_true.any():
                aucs = [f"{area_under_curve(p, known.is_true):.3f}" for p in (fixed, free)]
            print(f"| {family} | {seed} | {aucs[0]} | {aucs[1]} | {off.mean():.3f} | {off.max():.2f} |", flush=True)


if __name__ == "__main__":
    main()
