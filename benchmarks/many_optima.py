"""Functions with many optima, and some with one: the regret of the default and of other methods.

    python benchmarks/many_optima.py                    # 4 seeds, 150 evaluations, the default
    python benchmarks/many_optima.py --seeds 6 --problems wells aligned waves --methods dechbo botorch-ucb

Wells: ten wells 1 / (r^2 + c) at random places with random depths in four dimensions (Shekel's form). Aligned: the
same with places in the plane x0 = x2, x1 = x3. Peaks: 21 rotated Gaussian peaks in four dimensions (Gallagher's form).
Waves: a rotated bowl with ripples in five dimensions. Hills: four hills of Hartmann's form in six dimensions, the two
highest almost equal, with random places and the same widths in random order. Valleys: a sum of ten functions of one
variable with narrow valleys (Michalewicz's form). Others: classic functions in five or six dimensions, shifted by
the seed. Methods are those of ``dechbo bench``. Every run starts with ten Sobol points, the same for all methods, and
is appended to the results file when it has finished.
"""

from __future__ import annotations

import argparse
import itertools
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize
from scipy.stats import qmc

from dechbo import Float, Space
from dechbo.bench import methods
from dechbo.bench.peers import PeerProcess
from dechbo.bench.problems.classic import (
    STYBLINSKI_MINIMUM,
    ackley_value,
    levy_value,
    rosenbrock_value,
    styblinski_value,
)
from results_file import RESULTS, ResultsFile

Array = NDArray[np.float64]
Problem = tuple[Callable[[Array], float], int, float]  # on the unit cube, its dimension, its minimum
RESULTS_FILE = RESULTS / "many_optima.jsonl"
KEY = ("problem", "method", "seed", "evaluations")
N_INITIAL = 10
HARTMANN_STEEPNESS = np.array(
    [
        [10, 3, 17, 3.5, 1.7, 8],
        [0.05, 10, 17, 0.1, 8, 14],
        [3, 3.5, 1.7, 10, 17, 8],
        [17, 8, 0.05, 10, 0.1, 14],
    ]
)


def wells(seed: int) -> Problem:
    """Ten wells in the cube."""
    rng = np.random.default_rng([77, seed])
    return wells_at(rng.uniform(1, 9, (10, 4)), rng.uniform(0.1, 0.8, 10))


def aligned(seed: int) -> Problem:
    """Ten wells in a plane."""
    rng = np.random.default_rng([177, seed])
    return wells_at(np.tile(rng.uniform(1, 9, (10, 2)), 2), rng.uniform(0.1, 0.8, 10))


def wells_at(centres: Array, widths: Array) -> Problem:
    """Minus the sum of 1 / (r^2 + c)."""

    def value(u: Array) -> float:
        return -float((1 / (((10 * u - centres) ** 2).sum(axis=1) + widths)).sum())

    options = {"xatol": 1e-8, "fatol": 1e-10}
    ends = [minimize(value, centre / 10, method="Nelder-Mead", options=options).fun for centre in centres]
    return value, 4, float(min(ends))


def peaks(seed: int) -> Problem:
    """Ten minus the maximum of 21 peaks; the highest peak is ten."""
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


def hills(seed: int) -> Problem:
    """Minus the sum of four hills of almost equal pairs of heights."""
    rng = np.random.default_rng([991, seed])
    heights = np.array([1.0, 1.2, 3.0, 3.2])
    steepness = rng.permutation(HARTMANN_STEEPNESS.ravel()).reshape(4, 6)
    centres = rng.uniform(0.05, 0.95, (4, 6))

    def value(u: Array) -> float:
        return -float(heights @ np.exp(-(steepness * (u - centres) ** 2).sum(axis=1)))

    starts = [*centres, *rng.random((60, 6))]
    return value, 6, min(float(minimize(value, start, bounds=[(0, 1)] * 6).fun) for start in starts)


def valleys(seed: int) -> Problem:
    """Ten functions of one variable, each with one to five narrow valleys."""
    rng = np.random.default_rng([992, seed])
    frequency, phase, depth = rng.uniform(0.5, 4.0, 10), rng.uniform(0, np.pi, 10), rng.uniform(0.8, 1.2, 10)

    def parts(u: Array) -> Array:
        answer: Array = -depth * np.sin(np.pi * (0.1 + 0.8 * u)) * np.sin(frequency * np.pi * u**2 + phase) ** 20
        return answer

    lowest = parts(np.linspace(0, 1, 20001)[:, None]).min(axis=0)
    return (lambda u: float(parts(u).sum())), 10, float(lowest.sum())


def shifted(
    function: Callable[[Array], float], dim: int, low: float, high: float, shift: float, minimum: float = 0.0
) -> Callable[[int], Problem]:
    """A function of z in [low, high]^d, shifted by at most ``shift`` in every variable."""

    def instance(seed: int) -> Problem:
        by = np.random.default_rng([79, dim, seed]).uniform(-shift, shift, dim)
        return (lambda u: float(function(low + u * (high - low) - by))), dim, minimum

    return instance


PROBLEMS: dict[str, Callable[[int], Problem]] = {
    "wells": wells,
    "aligned": aligned,
    "peaks": peaks,
    "waves": waves,
    "hills": hills,
    "valleys": valleys,
    "ackley-6": shifted(ackley_value, 6, -32.768, 32.768, 16.0),
    "levy-5": shifted(levy_value, 5, -10.0, 10.0, 3.0),
    "rosenbrock-5": shifted(rosenbrock_value, 5, -2.0, 2.0, 0.5),
    "styblinski-6": shifted(styblinski_value, 6, -5.0, 5.0, 1.0, 6 * STYBLINSKI_MINIMUM),
}


def regret(problem: Problem, method: methods.Method, seed: int, evaluations: int) -> float:
    """The regret after the initial points and ``evaluations`` asks."""
    value, dim, minimum = problem
    best = np.inf
    for u in qmc.Sobol(dim, rng=np.random.default_rng([seed, dim])).random(16)[:N_INITIAL]:
        method.tell({f"x{i}": float(x) for i, x in enumerate(u)}, value(u))
        best = min(best, value(u))
    for _ in range(evaluations):
        params = method.ask()
        found = value(np.array([params[f"x{i}"] for i in range(dim)]))
        method.tell(params, found)
        best = min(best, found)
    return float(best - minimum)


def unit_space(dim: int) -> Space:
    """Parameters x0, x1, … in [0, 1]."""
    return Space({f"x{i}": Float(0, 1) for i in range(dim)})


@contextmanager
def created(name: str, dim: int, seed: int, evaluations: int) -> Iterator[methods.Method]:
    """The method ``name``, for one run."""
    space = unit_space(dim)
    if methods.is_peer(name):
        with closing(PeerProcess(name, space, seed=seed, n_initial=N_INITIAL, budget=N_INITIAL + evaluations)) as peer:
            yield peer
    else:
        yield methods.METHODS[name].create(space, seed, N_INITIAL)


def run(problem: str, method: str, seed: int, evaluations: int) -> dict[str, float]:
    """The regret and the CPU seconds of one run."""
    function = PROBLEMS[problem](seed)
    started = time.process_time()
    with created(method, function[1], seed, evaluations) as asking:
        end = regret(function, asking, seed, evaluations)
        seconds = time.process_time() - started + (asking.cpu_clock() if isinstance(asking, PeerProcess) else 0.0)
    return {"regret": end, "seconds": round(seconds, 1)}


def main() -> None:
    """Print one line per run, then one for each problem and method."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=4)
    parser.add_argument("--evaluations", type=int, default=150)
    parser.add_argument("--problems", nargs="+", default=list(PROBLEMS), choices=list(PROBLEMS))
    parser.add_argument("--methods", nargs="+", default=["dechbo"], choices=methods.names(), metavar="METHOD")
    parser.add_argument("--results", type=Path, default=RESULTS_FILE)
    arguments = parser.parse_args()
    for name in arguments.methods:
        if (reason := methods.unavailable_reason(name)) is not None:
            parser.error(f"{name} is {reason}")
    results = ResultsFile(arguments.results, KEY)
    cases = itertools.product(range(arguments.seeds), arguments.problems, arguments.methods, [arguments.evaluations])
    for seed, problem, method, evaluations in cases:
        results.add({"problem": problem, "method": method, "seed": seed, "evaluations": evaluations}, run)
    for problem, method in itertools.product(arguments.problems, arguments.methods):
        wanted = [(problem, method, seed, arguments.evaluations) for seed in range(arguments.seeds)]
        regrets = [row["regret"] for row in results.rows if tuple(row[name] for name in KEY) in wanted]
        print(f"{problem:13s} {method:12s} {np.mean(regrets):.3g} ({', '.join(f'{end:.2g}' for end in regrets)})")


if __name__ == "__main__":
    main()
