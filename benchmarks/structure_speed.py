"""Cost of structure learning.

    python benchmarks/structure_speed.py                # both parts, about two minutes
    python benchmarks/structure_speed.py proposals      # or: learnings

proposals: one step of the chain in units of a Cholesky factorisation of a t x t matrix, in the same run.
learnings: one learning at d = 50, t = 500 and at d = 1811, t = 200: CPU seconds, units as in graph_recovery.py, memory.
All times are CPU seconds on one BLAS thread.
"""

from __future__ import annotations

import argparse
import resource
import time

import numpy as np
from scipy.linalg.lapack import dpotrf

from dechbo.data.observations import Observations
from dechbo.gp import fit
from dechbo.graph import FactorGraph
from dechbo.structure import GraphPrior, learn_structure
from dechbo.structure.evidence import EvidenceTarget
from dechbo.structure.gains import evidence_gains, proposal_distribution
from dechbo.structure.sampler import GraphSampler
from dechbo.threads import one_blas_thread
from graph_recovery import unit
from known_graphs import case


@one_blas_thread
def proposals() -> str:
    lines = ["| t | Cholesky ms | one step ms | ratio |", "|---|---|---|---|"]
    for t in (100, 200, 500, 1000):
        rng = np.random.default_rng(0)
        X = rng.random((t, 20))
        y = np.sin(3 * X).sum(axis=1) + 9 * (X[:, 0] - 0.5) * (X[:, 1] - 0.5)
        data = Observations(X, y).standardised()[0]
        model = fit(FactorGraph.singletons(20), data, domains=(None,) * 20, rough=False, iterations=8)
        target = EvidenceTarget(model, data)
        sampler = GraphSampler(GraphPrior(20), scope_distribution=proposal_distribution(evidence_gains(model, data)))
        state, _ = sampler.run(
            rng, sampler.init(rng, [(0, 1), (2, 3), (4, 5, 6)], target), target, 50
        )  # fills the caches
        steps = max(100, 20_000 // t)
        K = np.asfortranarray(state.payload.K)
        ratios, bares, ones = [], [], []
        for _ in range(5):
            began = time.process_time()
            state, trace = sampler.run(rng, state, target, steps)
            proposed = sum(counts.proposed for counts in trace.moves.values())
            one = (time.process_time() - began) / proposed
            began = time.process_time()
            for _ in range(proposed):
                dpotrf(K, lower=1, clean=0)
            bare = (time.process_time() - began) / proposed
            ratios.append(one / bare)
            bares.append(bare)
            ones.append(one)
        lines.append(f"| {t} | {1e3 * np.median(bares):.2f} | {1e3 * np.median(ones):.2f} | {np.median(ratios):.2f} |")
    return "\n".join(lines)


@one_blas_thread
def learnings() -> str:
    """One learning at two sizes, with the default options."""
    lines = ["| d | t | CPU seconds | units | peak GB of the process | converged |", "|---|---|---|---|---|---|"]
    known = case("shares", 12, 120, 200)
    learn_structure(known.data, GraphPrior(12), np.random.default_rng(0))  # compile
    rng = np.random.default_rng(0)
    X = rng.random((200, 1811))
    y = np.sin(3 * X[:, :20]).sum(axis=1) + 20 * (X[:, 0] - 0.5) * (X[:, 1] - 0.5)
    tables = [case("shares", 50, 500, 200).data, Observations(X, y).standardised()[0]]
    for data in tables:
        began = time.process_time()
        learned = learn_structure(data, GraphPrior(data.dim), np.random.default_rng(0))
        seconds = time.process_time() - began
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
        units = seconds / unit(data.dim, len(data))
        lines.append(f"| {data.dim} | {len(data)} | {seconds:.1f} | {units:.0f} | {peak:.2f} | {learned.converged} |")
    lines.append(f"\nprobability of the pair planted at d = 1811: {learned.pair_probabilities[0, 1]:.2f}")
    return "\n".join(lines)


def main() -> None:
    parts = {"proposals": proposals, "learnings": learnings}
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("parts", nargs="*", choices=[[], *parts], default=[])
    for name in parser.parse_args().parts or parts:
        print(f"\n{name}\n\n{parts[name]()}", flush=True)


if __name__ == "__main__":
    main()
