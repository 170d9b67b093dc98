"""How fast the core is, every figure as a ratio to a reference measured in the same run, on one thread.

    python benchmarks/core_speed.py                        # all sections
    python benchmarks/core_speed.py evidence tables        # some of them
    python benchmarks/core_speed.py --json speed.json --markdown benchmarks/core_speed.md

The section ``ask`` needs the ``peers`` extra (torch, BoTorch) for its references. A ratio is ours / reference, the
median over repetitions in which both are measured in turn; the range beside it is the smallest and largest of them.
"""

from __future__ import annotations

import os

os.environ["OPENBLAS_NUM_THREADS"] = "1"
os.environ["OMP_NUM_THREADS"] = "1"
os.environ["MKL_NUM_THREADS"] = "1"
os.environ["NUMBA_NUM_THREADS"] = "1"

import argparse
import datetime
import hashlib
import importlib.metadata
import itertools
import json
import platform
import statistics
import subprocess
import sys
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.linalg.blas import dtrsm

import dechbo.models.model
from dechbo import FactorGraph, Float, Optimizer, Space
from dechbo.acquisition import TableCache, ucb_tables
from dechbo.data.observations import Observations
from dechbo.gp import AdditiveGP, Hyperparameters
from dechbo.maxsum import MaxSum
from dechbo.search.grids import Granularity, base_candidates

Array = NDArray[np.float64]
Call = Callable[[], Any]
PACKAGES = ("numpy", "scipy", "numba", "optuna", "torch", "botorch", "gpytorch")


# ------------------------------------------------------------------ rows


@dataclass(frozen=True)
class Row:
    """One line of the table; ``ratio`` is value / reference, and meets the bar if it is at most ``bar``."""

    section: str
    name: str
    value: float
    unit: str = "s"
    against: str = ""
    reference: float | None = None
    ratio: float | None = None
    low: float | None = None
    high: float | None = None
    bar: float | None = None

    @property
    def met(self) -> str:
        if self.bar is None or self.ratio is None:
            return ""
        return "yes" if self.ratio <= self.bar else "**no**"

    @property
    def bar_text(self) -> str:
        if self.bar is None:
            return ""
        return f"≤ {self.bar:.3g}" + (f" ({1 / self.bar:.3g}× faster)" if self.bar < 1 else "")

    def markdown(self) -> str:
        spread = "" if self.low is None or self.high is None else f"{self.low:.3g}–{self.high:.3g}"
        ratio = "" if self.ratio is None else f"{self.ratio:.3g}"
        reference = "" if self.reference is None else _quantity(self.reference, self.unit)
        cells = (self.name, _quantity(self.value, self.unit), self.against, reference, ratio, spread, self.bar_text)
        return "| " + " | ".join((*cells, self.met)) + " |"


HEADER = "| what | measured | against | reference | ratio | range | bar | met |\n|---|---|---|---|---|---|---|---|"


def _quantity(value: float, unit: str) -> str:
    return f"{value:.3g} {unit}".strip()


def compared(
    section: str, name: str, ours: Sequence[float], against: str, theirs: Sequence[float], bar: float | None = None
) -> Row:
    """Medians of both, and the median of the ratios within each repetition."""
    ratios = [a / b for a, b in zip(ours, theirs, strict=True)]
    middle = statistics.median
    return Row(section, name, middle(ours), "s", against, middle(theirs), middle(ratios), min(ratios), max(ratios), bar)


CLOCKS: dict[str, Callable[[], float]] = {"wall": time.perf_counter, "cpu": time.process_time}
_chosen_clock = "wall"


def clock() -> float:
    """Now, in seconds: wall time, or the CPU time of this process, which a busy machine disturbs less."""
    return CLOCKS[_chosen_clock]()


def choose_clock(name: str) -> None:
    global _chosen_clock
    _chosen_clock = name


def seconds(call: Call) -> float:
    start = clock()
    call()
    return clock() - start


def in_turn(calls: dict[str, Call], repeats: int, *, warm: bool = True) -> dict[str, list[float]]:
    """Times of each call, one repetition of all before the next, after one untimed repetition."""
    if warm:
        for call in calls.values():
            call()
    times: dict[str, list[float]] = {name: [] for name in calls}
    for k in range(repeats):
        for name, call in calls.items():
            times[name].append(seconds(call))
        progress(f"repetition {k + 1} of {repeats}")
    return times


def progress(text: str) -> None:
    print(f"  … {text}", file=sys.stderr, flush=True)


def exponent(sizes: Sequence[float], taken: Sequence[float]) -> float:
    """p of seconds ~ size^p, by least squares on logarithms."""
    return float(np.polyfit(np.log(sizes), np.log(taken), 1)[0])


# ------------------------------------------------------------ what is measured


def ring(dim: int, size: int = 3, seed: int | None = None) -> FactorGraph:
    """dim factors, each of ``size`` neighbours on a ring of the variables, in random order if there is a seed."""
    order = np.arange(dim) if seed is None else np.random.default_rng(seed).permutation(dim)
    return FactorGraph(dim, tuple(tuple(int(order[(k + j) % dim]) for j in range(size)) for k in range(dim)))


def chain(dim: int) -> FactorGraph:
    return FactorGraph(dim, tuple((i, i + 1) for i in range(dim - 1)))


def rosenbrock(X: Array) -> Array:
    """Rosenbrock's chain of pairs, the unit cube standing for [-2, 2]^d."""
    Z = 4 * X - 2
    total: Array = (100 * (Z[:, 1:] - Z[:, :-1] ** 2) ** 2 + (1 - Z[:, :-1]) ** 2).sum(axis=1)
    return total


def styblinski_tang(X: Array) -> Array:
    """A sum over the variables, the unit cube standing for [-5, 5]^d."""
    Z = 10 * X - 5
    total: Array = 0.5 * (Z**4 - 16 * Z**2 + 5 * Z).sum(axis=1)
    return total


def uniform_points(function: Callable[[Array], Array], dim: int, t: int, seed: int) -> Array:
    return np.random.default_rng(seed).random((t, dim))


def run_points(function: Callable[[Array], Array], dim: int, t: int, seed: int) -> Array:
    """What an optimiser's run looks like: half of the points uniform, half within about 0.05 of the best of those."""
    rng = np.random.default_rng(seed)
    X = rng.random((t, dim))
    half = t // 2
    best = X[function(X[:half]).argmin()]
    X[half:] = np.clip(best + 0.05 * rng.normal(size=(t - half, dim)), 0.0, 1.0)
    return X


def model(graph: FactorGraph, *, kernel: str = "matern52") -> AdditiveGP:
    rng = np.random.default_rng(1)
    factors = len(graph.scopes)
    lengths = rng.uniform(0.2, 0.6, graph.dim)
    return AdditiveGP(graph, Hyperparameters(lengths, np.full(factors, 1.0 / factors), 1e-3), kernel=kernel)


def observations(dim: int, t: int) -> Observations:
    X = np.random.default_rng(2).random((t, dim))
    return Observations(X, rosenbrock(X)).standardised()[0]


# ---------------------------------------------------------------- sections


def evidence(repeats: int) -> Iterator[Row]:
    """Evidence and gradient against one exponential per kernel entry."""
    d, t = 1811, 200
    graph, data = ring(d, seed=0), observations(d, t)
    matern, gaussian = model(graph), model(graph, kernel="se")
    entries = -np.random.default_rng(3).uniform(0.0, 5.0, t * (t - 1) // 2 * d)
    buffer = np.empty_like(entries)
    times = in_turn(
        {
            "matern52": lambda: matern.log_evidence_gradient(data),
            "np.exp": lambda: np.exp(entries, out=buffer),
            "se": lambda: gaussian.log_evidence_gradient(data),
        },
        repeats,
    )
    what = "evidence + gradient, d=1811, t=200, 1811 ternary factors"
    against = "np.exp of t(t-1)/2·d numbers"
    yield compared("evidence", f"{what}, Matérn-5/2", times["matern52"], against, times["np.exp"], 2.5)
    yield compared("evidence", f"{what}, squared exponential", times["se"], against, times["np.exp"])


def bare_solves(L: Array, cells: int, count: int, side: int) -> float:
    """Seconds of ``count`` triangular solves in place, t×t against t×cells; filling the buffers is not counted."""
    t = len(L)
    right = np.random.default_rng(4).random((t, cells))
    fresh = np.asfortranarray(right if side == 0 else right.T)
    pool = [fresh.copy(order="F") for _ in range(32)]
    total = 0.0
    for first in range(0, count, len(pool)):
        part = pool[: min(len(pool), count - first)]
        for buffer in part:  # solving a solution again would drift towards numbers that are slow
            buffer[:] = fresh
        start = clock()
        for buffer in part:
            dtrsm(1.0, L, buffer, side=side, lower=1, trans_a=side, overwrite_b=1)
        total += clock() - start
    return total


def tables(repeats: int) -> Iterator[Row]:
    """All UCB tables against the bare triangular solves of the same shapes."""
    d, t, g = 1811, 200, 10
    posterior = model(ring(d, seed=0)).condition(observations(d, t))
    candidates = [np.linspace(0.0, 1.0, g)] * d
    ucb_tables(posterior, candidates, 4.0)
    ours: list[float] = []
    sides: dict[str, list[float]] = {"left": [], "right": []}
    for k in range(repeats):
        ours.append(seconds(lambda: ucb_tables(posterior, candidates, 4.0)))
        for side, name in enumerate(sides):
            sides[name].append(bare_solves(posterior.L, g**3, d, side))
        progress(f"repetition {k + 1} of {repeats}")
    faster = min(sides, key=lambda name: statistics.median(sides[name]))
    what = "UCB tables, d=1811, t=200, 1811 ternary factors, 10 candidates"
    slower = "left" if faster == "right" else "right"
    against = f"bare dtrsm, L on the {faster} (on the {slower} {statistics.median(sides[slower]):.3g} s)"
    yield compared("tables", what, ours, against, sides[faster], 2.0)


def growth(repeats: int) -> Iterator[Row]:
    """One more observation, hyperparameters and candidates unchanged, against everything from scratch."""
    d, t, g = 100, 500, 17
    gp, everything = model(chain(d)), observations(d, t + repeats + 1)
    candidates = [np.linspace(0.0, 1.0, g)] * d
    cache = TableCache()

    def first(n: int) -> Observations:
        return Observations(everything.X[:n], everything.y[:n])

    def held(n: int) -> bool:
        return cache.prepare(gp.condition(first(n)), candidates)

    assert held(t - 1), "the solves do not fit into the memory limit of the cache"
    ucb_tables(gp.condition(first(t - 1)), candidates, 4.0, cache=cache)
    ucb_tables(gp.condition(first(t - 1)), candidates, 4.0)
    grown: list[float] = []
    scratch: list[float] = []
    conditions: list[float] = []
    for k in range(repeats):
        data = first(t + k)
        conditions.append(seconds(lambda data=data: gp.condition(data)))
        posterior = gp.condition(data)  # remembered: the same object
        kept = ucb_tables(posterior, candidates, 4.0)  # untimed: brings both to the same state of the caches
        scratch.append(seconds(lambda p=posterior: ucb_tables(p, candidates, 4.0)))
        grown.append(seconds(lambda p=posterior: ucb_tables(p, candidates, 4.0, cache=cache)))
        again = ucb_tables(posterior, candidates, 4.0, cache=cache)
        np.testing.assert_allclose(again.flat, kept.flat, rtol=1e-6, atol=1e-8)
    what = f"d={d}, t={t}, chain of pairs, {g} candidates ({(d - 1) * g * g} cells)"
    yield compared("growth", f"tables after one more observation, {what}", grown, "from scratch", scratch, 0.2)
    whole = [a + b for a, b in zip(grown, conditions, strict=True)]
    anew = [a + b for a, b in zip(scratch, conditions, strict=True)]
    yield compared("growth", f"the same with its Gram matrix and Cholesky, {what}", whole, "from scratch", anew, 0.2)


def maxsum(repeats: int) -> Iterator[Row]:
    """Max-sum rounds against reading the tables as often."""
    import maxsum_speed

    runs = []
    for k in range(repeats):
        runs.append(maxsum_speed.measure(1))
        progress(f"repetition {k + 1} of {repeats}")
    for same in zip(*runs, strict=True):
        if all(row["ratio"] == 1.0 for row in same):
            continue  # the reference itself
        ours = [float(row["seconds"]) for row in same]
        theirs = [float(row["seconds"]) / float(row["ratio"]) for row in same]
        what = f"{same[0]['name']}, 2000 ternary factors, 20 candidates"
        yield compared("maxsum", what, ours, str(same[0]["reference"]), theirs, same[0]["bar"])


# --------------------------------------------------------------------- ask


@dataclass(frozen=True)
class Problem:
    function: Callable[[Array], Array]
    X: Array

    @property
    def y(self) -> Array:
        return self.function(self.X)

    @property
    def names(self) -> list[str]:
        return [f"x{i}" for i in range(self.X.shape[1])]

    def value(self, params: dict[str, Any]) -> float:
        return float(self.function(np.array([[params[name] for name in self.names]]))[0])

    def params(self, x: Array) -> dict[str, float]:
        return dict(zip(self.names, map(float, x), strict=True))


def our_asks(problem: Problem, graph: FactorGraph | None, seed: int, count: int, **options: Any) -> list[float]:
    """Seconds of ``count`` asks in a row, each told; the first has index 0, and so a cold fit."""
    space = Space({name: Float(0.0, 1.0) for name in problem.names})
    optimizer = Optimizer(space, graph=graph, seed=seed, n_initial=1, **options)
    for x, value in zip(problem.X, problem.y, strict=True):
        optimizer.tell(problem.params(x), float(value))
    taken = []
    for _ in range(count):
        start = clock()
        params = optimizer.ask()
        taken.append(clock() - start)
        assert optimizer.info is not None
        assert optimizer.info.source == "acquisition"
        optimizer.tell(params, problem.value(params))
    return taken


def botorch_ask(problem: Problem, seed: int) -> float:
    import torch
    from botorch.acquisition import UpperConfidenceBound
    from botorch.fit import fit_gpytorch_mll
    from botorch.models import SingleTaskGP
    from botorch.optim import optimize_acqf
    from gpytorch.mlls import ExactMarginalLogLikelihood

    torch.set_num_threads(1)
    torch.manual_seed(seed)
    t, d = problem.X.shape
    X, Y = torch.tensor(problem.X), -torch.tensor(problem.y)[:, None]
    bounds = torch.stack([torch.zeros(d), torch.ones(d)]).double()
    start = clock()
    gp = SingleTaskGP(X, Y)
    fit_gpytorch_mll(ExactMarginalLogLikelihood(gp.likelihood, gp))
    acquisition = UpperConfidenceBound(gp, beta=0.4 * float(np.log(2 * t)))
    optimize_acqf(acquisition, bounds, q=1, num_restarts=8, raw_samples=256)
    return clock() - start


def optuna_asks(problem: Problem, seed: int, count: int) -> list[float]:
    """Seconds of ``count`` asks in a row with GPSampler, each told: sampling and all suggestions."""
    import optuna
    import torch

    torch.set_num_threads(1)
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    distributions: dict[str, Any] = {name: optuna.distributions.FloatDistribution(0.0, 1.0) for name in problem.names}
    study = optuna.create_study(sampler=optuna.samplers.GPSampler(seed=seed, n_startup_trials=1))
    for x, value in zip(problem.X, problem.y, strict=True):
        study.add_trial(
            optuna.trial.create_trial(params=problem.params(x), distributions=distributions, value=float(value))
        )
    taken = []
    for _ in range(count):
        start = clock()
        trial = study.ask(distributions)
        taken.append(clock() - start)
        study.tell(trial, problem.value(trial.params))
    return taken


def peers_installed() -> bool:
    try:
        import botorch  # noqa: F401
        import optuna  # noqa: F401
    except ImportError:
        return False
    return True


def ask(repeats: int) -> Iterator[Row]:
    """A whole ask, fit included, against BoTorch and GPSampler on the same data (new data each repetition)."""
    warnings.simplefilter("ignore")
    peers = peers_installed()
    if not peers:
        progress("BoTorch and torch are not installed (pip install 'dechbo[peers]'): ours alone")
    small = Problem(rosenbrock, uniform_points(rosenbrock, 4, 24, 0))
    for graph in (None, chain(4)):
        our_asks(small, graph, 0, 11)
    if peers:
        botorch_ask(small, 0)
        optuna_asks(small, 0, 2)
    draws = (
        ("Rosenbrock, points of a run", rosenbrock, run_points),
        ("Rosenbrock, uniform points", rosenbrock, uniform_points),
        ("Styblinski–Tang, uniform points", styblinski_tang, uniform_points),
    )
    for d, t, optuna_count in ((10, 150, 10), (100, 300, 4)):
        for graph in (None, chain(d)):  # the first ask of a size pays for the pages of its arrays
            our_asks(Problem(rosenbrock, uniform_points(rosenbrock, d, t, repeats)), graph, 0, 1)
        for title, function, draw in draws:
            times: dict[str, list[float]] = {}
            for seed in range(repeats):
                problem = Problem(function, draw(function, d, t, seed))
                for name, graph in (("random tree", None), ("chain of pairs", chain(d))):
                    taken = our_asks(problem, graph, seed, 10)
                    times.setdefault(f"{name}, cold", []).append(taken[0])
                    times.setdefault(f"{name}, mean of 10 asks", []).append(statistics.fmean(taken))
                if peers:
                    times.setdefault("BoTorch", []).append(botorch_ask(problem, seed))
                    taken = optuna_asks(problem, seed, optuna_count)
                    times.setdefault("GPSampler, cold", []).append(taken[0])
                    times.setdefault("GPSampler, mean", []).append(statistics.fmean(taken))
                progress(f"d={d}, t={t}, {title}: repetition {seed + 1} of {repeats}")
            yield from _ask_rows(f"d={d}, t={t}, {title}", times, optuna_count, peers)


def _ask_rows(where: str, times: dict[str, list[float]], optuna_count: int, peers: bool) -> Iterator[Row]:
    for name in [name for name in times if name.startswith(("random", "chain"))]:
        what = f"ask, {where}; {name}"
        if not peers:
            yield Row("ask", what, statistics.median(times[name]))
            continue
        yield compared("ask", what, times[name], "BoTorch", times["BoTorch"], 0.1)
        if name.endswith("cold"):
            yield compared("ask", what, times[name], "GPSampler, its first ask", times["GPSampler, cold"], 1.0)
        else:
            against = f"GPSampler, mean of {optuna_count} asks"
            yield compared("ask", what, times[name], against, times["GPSampler, mean"], 1.0)


# ----------------------------------------------------------------- scaling


def status(key: str) -> float:
    """A size of this process in MB (VmRSS now, VmHWM at its peak)."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith(key + ":"):
            return float(line.split()[1]) / 1024
    raise KeyError(key)


def probe(d: int, t: int, work: float, seed: int) -> dict[str, float]:
    """One cold ask at d in this process: seconds, of which the fit, its evaluations, and the memory it added."""
    count, fitting = 0, 0.0
    gradient, fit = AdditiveGP.log_evidence_gradient, dechbo.models.model.fit

    def counted(gp: AdditiveGP, data: Observations) -> tuple[float, Array]:
        nonlocal count
        count += 1
        return gradient(gp, data)

    def timed(*args: Any, **options: Any) -> AdditiveGP:
        nonlocal fitting
        start = clock()
        answer = fit(*args, **options)
        fitting += clock() - start
        return answer

    small = Problem(rosenbrock, uniform_points(rosenbrock, 6, 20, 0))
    our_asks(small, ring(6), 0, 1)
    AdditiveGP.log_evidence_gradient, dechbo.models.model.fit = counted, timed  # type: ignore[method-assign,assignment]
    problem = Problem(rosenbrock, uniform_points(rosenbrock, d, t, seed))
    granularity = Granularity(work=work)
    Path("/proc/self/clear_refs").write_text("5")  # the peak starts anew
    before = status("VmRSS")
    taken = our_asks(problem, ring(d), seed, 1, granularity=granularity)[0]
    megabytes = status("VmHWM") - before
    space = Space({name: Float(0.0, 1.0) for name in problem.names})
    grid = base_candidates(space, ring(d), t, {}, granularity)
    return {
        "seconds": taken,
        "fit": fitting,
        "evaluations": count,
        "megabytes": megabytes,
        "candidates": len(grid[0]),
    }


FIT_EVALUATIONS = 50  # what an ask is brought to where the fits of two sizes took different numbers of steps


def scaling(repeats: int) -> Iterator[Row]:
    """An ask at d = 250 … 2000 on a ring of d ternary factors: what a doubling costs in time and in memory.

    The default grids grow coarser with d, which keeps the work of the tables within a budget; the second series has
    the coarsest grid throughout, so that nothing but d changes. Fits stop after different numbers of evaluations, so
    the time with 50 of them stands beside the plain one. Memory is the peak during the ask less what was held before.
    """
    t, dims = 100, (250, 500, 1000, 2000)
    for title, work in (("default grids", Granularity().work), ("the coarsest grids", 1.0)):
        runs: dict[int, list[dict[str, float]]] = {d: [] for d in dims}
        for seed in range(repeats):
            for d in dims:
                request = json.dumps({"d": d, "t": t, "work": work, "seed": seed})
                command = [sys.executable, str(Path(__file__).resolve()), "--clock", _chosen_clock, "--probe", request]
                runs[d].append(json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout))
            progress(f"{title}: repetition {seed + 1} of {repeats}")
        counts = "/".join(f"{runs[d][0]['candidates']:.0f}" for d in dims)
        yield from _scaling_rows(f"t={t}, {title} ({counts} candidates)", runs)


def _scaling_rows(where: str, runs: dict[int, list[dict[str, float]]]) -> Iterator[Row]:
    def with_equal_fit(run: dict[str, float]) -> float:
        return run["seconds"] - run["fit"] + FIT_EVALUATIONS * run["fit"] / run["evaluations"]

    kinds: dict[str, tuple[str, float | None, Callable[[dict[str, float]], float]]] = {
        "a cold ask": ("s", 2.4, lambda run: run["seconds"]),
        f"the same with {FIT_EVALUATIONS} evaluations of the fit": ("s", 2.4, with_equal_fit),
        "peak memory of an ask": ("MB", 2.4, lambda run: run["megabytes"]),
        "one evaluation of the fit": ("s", None, lambda run: run["fit"] / run["evaluations"]),
        "evaluations of the fit": ("", None, lambda run: run["evaluations"]),
    }
    dims = list(runs)
    for name, (unit, bar, measure) in kinds.items():
        values = {d: [measure(run) for run in runs[d]] for d in dims}
        middle = {d: statistics.median(values[d]) for d in dims}
        for small, large in itertools.pairwise(dims):
            ratios = [b / a for a, b in zip(values[small], values[large], strict=True)]
            yield Row(
                "scaling",
                f"{name}, d={large}, {where}",
                middle[large],
                unit,
                f"d={small}",
                middle[small],
                statistics.median(ratios),
                min(ratios),
                max(ratios),
                bar,
            )


# --------------------------------------------------------------- exponents


def exponents(repeats: int) -> Iterator[Row]:
    """Slopes of log seconds, beside the paper's O(N_m D^|I| |I| (t^3 + |I|)) for one factor (its Appendix A).

    Ours is t^2 for a cell at most: L is factorised once for all cells and factors, and each cell is one column of a
    triangular solve, where the paper's count solves a t×t system for every cell.
    """
    import maxsum_speed

    d = 50
    gp, everything = model(ring(d)), observations(d, 400)

    def tables_at(t: int, g: int) -> Call:
        posterior = gp.condition(Observations(everything.X[:t], everything.y[:t]))
        return lambda: ucb_tables(posterior, [np.linspace(0.0, 1.0, g)] * d, 4.0)

    def rounds_at(g: int, rounds: int) -> Call:
        return maxsum_speed.rounds_only(maxsum_speed.ternary_tables(500, 500, g), rounds)

    def both_at(t: int) -> Call:
        made = tables_at(t, 8)
        return lambda: MaxSum().maximize(made())

    ts, gs, counts = (50, 100, 200, 400), (5, 8, 12, 16, 20), (5, 10, 20, 40)
    series: list[tuple[str, Sequence[int], Callable[[int], Call], float]] = [
        (f"tables in t, ring of {d} ternary factors, 8 candidates", ts, lambda t: tables_at(t, 8), 3.0),
        ("tables and MaxSum in t, the same", ts, both_at, 3.0),
        (f"tables in candidates, ring of {d} ternary factors, t=100", gs, lambda g: tables_at(100, g), 3.0),
        ("30 rounds in candidates, 500 random ternary factors", gs, lambda g: rounds_at(g, 30), 3.0),
        ("rounds in their number, 500 random ternary factors, 20 candidates", counts, lambda n: rounds_at(20, n), 1.0),
    ]
    for name, sizes, build, paper in series:
        times = in_turn({str(size): build(size) for size in sizes}, repeats)
        taken = [statistics.median(times[str(size)]) for size in sizes]
        slope, last = exponent(sizes, taken), exponent(sizes[-2:], taken[-2:])
        what = f"exponent of {name}, {sizes[0]} … {sizes[-1]} (between the last two: {last:.3g})"
        yield Row("exponents", what, slope, "", "the paper", paper)


SECTIONS: dict[str, tuple[Callable[[int], Iterator[Row]], int]] = {
    "evidence": (evidence, 7),
    "tables": (tables, 5),
    "growth": (growth, 9),
    "maxsum": (maxsum, 5),
    "ask": (ask, 3),
    "scaling": (scaling, 3),
    "exponents": (exponents, 5),
}


# ------------------------------------------------------------------ output


def source() -> str:
    """A short digest of the package's own code: figures of different digests are not comparable."""
    root = Path(dechbo.__file__).parent
    digest = hashlib.sha256()
    for path in sorted(root.rglob("*.py")):
        digest.update(str(path.relative_to(root)).encode() + path.read_bytes())
    return digest.hexdigest()[:12]


def machine() -> dict[str, Any]:
    """What the figures depend on; neither host name nor paths."""
    lines = Path("/proc/cpuinfo").read_text().splitlines()
    cpu = next((line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")), "unknown")
    versions = {}
    for package in PACKAGES:
        try:
            versions[package] = importlib.metadata.version(package)
        except importlib.metadata.PackageNotFoundError:
            continue
    return {
        "date": datetime.date.today().isoformat(),
        "cpu": cpu,
        "cores": os.cpu_count(),
        "threads": 1,
        "clock": _chosen_clock,
        "load": round(os.getloadavg()[1], 1),
        "source": source(),
        "python": platform.python_version(),
        "packages": versions,
    }


def summary(rows: Sequence[Row]) -> str:
    """The page to be committed."""
    facts = machine()
    packages = ", ".join(f"{name} {version}" for name, version in facts["packages"].items())
    lines = [
        "# How fast the core is",
        "",
        f"Written by `python benchmarks/core_speed.py --markdown benchmarks/core_speed.md` on {facts['date']}: "
        f"{facts['cpu']}, {facts['cores']} cores, one thread used, "
        f"{facts['clock']} time, load {facts['load']}, source {facts['source']}, Python {facts['python']}, {packages}.",
        "",
        "A ratio is ours / reference within one repetition, the median over repetitions; the range is its smallest and "
        "largest value.",
    ]
    for section, (call, _) in SECTIONS.items():
        chosen = [row for row in rows if row.section == section]
        if chosen:
            title = " ".join((call.__doc__ or "").split())
            lines += ["", f"## {section}", "", title, "", HEADER, *(row.markdown() for row in chosen)]
    return "\n".join(lines) + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("sections", nargs="*", metavar="section", help=f"of {', '.join(SECTIONS)} (default: all)")
    parser.add_argument("--repeats", type=int, help="repetitions in every section, in place of its own number")
    parser.add_argument("--json", type=Path, help="store rows, machine and versions here")
    parser.add_argument("--markdown", type=Path, help="write the table here")
    parser.add_argument(
        "--clock", choices=CLOCKS, default="wall", help="cpu: for a machine that others use (max-sum: wall)"
    )
    parser.add_argument("--probe", help=argparse.SUPPRESS)
    options = parser.parse_args()
    choose_clock(options.clock)
    if options.probe:
        print(json.dumps(probe(**json.loads(options.probe))))
        return
    unknown = [name for name in options.sections if name not in SECTIONS]
    if unknown:
        parser.error(f"unknown sections {', '.join(unknown)}: choose from {', '.join(SECTIONS)}")
    before = source()
    rows: list[Row] = []
    for name, (section, repeats) in SECTIONS.items():
        if options.sections and name not in options.sections:
            continue
        print(f"\n## {name}\n\n{HEADER}", flush=True)
        for row in section(options.repeats or repeats):
            rows.append(row)
            print(row.markdown(), flush=True)
    if source() != before:
        parser.exit(1, "the package's code changed during the run: nothing is written\n")
    if options.json:
        content = {"machine": machine(), "rows": [{**asdict(row), "met": row.met} for row in rows]}
        options.json.write_text(json.dumps(content, indent=1, ensure_ascii=False) + "\n")
    if options.markdown:
        options.markdown.write_text(summary(rows))


if __name__ == "__main__":
    main()
