"""Cost of structure learning, and the benefit of informed proposals.

    python benchmarks/structure_speed.py                # all three parts, about five minutes
    python benchmarks/structure_speed.py proposals      # or: large, blind

proposals: one step of the chain in units of a Cholesky factorisation of a t x t matrix, in the same run.
large: structure learning at d = 1811, t = 200; one ask in ten learns, so its share of an ask is a tenth; peak memory.
blind: pair recovery after the same number of steps with and without scores, on functions as in graph_recovery.py.
All times are CPU seconds on one BLAS thread.
"""

from __future__ import annotations

import argparse
import itertools
import resource
import time

import numpy as np
from scipy.linalg.lapack import dpotrf

from dechbo.data.observations import Observations
from dechbo.gp import fit
from dechbo.graph import FactorGraph
from dechbo.structure import GraphPrior, StructureOptions, learn_structure
from dechbo.structure.evidence import EvidenceTarget
from dechbo.structure.sampler import GraphSampler
from dechbo.structure.scores import proposal_distribution, score_scopes
from dechbo.threads import one_blas_thread
from graph_recovery import area_under_curve, case


@one_blas_thread
def proposals() -> str:
    lines = ["| t | Cholesky ms | one step ms | ratio |", "|---|---|---|---|"]
    for t in (100, 200, 500, 1000):
        rng = np.random.default_rng(0)
        X = rng.random((t, 20))
        y = np.sin(3 * X).sum(axis=1) + 9 * (X[:, 0] - 0.5) * (X[:, 1] - 0.5)
        data = Observations(X, y).standardised()[0]
        model = fit(FactorGraph.singletons(20), data, domains=(None,) * 20, rough=False, iterations=8)
        target = EvidenceTarget(model, data, rng)
        sampler = GraphSampler(GraphPrior(20), scope_distribution=proposal_distribution([score_scopes(model, data)]))
        state, _ = sampler.run(rng, sampler.init([(0, 1), (2, 3), (4, 5, 6)], target), target, 50)  # fills the caches
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
def large() -> str:
    rng = np.random.default_rng(0)
    d, t = 1811, 200
    X = rng.random((t, d))
    y = np.sin(3 * X[:, :20]).sum(axis=1) + 20 * (X[:, 0] - 0.5) * (X[:, 1] - 0.5)
    data = Observations(X, y).standardised()[0]
    small = Observations(X[:20, :4], data.y[:20])
    learn_structure(small, GraphPrior(4), rng, domains=(None,) * 4)  # compile
    began = time.process_time()
    learned = learn_structure(data, GraphPrior(d), np.random.default_rng(0), domains=(None,) * d)
    seconds = time.process_time() - began
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    return "\n".join(
        [
            "| d | t | CPU seconds a learning | a tenth: per ask | peak GB of the process | p(planted pair) |",
            "|---|---|---|---|---|---|",
            f"| {d} | {t} | {seconds:.1f} | {seconds / 10:.2f} | {peak:.2f} | {learned.pair_probabilities[0, 1]:.2f} |",
        ]
    )


@one_blas_thread
def blind(seeds: int = 5) -> str:
    lines = ["| d | steps | scores | mean AUC | mean p of true pairs | CPU seconds |", "|---|---|---|---|---|---|"]
    for d, informed in itertools.product((10, 20, 50), (False, True)):
        aucs, trues, seconds = [], [], []
        for seed in range(seeds if d < 50 else 2):
            data, scopes = case("interactions", d, seed)
            began = time.process_time()
            learned = learn_structure(
                data, GraphPrior(d), np.random.default_rng(seed), options=StructureOptions(), informed=informed
            )
            seconds.append(time.process_time() - began)
            true = {pair for scope in scopes for pair in itertools.combinations(scope, 2)}
            pairs = list(itertools.combinations(range(d), 2))
            p = np.array([learned.pair_probabilities[pair] for pair in pairs])
            is_true = np.array([pair in true for pair in pairs])
            aucs.append(area_under_curve(p[is_true], p[~is_true]))
            trues.append(p[is_true].mean())
        word = "yes" if informed else "no: blind"
        figures = f"{np.mean(aucs):.3f} | {np.mean(trues):.2f} | {np.mean(seconds):.1f}"
        lines.append(f"| {d} | {StructureOptions().steps} | {word} | {figures} |")
    return "\n".join(lines)


def main() -> None:
    parts = {"proposals": proposals, "large": large, "blind": blind}
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("parts", nargs="*", choices=[[], *parts], default=[])
    for name in parser.parse_args().parts or parts:
        print(f"\n{name}\n\n{parts[name]()}", flush=True)


if __name__ == "__main__":
    main()
