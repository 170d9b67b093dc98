"""Recovery of known factor graphs: ranking of pairs, posterior of what is found, convergence, calibration, time.

    python benchmarks/graph_recovery.py                                # what is in the results, as tables and a figure
    python benchmarks/graph_recovery.py --run 12:120 20:200 40:400     # cells d:t, all families, seeds 0 to 9
    python benchmarks/graph_recovery.py --run 100:500 --seeds 2 --families sines shares
    python benchmarks/graph_recovery.py --run 12:150 --optimised       # points that an optimizer chose, not random ones

The families are in known_graphs.py: random points, noise of 1 %; a pair is true from 0.3 % of the variance on.
Each case is one learning with the options of ``dechbo.interactions.from_table``, on one thread:

- AUC: the chance that a true pair has a higher probability than another one; by *strength*, probability times share, as
  the peers of interaction_peers.py rank them.
- R-hat of the log posterior and of the pairs with a probability between 5 and 95 %, and that of all pairs.
- below the truth: by how many nats the log posterior of the found graph is below that of the true one. Both graphs are
  fitted alike, from two starts each: cold, and from the other's lengthscales.
- units: CPU seconds over those of one Cholesky factorisation (t x t) and one d x t^2/2 x d product in single precision.

Every finished case is appended to the results file at once; an interrupted run continues from there. ``--part 0/2`` and
``--part 1/2`` share the cases between two processes.
"""

from __future__ import annotations

import argparse
import itertools
import math
import time
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dechbo import Categorical, Float, Int, Optimizer, Space
from dechbo.data.observations import Observations
from dechbo.gp import AdditiveGP, Hyperparameters, fit
from dechbo.interactions import THOROUGH, sobol_shares
from dechbo.structure import GraphPrior, StructurePosterior, learn_structure
from dechbo.structure.diagnostics import MAX_RHAT
from dechbo.structure.map_graph import graph_log_prior, split_interactions
from dechbo.structure.scopes import interaction_graph
from dechbo.structure.whole import WholeFactor, weigh_whole
from dechbo.threads import one_blas_thread
from known_graphs import FAMILIES, NOISE, Case, case
from results_file import RESULTS, ResultsFile

Array = NDArray[np.float64]

RESULTS_FILE = RESULTS / "graph_recovery.jsonl"
PEERS_FILE = RESULTS / "interaction_peers.jsonl"
BINS = 10
KEY = ("family", "dim", "count", "seed", "points")


def area_under_curve(scores: Array, is_true: NDArray[np.bool_]) -> float:
    """P(a true pair ranks above another one), ties counted half; both matrices are (d, d)."""
    above = np.triu_indices(len(scores), 1)
    values, true = scores[above], is_true[above]
    positive, negative = values[true][:, None], values[~true]
    return float((positive > negative).mean() + 0.5 * (positive == negative).mean())


def measure(family: str, dim: int, count: int, seed: int, points: str) -> dict[str, Any]:
    known = case(family, dim, count, seed)
    if points == "optimised":
        known = optimised(known, count, seed)
    return measured(known, seed)


@one_blas_thread
def measured(known: Case, seed: int) -> dict[str, Any]:
    data, dim = known.data, known.data.dim
    options: dict[str, Any] = {"kernel": known.kernels, "domains": known.domains}
    prior = GraphPrior(dim)
    start = time.process_time()
    learned = learn_structure(data, prior, np.random.default_rng(seed), options=THOROUGH, **options)
    found = fit(learned.map_graph, data, rough=False, **options)
    whole = weigh_whole([found], [1.0], data, prior)
    probabilities = whole.mixed(learned.pair_probabilities)
    seconds = time.process_time() - start
    above = np.triu_indices(dim, 1)
    p, true = probabilities[above], known.is_true[above]
    assert learned.convergence is not None
    row: dict[str, Any] = {
        "seconds": round(seconds, 2),
        "units": round(seconds / unit(dim, len(data)), 1),
        "rhat": finite(learned.convergence.rhat),
        "worst_rhat": finite(learned.convergence.worst_rhat),
        "converged": learned.converged,
        "all_converged": learned.converged and not learned.convergence.worst_rhat > MAX_RHAT,
        "whole_weight": round(whole.weight, 3),
        "false_above_half": int((p[~true] > 0.5).sum()),
        "largest_false": round(float(p[~true].max()), 4),
    }
    if true.any():
        row["auc"] = round(area_under_curve(probabilities, known.is_true), 4)
        row["auc_strength"] = round(
            area_under_curve(pair_strengths(probabilities, found, whole, data), known.is_true), 4
        )
        row["mean_true"] = round(float(p[true].mean()), 4)
        row["below_truth"] = round(below_truth(learned, known, prior, options), 2)
    bins = np.clip((p * BINS).astype(int), 0, BINS - 1)
    real = known.shares[above] > 0  # also the interactions below the threshold are real
    row["reliability"] = [
        [int((bins == b).sum()), int(real[bins == b].sum()), round(float(p[bins == b].sum()), 3)] for b in range(BINS)
    ]
    return row


def optimised(known: Case, count: int, seed: int) -> Case:
    """The same function at the points where an optimizer evaluates it."""
    truth = known.truth
    assert truth is not None
    parameters = {}
    for i, (kernel, values) in enumerate(zip(known.kernels, known.domains, strict=True)):
        kinds = Categorical(list(range(len(values)))) if values is not None else Float(0, 1)
        numbers = Int(0, len(values) - 1) if values is not None else Float(0, 1)
        parameters[f"x{i}"] = kinds if kernel == "categorical" else numbers
    space = Space(parameters)
    rng = np.random.default_rng([seed, 7])
    spread = truth(truth.sample(rng, 2000)).std()
    optimizer = Optimizer(space, seed=seed)
    X, y = [], []
    for _ in range(count):
        params = optimizer.ask()
        x = space.encode(params)
        value = float(truth(x[None])[0] + NOISE * spread * rng.standard_normal())
        optimizer.tell(params, value)
        X.append(x)
        y.append(value)
    data = Observations(np.array(X), np.array(y)).standardised()[0]
    return Case(data, truth, known.shares, known.kernels, known.domains)


def pair_strengths(probabilities: Array, found: AdditiveGP, whole: WholeFactor, data: Observations) -> Array:
    """Probability times the share of variance of all effects with a pair; pairs without any keep their rank below."""
    shares = whole.weight * whole.pair_shares
    for scope, share in sobol_shares(found, data).items():
        for i, j in itertools.combinations(scope, 2):
            shares[i, j] += (1 - whole.weight) * share
            shares[j, i] = shares[i, j]
    return np.asarray(probabilities * (shares + 1e-9))


def below_truth(learned: StructurePosterior, known: Case, prior: GraphPrior, options: dict[str, Any]) -> float:
    """How many nats the found graph is below the true one; negative if it is above."""
    assert known.truth is not None
    data = known.data
    graphs = (interaction_graph(data.dim, known.truth.scopes), learned.map_graph)
    cold = [fit(graph, data, rough=False, **options) for graph in graphs]
    warm = [
        fit(gp.graph, data, rough=False, start=borrowed(gp, other), **options)
        for gp, other in itertools.permutations(cold)
    ]
    true, found = (max(log_posterior(gp, data, prior) for gp in both) for both in zip(cold, warm, strict=True))
    return true - found


def borrowed(gp: AdditiveGP, other: AdditiveGP) -> Hyperparameters:
    """The lengthscales and the singletons' variances of another model."""
    own, theirs, d = gp.hyperparameters, other.hyperparameters, gp.graph.dim
    variances = np.concatenate([theirs.variances[:d], own.variances[d:]])
    return Hyperparameters(theirs.lengthscales, variances, theirs.noise)


def log_posterior(gp: AdditiveGP, data: Observations, prior: GraphPrior) -> float:
    return gp.log_evidence(data) + graph_log_prior(prior, split_interactions(gp)[1])


def unit(dim: int, count: int) -> float:
    """Seconds of one Cholesky factorisation and one product over all pairs of observations."""
    rng = np.random.default_rng(0)
    K = rng.random((count, count)) + count * np.eye(count)
    rows = rng.random((count * (count + 1) // 2, dim), dtype=np.float32)
    best = math.inf
    for _ in range(3):
        start = time.process_time()
        np.linalg.cholesky(K)
        _ = rows.T @ rows
        best = min(best, time.process_time() - start)
    return max(best, 1e-5)


def finite(value: float) -> float | None:
    return round(value, 3) if math.isfinite(value) else None


def mean_of(rows: list[dict[str, Any]], name: str) -> float:
    return float(np.mean([row[name] for row in rows]))


def summary(rows: list[dict[str, Any]], peers: list[dict[str, Any]]) -> str:
    lines: list[str] = []
    cells = sorted({(row["points"], row["dim"], row["count"]) for row in rows}, key=lambda c: (c[0] == "optimised", c))
    for points, dim, count in cells:
        lines += ["", f"**d = {dim}, t = {count}, {points} points**", ""]
        lines.append(
            "| family | functions | AUC | worst | by strength | EBM | GP Sobol | SHAP | over 3 nats below the truth | "
            "R-hat ≤ 1.1 | of all pairs | false pairs above 0.5 | CPU s | units |"
        )
        lines.append("|---" * 14 + "|")
        for family in FAMILIES:
            own = [r for r in rows if (r["family"], r["dim"], r["count"], r["points"]) == (family, dim, count, points)]
            if own:
                theirs = [p for p in peers if (p["family"], p["dim"], p["count"]) == (family, dim, count)]
                lines.append(table_row(family, own, theirs if points == "random" else []))
    lines += reliability_table(rows)
    return "\n".join(lines)


def table_row(family: str, own: list[dict[str, Any]], peers: list[dict[str, Any]]) -> str:
    n = len(own)
    cells = [family, str(n)]
    if "auc" in own[0]:
        worst = min(row["auc"] for row in own)
        cells += [f"{mean_of(own, 'auc'):.3f}", f"{worst:.3f}", f"{mean_of(own, 'auc_strength'):.3f}"]
    else:
        cells += ["–"] * 3
    for method in ("ebm-fast", "gp-sobol", "shap"):
        found = [row for row in peers if row["method"] == method]
        fewer = f" ({len(found)})" if len(found) < n else ""
        cells.append(f"{mean_of(found, 'auc'):.3f}{fewer}" if found else "–")
    below = [row["below_truth"] for row in own if "below_truth" in row]
    cells.append(f"{sum(b > 3 for b in below)} of {len(below)}" if below else "–")
    cells.append(f"{sum(row['converged'] for row in own)} of {n}")
    cells.append(f"{sum(row['all_converged'] for row in own)} of {n}")
    cells.append("–" if below else str(sum(row["false_above_half"] for row in own)))
    cells += [f"{mean_of(own, 'seconds'):.1f}", f"{mean_of(own, 'units'):.0f}"]
    return "| " + " | ".join(cells) + " |"


def reliability(rows: list[dict[str, Any]], points: str) -> Array:
    """For each bin of probabilities: pairs, real ones, and the sum of their probabilities."""
    tables = [np.array(row["reliability"]) for row in rows if row["points"] == points]
    return np.sum(tables, axis=0) if tables else np.zeros((BINS, 3))


def reliability_table(rows: list[dict[str, Any]]) -> list[str]:
    lines: list[str] = []
    for points in ("random", "optimised"):
        total = reliability(rows, points)
        if total[:, 0].sum():
            lines += ["", f"| probability ({points} points) | pairs | mean probability | real |", "|---|---|---|---|"]
            for b, (count, hits, mass) in enumerate(total):
                shares = f"{mass / count:.2f} | {hits / count:.2f}" if count else "– | –"
                lines.append(f"| {b / BINS:.1f} to {(b + 1) / BINS:.1f} | {count:.0f} | {shares} |")
    return lines


def draw(rows: list[dict[str, Any]], peers: list[dict[str, Any]], path: Path) -> None:
    """AUC of every family beside the peers, and the reliability diagram."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    figure, (left, right) = plt.subplots(1, 2, figsize=(12, 5), layout="constrained", width_ratios=[1.6, 1])
    families = [name for name in FAMILIES if any("auc" in r and r["family"] == name for r in rows)]
    cells = sorted({(r["dim"], r["count"]) for r in rows if r["points"] == "random" and "auc" in r})
    cells = [cell for cell in cells if cell[0] <= 40]
    kinds = [("dechbo", "#0072B2"), ("ebm-fast", "#E69F00"), ("gp-sobol", "#009E73"), ("shap", "#CC79A7")]
    for k, (method, colour) in enumerate(kinds):
        source = [{**r, "method": "dechbo"} for r in rows if r["points"] == "random"] if method == "dechbo" else peers
        for c, (dim, count) in enumerate(cells):
            xs, ys = [], []
            for f, family in enumerate(families):
                found = [
                    r["auc"]
                    for r in source
                    if (r["method"], r["family"], r["dim"], r["count"]) == (method, family, dim, count)
                ]
                if found:
                    xs.append(f + 0.24 * (c - 1) + 0.05 * (k - 1.5))
                    ys.append(float(np.mean(found)))
            marker = "osD^"[c % 4]
            label = method if c == 0 else None
            left.plot(xs, ys, marker, color=colour, ms=6, label=label, alpha=0.9)
    left.set_xticks(range(len(families)), families, rotation=20)
    left.set(ylabel="mean AUC of pairs", title="Finding interacting pairs: d = 12 (●), 20 (■), 40 (◆), 10 d points")
    left.axhline(0.5, color="0.8", lw=1, zorder=0)
    left.legend(frameon=False, fontsize=8, loc="lower left")
    right.plot([0, 1], [0, 1], color="0.7", lw=1, zorder=0)
    for points, colour, marker in (("random", "#0072B2", "s"), ("optimised", "#D55E00", "o")):
        total = reliability(rows, points).reshape(BINS // 2, 2, 3).sum(axis=1)
        total = total[total[:, 0] > 0]
        if len(total):
            count, hits, mass = total.T
            right.plot(mass / count, hits / count, marker, color=colour, label=f"{points} points")
            for x, y, n in zip(mass / count, hits / count, count, strict=True):
                right.annotate(f"{n:.0f}", (x, y), (7, -9), textcoords="offset points", color=colour, fontsize=8)
    right.set(xlabel="probability of a pair", ylabel="share of these pairs that interact", title="Calibration")
    right.set(xlim=(-0.04, 1.1), ylim=(-0.06, 1.08))
    right.legend(frameon=False, loc="upper left")
    figure.savefig(path, dpi=110)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--run", nargs="*", default=[], metavar="D:T")
    parser.add_argument("--families", nargs="+", choices=list(FAMILIES), default=list(FAMILIES))
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--optimised", action="store_true")
    parser.add_argument("--part", default="0/1")
    parser.add_argument("--results", type=Path, default=RESULTS_FILE)
    arguments = parser.parse_args()
    part, parts = (int(number) for number in arguments.part.split("/"))
    results = ResultsFile(arguments.results, KEY)
    cells = [tuple(int(number) for number in cell.split(":")) for cell in arguments.run]
    cases = itertools.product(cells, range(arguments.seeds), arguments.families)
    for number, ((dim, count), seed, family) in enumerate(cases):
        if number % parts == part and not (arguments.optimised and family == "noise"):
            points = "optimised" if arguments.optimised else "random"
            results.add({"family": family, "dim": dim, "count": count, "seed": seed, "points": points}, measure)
    if parts == 1:
        peers = ResultsFile(PEERS_FILE, ()).rows if PEERS_FILE.exists() else []
        print(summary(results.rows, peers))
        if results.rows:
            draw(results.rows, peers, Path(__file__).parent / "graph_recovery.png")


if __name__ == "__main__":
    main()
