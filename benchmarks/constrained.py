"""Black-box constraints: regret and share of feasible evaluations, seed by seed.

    python benchmarks/constrained.py [--seeds 3] [--problems gramacy spring quadratic] [--methods dechbo tpe gp random]

The optimum comes from SciPy's SLSQP with the true functions, from many starts. Optuna's GPSampler needs PyTorch.
"""

from __future__ import annotations

import argparse
import math
import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize

from dechbo import Float, Optimizer, Space

Array = NDArray[np.float64]


@dataclass(frozen=True)
class Problem:
    """Minimise ``value`` subject to every constraint <= 0."""

    bounds: list[tuple[float, float]]
    value: Callable[[Array], float]
    constraints: dict[str, Callable[[Array], float]]
    budget: int

    def optimum(self) -> float:
        """The best of 300 SLSQP runs with the true functions."""
        low, high = np.array(self.bounds).T
        rng = np.random.default_rng(0)
        limits = [{"type": "ineq", "fun": lambda u, c=c: -c(low + u * (high - low))} for c in self.constraints.values()]
        best = math.inf
        for start in rng.random((300, len(low))):
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                found = minimize(
                    lambda u: self.value(low + u * (high - low)),
                    start,
                    method="SLSQP",
                    bounds=[(0, 1)] * len(low),
                    constraints=limits,
                )
            x = low + found.x * (high - low)
            if all(c(x) <= 1e-6 for c in self.constraints.values()) and np.isfinite(found.fun):
                best = min(best, float(found.fun))
        return best


def wave(x: Array) -> float:
    """The first constraint of Gramacy's toy problem."""
    return float(1.5 - x[0] - 2 * x[1] - 0.5 * math.sin(2 * math.pi * (x[0] ** 2 - 2 * x[1])))


TARGET = np.linspace(0.9, 0.4, 10)
PROBLEMS = {
    # Gramacy et al. (2016), 0.5998
    "gramacy": Problem(
        [(0, 1)] * 2, lambda x: float(x.sum()), {"wave": wave, "disc": lambda x: float(x @ x) - 1.5}, 40
    ),
    # the tension spring (Arora 1989): diameters of wire and coil, turns; 0.012665
    "spring": Problem(
        [(0.05, 2.0), (0.25, 1.3), (2.0, 15.0)],
        lambda x: float((x[2] + 2) * x[1] * x[0] ** 2),
        {
            "deflection": lambda x: float(1 - x[1] ** 3 * x[2] / (71785 * x[0] ** 4)),
            "stress": lambda x: float(
                (4 * x[1] ** 2 - x[0] * x[1]) / (12566 * (x[1] * x[0] ** 3 - x[0] ** 4) or 1e-9)
                + 1 / (5108 * x[0] ** 2)
                - 1
            ),
            "surge": lambda x: float(1 - 140.45 * x[0] / (x[1] ** 2 * x[2])),
            "size": lambda x: float((x[0] + x[1]) / 1.5 - 1),
        },
        60,
    ),
    # additive objective of ten parameters in a ball and a half-space
    "quadratic": Problem(
        [(0, 1)] * 10,
        lambda x: float(((x - TARGET) ** 2 * np.arange(1, 11)).sum()),
        {"ball": lambda x: float(x @ x) - 2.0, "plane": lambda x: float(x[:3].sum()) - 1.2},
        50,
    ),
}


def run_dechbo(problem: Problem, seed: int) -> list[tuple[float, bool]]:
    """The value of each evaluation, and whether it was feasible."""
    space = Space({f"x{i}": Float(*bound) for i, bound in enumerate(problem.bounds)})
    optimizer = Optimizer(space, seed=seed)
    for _ in range(problem.budget):
        params = optimizer.ask()
        x = np.array(list(params.values()))
        optimizer.tell(params, problem.value(x), constraints={name: c(x) for name, c in problem.constraints.items()})
    return [(e.number_value, e.feasible) for e in optimizer.evaluations]


def run_optuna(problem: Problem, seed: int, name: str) -> list[tuple[float, bool]]:
    """The same with one of Optuna's samplers."""
    import optuna

    optuna.logging.set_verbosity(optuna.logging.ERROR)
    warnings.simplefilter("ignore")

    def limits(trial: optuna.trial.FrozenTrial) -> list[float]:
        return list(trial.user_attrs["limits"])

    samplers: dict[str, Callable[[], optuna.samplers.BaseSampler]] = {
        "tpe": lambda: optuna.samplers.TPESampler(seed=seed, multivariate=True, constraints_func=limits),
        "gp": lambda: optuna.samplers.GPSampler(seed=seed, constraints_func=limits),
        "random": lambda: optuna.samplers.RandomSampler(seed=seed),
    }

    def objective(trial: optuna.Trial) -> float:
        x = np.array([trial.suggest_float(f"x{i}", *bound) for i, bound in enumerate(problem.bounds)])
        trial.set_user_attr("limits", [c(x) for c in problem.constraints.values()])
        return problem.value(x)

    study = optuna.create_study(sampler=samplers[name]())
    study.optimize(objective, n_trials=problem.budget)
    return [(float(t.value or 0.0), max(t.user_attrs["limits"]) <= 0) for t in study.trials]


def main() -> None:
    """Print one line per run."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--problems", nargs="+", default=list(PROBLEMS))
    parser.add_argument("--methods", nargs="+", default=["dechbo", "tpe"])
    arguments = parser.parse_args()
    for name in arguments.problems:
        problem = PROBLEMS[name]
        optimum = problem.optimum()
        print(f"{name}: d = {len(problem.bounds)}, {problem.budget} evaluations, optimum {optimum:.6g}", flush=True)
        for method in arguments.methods:
            for seed in range(arguments.seeds):
                started = time.process_time()
                evaluated = run_dechbo(problem, seed) if method == "dechbo" else run_optuna(problem, seed, method)
                feasible = [value for value, ok in evaluated if ok]
                half = [value for value, ok in evaluated[: problem.budget // 2] if ok]
                regrets = [min(values, default=math.inf) - optimum for values in (half, feasible)]
                print(
                    f"  {method:7s} seed {seed}: regret {regrets[0]:.3g} at half, {regrets[1]:.3g} at the end; "
                    f"{len(feasible) / len(evaluated):.0%} feasible; {time.process_time() - started:.0f} s",
                    flush=True,
                )


if __name__ == "__main__":
    main()
