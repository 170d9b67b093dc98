"""Which variables interact, by what users have today: the AUC of pairs on the functions of known_graphs.py.

    python3.11 -m venv peers-venv
    peers-venv/bin/pip install interpret-core shap xgboost scikit-learn scipy numba threadpoolctl
    export PYTHONPATH=src:benchmarks OMP_NUM_THREADS=1
    peers-venv/bin/python benchmarks/interaction_peers.py                  # three cells, ten functions each
    peers-venv/bin/python benchmarks/interaction_peers.py --cells 100:500 --seeds 0 1 2

(The packages instead of dechbo itself: its modules that known_graphs.py imports need no more than these.) The methods:

ebm-fast  Explainable Boosting Machine with main effects only (interpret's defaults: 14 bags, early stopping), then the
          library's own FAST ranking of all pairs on what it leaves unexplained.
gp-sobol  A Gaussian process with a squared exponential kernel, one lengthscale a variable, for categories exp(-1/l^2)
          between any two; lengthscales, scale and noise by maximum likelihood (L-BFGS from three starts; the
          likelihood has several maxima, one of them all noise: "nats_above_noise" tells them apart). Then the
          posterior mean's variance due to all effects that contain both variables, the same definition as that of
          the truth, in closed form up to one-dimensional quadrature: the kernel is a product. The second-order index
          proper, which leaves triples out, has its own AUC in the records ("auc_pair_effects").
shap      XGBoost (300 trees, settings below, categories one-hot), then the mean absolute SHAP interaction value of each
          pair over the observations; the columns of a category are summed first.

Settings were chosen on seeds 100 and 101 (d = 12 and 20): of six kinds of trees the best, mean AUC 0.78 against 0.70 to
0.77; FAST with 8 to 64 bins made no difference (0.84), so the library's default stays.

Every finished case is appended to the results file at once; an interrupted run continues from there. "auc_weak" is the
AUC of the true pairs with less than 2 % of the variance. Seconds are CPU seconds of one thread.
"""

from __future__ import annotations

import argparse
import itertools
import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import cho_factor, cho_solve
from scipy.optimize import minimize

from dechbo.gp.centring import Domain
from dechbo.threads import one_blas_thread
from known_graphs import Case, case
from results_file import RESULTS, ResultsFile

Array = NDArray[np.float64]

RESULTS_FILE = RESULTS / "interaction_peers.jsonl"
FAMILIES = ("sines", "gp-short", "gp-long", "generator", "classical", "thresholds", "discrete", "shares")
CELLS = ("12:120", "20:200", "40:400")
WEAK_SHARE = 0.02
TREES: dict[str, Any] = {"n_estimators": 300, "learning_rate": 0.05, "max_depth": 3, "subsample": 0.8}
NODES, WEIGHTS = np.polynomial.legendre.leggauss(64)  # on [-1, 1]
LENGTHSCALES, SCALES, NOISES = (0.05, 100.0), (0.05, 1000.0), (1e-6, 1.0)
STARTS = (0.1, 0.4, 1.0)  # lengthscales over sqrt(d)
ITERATIONS = 150  # of L-BFGS, from each start


@dataclass(frozen=True, eq=False)
class Found:
    """Strengths (d, d) of all pairs by a method, and what only a Gaussian process has besides."""

    strengths: Array
    pair_effects: Array | None = None  # without effects of three and more variables
    nats_above_noise: float | None = None  # log likelihood over that of independent standard normal values


def ebm_fast(known: Case, seed: int) -> Found:
    from interpret.glassbox import ExplainableBoostingRegressor
    from interpret.utils import measure_interactions

    X, y, dim = known.data.X, known.data.y, known.data.dim
    types = ["nominal" if kernel == "categorical" else "continuous" for kernel in known.kernels]
    main_effects = ExplainableBoostingRegressor(feature_types=types, interactions=0, n_jobs=1, random_state=seed)
    main_effects.fit(X, y)
    strengths = np.zeros((dim, dim))
    pairs = dim * (dim - 1) // 2
    ranked = measure_interactions(X, y, interactions=pairs, init_score=main_effects, feature_types=types)
    for (i, j), strength in ranked:
        strengths[i, j] = strengths[j, i] = strength
    return Found(strengths)


def gp_sobol(known: Case, seed: int) -> Found:
    X, y = known.data.X, known.data.y
    categorical = [kernel == "categorical" for kernel in known.kernels]
    distances = np.stack([squared_distances(x, x, categorical[i]) for i, x in enumerate(X.T)])
    fits = [fit(distances, y, start * np.sqrt(len(distances))) for start in STARTS]
    least, theta = min(fits, key=lambda found: found[0])
    lengthscales, weights = np.exp(theta[:-2]), posterior_weights(distances, y, theta)
    products, means = [], []
    for i, length in enumerate(lengthscales):
        at, mass = quadrature(known.domains[i])
        k = np.exp(-0.5 * squared_distances(at, X[:, i], categorical[i]) / length**2)
        products.append((k.T * mass) @ k)
        means.append(mass @ k)
    whole, alone = pair_variances(np.stack(products), np.stack(means), weights)
    return Found(whole, alone, 0.5 * float(y @ y) - least)


def squared_distances(a: Array, b: Array, is_category: bool) -> Array:
    """(len(a), len(b)); two different categories are 2 apart, as one-hot codes are."""
    difference = a[:, None] - b
    return np.where(difference != 0, 2.0, 0.0) if is_category else difference**2


def quadrature(domain: Domain) -> tuple[Array, Array]:
    """Points of one variable and their probabilities."""
    if domain is None:
        return (NODES + 1) / 2, WEIGHTS / 2
    return domain, np.full(len(domain), 1 / len(domain))


def fit(distances: Array, y: Array, lengthscale: float) -> tuple[float, Array]:
    """The least negative log likelihood, and logs of the lengthscales, of the scale and of the noise variance."""
    dim = len(distances)
    start = np.log([lengthscale] * dim + [1.0, 0.01])
    bounds = np.log([LENGTHSCALES] * dim + [SCALES, NOISES])
    options = {"maxiter": ITERATIONS}
    flat = distances.reshape(dim, -1)
    found = minimize(negative_log_likelihood, start, (flat, y), "L-BFGS-B", jac=True, bounds=bounds, options=options)
    return float(found.fun), found.x


def kernel_matrix(flat: Array, theta: Array) -> Array:
    count = round(np.sqrt(flat.shape[1]))
    matrix: Array = np.exp(theta[-2] - 0.5 * (np.exp(-2 * theta[:-2]) @ flat)).reshape(count, count)
    return matrix


def negative_log_likelihood(theta: Array, flat: Array, y: Array) -> tuple[float, Array]:
    """(y' K^-1 y + log det K) / 2, and its gradient tr((K^-1 - a a') dK) / 2 with a = K^-1 y."""
    signal, noise = kernel_matrix(flat, theta), np.exp(theta[-1])
    factor = cho_factor(signal + noise * np.eye(len(y)), lower=True)
    inverse, a = cho_solve(factor, np.eye(len(y))), cho_solve(factor, y)
    value = 0.5 * y @ a + np.log(np.diag(factor[0])).sum()
    change = inverse - np.outer(a, a)
    by_signal = change * signal
    by_length = np.exp(-2 * theta[:-2]) * (flat @ by_signal.ravel())
    return float(value), 0.5 * np.concatenate([by_length, [by_signal.sum(), noise * np.trace(change)]])


def posterior_weights(distances: Array, y: Array, theta: Array) -> Array:
    """w, so that the posterior mean is sum_n w_n prod_i k_i(x_i, x_ni)."""
    K = kernel_matrix(distances.reshape(len(distances), -1), theta) + np.exp(theta[-1]) * np.eye(len(y))
    return np.asarray(np.exp(theta[-2]) * cho_solve(cho_factor(K, lower=True), y))


def pair_variances(products: Array, means: Array, weights: Array) -> tuple[Array, Array]:
    """Variances of m(x) = sum_n w_n prod_i k_i(x_i, x_ni) due to each pair, from one-dimensional integrals.

    With M_i = E[k_i k_i'] (``products``) and u_i = E[k_i] (``means``), C_i = M_i - u_i u_i' is what varies with x_i:
    all effects that contain i and j have the variance w' (C_i * C_j * prod_k M_k) w (k other than i and j), and the
    effect of i and j alone has the same with u_k u_k' for M_k.
    """
    squares = means[:, :, None] * means[:, None, :]
    varying = products - squares
    outer = np.outer(weights, weights)

    def quadratic_forms(others: Array) -> Array:
        ratio = (varying / others).reshape(len(means), -1)
        total = (outer * np.exp(np.log(others).sum(axis=0))).ravel()
        return np.asarray((ratio * total) @ ratio.T)

    return quadratic_forms(products), quadratic_forms(squares)


def shap_interactions(known: Case, seed: int) -> Found:
    import shap
    from xgboost import XGBRegressor

    columns, owner = one_hot(known)
    model = XGBRegressor(**TREES, n_jobs=1, random_state=seed).fit(columns, known.data.y)
    values = np.asarray(shap.TreeExplainer(model).shap_interaction_values(columns), dtype=np.float64)
    member = np.eye(known.data.dim)[owner]  # (columns, d)
    return Found(np.abs(member.T @ values @ member).mean(axis=0))


def one_hot(known: Case) -> tuple[Array, list[int]]:
    """The observations with a column for each level of a category, and the variable of each column."""
    columns, owner = [], []
    for i, kernel in enumerate(known.kernels):
        x, domain = known.data.X[:, i], known.domains[i]
        parts = [x] if kernel != "categorical" or domain is None else [1.0 * (x == level) for level in domain]
        columns += parts
        owner += [i] * len(parts)
    return np.stack(columns, axis=1), owner


METHODS: dict[str, tuple[Callable[[Case, int], Found], tuple[str, ...]]] = {
    "ebm-fast": (ebm_fast, ("interpret-core",)),
    "gp-sobol": (gp_sobol, ("numpy", "scipy")),
    "shap": (shap_interactions, ("shap", "xgboost")),
}


def area_under_curve(positive: Array, negative: Array) -> float | None:
    """P(a true pair ranks above a false one), ties counted half; None without pairs of both kinds."""
    if not (positive.size and negative.size):
        return None
    above = (positive[:, None] > negative).mean() + 0.5 * (positive[:, None] == negative).mean()
    return round(float(above), 4)


@one_blas_thread
def measure(method: str, family: str, dim: int, count: int, seed: int) -> dict[str, Any]:
    known = case(family, dim, count, seed)
    find, packages = METHODS[method]
    start = time.process_time()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = find(known, seed)
    row: dict[str, Any] = {"cpu_seconds": round(time.process_time() - start, 2)}
    pairs = np.triu_indices(dim, 1)
    is_true, shares = known.is_true[pairs], known.shares[pairs]
    row["true_pairs"] = int(is_true.sum())
    strength = found.strengths[pairs]
    row["auc"] = area_under_curve(strength[is_true], strength[~is_true])
    row["auc_weak"] = area_under_curve(strength[is_true & (shares < WEAK_SHARE)], strength[~is_true])
    if found.pair_effects is not None:
        alone = found.pair_effects[pairs]
        row["auc_pair_effects"] = area_under_curve(alone[is_true], alone[~is_true])
    if found.nats_above_noise is not None:
        row["nats_above_noise"] = round(found.nats_above_noise, 1)
    row["versions"] = {name: version(name) for name in packages}
    return row


def summary(rows: list[dict[str, Any]]) -> str:
    """Mean AUC by method, cell and family."""
    lines = ["| method | d | t | functions | " + " | ".join(FAMILIES) + " | all | true pairs below 2 % | CPU s |"]
    lines.append("|---" * (len(FAMILIES) + 7) + "|")
    cells = sorted({(row["dim"], row["count"]) for row in rows})
    kinds = [("ebm-fast", "auc"), ("gp-sobol", "auc"), ("gp-sobol", "auc_pair_effects"), ("shap", "auc")]
    for (method, field), (dim, count) in itertools.product(kinds, cells):
        of = [row for row in rows if (row["method"], row["dim"], row["count"]) == (method, dim, count)]
        if not of:
            continue
        by_family = [mean([row[field] for row in of if row["family"] == family]) for family in FAMILIES]
        name = method if field == "auc" else f"{method}, effects of pairs alone"
        weak = mean([row["auc_weak"] for row in of]) if field == "auc" else "–"
        ends = [mean([row[field] for row in of]), weak, f"{np.mean([row['cpu_seconds'] for row in of]):.1f}"]
        lines.append(f"| {name} | {dim} | {count} | {len(of)} | " + " | ".join(by_family + ends) + " |")
    return "\n".join(lines)


def mean(values: list[float | None]) -> str:
    present = [value for value in values if value is not None]
    return f"{np.mean(present):.3f}" if present else "–"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--methods", nargs="+", choices=tuple(METHODS), default=list(METHODS))
    parser.add_argument("--families", nargs="+", choices=FAMILIES, default=list(FAMILIES))
    parser.add_argument("--cells", nargs="+", default=list(CELLS), help="variables:observations")
    parser.add_argument("--dims", type=int, nargs="+", help="only the cells with so many variables")
    parser.add_argument("--seeds", type=int, nargs="+", default=list(range(10)))
    parser.add_argument("--results", type=Path, default=RESULTS_FILE)
    arguments = parser.parse_args()
    results = ResultsFile(arguments.results, ("method", "family", "dim", "count", "seed"))
    cells = [(int(dim), int(count)) for dim, count in (cell.split(":") for cell in arguments.cells)]
    for (dim, count), seed in itertools.product(cells, arguments.seeds):
        if arguments.dims and dim not in arguments.dims:
            continue
        for family, method in itertools.product(arguments.families, arguments.methods):
            results.add({"method": method, "family": family, "dim": dim, "count": count, "seed": seed}, measure)
    print(summary(results.rows))


if __name__ == "__main__":
    main()
