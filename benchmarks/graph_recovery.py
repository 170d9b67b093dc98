"""Recovery of known graphs: area under the ROC curve of pair inclusion, and false positives.

    python benchmarks/graph_recovery.py                      # d = 10, 20, 50, ten seeds each
    python benchmarks/graph_recovery.py --dims 10 --seeds 3
    python benchmarks/graph_recovery.py --kinds few --dims 10 20 --seeds 40     # calibration where data are scarce

A function has one singleton per variable and d/3 interactions, overlapping, three in ten of them triples: products of
sin(w (x - 1/2) + p) with w in [1, 3.5] and p in [0, 1/2], each factor scaled to a standard deviation between 0.5 and
1.5; 10 d uniformly random observations, noise of 1 % of the standard deviation. For comparison, the same number of
observations of a purely additive function and of pure noise. "few" has 6 d observations with noise of 5 %, which leave
room for doubt; the reliability diagram (reliability.png) shows how well the probabilities are calibrated.
Every finished case is appended to the results file at once; an interrupted run continues from there.
"""

from __future__ import annotations

import argparse
import itertools
import time
from pathlib import Path
from typing import Any

import numpy as np

from dechbo.bench.problems.overlapping import random_scopes, random_waves, wave_product
from dechbo.data.observations import Observations
from dechbo.structure import GraphPrior, StructureOptions, learn_structure
from dechbo.threads import one_blas_thread
from results_file import RESULTS, ResultsFile

RESULTS_FILE = RESULTS / "graph_recovery.jsonl"
OPTIONS = StructureOptions(chains=2, steps=2000, greedy_rounds=8, moves_per_sweep=20)
KINDS = ("interactions", "additive", "noise", "few")
BINS = 10


def scaled(rng: np.random.Generator, values: np.ndarray) -> np.ndarray:
    return np.asarray((0.5 + rng.random()) * (values - values.mean()) / values.std())


def case(kind: str, dim: int, seed: int) -> tuple[Observations, list[tuple[int, ...]]]:
    rng = np.random.default_rng([seed, dim, KINDS.index(kind)])
    X = rng.random(((6 if kind == "few" else 10) * dim, dim))
    if kind == "noise":
        return Observations(X, rng.standard_normal(len(X))).standardised()[0], []
    scopes = [] if kind == "additive" else random_scopes(rng, dim)
    y = np.zeros(len(X))
    for scope in [(i,) for i in range(dim)] + scopes:
        y += scaled(rng, wave_product(X, scope, random_waves(rng, scope)))
    y += (0.05 if kind == "few" else 0.01) * y.std() * rng.standard_normal(len(y))
    return Observations(X, y).standardised()[0], scopes


def area_under_curve(positive: np.ndarray, negative: np.ndarray) -> float:
    """P(a true pair ranks above a false one), ties counted half."""
    probability = (positive[:, None] > negative).mean() + 0.5 * (positive[:, None] == negative).mean()
    return float(probability)


@one_blas_thread
def measure(kind: str, dim: int, seed: int) -> dict[str, object]:
    data, scopes = case(kind, dim, seed)
    start = time.perf_counter()
    learned = learn_structure(data, GraphPrior(dim), np.random.default_rng(seed), options=OPTIONS)
    seconds = time.perf_counter() - start
    true = {pair for scope in scopes for pair in itertools.combinations(scope, 2)}
    pairs = list(itertools.combinations(range(dim), 2))
    probabilities = np.array([learned.pair_probabilities[pair] for pair in pairs])
    is_true = np.array([pair in true for pair in pairs])
    row: dict[str, object] = {"seconds": round(seconds, 1)}
    row["largest_false"] = round(float(probabilities[~is_true].max()), 4)
    if scopes:
        row["auc"] = round(area_under_curve(probabilities[is_true], probabilities[~is_true]), 4)
        row["mean_true"] = round(float(probabilities[is_true].mean()), 4)
        bins = np.clip((probabilities * BINS).astype(int), 0, BINS - 1)
        row["reliability"] = [
            [int((bins == b).sum()), int(is_true[bins == b].sum()), round(float(probabilities[bins == b].sum()), 4)]
            for b in range(BINS)
        ]
    return row


def summary(rows: list[dict[str, Any]]) -> str:
    lines = ["| d | functions | mean AUC | worst AUC | mean p of true pairs | additive: above 0.5 | noise: above 0.5 |"]
    lines.append("|---|---|---|---|---|---|---|")
    for dim in sorted({row["dim"] for row in rows}):
        of = {kind: [row for row in rows if row["dim"] == dim and row["kind"] == kind] for kind in KINDS}
        if not of["interactions"]:
            continue
        aucs = [row["auc"] for row in of["interactions"]]
        false = {
            k: f"{sum(row['largest_false'] > 0.5 for row in of[k])} of {len(of[k])}" for k in ("additive", "noise")
        }
        mean_true = np.mean([row["mean_true"] for row in of["interactions"]])
        lines.append(
            f"| {dim} | {len(aucs)} | {np.mean(aucs):.3f} | {min(aucs):.3f} | {mean_true:.2f} | {false['additive']} | "
            f"{false['noise']} |"
        )
    for kind in ("interactions", "few"):
        total = reliability(rows, kind)
        if total is not None:
            lines += ["", f"| probability ({kind}) | pairs | mean probability | of them true |", "|---|---|---|---|"]
            for b, (count, hits, mass) in enumerate(total):
                shares = f"{mass / count:.2f} | {hits / count:.2f}" if count else "– | –"
                lines.append(f"| {b / BINS:.1f} to {(b + 1) / BINS:.1f} | {count:.0f} | {shares} |")
    return "\n".join(lines)


def reliability(rows: list[dict[str, Any]], kind: str) -> np.ndarray | None:
    """For each bin of probabilities: pairs, true pairs, and the sum of their probabilities."""
    tables = [np.array(row["reliability"]) for row in rows if row["kind"] == kind and "reliability" in row]
    return np.sum(tables, axis=0) if tables else None


def draw(rows: list[dict[str, Any]], path: Path) -> None:
    """The reliability diagram: share of true pairs against their probability."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(figsize=(5.2, 5), layout="constrained")
    axes.plot([0, 1], [0, 1], color="0.7", lw=1, zorder=0)
    labels = {"interactions": "10 d observations, noise 1 %", "few": "6 d observations, noise 5 %"}
    styles = (("#0072B2", "s", (8, 6)), ("#D55E00", "o", (8, -10)))
    for (kind, label), (colour, marker, offset) in zip(labels.items(), styles, strict=True):
        total = reliability(rows, kind)
        if total is None:
            continue
        total = total.reshape(BINS // 2, 2, 3).sum(axis=1)  # merge bins in twos: the middle ones hold few pairs
        count, hits, mass = total[total[:, 0] > 0].T
        low, high = wilson(hits, count)
        bars = [np.maximum(hits / count - low, 0), np.maximum(high - hits / count, 0)]
        axes.errorbar(mass / count, hits / count, bars, fmt=marker, color=colour, ms=6, lw=1, capsize=3, label=label)
        for x, y, n in zip(mass / count, hits / count, count, strict=True):
            axes.annotate(f"{n:.0f}", (x, y), offset, textcoords="offset points", color=colour, fontsize=8)
    axes.set(xlabel="probability of a common factor", ylabel="share of these pairs that have one")
    axes.set(xlim=(-0.04, 1.12), ylim=(-0.06, 1.08), title="Calibration (number of pairs per bin; 95 % intervals)")
    axes.legend(frameon=False, loc="lower right", bbox_to_anchor=(1.0, 0.08))
    figure.savefig(path, dpi=120)


def wilson(hits: np.ndarray, count: np.ndarray, z: float = 1.96) -> tuple[np.ndarray, np.ndarray]:
    """Wilson's interval of a share."""
    share = hits / count
    centre = share + z**2 / (2 * count)
    half = z * np.sqrt(share * (1 - share) / count + z**2 / (4 * count**2))
    return (centre - half) / (1 + z**2 / count), (centre + half) / (1 + z**2 / count)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--dims", type=int, nargs="+", default=[10, 20, 50])
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--kinds", nargs="+", choices=KINDS, default=["interactions", "additive", "noise"])
    parser.add_argument("--results", type=Path, default=RESULTS_FILE)
    arguments = parser.parse_args()
    results = ResultsFile(arguments.results, ("kind", "dim", "seed"))
    for dim, seed, kind in itertools.product(arguments.dims, range(arguments.seeds), arguments.kinds):
        results.add({"kind": kind, "dim": dim, "seed": seed}, measure)
    print(summary(results.rows))
    draw(results.rows, Path(__file__).parent / "reliability.png")


if __name__ == "__main__":
    main()
