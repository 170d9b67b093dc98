"""Conditional parameters: dechbo beside TPE (multivariate, grouped) and SMAC3 on two choices of a pipeline.

    python benchmarks/conditional.py --smac-python ENV/bin/python [--seeds 10] [--summary]

``pipeline`` tunes scaling, reduction and one of four classifiers on scikit-learn's breast cancer data (log loss of
held-out patients, three folds); ``table`` holds all 4,320 settings of a regression pipeline on its diabetes data (root
mean squared error, three folds), as ``--table`` measures them. All methods start from the same ten random points and
evaluate fifty. Finished runs are kept in ``results/conditional.jsonl``; an interrupted script continues. SMAC3 runs in
an environment of its own (``pip install "smac>=2.2"``).
"""

from __future__ import annotations

import argparse
import itertools
import json
import math
import subprocess
import time
import warnings
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.datasets import load_breast_cancer, load_diabetes
from sklearn.decomposition import PCA
from sklearn.ensemble import GradientBoostingClassifier, RandomForestRegressor
from sklearn.feature_selection import SelectKBest
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.model_selection import KFold, StratifiedKFold, cross_val_score
from sklearn.neighbors import KNeighborsClassifier, KNeighborsRegressor
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import QuantileTransformer, StandardScaler
from sklearn.svm import SVC, SVR

from dechbo import Categorical, Float, Int, Optimizer, Space
from results_file import RESULTS, ResultsFile

Params = dict[str, Any]
Objective = Callable[[Params], float]

BUDGET, INITIAL = 50, 10
METHODS = ("dechbo", "tpe", "smac")
TABLE = RESULTS / "conditional_table.json"
warnings.simplefilter("ignore")

PIPELINE = Space(
    {
        "scale": Categorical(["none", "standard", "quantile"]),
        "reduce": Categorical(["none", "pca", "select"]),
        "components": Int(2, 30, log=True, when={"reduce": "pca"}),
        "features": Int(2, 30, log=True, when={"reduce": "select"}),
        "model": Categorical(["logistic", "svm", "boosting", "neighbours"]),
        "logistic_C": Float(1e-4, 1e3, log=True, when={"model": "logistic"}),
        "svm_C": Float(1e-3, 1e3, log=True, when={"model": "svm"}),
        "svm_kernel": Categorical(["rbf", "poly", "linear"], when={"model": "svm"}),
        "svm_gamma": Float(1e-5, 1, log=True, when={"svm_kernel": ["rbf", "poly"]}),
        "svm_degree": Int(2, 4, when={"svm_kernel": "poly"}),
        "rate": Float(0.01, 1, log=True, when={"model": "boosting"}),
        "trees": Int(5, 60, log=True, when={"model": "boosting"}),
        "depth": Int(1, 5, when={"model": "boosting"}),
        "subsample": Float(0.3, 1, when={"model": "boosting"}),
        "k": Int(1, 40, log=True, when={"model": "neighbours"}),
        "weights": Categorical(["uniform", "distance"], when={"model": "neighbours"}),
        "p": Float(1, 4, when={"model": "neighbours"}),
    }
)
REGRESSION = Space(
    {
        "prepare": Categorical(["none", "scale", "pca"]),
        "components": Int(1, 8, when={"prepare": "pca"}),
        "model": Categorical(["svr", "forest", "neighbours", "ridge"]),
        "svr_C": Int(-2, 5, when={"model": "svr"}),  # exponents of 10
        "svr_kernel": Categorical(["rbf", "poly", "linear"], when={"model": "svr"}),
        "svr_gamma": Int(-4, 3, when={"svr_kernel": ["rbf", "poly"]}),  # exponents of 4
        "svr_degree": Int(2, 4, when={"svr_kernel": "poly"}),
        "depth": Int(1, 6, when={"model": "forest"}),
        "share": Int(1, 5, when={"model": "forest"}),  # fifths of the features
        "leaf": Int(0, 3, when={"model": "forest"}),  # exponents of 3
        "k": Int(0, 7, when={"model": "neighbours"}),  # k = 1 + 4 k
        "weights": Categorical(["uniform", "distance"], when={"model": "neighbours"}),
        "p": Int(1, 2, when={"model": "neighbours"}),
        "alpha": Int(-4, 3, when={"model": "ridge"}),  # exponents of 10
    }
)


def classified(params: Params) -> float:
    """The log loss of a classification pipeline."""
    X, y = load_breast_cancer(return_X_y=True)
    steps: list[Any] = []
    if params["scale"] != "none":
        steps.append(StandardScaler() if params["scale"] == "standard" else QuantileTransformer(n_quantiles=50))
    if params["reduce"] == "pca":
        steps.append(PCA(params["components"], random_state=0))
    elif params["reduce"] == "select":
        steps.append(SelectKBest(k=params["features"]))
    if params["model"] == "logistic":
        steps.append(LogisticRegression(C=params["logistic_C"], max_iter=200))
    elif params["model"] == "svm":
        options = {
            name: params[f"svm_{name}"] for name in ("C", "kernel", "gamma", "degree") if f"svm_{name}" in params
        }
        steps.append(SVC(**options, probability=True, random_state=0, max_iter=20_000))
    elif params["model"] == "boosting":
        steps.append(
            GradientBoostingClassifier(
                learning_rate=params["rate"],
                n_estimators=params["trees"],
                max_depth=params["depth"],
                subsample=params["subsample"],
                random_state=0,
            )
        )
    else:
        steps.append(KNeighborsClassifier(params["k"], weights=params["weights"], p=params["p"]))
    folds = StratifiedKFold(3, shuffle=True, random_state=0)
    return float(-cross_val_score(make_pipeline(*steps), X, y, cv=folds, scoring="neg_log_loss").mean())


def regressed(params: Params) -> float:
    """The root mean squared error of a regression pipeline."""
    X, y = load_diabetes(return_X_y=True)
    steps: list[Any] = [] if params["prepare"] == "none" else [StandardScaler()]
    if params["prepare"] == "pca":
        steps.append(PCA(params["components"], random_state=0))
    if params["model"] == "svr":
        options = {"C": 10.0 ** params["svr_C"], "kernel": params["svr_kernel"], "max_iter": 20_000}
        if "svr_gamma" in params:
            options["gamma"] = 4.0 ** params["svr_gamma"]
        steps.append(SVR(**options, degree=params.get("svr_degree", 3)))
    elif params["model"] == "forest":
        steps.append(
            RandomForestRegressor(
                20,
                max_depth=params["depth"],
                max_features=params["share"] / 5,
                min_samples_leaf=3 ** params["leaf"],
                random_state=0,
            )
        )
    elif params["model"] == "neighbours":
        steps.append(KNeighborsRegressor(1 + 4 * params["k"], weights=params["weights"], p=params["p"]))
    else:
        steps.append(Ridge(10.0 ** params["alpha"]))
    folds = KFold(3, shuffle=True, random_state=0)
    return float(-cross_val_score(make_pipeline(*steps), X, y, cv=folds, scoring="neg_root_mean_squared_error").mean())


def settings(space: Space) -> Iterator[Params]:
    """Every setting of a finite space, once."""
    seen = set()
    for point in itertools.product(*(parameter.grid(1000) for parameter in _deciding(space))):
        fixed = dict(zip((i for i, _ in _indexed(space)), point, strict=True))
        base = np.array([fixed.get(i, 0.5) for i in range(space.dim)])
        active = space.conditions.active(base[None])[0]
        free = [i for i in range(space.dim) if i not in fixed and active[i]]
        for values in itertools.product(*(space.parameters[i].grid(1000) for i in free)):
            full = base.copy()
            full[free] = values
            params = space.decode(full)
            key = json.dumps(params, sort_keys=True)
            if key not in seen:
                seen.add(key)
                yield params


def _indexed(space: Space) -> list[tuple[int, Any]]:
    parents = {j for parents in space.conditions.parents.values() for j in parents}
    return [(i, space.parameters[i]) for i in sorted(parents)]


def _deciding(space: Space) -> list[Any]:
    return [parameter for _, parameter in _indexed(space)]


def measured_table() -> dict[str, float]:
    """The table, measured if there is none yet."""
    names = [json.dumps(params, sort_keys=True) for params in settings(REGRESSION)]
    if not TABLE.exists():
        TABLE.write_text(json.dumps([round(regressed(json.loads(name)), 4) for name in names]), encoding="utf-8")
    return dict(zip(names, json.loads(TABLE.read_text(encoding="utf-8")), strict=True))


def problem(name: str) -> tuple[Space, Objective]:
    """The space and the function of a problem."""
    if name == "pipeline":
        return PIPELINE, classified
    table = measured_table()
    return REGRESSION, lambda params: table[json.dumps(params, sort_keys=True)]


def initial(space: Space, name: str, seed: int) -> list[Params]:
    """The points that all methods start from."""
    rng = np.random.default_rng([seed, zlib.crc32(name.encode())])
    return [space.decode(space.from_uniform(rng.random(space.dim))) for _ in range(INITIAL)]


def run_dechbo(space: Space, function: Objective, start: list[Params], seed: int) -> list[float]:
    """The values of a run, in order."""
    optimizer = Optimizer(space, seed=seed, n_initial=INITIAL)
    values = []
    for k in range(BUDGET):
        params = start[k] if k < INITIAL else optimizer.ask()
        values.append(function(params))
        optimizer.tell(params, values[-1])
    return values


def run_tpe(space: Space, function: Objective, start: list[Params], seed: int) -> list[float]:
    """The same by Optuna's TPE, which learns the groups from the trials."""
    import optuna

    from dechbo.integrations.optuna import distributions_of

    optuna.logging.set_verbosity(optuna.logging.ERROR)
    sampler = optuna.samplers.TPESampler(seed=seed, multivariate=True, group=True, n_startup_trials=INITIAL)
    study = optuna.create_study(sampler=sampler)
    distributions = distributions_of(space)
    values = []
    for params in start:
        values.append(function(params))
        used = {name: distributions[name] for name in params}
        study.add_trial(optuna.trial.create_trial(params=params, distributions=used, value=values[-1]))
    for _ in range(BUDGET - INITIAL):
        trial = study.ask()
        params = {}
        while missing := [name for name in space if name in space.active(params) and name not in params]:
            name = missing[0]
            params[name] = trial._suggest(name, distributions[name])
        params = {name: params[name] for name in space if name in params}
        values.append(function(params))
        study.tell(trial, values[-1])
    return values


def run_smac(space: Space, function: Objective, start: list[Params], seed: int, python: str) -> list[float]:
    """The same by SMAC3's facade for tuning, in its own process."""
    script = Path(__file__).with_name("conditional_smac.py")
    with subprocess.Popen([python, str(script)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as peer:
        assert peer.stdin is not None
        assert peer.stdout is not None

        def send(**message: Any) -> Params:
            assert peer.stdin is not None
            assert peer.stdout is not None
            peer.stdin.write(json.dumps(message) + "\n")
            peer.stdin.flush()
            answer: Params = json.loads(peer.stdout.readline())
            return answer

        send(space=space.to_json()["parameters"], seed=seed, budget=BUDGET)
        values = []
        for k in range(BUDGET):
            params = start[k] if k < INITIAL else send(ask=True)
            params = {name: params[name] for name in space if name in params}
            values.append(function(params))
            send(params=params, value=values[-1])
        peer.stdin.close()
    return values


def measure(name: str, method: str, seed: int, python: str) -> dict[str, Any]:
    """One run."""
    space, function = problem(name)
    start = initial(space, name, seed)
    began = time.perf_counter()
    if method == "smac":
        values = run_smac(space, function, start, seed, python)
    else:
        values = {"dechbo": run_dechbo, "tpe": run_tpe}[method](space, function, start, seed)
    assert len(values) == BUDGET
    return {
        "values": [round(v, 6) for v in values],
        "best": min(values),
        "seconds": round(time.perf_counter() - began, 1),
    }


def summary(rows: list[dict[str, Any]]) -> str:
    """Means over the seeds that all methods have, with Student's intervals of paired differences to dechbo."""
    from scipy.stats import t

    lines = [
        "| problem | method | mean best | standard error | dechbo better by (95 %) | seeds won by dechbo |",
        "|---|---|---|---|---|---|",
    ]
    for name in dict.fromkeys(row["problem"] for row in rows):
        best = {m: {r["seed"]: r["best"] for r in rows if r["problem"] == name and r["method"] == m} for m in METHODS}
        seeds = sorted(set.intersection(*(set(found) for found in best.values())))
        ours = np.array([best["dechbo"][s] for s in seeds])
        for method in METHODS:
            theirs = np.array([best[method][s] for s in seeds])
            error = theirs.std(ddof=1) / math.sqrt(len(seeds))
            gain, won = "", ""
            if method != "dechbo":
                difference = theirs - ours
                half = t.ppf(0.975, len(seeds) - 1) * difference.std(ddof=1) / math.sqrt(len(seeds))
                gain = f"{difference.mean():.4f} ± {half:.4f}"
                won = f"{int((difference > 0).sum())} of {len(seeds)}, {int((difference == 0).sum())} equal"
            lines.append(f"| {name} | {method} | {theirs.mean():.4f} | {error:.4f} | {gain} | {won} |")
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--first-seed", type=int, default=10, help="0 to 9 were used while the method was written")
    parser.add_argument("--problems", nargs="+", default=["pipeline", "table"])
    parser.add_argument("--methods", nargs="+", default=list(METHODS))
    parser.add_argument("--smac-python", default="python")
    parser.add_argument("--table", action="store_true", help="measure the table and end")
    parser.add_argument("--summary", action="store_true", help="print the summary of finished runs and end")
    given = parser.parse_args()
    if given.table:
        print(f"{len(measured_table())} settings, the best {min(measured_table().values())}")
        return
    results = ResultsFile(RESULTS / "conditional.jsonl", ("problem", "method", "seed"))
    if not given.summary:
        for seed, name, method in itertools.product(
            range(given.first_seed, given.first_seed + given.seeds), given.problems, given.methods
        ):
            results.add(
                {"problem": name, "method": method, "seed": seed},
                lambda problem, method, seed: measure(problem, method, seed, given.smac_python),
            )
    print(summary(results.rows))


if __name__ == "__main__":
    main()
