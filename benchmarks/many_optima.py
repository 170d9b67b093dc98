"""Functions with many optima, and some with one: regret with and without fresh looks, seed by seed.

    python benchmarks/many_optima.py [--seeds 4] [--evaluations 150] [--problems wells peaks …] [--out FILE]

Wells: ten wells 1 / (r^2 + c) of random place and depth in four dimensions (Shekel's form). Peaks: 21 rotated Gaussian
peaks in four dimensions (Gallagher's form). Waves: a rotated bowl with ripples in five dimensions. The others are the
classical functions in five or six dimensions, their optimum moved by the seed. Every run has ten Sobol points first,
the same for both. With --out, finished runs are kept in FILE, and not made again.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize
from scipy.stats import qmc

from dechbo import Float, Optimizer, Space, freshlook
from dechbo.bench.problems.classic import ackley_value, levy_value, rosenbrock_value, styblinski_value

Array = NDArray[np.float64]
Problem = tuple[Callable[[Array], float], int, float]  # on the unit cube, its dimension, its minimum
NEVER = 10**9


def wells(seed: int) -> Problem:
    """Minus the sum of 1 / (r^2 + c)."""
    rng = np.random.default_rng([77, seed])
    centres, widths = rng.uniform(1, 9, (10, 4)), rng.uniform(0.1, 0.8, 10)

    def value(u: Array) -> float:
        return -float((1 / (((10 * u - centres) ** 2).sum(axis=1) + widths)).sum())

    options = {"xatol": 1e-8, "fatol": 1e-10}
    ends = [minimize(value, centre / 10, method="Nelder-Mead", options=options).fun for centre in centres]
    return value, 4, float(min(ends))


def peaks(seed: int) -> Problem:
    """Ten minus the highest of 21 peaks, the highest of them ten."""
    rng = np.random.default_rng([78, seed])
    centres = rng.uniform(0.05, 0.95, (21, 4))
    heights = np.concatenate([[10], rng.uniform(1.1, 9.1, 20)])
    turns = np.array([np.linalg.qr(rng.standard_normal((4, 4)))[0] for _ in range(21)])
    scales = 10 ** rng.uniform(0, 1.5, (21, 4))

    def value(u: Array) -> float:
        turned = np.einsum("pij,pj->pi", turns, u - centres)
        return 10 - float((heights * np.exp(-4 * (turned**2 * scales).sum(axis=1))).max())

    return value, 4, 0.0


def waves(seed: int) -> Problem:
    """A rotated Rastrigin bowl of few ripples."""
    rng = np.random.default_rng([83, seed])
    turn = np.linalg.qr(rng.standard_normal((5, 5)))[0]
    centre = rng.uniform(0.3, 0.7, 5)

    def value(u: Array) -> float:
        z = 5 * turn @ (u - centre)
        return float((z**2 + 3 * (1 - np.cos(2 * np.pi * z / 1.5))).sum())

    return value, 5, 0.0


def moved(
    function: Callable[[Array], float], dim: int, low: float, high: float, shift: float, minimum: float = 0.0
) -> Callable[[int], Problem]:
    """A classical function of z in [low, high], moved by at most ``shift`` in every variable."""

    def instance(seed: int) -> Problem:
        by = np.random.default_rng([79, dim, seed]).uniform(-shift, shift, dim)
        return (lambda u: float(function(low + u * (high - low) - by))), dim, minimum

    return instance


PROBLEMS: dict[str, Callable[[int], Problem]] = {
    "wells": wells,
    "peaks": peaks,
    "waves": waves,
    "ackley-6": moved(ackley_value, 6, -32.768, 32.768, 16.0),
    "levy-5": moved(levy_value, 5, -10.0, 10.0, 3.0),
    "rosenbrock-5": moved(rosenbrock_value, 5, -2.0, 2.0, 0.5),
    "styblinski-6": moved(styblinski_value, 6, -5.0, 5.0, 1.0, -39.16616570377142 * 6),
}


def regret(problem: Problem, seed: int, evaluations: int) -> float:
    """The regret of the default optimiser after ten initial points and so many evaluations."""
    value, dim, minimum = problem
    optimizer = Optimizer(Space({f"x{i}": Float(0, 1) for i in range(dim)}), seed=seed)
    for u in qmc.Sobol(dim, rng=np.random.default_rng([seed, dim])).random(16)[:10]:
        optimizer.tell({f"x{i}": float(x) for i, x in enumerate(u)}, value(u))
    for _ in range(evaluations):
        params = optimizer.ask()
        optimizer.tell(params, value(np.array(list(params.values()))))
    best = optimizer.best
    return (best.number_value if best is not None else np.inf) - minimum


def main() -> None:
    """One line a run, then one for each problem."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=4)
    parser.add_argument("--evaluations", type=int, default=150)
    parser.add_argument("--problems", nargs="+", default=list(PROBLEMS), choices=list(PROBLEMS))
    parser.add_argument("--out", type=Path)
    chosen = parser.parse_args()
    known: dict[str, float] = {}
    if chosen.out is not None and chosen.out.exists():
        known = {row["run"]: row["regret"] for row in map(json.loads, chosen.out.read_text().splitlines())}
    patience = freshlook.PATIENCE
    regrets: dict[tuple[str, bool], list[float]] = {}
    for seed in range(chosen.seeds):
        for name in chosen.problems:
            for looks in (False, True):
                run = f"{name} seed {seed} evaluations {chosen.evaluations} {'with' if looks else 'without'} looks"
                if run not in known:
                    freshlook.PATIENCE = patience if looks else NEVER
                    started = time.process_time()
                    known[run] = regret(PROBLEMS[name](seed), seed, chosen.evaluations)
                    seconds = time.process_time() - started
                    print(f"{run}: regret {known[run]:.3g}, {seconds:.0f} s", flush=True)
                    if chosen.out is not None:
                        with chosen.out.open("a") as file:
                            row = {"run": run, "regret": known[run], "seconds": round(seconds, 1)}
                            print(json.dumps(row), file=file, flush=True)
                regrets.setdefault((name, looks), []).append(known[run])
    for name in chosen.problems:
        lines = []
        for looks in (False, True):
            values = regrets[name, looks]
            each = ", ".join(f"{value:.2g}" for value in values)
            lines.append(f"{'with' if looks else 'without'} {np.mean(values):.3g} ({each})")
        print(f"{name:13s} {'; '.join(lines)}")


if __name__ == "__main__":
    main()
